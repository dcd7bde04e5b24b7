# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The unpacked Long Range Arena release: how to get it, and the lines of its tsv files."""

from collections.abc import Iterator
from pathlib import Path

from hf_longseq.errors import HfLongSeqError

# a tar archive in spite of its name
COMMAND = "curl -C - -LO https://storage.googleapis.com/long-range-arena/lra_release.gz && tar -xf lra_release.gz"


def release_lines(files: dict[str, Path], count: int) -> Iterator[tuple[str, str, list[str]]]:
    """Split, place and fields, `count` of them, of every line of the tsv files."""
    for split, path in files.items():
        with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                fields, where = line.rstrip("\r\n").split("\t"), f"{path.name}, row {number},"
                if len(fields) != count:
                    raise HfLongSeqError(f"{where} has {len(fields)} columns instead of {count}: run `{COMMAND}`.")
                yield split, where, fields
