# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Reads the Long Range Arena release: `lra_release.gz` (a tar archive in spite of its name) or the unpacked folder.

What is looked for is found at any depth, because copies of the archive nest it differently. Nothing is written to disk
from an archive, and nothing in it is executed: the `.npy` files of Pathfinder are plain text and are read as such.
"""

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hf_longseq.data import byte_text
from hf_longseq.data.archives import open_archive, readable
from hf_longseq.data.columns import Row
from hf_longseq.data.pixels import pixel_row, read_picture
from hf_longseq.data.task_spec import MissingDataError
from hf_longseq.errors import HfLongSeqError

logger = logging.getLogger(__name__)

URL = "https://storage.googleapis.com/long-range-arena/lra_release.gz"
LISTOPS_FILES = {"train": "basic_train.tsv", "validation": "basic_val.tsv", "test": "basic_test.tsv"}
AAN_FILES = {
    "train": "new_aan_pairs.train.tsv",
    "validation": "new_aan_pairs.eval.tsv",
    "test": "new_aan_pairs.test.tsv",
}


class LraRelease:
    """Files of the release, packed or unpacked.

    `place` is the archive, or a folder that contains the release or the archive at any depth, `names` are those of the
    files that will be read, and `sources` the files on disk that stand for them: themselves, or the archive.
    """

    def __init__(self, place: str | Path, names: Iterable[str]):
        self.place, names = Path(place), list(names)
        if not self.place.exists():
            raise MissingDataError(f"{self.place} does not exist: run `curl -C - -LO {URL}` and name what it wrote.")
        packed = [self.place] if self.place.is_file() else sorted(self.place.rglob("lra_release*.gz"))
        found = [] if self.place.is_file() else list(filter(None, map(self._deepest, names)))
        if not found and not packed:
            raise MissingDataError(
                f"{self.place} holds none of {', '.join(names)} at any depth: run `curl -C - -LO {URL}` and name the "
                "file that it writes."
            )
        self.archive = None if found else packed[0]
        self.sources = found or packed[:1]

    def _deepest(self, name: str) -> Path | None:
        """The innermost of several copies: the outer one is broken in some mirrors."""
        return max(sorted(self.place.rglob(name)), key=lambda path: len(path.parts), default=None)

    def lines(self, files: dict[str, str]) -> Iterator[tuple[str, str, str]]:
        """Split, place and text of every line of the files of splits, one file after the other, in any order."""
        missing = {name: split for split, name in files.items()}
        with readable(self.archive or self.place, URL):
            for path, stream in self._members() if self.archive else self._open(sorted(missing)):
                name = path.rsplit("/", 1)[-1]
                if name in missing:
                    split = missing.pop(name)
                    for number, line in enumerate(stream, start=1):
                        text = line.decode("utf-8", errors="replace").rstrip("\r\n")
                        yield split, f"{name}, row {number},", text
                if not missing:
                    return
        raise MissingDataError(f"{self.archive or self.place} lacks {min(missing)}: get it again from {URL}.")

    def files(self, folder: str) -> Iterator[tuple[str, bytes]]:
        """Path (from `folder` on) and content of every file below the folder with this path ending."""
        if self.archive is not None:
            with readable(self.archive or self.place, URL):
                for path, stream in self._members():
                    if f"{folder}/" in path:
                        yield path.split(f"{folder}/", 1)[1], stream.read()
            return
        root = self._deepest(folder)
        if root is None:
            raise MissingDataError(f"{self.place} holds no folder {folder} at any depth: get it from {URL}.")
        for path in sorted(root.rglob("*")):
            if path.is_file():
                yield path.relative_to(root).as_posix(), path.read_bytes()

    def _open(self, names: list[str]) -> Iterator[tuple[str, Any]]:
        """Files of the folder with these names."""
        for path in filter(None, map(self._deepest, names)):
            with path.open("rb") as stream:
                yield path.name, stream

    def _members(self) -> Iterator[tuple[str, Any]]:
        """All files of the archive."""
        with open_archive(self.archive) as archive:
            yield from ((member.name, archive.extractfile(member)) for member in archive if member.isfile())


def listops_rows(release: LraRelease, vocabulary: tuple[str, ...], max_length: int) -> Iterator[tuple[str, Row]]:
    """Rows of ListOps from its tsv files: parentheses dropped, brackets closed by X, end-of-sequence added."""
    ids = {symbol: index for index, symbol in enumerate(vocabulary)} | {"]": vocabulary.index("X")}
    for split, where, line in release.lines(LISTOPS_FILES):
        source, label = _fields(line, 2, where)
        if source == "Source":
            continue
        symbols = [symbol for symbol in source.split() if symbol not in "()"]
        unknown = next((symbol for symbol in symbols if symbol not in ids), None)
        if unknown is not None or not label.isdigit() or int(label) > 9:
            what = f"symbol {unknown!r}" if unknown is not None else f"label {label!r}"
            raise HfLongSeqError(f"{where} holds {what}: it is not the released ListOps file.")
        kept = [ids[symbol] for symbol in symbols][: max_length - 1]
        yield split, {"input_ids": np.array([*kept, vocabulary.index("[EOS]")]), "labels": int(label)}


def aan_rows(release: LraRelease, max_length: int) -> Iterator[tuple[str, Row]]:
    """Rows of Retrieval from its tsv files (label, two ids, two texts; quotes mean nothing)."""
    for split, where, line in release.lines(AAN_FILES):
        label, _, _, first, second = _fields(line, 5, where)
        if label not in ("0", "1", "0.0", "1.0"):
            raise HfLongSeqError(f"{where} has label {label!r}: expected 0 or 1.")
        if not first or not second:
            raise HfLongSeqError(f"{where} has an empty document: remove the row.")
        ids, ids_2 = (byte_text.encode(text, max_length) for text in (first, second))
        yield split, {"input_ids": ids, "input_ids_2": ids_2, "labels": int(float(label))}


def pathfinder_folder(size: int, contour_length: int) -> str:
    """Folder of a resolution and difficulty."""
    return f"pathfinder{size}/" + ("curv_baseline" if contour_length == 6 else f"curv_contour_length_{contour_length}")


def pathfinder_rows(release: LraRelease, folder: str, size: int) -> Iterator[tuple[str, Row]]:
    """Rows of Pathfinder in the split of the published results: shuffled by torch with seed 42, cut 80/10/10."""
    pictures: dict[str, bytes] = {}
    metadata: dict[int, list[str]] = {}
    for path, content in release.files(folder):
        if path.endswith(".png"):
            pictures[path] = content
        elif path.startswith("metadata/") and path.endswith(".npy"):
            metadata[int(Path(path).stem)] = content.decode("utf-8").splitlines()
    described = {f"imgs/{stem}" for stem in metadata}
    drawn = {path.rsplit("/", 1)[0] for path in pictures if path.startswith("imgs/")}
    bare = min(drawn - described, default=None)
    if bare is not None:
        raise HfLongSeqError(
            f"{folder}/metadata lacks the file for {bare}, which holds pictures: unpack the archive again, to its end."
        )
    listed, empty = [], []
    for stem in sorted(metadata):
        for number, line in enumerate(metadata[stem], start=1):
            where = f"{folder}/metadata/{stem}.npy, line {number},"
            fields = line.split()
            if len(fields) < 4 or fields[3] not in ("0", "1"):
                raise HfLongSeqError(f"{where} reads {line[:60]!r}: expected folder, file, number, label 0 or 1, ...")
            path = f"{fields[0]}/{fields[1]}"
            if path not in pictures:
                raise HfLongSeqError(f"{where} names {path}, which is missing: unpack the archive again.")
            if pictures[path]:
                listed.append((path, int(fields[3])))
            else:
                empty.append(path)
    if empty:
        # the release has one such file, and everybody leaves it out
        logger.warning("%s: %d empty picture(s) left out, %s first.", folder, len(empty), empty[0])
    held_out = len(listed) // 10
    order = torch.randperm(len(listed), generator=torch.Generator().manual_seed(42)).tolist()
    first = len(order) - 2 * held_out
    parts = {"train": order[:first], "validation": order[first : first + held_out], "test": order[first + held_out :]}
    for split, chosen in parts.items():
        for path, label in (listed[index] for index in chosen):
            pixels = read_picture({"bytes": pictures[path]}, f"{folder}/{path}", (size, size))
            yield split, pixel_row(pixels, label)


def _fields(line: str, count: int, where: str) -> list[str]:
    fields = line.split("\t")
    if len(fields) != count:
        raise HfLongSeqError(f"{where} has {len(fields)} columns instead of {count}: get the file again from {URL}.")
    return fields
