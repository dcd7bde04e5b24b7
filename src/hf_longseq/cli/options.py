# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Options of the commands, generated from the sections of a recipe (`training/arguments.py`, `training/config.py`).

Every value of a recipe has an option `--SECTION.NAME VALUE`; `--a-b` is `--a_b`, and `--name=value` works: `main.py`
normalises the words before any of these functions gets them. The words after an option that takes a list may be
separated by spaces or commas.
"""

import argparse
import dataclasses
import re
import sys
import typing
from collections.abc import Callable
from pathlib import Path

from hf_longseq import recipes
from hf_longseq.data.task import TASKS, unknown_task
from hf_longseq.errors import HfLongSeqError, did_you_mean
from hf_longseq.training.architectures import check_name
from hf_longseq.training.arguments import DataSection, build_section, convert, section_options
from hf_longseq.training.recipe import VARIANTS, architectures_of, read_recipe, set_dotted
from hf_longseq.version import __version__


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are ours, and which suggests what a mistyped option may have meant.

    Options in `rare` are shown by `--help-all` alone. Those of the sections of `phases` are described for `--help`.
    """

    def __init__(self, **kwargs):
        super().__init__(allow_abbrev=False, usage=f"{kwargs['prog']} [options]", **kwargs)
        self.rare: list[argparse.Action] = []
        self.phases: tuple[str, ...] = ()
        self.full = False

    def format_help(self) -> str:
        """Help, short unless `full`."""
        if self.phases:
            describe_sections(self)
            self.epilog = None if self.full else "More options: --help-all"
        for action in () if self.full else self.rare:
            action.help = argparse.SUPPRESS
        return super().format_help()

    def error(self, message: str):
        raise HfLongSeqError(f"{message}; see `{self.prog} --help`.")

    def parse(self, argv: list[str]) -> argparse.Namespace:
        """Parse normalised words; unknown options are errors."""
        self.full = "--help_all" in argv
        known, rest = self.parse_known_args(argv)
        if rest:
            options = [option for action in self._actions for option in action.option_strings]
            raise HfLongSeqError(
                f"unknown option {rest[0]}{did_you_mean(rest[0], options)}; see `{self.prog} --help`."
            )
        return known


def normalise(argv: list[str]) -> list[str]:
    """`--a-b=c` becomes `--a_b c`; values are left alone."""
    words = []
    for word in argv:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            words += [f"--{name[2:].replace('-', '_')}", *([value] if equals else [])]
        else:
            words.append(word)
    return words


def with_output_dir(command: str, argv: list[str]) -> list[str]:
    """The words of a command; without --output_dir the result goes to runs/COMMAND-NAME, named after the data, the
    task or the recipe."""
    given = dict(zip(argv[:-1], argv[1:], strict=True))
    source = next((given[name] for name in ("--data", "--task", "--recipe", "--config") if name in given), None)
    if source is None or "--output_dir" in argv:
        return argv
    name = Path(source).stem if Path(source).exists() else source
    return [*argv, "--output_dir", f"runs/{command}-{re.sub(r'[^A-Za-z0-9._-]+', '-', name)}"]


def split_dotted(argv: list[str], phase: str | None = None, parser: Parser | None = None) -> tuple[list[str], dict]:
    """Take the options of recipe sections out of the words of a command line: the other words, and the overrides.

    Options of `phase` may be written without its name: those that `parser` does not know.
    """
    own = set() if parser is None else {name[2:] for action in parser._actions for name in action.option_strings}
    rest: list[str] = []
    overrides: dict = {}
    words = list(argv)
    while words:
        word = words.pop(0)
        name = word[2:] if word.startswith("--") else ""
        if phase and name and "." not in name and name not in own:
            from hf_longseq.training.config import PHASES, REFUSED, phase_fields

            name = f"{phase}.{name}" if name in REFUSED or name in phase_fields(PHASES[phase]) else name
        if "." not in name:
            rest.append(word)
            continue
        values = []
        while words and not words[0].startswith("--"):
            values.append(words.pop(0))
        set_dotted(overrides, name, values[0] if len(values) == 1 else [*values] if values else True)
    return rest, overrides


