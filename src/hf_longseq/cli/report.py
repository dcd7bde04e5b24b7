# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`hf-longseq report`: the tables and pictures of comparisons as Markdown, LaTeX, JSON and one page of HTML."""

import shlex
import sys
from pathlib import Path

from hf_longseq.cli.options import Parser
from hf_longseq.errors import HfLongSeqError


def run(argv: list[str]) -> None:
    """Write a report, or the small files of a comparison."""
    parser = Parser(
        prog="hf-longseq report",
        description="Tables, learning curves and label-scarcity curves of comparisons, from their scores.csv.",
    )
    parser.add_argument(
        "runs", nargs="+", metavar="RUNS",
        help="output_dir of compare or spt, or a folder with several below; NAME=FOLDER names one on the page",
    )  # fmt: skip
    parser.add_argument("--output_dir", help="folder for the report [RUNS/report]")
    parser.add_argument(
        "--collect_to", metavar="FOLDER",
        help="write no report, but copy the results, curves, settings and pictures of one comparison (no weights, no "
        "paths of this machine) into a folder that can be committed",
    )  # fmt: skip
    parser.add_argument("--name", help="with --collect_to: name of the results in reports [the task]")
    options = parser.parse(argv)

    if options.collect_to is not None:
        from hf_longseq.comparison.write import copy_results

        if len(options.runs) > 1 or options.output_dir is not None:
            raise HfLongSeqError("--collect_to copies one comparison and writes no report: leave --output_dir out.")
        files = copy_results(options.runs[0], options.collect_to, name=options.name)
        print(f"copied:  {'  '.join(str(Path(options.collect_to) / name) for name in files)}")
        return
    if options.name is not None:
        raise HfLongSeqError("--name belongs to --collect_to: in a report write NAME=FOLDER.")
    if options.output_dir is None and len(options.runs) > 1:
        raise HfLongSeqError("several comparisons need a folder for their report: add --output_dir.")

    from hf_longseq.comparison.scores import named_folder
    from hf_longseq.comparison.write import write_report

    output_dir = options.output_dir or named_folder(options.runs[0])[1] / "report"
    command = shlex.join(["hf-longseq", "report", *argv])
    report = write_report(options.runs, output_dir, command=command)
    print(f"report:  {'  '.join(str(report.output_dir / name) for name in report.files if '/' not in name)}")
    if any("/" in name for name in report.files):
        print(f"figures: {report.output_dir / 'figures'}")
    if report.lacks:
        print(report.lacks, file=sys.stderr)
