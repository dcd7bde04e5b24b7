# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`hf-longseq benchmark train`: how long an epoch of a recipe takes on this machine, before a run is started."""

import sys

from hf_longseq.cli.options import Parser, listed
from hf_longseq.errors import HfLongSeqError


def run(argv: list[str]) -> None:
    """Parse, measure, show."""
    if argv[:1] != ["train"] and not {"-h", "--help"} & set(argv):
        word = argv[0] if argv else ""
        raise HfLongSeqError(f"benchmark does not know {word!r}: use `hf-longseq benchmark train --recipe NAME`.")
    parser = Parser(
        prog="hf-longseq benchmark train",
        description="Measure one optimiser step of each recipe on random inputs: minutes per epoch before a run.",
    )
    parser.add_argument("--recipe", nargs="+", required=True, help="recipes or YAML files, for example listops/s4")
    parser.add_argument("--length", type=int, help="steps of a sequence [the task's]")
    parser.add_argument("--batch_size", type=int, help="sequences of an optimiser step [the recipe's]")
    parser.add_argument("--repeats", type=int, default=3, help="timed steps after the warm-up [3]")
    parser.add_argument("--device", default="cpu", help="cpu or cuda [cpu]")
    options = parser.parse([word for word in argv if word != "train"])

    from hf_longseq.training.epoch_time import epoch_times, table
    from hf_longseq.training.progress import quiet_libraries

    quiet_libraries()
    names = listed(options.recipe)
    print(f"hf-longseq: one optimiser step of {', '.join(names)} ({options.device})", file=sys.stderr)
    print(table(epoch_times(names, options.device, options.batch_size, options.length, options.repeats)))