OWN_DATA = {
    "input_column": "text, ids, numbers, or files of pictures or sounds",
    "second_input_column": "the other document, for pairs",
    "label_column": "class or number to predict",
    "group_column": "rows with the same value (a subject, a recording) stay in one split",
    "modality": "text, tokens, values, image or audio (default: by the content)",
    "problem_type": "regression, to predict numbers",
}


DEVICES = ("cpu", "cuda", "mps")
# Options without a section's name that are fields of every phase.
EVERY_PHASE = "max_steps num_train_epochs learning_rate global_batch_size per_device_train_batch_size".split()
EVERY_PHASE += ["report_to", "trackio_space_id", "use_cpu"]

# Fields of the sections that `--help` shows.
USUAL = {"num_train_examples", "pretrain_inputs", "learning_rate", "objective", "mask_ratio"}


def add_recipe_options(parser: Parser, phases: tuple[str, ...]) -> None:
    """Add what the training commands share, and describe the options of the sections for `--help`."""
    parser.add_argument("--help_all", action="help", help="every option")
    parser.add_argument("--recipe", "--config", dest="recipe", help="shipped recipe, or path of a .yaml file")
    parser.add_argument("--task", help="task, see `hf-longseq tasks`")
    parser.add_argument("--data", metavar="SOURCE", help="own csv, jsonl, parquet, npy, npz, folder, or Hub id")
    parser.add_argument("--arch", nargs="+", help="s4, dlr, transformer, lru, s5, mega, cnn, hf:NAME, FILE.py:NAME")
    parser.add_argument(
        "--output_dir", metavar="FOLDER", required=True, help="of the result; resumes [runs/COMMAND-NAME]"
    )
    every = parser.add_argument_group("every phase, unless --PHASE.FIELD says otherwise")
    every.add_argument("--max_steps", metavar="N", help="optimiser steps")
    every.add_argument("--num_train_epochs", metavar="N", help="passes over the examples, in place of steps")
    every.add_argument("--learning_rate", metavar="RATE", help="peak learning rate")
    every.add_argument("--batch_size", dest="global_batch_size", metavar="N", help="examples per optimiser step")
    every.add_argument("--global_batch_size", help=argparse.SUPPRESS)
    every.add_argument("--per_device_train_batch_size", metavar="N", help="examples per forward pass [the batch]")
    every.add_argument("--device", metavar="NAME", choices=DEVICES, help="cpu, cuda or mps [what is there]")
    parser.add_argument("--tiny", action="store_true", help="toy sizes and 4 steps, for a trial in seconds")
    parser.add_argument("--overwrite", action="store_true", help="delete the run that output_dir holds")
    rare = [
        parser.add_argument("--train_fraction", metavar="SHARE", help="as --data.train_fraction: share of the labels"),
        parser.add_argument("--report_to", metavar="TRACKER", help="tensorboard, trackio or wandb [none]"),
        parser.add_argument("--trackio_space_id", metavar="NAME", help="Space of trackio's runs, as me/runs"),
        parser.add_argument("--num_processes", metavar="N", help="processes that train a model together [1]"),
        parser.add_argument("--launch_config", metavar="NAME", help="ddp, fsdp2, or a file of accelerate [ddp]"),
    ]  # fmt: skip
    own = parser.add_argument_group("columns and kind of --data, found by their names and content unless given")
    for name, text in OWN_DATA.items():
        rare.append(own.add_argument(f"--{name}", metavar="VALUE", help=text))
    rare.append(own.add_argument("--unlabelled", metavar="SOURCE", help="more inputs, for pretraining, for any task"))
    parser.rare += rare
    parser.phases = phases


