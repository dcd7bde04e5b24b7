# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`hf-longseq finetune`: train a classifier from a pretrained checkpoint, or from scratch."""

from pathlib import Path

from hf_longseq.cli.options import Parser, add_recipe_options, announce, common_overrides, split_dotted
from hf_longseq.errors import HfLongSeqError


def run(argv: list[str]) -> None:
    """Parse, train, and say where the result is."""
    parser = Parser(
        prog="hf-longseq finetune",
        description="Train a classifier on a task's labels. Without --recipe, the settings of --init_from are used.",
    )
    add_recipe_options(parser, ("finetune", "scratch"))
    start = parser.add_mutually_exclusive_group(required=True)
    start.add_argument("--init_from", help="folder of a pretrained model")
    start.add_argument("--from_scratch", action="store_true", help="start from fresh weights")
    parser.add_argument("--seed", type=int, default=0, help="seed of fresh weights and of the order")
    # Options without a section's name go to the section that this run reads.
    phase = "scratch" if any(word.replace("-", "_") == "__from_scratch" for word in argv) else "finetune"
    words, overrides = split_dotted(argv, phase=phase, parser=parser)
    options = parser.parse(words)

    from hf_longseq.training import Recipe, finetune
    from hf_longseq.training.progress import ProgressBar, quiet_libraries, show_data_notes
    from hf_longseq.training.run_folder import RESOLVED

    quiet_libraries()
    show_data_notes()
    source = options.recipe
    if source is None and options.init_from:
        source = str(Path(options.init_from) / RESOLVED)
        if not Path(source).is_file():
            raise HfLongSeqError(
                f"init_from {options.init_from} holds no {RESOLVED} to take the settings from: give --recipe too."
            )
    recipe = Recipe.load(source, common_overrides(options, overrides), tiny=options.tiny)
    announce("finetune", [recipe])
    with ProgressBar() as bar:
        result = finetune(
            recipe,
            options.output_dir,
            init_from=options.init_from,
            seed=options.seed,
            overwrite=options.overwrite,
            listener=bar,
        )
    metrics = result.metrics
    name = metrics["metric"]
    unit = f" {metrics['unit']}" if "unit" in metrics else ""
    if "transfer" in metrics:
        moved = metrics["transfer"]
        print(f"from {options.init_from}: {moved['loaded']} tensors loaded; new: {', '.join(moved['new']) or 'none'}; "
              f"dropped: {', '.join(moved['dropped']) or 'none'}")  # fmt: skip
    print(
        f"{metrics['init']} {metrics['arch']} on {metrics['task']}: test {name} {metrics['test'][name]:.4f}{unit} "
        f"(validation {metrics['validation'][name]:.4f} at step {metrics['best_step']} of {metrics['steps']})"
    )
    print(
        f"{metrics['num_parameters']:,} parameters, {metrics['wall_seconds']:.1f} s; "
        f"model and records in {result.output_dir}"
    )
    show_spans(result.output_dir)
    print(f"next: hf-longseq predict --model {result.output_dir}")


def show_spans(folder: Path) -> None:
    """Write the page of a run that labels positions, and say where it is; of other runs nothing."""
    from hf_longseq.analysis.span_page import has_spans, write_span_page
    from hf_longseq.training import distributed

    if distributed.is_main() and has_spans(folder):
        print(f"spans in colour: {write_span_page(folder)}")
