# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`hf-longseq evaluate`: score a finished run on a split of its task."""

import json

from hf_longseq.cli.options import Parser


def run(argv: list[str]) -> None:
    """Parse, score, print JSON."""
    parser = Parser(prog="hf-longseq evaluate", description="Score a finished run of pretrain or finetune.")
    parser.add_argument("--model", required=True, help="folder of a finished run")
    parser.add_argument("--split", default="test", help="train, validation or test [test]")
    parser.add_argument("--batch_size", type=int, default=32, help="examples per forward pass [32]")
    options = parser.parse(argv)

    from hf_longseq.training.inference import evaluate
    from hf_longseq.training.progress import quiet_libraries

    quiet_libraries()
    scores = evaluate(options.model, split=options.split, batch_size=options.batch_size)
    print(json.dumps({"model": options.model, "split": options.split, **scores}, indent=2))
