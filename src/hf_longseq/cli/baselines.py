# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`hf-longseq baselines`: what linear models make of a task, in seconds."""

import sys

from hf_longseq.cli.options import Parser, split_dotted
from hf_longseq.errors import HfLongSeqError


def run(argv: list[str]) -> None:
    """Parse, fit, print a row per baseline."""
    parser = Parser(
        prog="hf-longseq baselines",
        description="Fit linear models on counts, spectra or random kernels, and say what pretraining gained on data "
        "like these; --data.OPTION is of the loader.",
    )
    parser.add_argument("--task", help="task, see `hf-longseq tasks`")
    parser.add_argument("--data", metavar="SOURCE", help="own csv, jsonl, parquet, npy, npz, folder, or Hub id")
    parser.add_argument("--labels", type=int, metavar="N", help="labelled rows of train to fit on [all]")
    parser.add_argument("--seed", type=int, default=0, help="seed of the labelled rows [0]")
    words, overrides = split_dotted(argv)
    options = parser.parse(words)
    if (options.task is None) == (options.data is None):
        raise HfLongSeqError("baselines need one source: give --task NAME or --data FILE.")

    from hf_longseq.comparison.advice import advice
    from hf_longseq.comparison.baselines import fit_baselines
    from hf_longseq.data.task import limit_examples, load_task
    from hf_longseq.metrics import PERCENT
    from hf_longseq.training.progress import quiet_libraries
    from hf_longseq.training.recipe import loader_options

    quiet_libraries()
    task = options.task or "own-data"
    given = overrides.get("data", {}) | ({"data": options.data} if options.data else {})
    splits, spec = load_task(task, **loader_options(task, given))
    train = splits["train"]
    if options.labels is not None:
        by_class = spec.problem_type == "single_label_classification" and not spec.per_position
        train = limit_examples(train, options.labels, options.seed, by_class, "--labels")
    print(f"{spec.name}: {len(train):,} labelled rows, {len(splits['test']):,} test rows", file=sys.stderr)
    found = fit_baselines(train, splits["test"], spec, seed=options.seed)
    scale, unit = (100, " %") if spec.metric in PERCENT else (1, f" {spec.unit}".rstrip())
    print(f"{'baseline':<36}{f'{spec.metric}{unit}':>16}{'seconds':>10}")
    for one in found:
        print(f"{one.name:<36}{scale * one.scores[spec.metric]:>16.{1 if scale == 100 else 3}f}{one.seconds:>10.1f}")
    inputs = len(splits["train"]) + len(splits.get("unlabelled", ()))
    print(f"\n{inputs:,} inputs, {len(train):,} labels, {spec.max_length:,} positions of {spec.modality}.")
    nothing = ["No kept comparison has data like these: `hf-longseq spt` measures what pretraining adds."]
    print(*(advice(spec.modality, len(train), spec.max_length) or nothing), sep="\n")
