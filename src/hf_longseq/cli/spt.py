# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`hf-longseq spt`: from scratch against self-pretrained, under one budget and over seeds, in one command."""

from hf_longseq.cli.compare import listed, show_report
from hf_longseq.cli.finetune import show_spans
from hf_longseq.cli.options import (
    Parser,
    add_recipe_options,
    announce,
    common_overrides,
    integers,
    split_dotted,
)


def run(argv: list[str]) -> None:
    """Parse, run all arms, print the table."""
    parser = Parser(
        prog="hf-longseq spt",
        description="Arms per architecture and seed: scratch (F steps), spt (P steps of pretraining, then F), "
        "scratch-tied (P + F supervised steps).",
    )
    add_recipe_options(parser, ("pretrain", "finetune", "scratch"))
    parser.add_argument(
        "--seeds", "--seed", dest="seeds", nargs="+", default=["0"], help="one run of each arm per seed [0]"
    )
    parser.add_argument("--inits", nargs="+", help="arms to run [scratch spt scratch-tied]")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, each with its share of the threads [1]")
    words, overrides = split_dotted(argv)
    options = parser.parse(words)
    seeds = integers(options.seeds, "seeds")

    from hf_longseq.comparison.execute import SPT_INITS, spt
    from hf_longseq.training import distributed
    from hf_longseq.training.progress import ProgressBar, quiet_libraries, show_data_notes
    from hf_longseq.training.recipe import Recipe, architectures_of, read_recipe

    quiet_libraries()
    show_data_notes()
    raw, overrides = read_recipe(options.recipe), common_overrides(options, overrides)
    recipes = [Recipe.load(raw, overrides, arch=arch, tiny=options.tiny) for arch in architectures_of(raw, overrides)]
    inits = listed(options.inits or SPT_INITS)
    announce("spt", recipes)
    with ProgressBar() as bar:
        comparison = spt(
            recipes,
            options.output_dir,
            seeds=seeds,
            inits=inits,
            jobs=options.jobs,
            overwrite=options.overwrite,
            listener=bar,
        )
    print(f"\n{comparison.table()}\n")
    print(f"results: {comparison.output_dir / 'results.json'}")
    if distributed.is_main():
        show_report(comparison.output_dir)
    if comparison.best is not None:
        head = (
            "Token" if (comparison.best / "config.json").read_text(encoding="utf-8").count("ForToken") else "Sequence"
        )
        print(f"best:    {comparison.best}  (AutoModelFor{head}Classification.from_pretrained opens it)")
        show_spans(comparison.best)