def add_model_options(parser: Parser, data: str) -> None:
    """Add what `evaluate` and `predict` share: a checkpoint, and rows of a source or of a split."""
    parser.add_argument(
        "--model", required=True, help="folder of a finished run or of a comparison; with --data also a Hub id"
    )
    parser.add_argument("--data", metavar="SOURCE", help=data)
    parser.add_argument("--input_column", metavar="NAME", help="column of the inputs [that of the run]")
    parser.add_argument("--second_input_column", metavar="NAME", help="the other document, for pairs")
    parser.add_argument("--split", help="train, validation or test of the run's task [test]")
    parser.add_argument("--batch_size", type=int, default=32, help="examples per forward pass [32]")
    parser.add_argument(
        "--arch", metavar="FILE.py:NAME", help="the file of the run's architecture, where it is your own"
    )


def check_model_options(options: argparse.Namespace) -> None:
    """Raise for columns of no source, and for numbers below 1."""
    given = {name: value for name, value in vars(options).items() if value is not None}
    columns = [name for name in given if name.endswith("_column")]
    if columns and not options.data:
        raise HfLongSeqError(f"--{columns[0]} names a column of --data: give --data too.")
    for name in ("limit", "batch_size"):
        if given.get(name, 1) < 1:
            raise HfLongSeqError(f"--{name} is {given[name]}: give a number of 1 or more.")


def describe_sections(parser: Parser) -> None:
    """Add the options of the sections of a recipe as `--help` shows them; `split_dotted` reads them."""
    from hf_longseq.training import config

    model = parser.add_argument_group("model: --model.FIELD, a field of the architecture's configuration")
    model.add_argument("--model.hidden_size", metavar="64", help="of one of several: --arch s4@state_size=32")
    several = f"--{{{','.join(parser.phases)}}}" if len(parser.phases) > 1 else f"--{parser.phases[0]}"
    data = "data: --data.OPTION, or an option of the loader (`hf-longseq tasks show TASK`)"
    every = f"phases: {several}.FIELD, any field of transformers' TrainingArguments"
    names = [field.name for field in section_options(DataSection)]
    parts = [(data, "data", DataSection, names), (every, "PHASE", config.FinetuneConfig, config.USUAL)]
    if "pretrain" in parser.phases:
        parts.append(("pretraining: --pretrain.FIELD", "pretrain", config.SPTConfig, config.DENOISING))
    for title, section, owner, names in parts:
        group, kinds = parser.add_argument_group(title), typing.get_type_hints(owner)
        fields = {field.name: field for field in dataclasses.fields(owner)}
        for name in names:
            plain = typing.get_origin(kinds[name]) is typing.Literal
            choices = f" ({', '.join(typing.get_args(kinds[name]))})" if plain else ""
            default = "" if fields[name].default in (None, "") else f" [{fields[name].default}]"
            text = f"{fields[name].metadata['help'].split('. ')[0]}{choices}{default}".replace("%", "%%")
            action = group.add_argument(f"--{section}.{name}", metavar="VALUE", help=text)
            if name not in USUAL:
                parser.rare.append(action)


def common_overrides(options: argparse.Namespace, overrides: dict) -> dict:
    """Add the short options (`--task`, `--arch`, ...) to the overrides."""
    for name in ("task", "train_fraction"):
        if getattr(options, name) is not None:
            overrides.setdefault("data", {})[name] = getattr(options, name)
    _own_data(options, overrides)
    if options.arch is not None:
        overrides.setdefault("model", {})["arch"] = listed(options.arch)
    given = {name: value for name in EVERY_PHASE if (value := getattr(options, name, None)) is not None}
    if _is_cpu(options.device):
        given["use_cpu"] = True
    for name, value in given.items():
        # what is said of one phase wins over what is said of all; from scratch goes as finetune unless told
        for phase in ("pretrain", "finetune"):
            overrides.setdefault(phase, {}).setdefault(name, value)
        overrides.setdefault("scratch", {}).setdefault(name, overrides["finetune"][name])
    check_names(options.recipe, overrides)
    return overrides


