# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`SPTConfig` and `SPTTrainer`: self-pretraining of a model on the inputs of any data set, in transformers' words."""

from dataclasses import dataclass
from typing import Literal, get_args

from transformers import TrainingArguments

from hf_longseq.data.collators import DataCollatorForMaskedDenoising, MaskEpochCallback
from hf_longseq.data.task import TaskSpec
from hf_longseq.errors import HfLongSeqError, did_you_mean
from hf_longseq.training.build import denoising_parts, num_levels, pretraining_class
from hf_longseq.training.heads import with_head
from hf_longseq.training.rows import describe, tokenizer_of
from hf_longseq.training.trainer import LongSeqTrainer

OBJECTIVE = Literal["masked", "causal"]


@dataclass
class SPTConfig(TrainingArguments):
    """`TrainingArguments` and what self-pretraining adds; the fields of a recipe's `pretrain` section.

    The defaults that differ from `TrainingArguments` are those of recipes: a learning rate of 1e-3, a weight decay of
    0.05, a tenth of all steps of warm-up, then a cosine.

    Args:
        objective: "masked" restores masked positions, "causal" predicts the next one.
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

    objective: OBJECTIVE = "masked"
    mask_ratio: float | None = None
    span_length: int = 1
    num_levels: int | None = None
    ssm_learning_rate: float | None = None
    learning_rate: float = 1e-3
    weight_decay: float = 0.05
    warmup_steps: float = 0.1
    lr_scheduler_type: str = "cosine"
    remove_unused_columns: bool = False

    def __post_init__(self):
        super().__post_init__()
        choices = get_args(OBJECTIVE)
        if self.objective not in choices:
            close = did_you_mean(str(self.objective), choices)
            raise HfLongSeqError(f"SPTConfig.objective is {self.objective!r}{close}: choose 'masked' or 'causal'.")
        if self.mask_ratio is not None and not 0 < self.mask_ratio < 1:
            raise HfLongSeqError(
                f"SPTConfig.mask_ratio is {self.mask_ratio}: give a number between 0 and 1, both excluded."
            )
        if self.span_length < 1:
            raise HfLongSeqError(f"SPTConfig.span_length is {self.span_length}: give a number of at least 1.")
        if self.num_levels is not None and (self.num_levels < 0 or self.num_levels == 1):
            raise HfLongSeqError(f"SPTConfig.num_levels is {self.num_levels}: give 0 (L1 loss) or at least 2 levels.")


class SPTTrainer(LongSeqTrainer):
    """Trains a model to restore, or to predict, its own inputs. Labels of the rows are never read.

    It picks the pretraining head (`...ForMaskedLM`, `...ForCausalLM`, `...ForPreTraining`), the collator with fresh
    masks for training and fixed ones for evaluation, and the metrics (accuracy, or mean absolute error, of the scored
    positions).

    Args:
        model: A model, a configuration, the name of an architecture ("s4", "hf:modernbert"), a folder, or a repository
            on the Hub, see `heads.py`. Another head is replaced, around the same trunk.
        args: An `SPTConfig`.
        train_dataset, eval_dataset: Rows with `input_ids`, `input_values` or `text`; any `datasets.Dataset`.
        processing_class, spec, **kwargs: As for `LongSeqTrainer`.

    Raises:
        HfLongSeqError: If the rows hold no inputs, or the model cannot read or pretrain on them.

    Example:

        >>> from datasets import Dataset
        >>> from hf_longseq import S4Config, SPTConfig, SPTTrainer
        >>> rows = Dataset.from_dict({"text": ["the same eleven words again and again"] * 16})
        >>> trainer = SPTTrainer(
        ...     model=S4Config(hidden_size=16, num_hidden_layers=1, state_size=8, bidirectional=True),
        ...     args=SPTConfig("runs/pretrained", mask_ratio=0.3, max_steps=2, report_to="none"),
        ...     train_dataset=rows,
        ...     eval_dataset=rows,
        ... )
        >>> type(trainer.model).__name__
        'S4ForMaskedLM'
        >>> "eval_masked_accuracy" in trainer.evaluate()
        True
    """

    @staticmethod
    def default_arguments() -> TrainingArguments:
        return SPTConfig("tmp_trainer")

    def __init__(self, model=None, args: SPTConfig | None = None, *positional, **kwargs):
        if args is not None and not isinstance(args, SPTConfig):
            raise HfLongSeqError(
                f"args is {type(args).__name__}: give an SPTConfig, which has the same fields and more."
            )
        super().__init__(model, args, *positional, **kwargs)
        if isinstance(self.data_collator, DataCollatorForMaskedDenoising):
            self.add_callback(MaskEpochCallback(self.data_collator))

    def parts(self, model, args: SPTConfig, train_rows, eval_rows, processing_class, spec: TaskSpec | None) -> tuple:
        rows = train_rows if train_rows is not None else eval_rows
        spec = spec or describe(rows, tokenizer_of(processing_class))
        fields = {"pretraining_objective": args.objective, "num_levels": num_levels(args, spec)}
        model, spec = with_head(model, pretraining_class(args, spec), spec, fields)
        if args.objective == "causal" and getattr(model.config, "bidirectional", False):
            raise HfLongSeqError(
                f"objective is 'causal', but {type(model).__name__} is bidirectional and sees what it would predict: "
                "set bidirectional=False, or take the masked objective."
            )
        return model, *denoising_parts(args, spec, args.seed)
