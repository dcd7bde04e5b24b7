# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`hf-longseq recipes`: list the shipped recipes, or print one."""

from hf_longseq import recipes
from hf_longseq.cli.options import Parser
from hf_longseq.errors import HfLongSeqError


def run(argv: list[str]) -> None:
    """List, or print one."""
    parser = Parser(prog="hf-longseq recipes", description="Recipes that `--recipe` knows by name.")
    parser.add_argument("action", choices=("list", "show"), nargs="?", default="list")
    parser.add_argument("name", nargs="?", help="recipe to show")
    options = parser.parse(argv)
    if options.action == "show":
        if options.name is None:
            raise HfLongSeqError("recipes show needs a name: see `hf-longseq recipes list`.")
        print(recipes.find(options.name).read_text(encoding="utf-8"), end="")
        return
    names = recipes.names()
    width = max(map(len, names)) + 2
    grouped: dict[str, list[str]] = {}
    for name in names:  # a folder holds the recipes of one task
        grouped.setdefault(name.split("/")[0] if "/" in name else "trials and examples", []).append(name)
    for task, members in sorted(grouped.items(), key=lambda item: "/" not in item[1][0]):
        print(task)
        for name in members:
            print(f"  {name:<{width}}{recipes.summary(name)}")
    print("Recipes with `run` have results in the repository; the others are tested at toy size.")