def _is_cpu(device: str | None) -> bool:
    """Whether a device is the CPU; any other has to be there."""
    if device is None or device == "cpu":
        return device == "cpu"
    import torch

    there = {"cuda": torch.cuda, "mps": torch.backends.mps}
    if not there[device].is_available():
        others = ", ".join(["cpu", *(name for name in there if there[name].is_available())])
        raise HfLongSeqError(f"--device is {device}, which this machine lacks (it has {others}): leave it out.")
    return False


def check_names(recipe: str | None, overrides: dict) -> None:
    """Raise for a recipe, task, architecture or setting that does not exist, before anything heavy is imported."""
    raw = read_recipe(recipe)
    task = overrides.get("data", {}).get("task")
    if task is not None and task not in TASKS:
        raise unknown_task(task)
    for arch in architectures_of(raw, overrides):
        # a comparison may also name a shipped recipe of the task, or one of those that its own recipe describes
        name = arch.split("@")[0]
        if arch not in (raw.get(VARIANTS) or {}) and not any(known.endswith(f"/{name}") for known in recipes.names()):
            check_name(name)
    build_section(DataSection, overrides.get("data", {}), "data")


def _own_data(options: argparse.Namespace, overrides: dict) -> None:
    """Turn `--data SOURCE` and its columns into the task own-data."""
    given = {name: value for name in OWN_DATA if (value := getattr(options, name)) is not None}
    if options.data is not None:
        if options.task not in (None, "own-data"):
            raise HfLongSeqError(f"--data {options.data} and --task {options.task} name two sources: leave one out.")
        given |= {"task": "own-data", "data": _resolved(options.data)}
        if options.recipe is None:
            for phase in ("pretrain", "finetune"):
                overrides[phase] = {"train_sampling_strategy": "group_by_length"} | overrides.get(phase, {})
    elif given and options.task != "own-data" and options.recipe is None:
        raise HfLongSeqError(f"--{next(iter(given))} describes your own data: say with --data where they are.")
    if options.unlabelled is not None:
        given["unlabelled"] = _resolved(options.unlabelled)
    if given:
        overrides["data"] = overrides.get("data", {}) | given


def _resolved(source: str) -> str:
    """A path as the run's settings keep it, for readers in another folder; a Hub id as it is."""
    path = Path(source).expanduser()
    return str(path.resolve()) if source and path.exists() else source


def listed(words: list[str]) -> list[str]:
    """Words separated by spaces or commas."""
    return [item for word in words for item in word.split(",") if item]


def numbers(words: list[str] | None, kind: type, name: str) -> list:
    """Read `0 1 2` or `0,1,2`; an option without a value is a mistake."""
    values = [convert(item, kind, name) for item in listed(words or [])]
    if words and not values:
        raise HfLongSeqError(f"{name} is empty: give numbers with commas between them, or leave it out.")
    return values


def train(phase: Callable, options: argparse.Namespace, source: str | None, overrides: dict, **arguments):
    """Run `pretrain` or `finetune` as the options say: what begins, its progress, and where the result is."""
    import torch

    from hf_longseq.training.progress import ProgressBar, quiet_libraries, show_data_notes
    from hf_longseq.training.recipe import Recipe

    quiet_libraries()
    show_data_notes()
    recipe = Recipe.load(source, overrides, tiny=options.tiny)
    on_gpu = torch.cuda.is_available() and options.device != "cpu"
    device = torch.cuda.get_device_name() if on_gpu else f"CPU, {torch.get_num_threads()} threads"
    begins = f"{phase.__name__} on {recipe.data.task}, {recipe.model.arch} ({device})"
    print(f"hf-longseq {__version__}: {begins}", file=sys.stderr)
    with ProgressBar() as bar:
        arguments |= {"seed": options.seed, "overwrite": options.overwrite, "listener": bar}
        result = phase(recipe, options.output_dir, **arguments)
    size, seconds = result.metrics["num_parameters"], result.metrics["wall_seconds"]
    print(f"{size:,} parameters, {seconds:.1f} s; model and records in {result.output_dir}")
    return result
