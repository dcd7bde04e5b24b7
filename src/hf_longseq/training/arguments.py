# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The sections of a run as dataclasses, and the conversion of YAML and command-line values into their types.

The same conversion serves recipes, the command line and Python dictionaries, so that `1e-3`, which YAML reads as a
string, and `1`, given where a float is meant, work everywhere. Nothing here imports torch or transformers.
"""

import dataclasses
import math
import types
import typing
from dataclasses import dataclass, field
from typing import Any, Literal

from hf_longseq.errors import HfLongSeqError, did_you_mean
from hf_longseq.training.trainer_fields import check_trainer_field


def check_seed(seed: int) -> None:
    """Raise for what no random generator takes, before anything is written."""
    if not 0 <= seed < 2**32:
        raise HfLongSeqError(f"seed is {seed}: give a whole number from 0 to {2**32 - 1}.")


def option(default: Any, help: str):
    """A dataclass field with the one line that `--help` shows for it."""
    if isinstance(default, (dict, list)):
        return field(default_factory=lambda: type(default)(default), metadata={"help": help})
    return field(default=default, metadata={"help": help})


SCHEDULE = Literal[
    "cosine", "linear", "constant", "constant_with_warmup", "inverse_sqrt", "polynomial", "cosine_with_restarts",
    "cosine_with_min_lr", "warmup_stable_decay",
]  # fmt: skip


@dataclass
class ModelSection:
    """The architecture and those fields of its configuration that differ from their defaults."""

    arch: str = option("s4", "architecture: s4, dlr, transformer, or any other registered one")
    init_normal: float | None = option(
        None, "redraw every parameter of a fresh model from N(0, this deviation): the random-init ablation"
    )
    fields: dict = option({}, "fields of the architecture's configuration class")

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
    options: dict = option({}, "options of the task's loader")

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


@dataclass
class PhaseSection:
    """What pretraining and fine-tuning have in common: budget, optimiser, schedule, evaluation, hardware.

    The fields are those of transformers' `TrainingArguments`, of which `trainer` holds any others, and two more:
    `global_batch_size`, from which accumulation follows for any number of processes, and `ssm_learning_rate`.
    """

    max_steps: int | None = option(None, "optimiser steps; wins over num_train_epochs")
    num_train_epochs: float = option(10.0, "passes over the training examples")
    learning_rate: float = option(1e-3, "peak learning rate of AdamW")
    ssm_learning_rate: float | None = option(None, "learning rate of A, B, dt, Lambda, W (default: learning_rate)")
    weight_decay: float = option(0.05, "weight decay; never applied to state-space parameters, biases and norms")
    adam_beta2: float = option(0.999, "second beta of AdamW")
    global_batch_size: int = option(32, "examples per optimiser step over all processes")
    per_device_train_batch_size: int | None = option(
        None, "examples per forward pass on a device (default: as many as there are)"
    )
    per_device_eval_batch_size: int | None = option(None, "examples per evaluation batch (default: as in training)")
    warmup_steps: float = option(0.1, "linear warm-up: steps, or a share of all steps if below 1")
    lr_scheduler_type: SCHEDULE = option("cosine", "learning rate after the warm-up")
    max_grad_norm: float = option(1.0, "gradient clipping; 0 switches it off")
    eval_steps: int | None = option(None, "steps between evaluations (default: a tenth of the run)")
    bf16: bool = option(False, "autocast to bfloat16, with float32 weights")
    gradient_checkpointing: bool = option(False, "recompute activations in the backward pass to save memory")
    dataloader_num_workers: int = option(0, "processes that prepare batches")
    report_to: Literal["none", "tensorboard", "trackio", "wandb"] = option(
        "none", "tracker that is told losses and metrics"
    )
    train_sampling_strategy: Literal["random", "group_by_length"] = option(
        "random", "group_by_length: batches of examples of similar length, with little padding"
    )
    trainer: dict = option({}, "other fields of transformers' TrainingArguments")

    section = "phase"
    fewest_steps = 1

    def __post_init__(self):
        sizes = ("global_batch_size", "per_device_train_batch_size", "per_device_eval_batch_size")
        for name in ("eval_steps", *sizes):
            require(self, self.section, name, 1)
        require(self, self.section, "max_steps", self.fewest_steps)
        for name in (
            "learning_rate",
            "ssm_learning_rate",
            "weight_decay",
            "warmup_steps",
            "max_grad_norm",
            "dataloader_num_workers",
        ):
            require(self, self.section, name, 0)
        if not self.num_train_epochs > 0:
            raise HfLongSeqError(
                f"{self.section}.num_train_epochs is {self.num_train_epochs}: give a number above 0, or max_steps."
            )
        micro = self.per_device_train_batch_size
        if micro and self.global_batch_size % micro:
            raise HfLongSeqError(
                f"{self.section}.global_batch_size={self.global_batch_size} is no multiple of "
                f"per_device_train_batch_size={micro}: change one of them."
            )

    def settings(self) -> dict[str, Any]:
        """All values under the names that they have in a recipe."""
        plain = dict(vars(self))
        return plain | plain.pop("trainer")

    def steps(self, num_examples: int) -> int:
        """Optimiser steps of this phase on `num_examples` training examples."""
        if self.max_steps is not None:
            return self.max_steps
        return max(1, math.ceil(math.ceil(num_examples / self.global_batch_size) * self.num_train_epochs))


@dataclass
class Denoising:
    """What pretraining has besides, in a recipe and in an `SPTConfig`."""

    objective: Literal["masked", "causal"] = option("masked", "restore masked positions, or predict the next one")
    both_directions: bool = option(False, "causal: predict the next step and, at every second batch, the previous one")
    mask_ratio: float | None = option(None, "share of positions masked (default: the task's)")
    span_length: int = option(1, "masked positions come in runs of this length")
    num_levels: int | None = option(None, "levels for cross-entropy on values, 0 for L1 (default: the task's)")

    def check_denoising(self, where: str) -> None:
        """Raise for what cannot be; `where` is what messages call the section."""
        require(self, where, "span_length", 1)
        if self.both_directions and self.objective != "causal":
            raise HfLongSeqError(
                f"{where}.both_directions is true, but {where}.objective is {self.objective!r}: only causal "
                "pretraining has directions, so set the objective to 'causal' or leave both_directions out."
            )
        if self.mask_ratio is not None and not 0 < self.mask_ratio < 1:
            raise HfLongSeqError(
                f"{where}.mask_ratio is {self.mask_ratio}: give a number between 0 and 1, both excluded, for example "
                "0.15, for without masking there is nothing to learn from."
            )
        if self.num_levels is not None and (self.num_levels < 0 or self.num_levels == 1):
            raise HfLongSeqError(f"{where}.num_levels is {self.num_levels}: give 0 (L1 loss) or at least 2 levels.")


@dataclass
class PretrainSection(Denoising, PhaseSection):
    """Denoising of the task's own inputs."""

    section = "pretrain"
    fewest_steps = 0  # the control that leaves the weights as they are

    def __post_init__(self):
        super().__post_init__()
        self.check_denoising(self.section)


