# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`hf-longseq pretrain`: train a model to restore, or to predict, the inputs of a task."""

from hf_longseq.cli.options import Parser, add_recipe_options, common_overrides, split_dotted, train


def run(argv: list[str]) -> None:
    """Parse, train, and say where the result is."""
    parser = Parser(prog="hf-longseq pretrain", description="Denoise the inputs of a task; labels are never read.")
    add_recipe_options(parser, ("pretrain",))
    parser.add_argument("--seed", type=int, default=0, help="seed of weights, order and masks")
    words, overrides = split_dotted(argv, phase="pretrain", parser=parser)
    options = parser.parse(words)
    overrides = common_overrides(options, overrides)

    from hf_longseq.training.run import pretrain

    result = train(pretrain, options, options.recipe, overrides)
    metrics = result.metrics
    scores = ", ".join(
        f"{name} {value:.4f}" for name, value in metrics["validation"].items() if name != "scored_positions"
    )
    print(f"pretrained {metrics['arch']} on {metrics['task']}: validation {scores} (best of {metrics['steps']} steps)")
    print(f"next: hf-longseq finetune --init_from {result.output_dir} --output_dir FOLDER")
