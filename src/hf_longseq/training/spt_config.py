# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`SPTConfig`: transformers' `TrainingArguments` with the settings of self-pretraining; and those of a run's phase."""

import typing
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import TrainingArguments

from hf_longseq.errors import HfLongSeqError, explained
from hf_longseq.metrics import greater_is_better
from hf_longseq.training import distributed
from hf_longseq.training.arguments import Denoising, PhaseSection, PretrainSection, convert
from hf_longseq.training.run_folder import CHECKPOINTS
from hf_longseq.training.tracking import PROJECT


@dataclass
class SPTConfig(Denoising, TrainingArguments):
    """`TrainingArguments` and what self-pretraining adds; the fields of a recipe's `pretrain` section.

    The defaults that differ from `TrainingArguments` are those of recipes: a learning rate of 1e-3, a weight decay of
    0.05, a tenth of all steps of warm-up, then a cosine.

    Args:
        objective: "masked" restores masked positions, "causal" predicts the next one.
        both_directions: Causal pretraining of a bidirectional model: forward on the next step at even optimiser steps,
            backward on the previous one at odd steps.
        mask_ratio: Share of positions masked; None takes the task's, or 0.15 for tokens and 0.25 for values.
        span_length: Masked positions come in runs of this length.
        num_levels: Levels of values for cross-entropy, 0 for L1; None takes the task's, or L1.
        ssm_learning_rate: Learning rate of state-space parameters; None takes `learning_rate`.

    Raises:
        HfLongSeqError: For an unknown objective, or a number out of range.

    Example:

        >>> SPTConfig("runs/pretrained", objective="causal", max_steps=100, report_to="none").learning_rate
        0.001
    """

    ssm_learning_rate: float | None = None
    learning_rate: float = 1e-3
    weight_decay: float = 0.05
    warmup_steps: float = 0.1
    lr_scheduler_type: str = "cosine"
    remove_unused_columns: bool = False

    def __post_init__(self):
        super().__post_init__()
        convert(self.objective, typing.get_type_hints(Denoising)["objective"], "SPTConfig.objective")
        self.check_denoising("SPTConfig")


def training_arguments(
    section: PhaseSection, folder: Path, *, steps: int, seed: int, metric: str
) -> TrainingArguments:
    """Arguments of the Trainer; accumulation follows from the global batch size and the number of processes."""
    number, asked = distributed.count(), section.per_device_train_batch_size
    micro = asked or section.global_batch_size // number
    if not micro or section.global_batch_size % (micro * number):
        raise HfLongSeqError(
            f"{section.section}.global_batch_size={section.global_batch_size} cannot be shared by {number} processes"
            f"{f' that take {micro} examples at a time' if asked else ''}: make it a multiple of "
            f"{number * (asked or 1)}, or change the number of processes."
        )
    every = section.eval_steps or max(1, steps // 10)
    settings = section.settings()
    del settings["global_batch_size"], settings["num_train_epochs"]  # in accumulation and in max_steps
    if not isinstance(section, PretrainSection):
        del settings["ssm_learning_rate"]
    if not section.gradient_checkpointing:
        del settings["gradient_checkpointing"]  # about to be renamed in transformers
    settings |= {
        "output_dir": str(folder / CHECKPOINTS),
        "max_steps": steps,
        "per_device_train_batch_size": micro,
        "per_device_eval_batch_size": section.per_device_eval_batch_size or micro,
        "gradient_accumulation_steps": section.global_batch_size // (micro * number),
        "seed": seed,
        "data_seed": seed,
        "eval_strategy": "steps",
        "eval_steps": every,
        "save_strategy": "steps",
        "save_steps": every,
        "save_total_limit": 2,
        "load_best_model_at_end": True,
        "metric_for_best_model": metric,
        "greater_is_better": greater_is_better(metric),
        "logging_nan_inf_filter": False,
        "batch_eval_metrics": True,
        "restore_callback_states_from_checkpoint": True,
        "remove_unused_columns": False,
        "label_names": ["labels"],
        "run_name": folder.name,
        "disable_tqdm": True,
    }
    defaults = {
        "use_cpu": not torch.accelerator.is_available(),  # said openly, or bf16 on a CPU is refused
        "dataloader_persistent_workers": section.dataloader_num_workers > 0,
        "dataloader_pin_memory": torch.cuda.is_available(),
        "logging_steps": max(1, steps // 100),
        "project": PROJECT,
    }
    kind = SPTConfig if isinstance(section, PretrainSection) else TrainingArguments
    with explained(f"the {section.section} section does not work", ValueError, TypeError, ImportError):
        return kind(**{**defaults, **settings})
