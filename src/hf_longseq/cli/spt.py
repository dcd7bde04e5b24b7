# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`hf-longseq spt`: `compare` with the arms scratch, spt and scratch-tied, which keeps the best classifier."""

from hf_longseq.cli import compare


def run(argv: list[str]) -> None:
    """Parse, run all arms, print the table."""
    compare.run(argv, "spt")
