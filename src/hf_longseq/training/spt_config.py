# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`SPTConfig`: transformers' `TrainingArguments` with the settings of self-pretraining."""

import typing
from dataclasses import dataclass

from transformers import TrainingArguments

from hf_longseq.training.arguments import Denoising, convert


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
