# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`hf-longseq tasks`: list the tasks, or show what one is and which options its loader has."""

from hf_longseq.cli.options import Parser
from hf_longseq.errors import HfLongSeqError, did_you_mean


def run(argv: list[str]) -> None:
    """List, or show one."""
    parser = Parser(prog="hf-longseq tasks", description="The tasks that `--task` knows.")
    parser.add_argument("action", choices=("list", "show"), nargs="?", default="list")
    parser.add_argument("name", nargs="?", help="task to show")
    options = parser.parse(argv)

    from hf_longseq.data.task import TASKS

    if options.action == "list":
        width = max(map(len, TASKS)) + 2
        for name, entry in TASKS.items():
            print(f"{name:<{width}}{entry.summary}; {entry.size}; {entry.source}")
        return
    if options.name not in TASKS:
        raise HfLongSeqError(
            f"there is no task {options.name!r}{did_you_mean(options.name or '', TASKS)}: known: {', '.join(TASKS)}."
        )
    from hf_longseq.training.recipe import loader_parameters

    entry = TASKS[options.name]
    print(f"{options.name}: {entry.summary}\nsize: {entry.size}\nsource: {entry.source}\noptions:")
    for name, parameter in loader_parameters(options.name).items():
        default = "" if parameter.default is parameter.empty else f" [{parameter.default}]"
        print(f"  --data.{name}{default}")
