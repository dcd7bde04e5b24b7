# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`SPTTrainer`: self-pretraining of a model on the inputs of any data set."""

from hf_longseq.data.collators import DataCollatorForMaskedDenoising, MaskEpochCallback
from hf_longseq.data.task import TaskSpec
from hf_longseq.errors import HfLongSeqError
from hf_longseq.models.configuration_longseq import LongSeqConfig
from hf_longseq.training.architectures import is_hf
from hf_longseq.training.build import check_both_directions, denoising_parts, num_levels, pretraining_class
from hf_longseq.training.heads import with_head
from hf_longseq.training.spt_config import SPTConfig
from hf_longseq.training.trainer import LongSeqTrainer


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

    arguments_class, labelled = SPTConfig, False

    def __init__(self, model=None, args: SPTConfig | None = None, *positional, **kwargs):
        if args is not None and not isinstance(args, SPTConfig):
            raise HfLongSeqError(
                f"args is {type(args).__name__}: give an SPTConfig, which has the same fields and more."
            )
        super().__init__(model, args, *positional, **kwargs)
        if isinstance(self.data_collator, DataCollatorForMaskedDenoising):
            self.add_callback(MaskEpochCallback(self.data_collator))

    def parts(self, model, args: SPTConfig, rows, spec: TaskSpec) -> tuple:
        if isinstance(model, str) and is_hf(model):
            check_both_directions(args, False, model)
        in_place = args.objective == "masked" or args.both_directions  # outputs stand where their labels do
        fields = {"pretraining_objective": "masked" if in_place else "causal", "num_levels": num_levels(args, spec)}
        model, spec = with_head(model, pretraining_class(args, spec), spec, fields)
        if args.both_directions:
            own = isinstance(model.config, LongSeqConfig) and model.config.bidirectional
            check_both_directions(args, own, type(model).__name__)
        elif args.objective == "causal" and getattr(model.config, "bidirectional", False):
            raise HfLongSeqError(
                f"objective is 'causal', but {type(model).__name__} is bidirectional and sees what it would predict: "
                "set bidirectional=False, both_directions=True, or take the masked objective."
            )
        return model, *denoising_parts(args, spec, args.seed)
