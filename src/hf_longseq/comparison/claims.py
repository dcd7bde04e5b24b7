# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Which process does which run of a comparison: claims that all machines see that share its folder.

    .claims/NAME.1   holds "process 12 on node3", who does NAME; the time of its last change says when they last lived
    .claims/NAME.2   whoever took NAME over, once NAME.1 had been still for `STILL_SECONDS`

A claim is a file that is created exclusively, which one process alone achieves, over NFS as well. Nobody replaces or
removes the claim of another, so that two who find the same dead claim cannot both take it over: the next number is
created exclusively too. Times are those of the file server, and the clocks of the machines may differ.
"""

import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.run_folder import CLAIMS, holder_is_dead, read_text

BEAT_SECONDS = 30
STILL_SECONDS = 600
POLL_SECONDS = 0.5
# Claims that this very process made; one with its number that is not among them is of a dead one before it.
_made: set[Path] = set()


class Claims:
    """The claims of this process in the folder of a comparison; a context, which gives all of them back at its end.

    Example:
        >>> with Claims("runs/listops") as claims:
        ...     if claims.take("s4-spt-s0"):
        ...         print("nobody else does this run")
        nobody else does this run
    """

    def __init__(self, output_dir: str | os.PathLike):
        self.folder = Path(output_dir) / CLAIMS
        self.owner = f"process {os.getpid()} on {socket.gethostname()}"
        self._mine: dict[str, Path] = {}
        self._lost: str | None = None
        self._ended = threading.Event()
        self._presence = f"command-{uuid.uuid4().hex}"

    def __enter__(self) -> "Claims":
        if self.folder.parent.exists() and not self.folder.parent.is_dir():
            raise HfLongSeqError(f"output_dir {self.folder.parent} is a file: name a folder.")
        while self._presence not in self._mine:
            self.folder.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # the last of the others has just removed the folder
                self.take(self._presence)
        threading.Thread(target=self._beat, daemon=True).start()
        return self

    def __exit__(self, *exc_info) -> None:
        self._ended.set()
        for name in list(self._mine):
            self.release(name)
        for folder in (self.folder, self.folder.parent):  # a command that was refused leaves no folder
            try:
                folder.rmdir()
            except OSError:
                return

    def take(self, name: str) -> bool:
        """Claim a name; False if a living process has it."""
        newest = self._newest(name)
        if newest is not None and self._lives(newest):
            return False
        path = self.folder / f"{name}.{_number(newest) + 1 if newest else 1}"
        try:
            with open(path, "x", encoding="utf-8") as file:
                _made.add(path)
                file.write(self.owner)
        except FileExistsError:
            return False
        self._mine[name] = path
        return True

    def release(self, name: str) -> None:
        """Give a claim back, with the dead ones that came before it."""
        mine = self._mine.pop(name)
        for path in self._all(name):
            if _number(path) <= _number(mine):
                path.unlink(missing_ok=True)
        _made.discard(mine)

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Hold a name for a while, after waiting for whoever has it."""
        while not self.take(name):
            time.sleep(POLL_SECONDS)
        try:
            yield
        finally:
            self.release(name)

    def holder(self, name: str) -> str:
        """Who has a name, as "process 12 on node3"."""
        newest = self._newest(name)
        return _text(newest) if newest else "nobody"

    def others(self) -> list[str]:
        """The other living commands of this comparison; what the dead ones left is cleared away."""
        found = [path for path in self.folder.glob("command-*") if path not in self._mine.values()]
        living = [path for path in found if self._lives(path)]
        for path in set(found) - set(living):
            path.unlink(missing_ok=True)
        return [_text(path) for path in living]

    def check(self) -> None:
        """Raise if another process has taken over what this one had claimed."""
        if self._lost:
            raise HfLongSeqError(
                f"{self._lost} had no sign of life of this process for {STILL_SECONDS // 60} minutes, and another one "
                "took it over: give the same command again to go on with the other runs."
            )

    def _all(self, name: str) -> list[Path]:
        # a listing asks the server, where a look for one name may be answered out of the memory of this machine
        names = [entry for entry in os.listdir(self.folder) if entry.rpartition(".")[0] == name]
        return [self.folder / entry for entry in names if entry.rpartition(".")[2].isdigit()]

    def _newest(self, name: str) -> Path | None:
        return max(self._all(name), key=_number, default=None)

    def _lives(self, claim: Path) -> bool:
        owner = _text(claim)  # read first: a thread of this process notes its claim before it writes its name
        if claim in _made:
            return True
        if owner == self.owner or holder_is_dead(claim):
            return False
        try:
            mine = self._mine[self._presence]
            os.utime(mine)  # the server's clock
            return mine.stat().st_mtime - claim.stat().st_mtime < STILL_SECONDS
        except FileNotFoundError:
            return True  # it was given back this moment: the next look will tell

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            for name, path in list(self._mine.items()):
                with suppress(OSError):  # given back this moment, or the server is away for a while
                    os.utime(path)
                    if _number(self._newest(name) or path) > _number(path):
                        self._lost = name


def _number(claim: Path) -> int:
    return int(claim.suffix[1:])


def _text(path: Path) -> str:
    return read_text(path) or "a process that has just started"
