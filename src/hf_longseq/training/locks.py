# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The lock of an output folder, which lets one command write; the system lets go of it when its holder is killed."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import filelock
import psutil

from hf_longseq.errors import HfLongSeqError

LOCK = ".lock"
# What a killed process leaves behind (the workers that prepared its batches) notices its end within this time.
SECONDS_TO_DIE = 30
# Where a Trainer keeps checkpoints; it makes the folder before it is known whether there is a run.
CHECKPOINTS = "checkpoints"


@contextlib.contextmanager
def holding(folder: str | os.PathLike) -> Iterator[None]:
    """Keep every other command out of an output folder; the system itself lets go when this process is killed."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise HfLongSeqError(f"output_dir {folder} is a file: name a folder.")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    lock = filelock.FileLock(path)
    try:
        lock.acquire(timeout=SECONDS_TO_DIE if holder_is_dead(path) else 0)
    except filelock.Timeout:
        raise HfLongSeqError(
            f"output_dir {folder} is in use by another command ({read_text(path) or 'of unknown number'}): let it "
            "end, or choose another output_dir."
        ) from None
    try:
        path.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
        yield
    finally:
        # Removed while still held: whoever waits for this very file sees that it has no name any more.
        path.unlink(missing_ok=True)
        lock.release()
        with contextlib.suppress(OSError):  # it holds checkpoints, or there is none
            (folder / CHECKPOINTS).rmdir()
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def holder_is_dead(lock: Path) -> bool:
    """Whether the process named in a lock ran on this machine and is no more."""
    words = read_text(lock).split()
    here = len(words) == 4 and words[3] == socket.gethostname() and words[1].isdigit()
    return here and words[1] != str(os.getpid()) and not lives(words[1])


def lives(process: str) -> bool:
    """Whether another process of this number runs here; no process has a longer one."""
    return process != str(os.getpid()) and len(process) < 9 and psutil.pid_exists(int(process))


def read_text(path: Path) -> str:
    """The text of a file; nothing where there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