@dataclass
class FinetuneSection(PhaseSection):
    """Supervised training, after pretraining or from scratch."""

    section = "finetune"


def require(section: Any, where: str, name: str, minimum: float) -> None:
    """Raise when the number in `name` is below `minimum` (None passes)."""
    value = getattr(section, name)
    if value is not None and not value >= minimum:
        raise HfLongSeqError(f"{where}.{name} is {value}: give a number of at least {minimum}.")


SECTIONS: dict[str, type] = {
    "model": ModelSection,
    "data": DataSection,
    "pretrain": PretrainSection,
    "finetune": FinetuneSection,
    "scratch": FinetuneSection,
}


def section_options(section_class: type) -> list[dataclasses.Field]:
    """The named options of a section, without the mapping that collects free ones."""
    return [f for f in dataclasses.fields(section_class) if f.name not in ("fields", "options", "trainer")]


def build_section(section_class: type, values: dict[str, Any], where: str):
    """Make a section from a mapping, converting each value to its field's type.

    Keys that the section does not name go to its free mapping: `fields` of the model and `options` of the data, which
    the architecture's configuration and the task's loader check, and `trainer` of a phase, checked here.
    """
    known = {f.name: f for f in section_options(section_class)}
    free = {f.name for f in dataclasses.fields(section_class)} - set(known)
    types_of = typing.get_type_hints(section_class)
    arguments: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for key, value in values.items():
        if key in known:
            arguments[key] = convert(value, types_of[key], f"{where}.{key}")
        elif "trainer" in free:
            rest[key] = check_trainer_field(key, value, where, known)
        else:
            # A data option may be the name of a column, such as 3: the task's loader says what it is.
            rest[key] = value if "options" in free else plain_scalar(value)
    return section_class(**arguments, **{free.pop(): rest})


def plain_scalar(value: Any) -> Any:
    """Turn the strings that YAML leaves for numbers such as 1e-3 into numbers; leave everything else alone."""
    if isinstance(value, str):
        try:
            return float(value) if any(c.isdigit() for c in value) else value
        except ValueError:
            return value
    return value


_NAMES = {int: "a whole number", float: "a number", str: "a word", bool: "true or false", dict: "a mapping"}


def convert(value: Any, kind: Any, where: str) -> Any:
    """Convert a YAML or command-line value to the type of its field, or raise one sentence naming the field."""
    union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    members = typing.get_args(kind) if union else (kind,)
    if type(None) in members and value in (None, "none", "None", "null"):
        return None
    members = [member for member in members if member is not type(None)]
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
    """The value in a type that is no union; ValueError if it does not fit."""
    origin = typing.get_origin(kind)
    if origin in (list, tuple):
        inner = (typing.get_args(kind) or (Any,))[0]
        items = value.split(",") if isinstance(value, str) else value if isinstance(value, (list, tuple)) else [value]
        return [convert(plain_scalar(item), inner, where) for item in items]
    value = plain_scalar(value) if kind in (int, float) else value
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind in (float, str) and (number or isinstance(value, kind)):
        return kind(value)
    if kind is int and number and math.isfinite(value) and int(value) == value:
        return int(value)
    if kind in _NAMES or (origin is Literal and value not in typing.get_args(kind)):
        raise ValueError
    return value
