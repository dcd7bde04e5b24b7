# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`hf-longseq tasks`: list the tasks, show what one is, the options of its loader and some of its examples, or
publish one as a data set on the Hub."""

from hf_longseq.cli.options import Parser, split_dotted
from hf_longseq.data.task import TASKS, cached_bytes, unknown_task
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.recipe import loader_options


def run(argv: list[str]) -> None:
    """List, show one, or publish one."""
    parser = Parser(prog="hf-longseq tasks", description="The tasks that `--task` knows.")
    parser.add_argument("action", choices=("list", "show", "publish"), nargs="?", default="list")
    parser.add_argument("name", nargs="?", help="task to show or to publish")
    parser.add_argument("--examples", type=int, help="examples to show [3 if they need no download, else 0]")
    parser.add_argument("--out", help="draw pictures or series into this .png file")
    to_hub = parser.add_argument_group("publish")
    to_hub.add_argument("--repo_id", help="organisation/name of the data set")
    to_hub.add_argument("--private", action="store_true", help="make a new repository private; refuse a public one")
    to_hub.add_argument("--revision", help="branch to publish on [main]")
    to_hub.add_argument("--dry_run", action="store_true", help="write and check, upload nothing")
    to_hub.add_argument("--output_dir", help="keep the written folder here")
    parser.add_argument("--data.OPTION", metavar="VALUE", help="option of the task's loader")
    words, overrides = split_dotted(argv)
    options = parser.parse(words)

    if options.action == "list":
        width = max(map(len, TASKS)) + 2
        for name, entry in TASKS.items():
            cached = cached_bytes(name)
            note = f"; {cached / 2**20:,.1f} MiB cached" if cached else ""
            print(f"{name:<{width}}{entry.summary}; {entry.size}; {entry.source}{note}")
        return
    if options.name is None:
        raise HfLongSeqError(f"`tasks {options.action}` needs the name of a task: known: {', '.join(TASKS)}.")
    if options.name not in TASKS:
        raise unknown_task(options.name)
    given = loader_options(options.name, overrides.get("data", {}))
    if options.action == "publish":
        _publish(options, given)
        return
    _describe(options.name)
    at_hand = TASKS[options.name].source in ("generated", "embedded") or bool(given)
    count = options.examples if options.examples is not None else 8 if options.out else 3 if at_hand else 0
    if count > 0:
        _show(options.name, count, given, options.out)


def _publish(options, given: dict) -> None:
    """Publish, print the address and how to load it."""
    if options.repo_id is None:
        raise HfLongSeqError(f"`tasks publish {options.name}` needs a place: add --repo_id organisation/name.")
    from hf_longseq.hub.task_dataset import publish_task
    from hf_longseq.training.progress import quiet_libraries

    quiet_libraries()
    places = {key: getattr(options, key) for key in ("private", "revision", "dry_run", "output_dir")}
    print(publish_task(options.name, options.repo_id, options=given, **places))


def _describe(name: str) -> None:
    entry = TASKS[name]
    print(f"{name}: {entry.summary}\nsize: {entry.size}\nsource: {entry.source}\noptions:")
    for option, parameter in entry.parameters.items():
        default = "" if parameter.default is parameter.empty else f" [{parameter.default}]"
        print(f"  --data.{option}{default}")
    print("  --data.source hub:OWNER/NAME[@REVISION], in place of the others: as `tasks publish` put it on the Hub")


def _show(name: str, count: int, loader_options: dict, out: str | None) -> None:
    """Examples as text, or into a file."""
    from hf_longseq.analysis.examples import as_text, draw, some_examples
    from hf_longseq.training.progress import quiet_libraries

    quiet_libraries()
    rows, spec = some_examples(name, count, loader_options)
    if out is not None:
        if spec.modality == "tokens" and spec.image_shape is None:
            raise HfLongSeqError(f"--out {out} is for pictures and series, but {name} is text: leave it out.")
        print(f"\n{len(rows)} examples in {draw(rows, spec, out)}")
        return
    print("\nexamples of train:")
    for row in rows:
        print(as_text(row, spec))
    if spec.modality == "values":
        print("\nwith --out FILE.png they are drawn")
