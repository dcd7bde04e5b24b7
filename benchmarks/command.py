# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""What every benchmark command does around its measurement: `--out`, the machine, one sentence for an error."""

import csv
import datetime
import io
import sys
from collections.abc import Callable
from pathlib import Path

from hf_longseq.cli.options import Parser
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.progress import quiet_libraries
from hf_longseq.training.run_folder import environment, write_whole


def run_command(name: str, run: Callable[[list[str]], None], argv: list[str] | None = None) -> int:
    """Run a command; 0, or 2 for an error the user can put right."""
    try:
        run(sys.argv[1:] if argv is None else argv)
    except HfLongSeqError as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        return 2
    return 0


def parse(parser: Parser, argv: list[str]):
    """The options of a command, `--out` among them."""
    parser.add_argument("--out", help="also write a .csv file, with machine, versions and commit")
    options = parser.parse(argv)
    if options.out and Path(options.out).exists():
        raise HfLongSeqError(f"--out {options.out} exists: choose another file, results are not overwritten.")
    quiet_libraries()
    return options


def machine() -> dict:
    """Columns that say when and where."""
    found = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), **environment()}
    return found | {"gpu": "; ".join(found["gpu"])}


def save(out: str | None, rows: list[dict]) -> None:
    """Write the rows where `--out` says."""
    if out:
        write_whole(out, to_csv(rows))
        print(f"\nresults: {out}")


def to_csv(rows: list[dict]) -> str:
    """Rows as CSV text, one line each."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
