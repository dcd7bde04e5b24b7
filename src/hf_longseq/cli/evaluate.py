# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`hf-longseq evaluate`: score a finished run on a split of its task, or on new labelled files."""

import json

from hf_longseq.cli.options import Parser, add_model_options, check_model_options
from hf_longseq.errors import HfLongSeqError


def run(argv: list[str]) -> None:
    """Parse, score, print JSON."""
    parser = Parser(prog="hf-longseq evaluate", description="Score a finished run of pretrain or finetune.")
    add_model_options(parser, "new labelled rows, as predict takes them")
    parser.add_argument("--label_column", metavar="NAME", help="column of the labels [that of the run]")
    options = parser.parse(argv)
    check_model_options(options)
    if options.data is not None and options.split is not None:
        raise HfLongSeqError(f"--split {options.split} and --data {options.data} are given: choose one of them.")

    from hf_longseq.training.inference import evaluate
    from hf_longseq.training.progress import quiet_libraries

    quiet_libraries()
    split = options.split or "test"
    names = ("input_column", "second_input_column", "label_column", "batch_size")
    scores = evaluate(options.model, options.data, split=split, **{name: getattr(options, name) for name in names})
    of = {"split": split} if options.data is None else {"data": options.data}
    print(json.dumps({"model": options.model, **of, **scores}, indent=2))
