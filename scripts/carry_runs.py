#!/usr/bin/env python
# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Carry unfinished comparisons from one machine to the next: what going on takes, in files of a bounded size.

    python scripts/carry_runs.py pack runs/gpu carried       # state.000, state.001, ... and state.json
    python scripts/carry_runs.py unpack carried runs/gpu     # on the next machine

Of an unfinished run travel the newest intact checkpoint and the best one, which is read at the end; of a finished one
its records, and its weights where a run that is still to come starts from them, the test split is still to be scored
with them, or they are small. Data do not travel: generated data come again from their seed, and the run checks that
they are the same.
"""

import argparse
import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path

from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.checkpoints import best_of, newest_intact
from hf_longseq.training.run_folder import replace_folder

INDEX = "state.json"
MB = 1_000_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("pack", "unpack"))
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path, help="a new or an empty folder")
    parser.add_argument("--part_mb", type=float, default=15, help="size of a file [15]")
    parser.add_argument("--weights_mb", type=float, default=4, help="weights of finished runs travel up to this [4]")
    parser.add_argument("--run_mb", type=float, help="a run with more state than this stays behind and begins again")
    options = parser.parse_args()
    try:
        if options.target.exists() and (not options.target.is_dir() or any(options.target.iterdir())):
            raise HfLongSeqError(f"{options.target} is there already: name a new folder.")
        if options.action == "pack":
            files = files_to_carry(options.source, options.weights_mb * MB, (options.run_mb or float("inf")) * MB)
            print(pack(options.source, options.target, files, max(1, int(options.part_mb * MB))))
        else:
            unpack(options.source, options.target)
    except (HfLongSeqError, OSError) as error:
        print(f"carry_runs: {error}", file=sys.stderr)
        return 2
    return 0


def files_to_carry(root: Path, weights_bytes: float = 4 * MB, run_bytes: float = float("inf")) -> list[Path]:
    """The files below a folder of comparisons without which they would not go on as they were."""
    plans = sorted(root.rglob("plan.json"))
    if not plans:
        raise HfLongSeqError(f"{root} holds no comparison: name the folder in which `hf-longseq compare` works.")
    left_out: set[Path] = set()
    for plan in plans:
        runs = {run["name"]: run for run in json.loads(plan.read_text(encoding="utf-8"))["runs"]}
        folders = {name: plan.parent / "runs" / name for name in runs}
        finished = {name for name, folder in folders.items() if (folder / "metrics.json").is_file()}
        awaited = {run["pretrained"] for name, run in runs.items() if name not in finished}
        awaited |= {name for name in finished if _is_unscored(runs[name], folders[name])}
        for name, folder in folders.items():
            dropped = set(folder.glob("*.safetensors")) if name in finished - awaited else set()
            dropped = {path for path in dropped if path.stat().st_size > weights_bytes}
            newest = newest_intact(folder / "checkpoints")
            kept = () if newest is None or name in finished else (newest, best_of(newest))
            for checkpoint in (folder / "checkpoints").glob("*"):
                dropped |= set() if checkpoint in kept else set(_files(checkpoint))
            size = sum(path.stat().st_size for path in _files(folder) if path not in dropped)
            left_out |= set(_files(folder)) if size > run_bytes else dropped
    return [path for path in _files(root) if path not in left_out and path.name != ".lock"]


def pack(root: Path, target: Path, files: list[Path], part_bytes: int) -> str:
    """Write the files as one archive in parts, then its index, which makes it count; say what there is."""
    target.mkdir(parents=True, exist_ok=True)
    parts = Parts(target, part_bytes)
    with tarfile.open(fileobj=parts, mode="w|") as archive:
        for path in files:
            archive.add(path, arcname=path.relative_to(root).as_posix(), recursive=False)
    parts.close()
    (target / INDEX).write_text(json.dumps({"parts": parts.digests}, indent=1) + "\n", encoding="utf-8")
    lines = [f"{len(files)} files, {parts.total / MB:.1f} MB in {len(parts.digests)} parts, in {target}"]
    sizes: dict[str, int] = {}
    for path in files:
        names = path.relative_to(root).parts
        where = "/".join(names[: names.index("runs") + 2]) if "runs" in names else "records"
        sizes[where] = sizes.get(where, 0) + path.stat().st_size
    return "\n".join([*lines, *(f"{size / MB:>8.1f} MB  {where}" for where, size in sorted(sizes.items()))])


def unpack(source: Path, target: Path) -> None:
    """Put the parts together again, whole or not at all."""
    index = source / INDEX
    if not index.is_file():
        raise HfLongSeqError(f"{source} holds no {INDEX}: name the folder that pack wrote, all of it.")
    try:
        parts = dict(json.loads(index.read_text(encoding="utf-8"))["parts"])
    except (ValueError, TypeError, KeyError):
        raise HfLongSeqError(f"{index} is damaged: bring it again.") from None
    content = io.BytesIO()
    for name, digest in parts.items():
        part = (source / name).read_bytes() if (source / name).is_file() else b""
        if hashlib.sha256(part).hexdigest() != digest:
            raise HfLongSeqError(f"{source / name} is missing or damaged: bring it again.")
        content.write(part)
    content.seek(0)
    if target.is_dir():
        target.rmdir()  # only an empty one
    with tarfile.open(fileobj=content) as archive:
        replace_folder(target.absolute(), lambda fresh: archive.extractall(fresh, filter="data"))


class Parts(io.RawIOBase):
    """A file to write to that is cut into parts of a bounded size, each with its SHA-256."""

    def __init__(self, folder: Path, part_bytes: int):
        self.folder, self.part_bytes = folder, part_bytes
        self.digests: dict[str, str] = {}
        self.total = 0
        self._held = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:
        self._held += data
        while len(self._held) >= self.part_bytes:
            self._flush_part(self.part_bytes)
        return len(data)

    def close(self) -> None:
        if not self.closed and self._held:
            self._flush_part(len(self._held))
        super().close()

    def _flush_part(self, size: int) -> None:
        name, part = f"state.{len(self.digests):03d}", bytes(self._held[:size])
        del self._held[:size]
        (self.folder / name).write_bytes(part)
        self.digests[name] = hashlib.sha256(part).hexdigest()
        self.total += size


def _is_unscored(run: dict, folder: Path) -> bool:
    """Whether a grid may still choose the run, whose test score is read only then."""
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    return run["phase"] == "finetune" and "test" not in metrics


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    sys.exit(main())
