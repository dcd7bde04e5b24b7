# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The sections `model` and `data` of a recipe, and the conversion of YAML and command-line values into types.

The same conversion serves recipes, the command line and Python dictionaries, so that `1e-3`, a string to YAML, and
`1`, given where a float is meant, work everywhere. Nothing here imports torch or transformers.
"""

import contextlib
import dataclasses
import math
import types
import typing
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from hf_longseq.errors import HfLongSeqError, did_you_mean


def check_seed(seed: int) -> None:
    """Raise for what no random generator takes, before anything is written."""
    if not 0 <= seed < 2**32:
        raise HfLongSeqError(f"seed is {seed}: give a whole number from 0 to {2**32 - 1}.")


def option(default: Any, help: str):
    """A dataclass field with the one line that `--help` shows for it."""
    return field(default=default, metadata={"help": help})


@dataclass
class ModelSection:
    """The architecture and those fields of its configuration that differ from their defaults."""

    arch: str = option("s4", "architecture: s4, dlr, transformer, or any other registered one")
    init_normal: float | None = option(
        None, "redraw every parameter of a fresh model from N(0, this deviation): the random-init ablation"
    )
    fields: dict = field(default_factory=dict)  # of the architecture's configuration class

    def __post_init__(self):
        if self.init_normal is not None and not self.init_normal > 0:
            raise HfLongSeqError(f"model.init_normal is {self.init_normal}: give a deviation above 0, or none.")
        if self.init_normal is not None and self.fields.get("init") is not None:
            raise HfLongSeqError(
                f"model.init_normal would redraw what model.init={self.fields['init']} set: use one of the two."
            )


@dataclass
class DataSection:
    """The task, its loader's options, and how much of its training split is labelled."""

    task: str = option("", "task name, see `hf-longseq tasks list`")
    train_fraction: float | None = option(None, "share of the training split whose labels are used")
    num_train_examples: int | None = option(None, "number of training examples whose labels are used")
    validation: Literal["separate", "labels"] | None = option(
        None,
        "what fine-tuning is chosen on: the task's validation split (separate), or a fifth of the training labels "
        "(labels; usual where these are limited)",
    )
    num_validation_examples: int | None = option(None, "validation examples used, at most (default: all)")
    num_test_examples: int | None = option(None, "test examples used, at most (default: all)")
    subset_seed: int | Literal["run"] = option(
        "run",
        "seed of the labelled subset, drawn by class: the run's or a number; smaller ones lie in larger ones",
    )
    pretrain_inputs: int | Literal["subset", "all", "unlabelled", "all+unlabelled"] = option(
        "all+unlabelled",
        "what pretraining reads: the labelled subset, all training inputs, the unlabelled ones, both, or a number",
    )
    unlabelled: str | None = option(None, "further inputs for pretraining: file, folder or Hub id, as --data takes it")
    options: dict = field(default_factory=dict)  # of the task's loader

    def __post_init__(self):
        if self.train_fraction is not None and self.num_train_examples is not None:
            raise HfLongSeqError(
                f"data.train_fraction={self.train_fraction} and data.num_train_examples={self.num_train_examples} "
                "both limit the training split: give only one of them."
            )
        if self.train_fraction is not None and not 0 < self.train_fraction <= 1:
            raise HfLongSeqError(f"data.train_fraction is {self.train_fraction}: give a share in (0, 1].")
        for name in ("num_train_examples", "num_validation_examples", "num_test_examples"):
            require(self, "data", name, 1)
        if isinstance(self.pretrain_inputs, int):
            require(self, "data", "pretrain_inputs", 1)

    @property
    def chosen_on(self) -> str:
        """What fine-tuning is chosen on: "separate" or "labels". A hundred labels are a hundred labels."""
        limited = self.num_train_examples is not None or self.train_fraction is not None
        return self.validation or ("labels" if limited else "separate")


def require(section: Any, where: str, name: str, minimum: float) -> None:
    """Raise when the number in `name` is below `minimum` (None passes)."""
    value = getattr(section, name)
    if value is not None and not value >= minimum:
        raise HfLongSeqError(f"{where}.{name} is {value}: give a number of at least {minimum}.")


Section = TypeVar("Section", ModelSection, DataSection)


def build_section(section_class: type[Section], values: dict[str, Any], where: str) -> Section:
    """Make a section from a mapping, converting each value to its field's type.

    Keys that the section does not name go to its free mapping: the architecture's configuration checks `fields` of the
    model, and the task's loader `options` of the data.
    """
    known = {field.name for field in section_options(section_class)}
    types_of = typing.get_type_hints(section_class)
    named = {key: convert(value, types_of[key], f"{where}.{key}") for key, value in values.items() if key in known}
    free = "options" if section_class is DataSection else "fields"
    # A data option may be the name of a column, such as 3: the task's loader says what it is.
    read = plain_scalar if free == "fields" else lambda value: value
    named[free] = {key: read(value) for key, value in values.items() if key not in known}
    return section_class(**named)


def section_options(section_class: type) -> list[dataclasses.Field]:
    """The named options of a section, without the mapping that collects free ones."""
    return [field for field in dataclasses.fields(section_class) if field.metadata]


def plain_scalar(value: Any) -> Any:
    """Turn the strings that YAML leaves for numbers such as 1e-3 into numbers; leave everything else alone."""
    if isinstance(value, str) and any(c.isdigit() for c in value):
        with contextlib.suppress(ValueError):
            return float(value)
    return value


_NAMES = {int: "a whole number", float: "a number", str: "a word", bool: "true or false", dict: "a mapping"}


def convert(value: Any, kind: Any, where: str) -> Any:
    """Convert a YAML or command-line value to the type of its field, or raise one sentence naming the field."""
    union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    known = typing.get_args(kind) if union else (kind,)
    if type(None) in known and value in (None, "none", "None", "null"):
        return None
    members = [member for member in known if member is not type(None)]
    # An exact type wins over a converted one, so that `int | str` keeps a string and `float | int` an integer.
    if type(value) in members:
        return value
    for member in members:
        try:
            return _fitted(value, member, where)
        except HfLongSeqError:  # of an item of a list
            if len(members) == 1:
                raise
        except ValueError:
            pass
    literals = {member: typing.get_args(member) for member in members if typing.get_origin(member) is Literal}
    words = [word for literal in literals.values() for word in literal]
    asked = [
        f"one of {', '.join(map(repr, literals[member]))}"
        if member in literals
        else _NAMES.get(member, f"a value of type {member}")
        for member in members
        if member is not int or float not in members  # a whole number is a number, too
    ]
    raise HfLongSeqError(f"{where} is {value!r}{did_you_mean(str(value), words)}: give {' or '.join(asked)}.")


def _fitted(value: Any, kind: Any, where: str) -> Any:
    """The value in a type that is not a union; ValueError if it does not fit."""
    origin = typing.get_origin(kind)
    if origin in (list, tuple):
        inner = (typing.get_args(kind) or (Any,))[0]
        items = value.split(",") if isinstance(value, str) else value if isinstance(value, (list, tuple)) else [value]
        return [convert(plain_scalar(item), inner, where) for item in items]
    value = plain_scalar(value) if kind in (int, float) else value
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind in (float, str) and (number or isinstance(value, kind)):
        return kind(value)
    if kind is bool and value in ("true", "false"):
        return value == "true"
    if kind is int and number and math.isfinite(value) and int(value) == value:
        return int(value)
    if kind in _NAMES or (origin is Literal and value not in typing.get_args(kind)):
        raise ValueError
    return value
