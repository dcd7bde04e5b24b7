# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`hf-longseq evaluate`: score a finished run on a split of its task, or on new labelled files."""

import json

from hf_longseq.cli.options import Parser
from hf_longseq.errors import HfLongSeqError

COLUMNS = ("input_column", "second_input_column", "label_column")


def run(argv: list[str]) -> None:
    """Parse, score, print JSON."""
    parser = Parser(prog="hf-longseq evaluate", description="Score a finished run of pretrain or finetune.")
    parser.add_argument(
        "--model", required=True, help="folder of a finished run or of a comparison; with --data also a Hub id"
    )
    parser.add_argument("--data", metavar="SOURCE", help="new labelled rows, as predict takes them")
    parser.add_argument("--input_column", metavar="NAME", help="column of the inputs [that of the run]")
    parser.add_argument(
        "--second_input_column", metavar="NAME", help="the other document, for pairs [that of the run]"
    )
    parser.add_argument("--label_column", metavar="NAME", help="column of the labels [that of the run]")
    parser.add_argument("--split", help="train, validation or test of the run's task [test]")
    parser.add_argument("--batch_size", type=int, default=32, help="examples per forward pass [32]")
    parser.add_argument(
        "--arch", metavar="FILE.py:NAME", help="the file of the run's architecture, where it is your own"
    )
    options = parser.parse(argv)
    given = {name: getattr(options, name) for name in COLUMNS}
    if options.data is None and any(given.values()):
        named = next(name for name in COLUMNS if given[name])
        raise HfLongSeqError(f"--{named} names a column of --data: give --data too.")
    if options.data is not None and options.split is not None:
        raise HfLongSeqError(f"--split {options.split} and --data {options.data} are given: choose one of them.")
    if options.batch_size < 1:
        raise HfLongSeqError(f"--batch_size is {options.batch_size}: give a number of 1 or more.")

    from hf_longseq.training.inference import evaluate
    from hf_longseq.training.progress import quiet_libraries

    quiet_libraries()
    split = options.split or "test"
    scores = evaluate(options.model, options.data, split=split, batch_size=options.batch_size, **given)
    of = {"split": split} if options.data is None else {"data": options.data}
    print(json.dumps({"model": options.model, **of, **scores}, indent=2))
