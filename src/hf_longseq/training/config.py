# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`SPTConfig` and `FinetuneConfig`: the phases of a recipe, as transformers' `TrainingArguments`.

A recipe may set any field in a phase, on the command line as `--finetune.optim adafactor`. A few are refused: a run
sets them itself to keep comparisons fair or its folder whole.
"""

import contextlib
import dataclasses
import enum
import functools
import math
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import TrainingArguments
from transformers.trainer_utils import SchedulerType

from hf_longseq.errors import HfLongSeqError, did_you_mean, explained
from hf_longseq.metrics import greater_is_better
from hf_longseq.training import distributed
from hf_longseq.training.arguments import convert, option, require
from hf_longseq.training.callbacks import PROJECT
from hf_longseq.training.run_folder import CHECKPOINTS

_HUB = "would upload an unfinished run: publish the finished one (hf-longseq publish)"
_LAUNCH = "is a matter of the launch: see --launch_config"
_RUN = "is set by the run, so that all arms of a comparison see the same examples and loss: leave it out"

# field -> why a recipe cannot set it, and what to do
REFUSED: dict[str, str] = {
    "output_dir": "is the folder of the run: give it as --output_dir",
    "run_name": "is the name of the run's folder: give it as --output_dir",
    **dict.fromkeys(("seed", "data_seed"), "is the seed of the run: give it as --seed"),
    "gradient_accumulation_steps": "follows from global_batch_size and per_device_train_batch_size: set those",
    "resume_from_checkpoint": "is automatic: rerun the command to resume",
    **dict.fromkeys(
        "push_to_hub hub_token hub_private_repo hub_model_id hub_strategy hub_always_push hub_revision".split(), _HUB
    ),
    **dict.fromkeys("fsdp fsdp_config deepspeed parallelism_config accelerator_config local_rank".split(), _LAUNCH),
    **dict.fromkeys(
        "auto_find_batch_size dataloader_drop_last ignore_data_skip label_smoothing_factor "
        "average_tokens_across_devices logging_nan_inf_filter eval_strategy eval_delay save_strategy "
        "save_steps save_total_limit save_only_model load_best_model_at_end metric_for_best_model "
        "greater_is_better enable_jit_checkpoint restore_callback_states_from_checkpoint "
        "remove_unused_columns label_names batch_eval_metrics include_for_metrics eval_do_concat_batches "
        "prediction_loss_only eval_use_gather_object length_column_name do_train do_eval do_predict "
        "disable_tqdm bf16_full_eval fp16_full_eval".split(),
        _RUN,
    ),
}

# Fields that every record of a run states and `--help_all` shows, even at their defaults.
USUAL = (
    "max_steps num_train_epochs learning_rate ssm_learning_rate weight_decay adam_beta2 global_batch_size "
    "per_device_train_batch_size per_device_eval_batch_size warmup_steps lr_scheduler_type max_grad_norm eval_steps "
    "bf16 gradient_checkpointing dataloader_num_workers report_to train_sampling_strategy"
).split()
DENOISING = "objective both_directions mask_ratio span_length num_levels".split()
# What a recipe has unless it says otherwise.
DEFAULTS = {"global_batch_size": 32, "num_train_epochs": 10.0}


@dataclass
class FinetuneConfig(TrainingArguments):
    """`TrainingArguments` with the defaults of recipes; the fields of their `finetune` and `scratch` sections.

    Args:
        learning_rate: Peak rate, 1e-3; with a weight decay of 0.05, a tenth of all steps of warm-up, then a cosine.
        global_batch_size: Examples per optimiser step over all processes, from which the accumulation follows; None
            takes `per_device_train_batch_size` as in transformers.
        ssm_learning_rate: Learning rate of state-space parameters; None takes `learning_rate`.

    Raises:
        HfLongSeqError: For a number out of range.

    Example:

        >>> FinetuneConfig("runs/classifier", global_batch_size=64, max_steps=100).weight_decay
        0.05
    """

    # In transformers these are numbers. None stands for one until `share_batch`, the first thing a trainer calls.
    max_steps: int | None = option(None, "optimiser steps; wins over num_train_epochs")  # type: ignore[assignment]
    learning_rate: float = option(1e-3, "peak learning rate of AdamW")
    ssm_learning_rate: float | None = option(None, "learning rate of A, B, dt, Lambda, W (default: learning_rate)")
    weight_decay: float = option(0.05, "weight decay; never applied to state-space parameters, biases and norms")
    global_batch_size: int | None = option(None, "examples per optimiser step over all processes")
    per_device_train_batch_size: int | None = option(  # type: ignore[assignment]
        None, "examples per forward pass on a device (default: as many as there are)"
    )
    per_device_eval_batch_size: int | None = option(  # type: ignore[assignment]
        None, "examples per evaluation batch (default: as in training)"
    )
    warmup_steps: float = option(0.1, "linear warm-up: steps, or a share of all steps if below 1")
    lr_scheduler_type: SchedulerType | str = option("cosine", "learning rate after the warm-up")
    eval_steps: int | None = option(None, "steps between evaluations (default: a tenth of the run)")
    report_to: Literal["none", "tensorboard", "trackio", "wandb"] = option(
        "none", "tracker that is told losses and metrics"
    )
    train_sampling_strategy: Literal["random", "group_by_length"] = option(
        "random", "group_by_length: batches of examples of similar length, with little padding"
    )
    remove_unused_columns: bool = False

    section = "finetune"
    fewest_steps = 1
    sets_up_device, distributed_state = True, None

    def __post_init__(self):
        sizes = ("global_batch_size", "per_device_train_batch_size", "per_device_eval_batch_size")
        for name in ("eval_steps", *sizes):
            require(self, self.section, name, 1)
        rates = ("learning_rate", "ssm_learning_rate", "weight_decay", "warmup_steps", "max_grad_norm")
        for name in (*rates, "dataloader_num_workers"):
            require(self, self.section, name, 0)
        if self.max_steps != -1:  # no limit, in transformers
            require(self, self.section, "max_steps", self.fewest_steps)
        if not self.num_train_epochs > 0:
            raise HfLongSeqError(
                f"{self.section}.num_train_epochs is {self.num_train_epochs}: give a number above 0, or max_steps."
            )
        micro = self.per_device_train_batch_size
        if micro and self.global_batch_size and self.global_batch_size % micro:
            raise HfLongSeqError(
                f"{self.section}.global_batch_size={self.global_batch_size} is not a multiple of "
                f"per_device_train_batch_size={micro}: change one of them."
            )
        self.use_cpu = self.use_cpu or not torch.accelerator.is_available()  # said openly, or bf16 is refused there
        with explained(f"the {self.section} section does not work", ValueError, TypeError, ImportError):
            super().__post_init__()

    @property
    def examples_per_step(self) -> int:
        """Examples per optimiser step over all processes."""
        return self.global_batch_size or (self.per_device_train_batch_size or 8) * distributed.count()

    @property
    def device(self) -> torch.device:
        return super().device if FinetuneConfig.sets_up_device else torch.device("cpu")

    def steps(self, num_examples: int) -> int:
        """Optimiser steps of this phase on `num_examples` training examples."""
        if self.max_steps is not None and self.max_steps >= 0:
            return self.max_steps
        return max(1, math.ceil(math.ceil(num_examples / self.examples_per_step) * self.num_train_epochs))

    def examples_seen(self, steps: int, num_examples: int) -> int:
        """Examples that `steps` optimiser steps take; an epoch's last step takes what is left."""
        epochs, rest = divmod(steps, math.ceil(num_examples / self.examples_per_step))
        return epochs * num_examples + rest * self.examples_per_step

    def steps_that_see(self, examples: float, num_examples: int) -> int:
        """Optimiser steps that take nearly as many examples, the inverse of `examples_seen`."""
        epochs, rest = divmod(examples, num_examples)
        in_epoch = math.ceil(num_examples / self.examples_per_step)
        return int(epochs) * in_epoch + round(rest / self.examples_per_step)

    def settings(self) -> dict[str, Any]:
        """The usual fields and all that are not at their defaults, as a recipe states them."""
        with settings_alone():
            default = type(self)()
        free = [name for name in phase_fields(PHASES[self.section]) if not name.startswith("activation_checkpointing")]
        names = [name for name in (*USUAL, *DENOISING) if hasattr(self, name)]
        names += [name for name in free if name not in names and getattr(self, name) != getattr(default, name)]
        values = {name: getattr(self, name) for name in names} | {"report_to": next(iter(self.report_to), "none")}
        return {name: value.value if isinstance(value, enum.Enum) else value for name, value in values.items()}

    def share_batch(self) -> None:
        """Set the examples of a forward pass, and the accumulation, that make the `global_batch_size`."""
        if self.global_batch_size is not None:
            number, asked = distributed.count(), self.per_device_train_batch_size
            micro = asked or self.global_batch_size // number
            if not micro or self.global_batch_size % (micro * number):
                raise HfLongSeqError(
                    f"{self.section}.global_batch_size={self.global_batch_size} cannot be shared by {number} processes"
                    f"{f' that take {micro} examples at a time' if asked else ''}: make it a multiple of "
                    f"{number * (asked or 1)}, or change the number of processes."
                )
            self.gradient_accumulation_steps = self.global_batch_size // (micro * number)
            self.per_device_train_batch_size = micro
        self.per_device_train_batch_size = self.per_device_train_batch_size or 8  # as in transformers
        self.per_device_eval_batch_size = self.per_device_eval_batch_size or self.per_device_train_batch_size
        self.max_steps = -1 if self.max_steps is None else self.max_steps

    def of_run(self, folder: Path, *, steps: int, seed: int, metric: str) -> "FinetuneConfig":
        """The arguments of a run into a folder that keeps the best checkpoint by `metric`."""
        every, default = self.eval_steps or max(1, steps // 10), TrainingArguments.logging_steps
        arguments = dataclasses.replace(
            self,
            output_dir=str(folder / CHECKPOINTS),
            run_name=folder.name,
            max_steps=steps,
            seed=seed,
            data_seed=seed,
            eval_strategy="steps",
            eval_steps=every,
            save_strategy="steps",
            save_steps=every,
            save_total_limit=2,
            load_best_model_at_end=True,
            metric_for_best_model=metric,
            greater_is_better=greater_is_better(metric),
            logging_steps=max(1, steps // 100) if self.logging_steps == default else self.logging_steps,
            logging_nan_inf_filter=False,
            batch_eval_metrics=True,
            restore_callback_states_from_checkpoint=True,
            label_names=["labels"],
            dataloader_pin_memory=self.dataloader_pin_memory and torch.cuda.is_available(),
            dataloader_persistent_workers=self.dataloader_num_workers > 0,
            project=PROJECT if self.project == TrainingArguments.project else self.project,
            disable_tqdm=True,
        )
        arguments.share_batch()
        return arguments


@dataclass
class SPTConfig(FinetuneConfig):
    """A `FinetuneConfig` and what self-pretraining adds; the fields of a recipe's `pretrain` section.

    Args:
        objective: "masked" restores masked positions, "causal" predicts the next one.
        both_directions: Causal pretraining of a bidirectional model: forward on the next step at even optimiser steps,
            backward on the previous one at odd steps.
        mask_ratio: Share of positions masked; None takes the task's, or 0.15 for tokens and 0.25 for values.
        span_length: Masked positions come in runs of this length.
        num_levels: Levels of values for cross-entropy, 0 for L1; None takes the task's, or L1.

    Raises:
        HfLongSeqError: For an unknown objective, or a number out of range.

    Example:

        >>> SPTConfig("runs/pretrained", objective="causal", max_steps=100, report_to="none").learning_rate
        0.001
    """

    objective: Literal["masked", "causal"] = option("masked", "restore masked positions, or predict the next one")
    both_directions: bool = option(False, "causal: predict the next step and, at every second batch, the previous one")
    mask_ratio: float | None = option(None, "share of positions masked (default: the task's)")
    span_length: int = option(1, "masked positions come in runs of this length")
    num_levels: int | None = option(None, "levels for cross-entropy on values, 0 for L1 (default: the task's)")

    section = "pretrain"
    fewest_steps = 0  # the control that leaves the weights as they are

    def __post_init__(self):
        super().__post_init__()
        where = self.section
        convert(self.objective, Literal["masked", "causal"], f"{where}.objective")
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


PHASES: dict[str, type] = {
    "pretrain": SPTConfig,
    "finetune": FinetuneConfig,
    "scratch": FinetuneConfig,
}


@functools.cache
def phase_fields(phase: type[FinetuneConfig]) -> dict[str, Any]:
    """Names and types of the fields that a recipe may set, those of this package first."""
    hints, kinds = typing.get_type_hints(phase), {}
    own = [name for name in (*USUAL, *DENOISING) if name in hints]
    every = [field.name for field in dataclasses.fields(phase) if field.init]
    for name in dict.fromkeys((*own, *every)):
        kind = hints[name]
        for member in typing.get_args(kind) or (kind,):
            if isinstance(member, type) and issubclass(member, enum.Enum):
                kind = Literal[tuple(one.value for one in member)]
        if name not in REFUSED:
            kinds[name] = kind
    return kinds


def build_phase(section: str, values: dict[str, Any], base: FinetuneConfig | None = None) -> FinetuneConfig:
    """The settings of a phase from values of YAML or the command line; others are those of `base`, by default those of
    recipes.

    Raises:
        HfLongSeqError: For a field that does not exist, or that a run sets itself.
    """
    known, found = phase_fields(PHASES[section]), {}
    if values.get("num_train_epochs") is not None:  # steps that were settled before would win over them
        values = {"max_steps": None, **values}
    for name, value in values.items():
        if name in REFUSED:
            raise HfLongSeqError(f"{section}.{name} {REFUSED[name]}.")
        if name not in known:
            usual = [name for name in (*USUAL, *DENOISING) if name in known]
            close = did_you_mean(name, usual) or did_you_mean(name, known)
            raise HfLongSeqError(
                f"{section}.{name} is not an option{close}: {section} knows {', '.join(usual)}, and the fields of "
                "transformers' TrainingArguments."
            )
        found[name] = convert(value, known[name], f"{section}.{name}")
    if (found.get("max_steps") or 0) < 0:
        raise HfLongSeqError(f"{section}.max_steps is {found['max_steps']}: give a whole number from 0, or none.")
    if "activation_checkpointing" in known and "gradient_checkpointing" in found:  # the new name of it
        found["activation_checkpointing"] = found.pop("gradient_checkpointing")
    with settings_alone():
        return PHASES[section](**{**DEFAULTS, **found}) if base is None else dataclasses.replace(base, **found)


@contextlib.contextmanager
def settings_alone() -> Iterator[None]:
    """Make `TrainingArguments` without a device: setting one up would end every Trainer that is alive."""
    FinetuneConfig.sets_up_device = False
    try:
        yield
    finally:
        FinetuneConfig.sets_up_device = True
