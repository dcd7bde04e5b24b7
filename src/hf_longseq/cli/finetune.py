# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`hf-longseq finetune`: train a classifier from a pretrained checkpoint, or from scratch."""

import json
from pathlib import Path

from hf_longseq.cli.options import Parser, add_recipe_options, common_overrides, split_dotted, train


def run(argv: list[str]) -> None:
    """Parse, train, and say where the result is."""
    parser = Parser(
        prog="hf-longseq finetune",
        description="Train a classifier on a task's labels, from any checkpoint that reads such inputs. The trunk is "
        "that of --init_from; other settings are those of --recipe, else of the run that made the checkpoint.",
    )
    add_recipe_options(parser, ("finetune", "scratch"))
    start = parser.add_mutually_exclusive_group(required=True)
    start.add_argument("--init_from", metavar="CHECKPOINT", help="folder of a model, or a Hub id")
    start.add_argument("--from_scratch", action="store_true", help="start from fresh weights")
    parser.add_argument("--seed", type=int, default=0, help="seed of fresh weights and of the order")
    # Options without a section's name go to the section that this run reads.
    phase = "scratch" if "--from_scratch" in argv else "finetune"
    words, overrides = split_dotted(argv, phase=phase, parser=parser)
    options = parser.parse(words)
    overrides = common_overrides(options, overrides)

    from hf_longseq.training.run import finetune

    source, init_from = options.recipe, options.init_from
    if init_from:
        source, init_from = _starting_from(options, overrides)
    result = train(finetune, options, source, overrides, init_from=init_from)
    metrics = result.metrics
    name = metrics["metric"]
    unit = f" {metrics['unit']}" if "unit" in metrics else ""
    if "transfer" in metrics:
        moved = metrics["transfer"]
        other = f" (pretrained on {moved['pretrained_on']})" if "pretrained_on" in moved else ""
        print(
            f"from {options.init_from}{other}: {moved['loaded']} tensors loaded; new: "
            f"{', '.join(moved['new']) or 'none'}; dropped: {', '.join(moved['dropped']) or 'none'}"
        )
    print(
        f"{metrics['init']} {metrics['arch']} on {metrics['task']}: test {name} {metrics['test'][name]:.4f}{unit} "
        f"(validation {metrics['validation'][name]:.4f} at step {metrics['best_step']} of {metrics['steps']})"
    )
    show_spans(result.output_dir)
    print(f"next: hf-longseq predict --model {result.output_dir}")


def _starting_from(options, overrides: dict) -> tuple[str | None, str | None]:
    """The recipe and the checkpoint of a run with --init_from; the checkpoint's trunk goes into the overrides."""
    from hf_longseq.training.run_folder import RESOLVED
    from hf_longseq.training.transfer import HEAD_FIELDS, local_checkpoint, model_section

    folder, _ = local_checkpoint(options.init_from)
    source = options.recipe or (str(folder / RESOLVED) if (folder / RESOLVED).is_file() else None)
    if options.arch is not None:
        return source, options.init_from
    section = model_section(folder)
    given = overrides.setdefault("model", {})
    if section["arch"] == f"hf:{folder}":
        # a model of transformers: its weights are what the architecture of that name starts with
        given["arch"] = f"hf:{options.init_from}"
        return source, None
    if options.recipe is not None:  # which has its own head, dropout and so on
        section = {name: value for name, value in section.items() if name not in HEAD_FIELDS}
    overrides["model"] = section | given
    if overrides.get("data", {}).get("task") == "own-data":
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        mask, size = config.get("mask_token_id"), config.get("vocab_size")
        if mask and mask == (size or 0) - 2:  # a model of own data: its ids, the mask and the padding
            overrides["data"].setdefault("vocab_size", mask)
    return source, options.init_from


def show_spans(folder: Path) -> None:
    """Write the page of a run that labels positions, and say where it is; of other runs nothing."""
    from hf_longseq.analysis.span_page import has_spans, write_span_page
    from hf_longseq.training import distributed

    if distributed.is_main() and has_spans(folder):
        print(f"spans in colour: {write_span_page(folder)}")
