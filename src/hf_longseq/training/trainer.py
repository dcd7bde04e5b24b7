# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`LongSeqTrainer` and `SPTTrainer`: transformers' Trainer for long sequences and state-space models.

- the model declares its parameter groups (`model.parameter_groups`);
- evaluation has its own collator, so that validation masks are fixed while training masks are fresh;
- denoising is scored by a few counts per example, never by keeping length x vocabulary logits;
- losses and metrics are exact over a split: sums divided once, no mean of batch means, no example dropped;
- a checkpoint counts only when it is complete, and going on from one gives the weights of the undisturbed run;
- several processes train as one does (`sampling.py`), each with dropout of its own; where parameters are sharded
  (FSDP2), state-space parameters stay in float32.

Axes: B batch, L length, C channels, V vocabulary, Q levels, K labels.
"""

import copy
import functools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Sampler, SequentialSampler
from transformers import PreTrainedModel, Trainer, TrainingArguments
from transformers.trainer import TRAINING_ARGS_NAME
from transformers.trainer_utils import PredictionOutput, has_length, number_of_arguments

from hf_longseq.data.collators import DataCollatorForMaskedDenoising, MaskEpochCallback, in_direction
from hf_longseq.data.processors import task_processor
from hf_longseq.data.task import TaskSpec
from hf_longseq.errors import HfLongSeqError, explained
from hf_longseq.models.configuration_longseq import LongSeqConfig
from hf_longseq.models.longseq_layers import DIRECTIONS
from hf_longseq.training import checkpoints
from hf_longseq.training.assemble import Parts, assemble, pretrains
from hf_longseq.training.callbacks import DropoutOfItsOwn
from hf_longseq.training.config import FinetuneConfig, SPTConfig
from hf_longseq.training.eval_metrics import ClassificationMetrics, SplitMetrics, first_output
from hf_longseq.training.rows import check_classes, default_processor, describe, model_rows, opened
from hf_longseq.training.sampling import (
    FILLER,
    FilledDataset,
    FilledSampler,
    FillerCollator,
    LengthGroupedOrder,
    sequence_lengths,
)
from hf_longseq.training.trainer_card import start_of, trainer_card


class LongSeqTrainer(Trainer):
    """A `Trainer` for classifiers of long sequences; other transformers models work with it too.

    From plain rows it picks the collator, the classification head and the metrics; `data_collator` says that they are
    chosen already.

    Args:
        model: A model, a configuration, the name of an architecture ("s4", "hf:modernbert"), a folder, or a repository
            on the Hub, see `assemble.py`. The trunk of a pretrained model gets a new classifier.
        args: `TrainingArguments`, or a `FinetuneConfig` for the defaults of recipes.
        train_dataset, eval_dataset: Rows with `input_ids`, `input_values` or `text`, and `labels` or `label`.
        processing_class: The tokenizer of texts (default: bytes); saved with the model.
        spec: What `load_task` says of the rows; None finds it out from them.
        init_from: A pretrained checkpoint for the trunk of a `model` that is a name or a configuration.
        peft_config: Adapters to put around the model, as `peft.LoraConfig(...)`.
        **kwargs: As for `Trainer`: `callbacks`, `compute_metrics`, `optimizers`, ...

    Example:

        >>> from datasets import Dataset
        >>> from transformers import TrainingArguments
        >>> rows = Dataset.from_dict({"text": ["good " * 9, "bad " * 9] * 8, "label": [1, 0] * 8})
        >>> arguments = TrainingArguments("runs/classifier", max_steps=2, report_to="none")
        >>> trainer = LongSeqTrainer(model="s4", args=arguments, train_dataset=rows, eval_dataset=rows)
        >>> type(trainer.model).__name__, trainer.model.config.num_labels
        ('S4ForSequenceClassification', 2)
        >>> "eval_accuracy" in trainer.evaluate()
        True
    """

    arguments_class: type[TrainingArguments] = TrainingArguments
    model: PreTrainedModel  # or what has its methods, as models of peft have

    def __init__(
        self,
        model=None,
        args: TrainingArguments | None = None,
        data_collator: Callable | None = None,
        train_dataset=None,
        eval_dataset=None,
        processing_class=None,
        *,
        spec: TaskSpec | None = None,
        init_from: str | os.PathLike | None = None,
        peft_config=None,
        **kwargs,
    ):
        for name, value, kind in (("args", args, self.arguments_class), ("spec", spec, TaskSpec)):
            if not isinstance(value, kind | None):
                raise HfLongSeqError(f"{name} is {type(value).__name__}: {type(self).__name__} takes {kind.__name__}.")
        args = copy.copy(self.arguments_class("tmp_trainer") if args is None else args)
        if args.push_to_hub and args.hub_token and args.hub_strategy != "end":
            raise HfLongSeqError(
                "hub_token would be uploaded, for transformers pickles the arguments into training_args.bin at every "
                "push: log in with `hf auth login` or HF_TOKEN, or give hub_strategy='end'."
            )
        if isinstance(args, FinetuneConfig):
            self._asked_batch = args.per_device_train_batch_size
            args.share_batch()
            args.device  # noqa: B018  settings of a recipe have set up none
        self._read_rows, self.transfer, self.processor = None, None, processing_class
        self._described = None
        self.eval_data_collator = metrics = None
        build = kwargs.get("model_init")
        model = _made(build) if model is None and build and data_collator is None else model
        given = model
        if data_collator is None and model is not None and (train_dataset is not None or eval_dataset is not None):
            train_dataset, eval_dataset = opened(train_dataset), opened(eval_dataset)
            if isinstance(train_dataset, dict):
                raise HfLongSeqError(f"train_dataset is a mapping of {', '.join(train_dataset)}: give one split.")
            own = processing_class or default_processor(eval_dataset if train_dataset is None else train_dataset, spec)
            self._read_rows = functools.partial(model_rows, processing_class=own, described=spec is not None)
            train_dataset, eval_dataset = map(self._read_rows, (train_dataset, eval_dataset))
            rows = eval_dataset if train_dataset is None else train_dataset
            rows = next(iter(rows.values()), None) if isinstance(rows, dict) else rows
            if rows is None:
                raise HfLongSeqError("eval_dataset is an empty mapping: give a split, or splits by their names.")
            stated, spec = spec is not None, spec or describe(rows, own, not pretrains(args), type(model).__name__)
            parts = assemble(model, args, rows, spec, init_from=init_from, trains=train_dataset is not None)
            model, data_collator = parts.model, parts.collator
            self.transfer, self.eval_data_collator = parts.transfer, parts.eval_collator
            self._described = parts.spec, start_of(given, init_from, parts.transfer is not None)
            if processing_class is None:  # beside a model that continues texts, one that does not close them
                self.processor = task_processor(spec, not model.can_generate(), model.config) if stated else own
            if not pretrains(args):
                check_classes(model.config, {"train_dataset": train_dataset, "eval_dataset": eval_dataset})
            args.remove_unused_columns, args.label_names = False, ["labels"]
            _check_wishes(args, model, parts, kwargs)
            if not kwargs.get("compute_metrics"):
                metrics, args.batch_eval_metrics = parts.metrics, True
                stock = type(self).compute_loss is Trainer.compute_loss
                metrics.gives_loss = stock and not kwargs.get("compute_loss_func")
                kwargs |= {"compute_metrics": metrics, "preprocess_logits_for_metrics": metrics.reduce}
            if build:
                kwargs["model_init"] = lambda trial: _finished(
                    assemble(_made(build, trial), args, rows, spec, init_from=init_from).model, peft_config, metrics
                )
        if model is not None and not isinstance(model, torch.nn.Module):
            raise HfLongSeqError(
                f"model is {type(model).__name__}, and rows say which head it gets: give train_dataset or eval_dataset"
                " without a data_collator, or a model."
            )
        model = _finished(model, peft_config, metrics)
        args.data_seed = args.seed if args.data_seed is None else args.data_seed
        # The Trainer switches it off for training.
        self.use_cache = getattr(getattr(model, "config", None), "use_cache", None)
        # Ours depends on seed and epoch alone, and leaves the order of evaluation as it is.
        self.group_by_length = args.train_sampling_strategy == "group_by_length"
        if self.group_by_length:
            args.train_sampling_strategy = "random"
        if metrics and _is_foreign(model):
            # Many heads of transformers ignore num_items_in_batch and get wrong gradients when accumulating.
            kwargs.setdefault("compute_loss_func", functools.partial(metrics.loss, _bare(model).config))
        self._split_metrics = metrics
        model = None if build else model  # the Trainer makes it anew for every training
        super().__init__(model, args, data_collator, train_dataset, eval_dataset, processing_class, **kwargs)
        self._plain_class = type(self.model)
        self.add_callback(checkpoints.OwnBestCheckpoint)
        if self.args.world_size > 1:
            self.add_callback(DropoutOfItsOwn())
        if self.is_fsdp_enabled:
            from torch.distributed.fsdp import MixedPrecisionPolicy

            # accelerate's own policy would round every parameter to bfloat16, time steps and eigenvalues included.
            # Gathered as they are, and computed with under autocast, they are treated as on one device.
            self.accelerator.state.fsdp_plugin.mixed_precision_policy = MixedPrecisionPolicy()
        if isinstance(data_collator, DataCollatorForMaskedDenoising):
            self.add_callback(MaskEpochCallback(data_collator))

    def train(self, resume_from_checkpoint: str | bool | None = None, *args, **kwargs):
        """As in transformers; `resume_from_checkpoint=True` takes the newest checkpoint that is complete."""
        folder = Path(self.args.output_dir or ".")
        if resume_from_checkpoint is True and (found := checkpoints.newest_first(folder)):
            intact = checkpoints.newest_intact(folder)
            if intact is None:
                raise HfLongSeqError(
                    f"{found[0]} is not complete, nor is an older checkpoint beside it: start again without "
                    "resume_from_checkpoint, or give that folder to trust it as it is."
                )
            resume_from_checkpoint = str(intact)
        return super().train(resume_from_checkpoint, *args, **kwargs)

    def _hp_search_setup(self, trial) -> None:
        """As in transformers; the batch is shared anew, and training is masked as the trial says. Masks of evaluation
        stay, so that trials can be compared."""
        before = copy.copy(self.args)
        super()._hp_search_setup(trial)
        if trial is None or not isinstance(self.args, FinetuneConfig):
            return
        for name in ("objective", "both_directions", "num_levels"):
            if getattr(self.args, name, None) != getattr(before, name, None):
                raise HfLongSeqError(f"a trial changes {name}, and the loss that judges it: leave {name} out.")
        if self.args.per_device_train_batch_size == before.per_device_train_batch_size:
            self.args.per_device_train_batch_size = self._asked_batch
        self.args.share_batch()
        for name in {"mask_ratio", "span_length"} & set(vars(self.data_collator)):
            setattr(self.data_collator, name, getattr(self.args, name) or getattr(self.data_collator, name))
        self.create_accelerator_and_postprocess()

    def evaluation_loop(self, *args, **kwargs):
        """As in transformers; batches that an interrupted evaluation left are not counted."""
        if self._split_metrics:
            self._split_metrics.forget()
        return super().evaluation_loop(*args, **kwargs)

    def create_optimizer(self, model=None) -> torch.optim.Optimizer:
        """Build the optimizer that `args.optim` names, from the groups that the model declares (`parameter_groups`).

        Optimizers that choose parameters themselves (Muon, GaLore, LOMO) get the stock Trainer's two groups.
        """
        model = self.model if model is None else model
        if self.optimizer is not None or self.optimizer_cls_and_kwargs or not hasattr(model, "parameter_groups"):
            return super().create_optimizer(model)
        optimizer_class, arguments = self.get_optimizer_cls_and_kwargs(self.args, model)
        is_class = isinstance(optimizer_class, type) and issubclass(optimizer_class, torch.optim.Optimizer)
        if not is_class or {"params", "model", "optimizer_dict"} & set(arguments):
            return super().create_optimizer(model)
        self.optimizer = optimizer_class(self._groups(model), **arguments)
        return self.optimizer

    def _groups(self, model) -> list[dict]:
        return model.parameter_groups(
            learning_rate=self.args.learning_rate,
            weight_decay=self.args.weight_decay,
            ssm_learning_rate=getattr(self.args, "ssm_learning_rate", None),
        )

    def get_decay_parameter_names(self, model) -> list[str]:
        """Names of parameters that get weight decay. Models without groups use transformers' rule, minus `A_log`."""
        if hasattr(model, "parameter_groups"):
            decayed = {id(one) for group in self._groups(model) if group["name"] == "decay" for one in group["params"]}
            return [name for name, tensor in model.named_parameters() if id(tensor) in decayed]
        tensors = dict(model.named_parameters(remove_duplicate=False))
        names = super().get_decay_parameter_names(model)
        return [name for name in names if tensors[name].ndim > 1 and name.rsplit(".", 1)[-1] != "A_log"]

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model=None) -> None:
        """As in transformers, but models of transformers open their weights themselves: some save them under the names
        of old checkpoints, and the stock Trainer skips those."""
        # Our own architectures are saved under the names that they have.
        foreign = isinstance(self.model, PreTrainedModel) and not isinstance(self.model.config, LongSeqConfig)
        if self.is_fsdp_enabled or not foreign:
            return super()._load_from_checkpoint(resume_from_checkpoint, model)
        saved = type(self.model).from_pretrained(
            resume_from_checkpoint, config=self.model.config, dtype=self.model.dtype, use_safetensors=True
        )
        self.model.load_state_dict(saved.state_dict())

    def _load_best_model(self) -> None:
        best = self.state.best_model_checkpoint
        if self.is_fsdp_enabled or best is None:
            return super()._load_best_model()
        self._load_from_checkpoint(best, self.model)

    def _get_train_sampler(self, train_dataset=None) -> Sampler | None:
        seed = self.args.data_seed or 0
        order: Sampler | None = None
        if self.group_by_length:
            batch = self.args.train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size
            order = LengthGroupedOrder(sequence_lengths(self.train_dataset), batch, seed, self.epoch_begun)
        if isinstance(train_dataset, FilledDataset):
            if self.args.train_sampling_strategy == "sequential":
                order = SequentialSampler(train_dataset.dataset)
            return FilledSampler(train_dataset, seed, self.epoch_begun, order)
        return order or super()._get_train_sampler(train_dataset)

    def epoch_begun(self) -> int:
        return int((self.state.epoch or 0) + 1e-6)

    def autocast_smart_context_manager(self, cache_enabled: bool | None = True):
        """Autocast for sharded models; others are wrapped in it by accelerate."""
        if self.is_fsdp_enabled:
            return self.accelerator.autocast()
        return super().autocast_smart_context_manager(cache_enabled)

    def whole_model(self) -> PreTrainedModel:
        """The model with all its weights, to save, in the main process; every process must call it.

        Under FSDP each process holds a shard, in a class of torch's making: gather before saving.
        """
        if not self.is_fsdp_enabled:
            return self.model
        weights = self.accelerator.get_state_dict(self.model_wrapped)
        if not self.is_world_process_zero():
            return self.model
        with torch.device("meta"):
            whole = self._plain_class(self.model.config)
        whole.load_state_dict(weights, assign=True)
        return whole

    def training_step(self, model, inputs, num_items_in_batch=None):
        """As in transformers; where a batch has labels of both directions, even steps look back and odd ones ahead."""
        inputs = in_direction(inputs, "backward" if self.state.global_step % 2 else "forward")
        return super().training_step(model, inputs, num_items_in_batch)

    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        """As in transformers; of labels of both directions, backward predictions follow the forward ones."""
        if "labels_backward" not in inputs:
            return super().prediction_step(model, inputs, prediction_loss_only, ignore_keys)
        ways = [in_direction(inputs, direction) for direction in DIRECTIONS]
        step = super().prediction_step
        loss, logits, labels = zip(*(step(model, one, prediction_loss_only, ignore_keys) for one in ways), strict=True)
        joined = (None, None) if prediction_loss_only else (torch.cat(logits), torch.cat(labels))
        return torch.stack(loss).mean(), *joined

    def _fills(self, dataset) -> bool:
        """Whether rows that do not count make a data set evenly shared; transformers shares out rebalanced batches."""
        rebalanced = self.args.train_sampling_strategy == "batch_rebalance"
        return self.args.world_size > 1 and has_length(dataset) and not rebalanced

    def get_eval_dataloader(self, eval_dataset=None) -> DataLoader:
        """As in transformers, which keeps one loader with persistent workers and gives it for any rows."""
        own = eval_dataset is None or isinstance(eval_dataset, str) or eval_dataset is self.eval_dataset
        return super().get_eval_dataloader(eval_dataset) if own else self.get_test_dataloader(eval_dataset)

    def _get_dataloader(self, dataset, *args, **kwargs) -> DataLoader:
        training_collator = self.data_collator
        if not kwargs.get("is_training"):
            dataset = dataset if self._read_rows is None else self._read_rows(dataset)
            labelled = "labels" in (getattr(dataset, "column_names", None) or ())
            if labelled and self._described and not pretrains(self.args):
                check_classes(self.model.config, {"the data set": dataset})
            self.data_collator = self.eval_data_collator or training_collator
        elif self._fills(dataset):
            dataset = FilledDataset(dataset, self.args.train_batch_size * self.args.world_size)
            self.data_collator = FillerCollator(training_collator)
        try:
            loader = super()._get_dataloader(dataset, *args, **kwargs)
        finally:
            self.data_collator = training_collator
        # Each iterator over a loader draws a seed for its workers. From torch's own generator that would shift the
        # dropout of every later step by the number of iterators made so far, and a resume makes fewer.
        loader.generator = torch.Generator().manual_seed(self.args.seed)
        return loader

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()
        # for the collator to see which rows fill
        columns = dict.fromkeys([*(self._signature_columns or ()), FILLER])
        self._signature_columns = list(columns)  # type: ignore[assignment]  # transformers declares None

    def _run_epoch(self, *args, **kwargs):
        # A run that was killed after its last step has nothing left to train; the stock loop would take one step more.
        if self.state.global_step < self.state.max_steps:
            super()._run_epoch(*args, **kwargs)
        else:  # of a stream it would begin epoch after epoch
            self.control.should_training_stop = True

    def _save_checkpoint(self, model, trial) -> None:
        """Write a checkpoint and seal it; only then delete older ones (`save_total_limit` of them are kept)."""
        folder = Path(self._get_output_dir(trial)) / f"checkpoint-{self.state.global_step}"
        if self.args.should_save:
            shutil.rmtree(folder, ignore_errors=True)  # what a kill left of an earlier attempt
        self.accelerator.wait_for_everyone()
        limit, self.args.save_total_limit = self.args.save_total_limit, None  # the stock deletes before the seal
        try:
            super()._save_checkpoint(model, trial)
            self.accelerator.wait_for_everyone()
            if self.args.should_save:
                checkpoints.seal(folder)
        except Exception:
            shutil.rmtree(folder, ignore_errors=True)  # the disk may be full
            raise
        finally:
            self.args.save_total_limit = limit
        self.accelerator.wait_for_everyone()
        if self.args.should_save and limit:
            checkpoints.discard_superseded(folder.parent, keep=limit)

    def _save(self, output_dir: str | None = None, state_dict=None) -> None:
        # The Trainer would save it as `processing_class`, and write its token ids over those of the rows.
        super()._save(output_dir, state_dict)
        folder = Path(output_dir or self._get_output_dir(None))
        (folder / TRAINING_ARGS_NAME).unlink(missing_ok=True)  # a pickle
        if self.processor is not None:
            self.processor.save_pretrained(folder)

    def create_model_card(
        self, language=None, license=None, tags=None, model_name=None, finetuned_from=None, tasks=None,
        dataset_tags=None, dataset=None, dataset_args=None,
    ) -> None:  # fmt: skip
        """Write `README.md` into the output folder, as `push_to_hub` does: what the model is, how to open it, what it
        started from, data, settings and scores.

        Arguments are those of transformers. It writes the card of adapters, and of models with a `data_collator`.
        """
        stated = {"language": language, "license": license, "tags": tags, "model_name": model_name}
        if self._described is None or hasattr(self.model, "get_base_model"):
            more = {"finetuned_from": finetuned_from, "tasks": tasks, "dataset_tags": dataset_tags}
            return super().create_model_card(**stated, **more, dataset=dataset, dataset_args=dataset_args)
        if self.is_world_process_zero():
            stated |= {"base_model": finetuned_from, "pipeline_tag": tasks, "datasets": dataset_tags or dataset}
            folder = Path(self._get_output_dir(None))
            trainer_card(self, folder, *self._described, stated).save(folder / "README.md")

    def predict(self, *args, **kwargs) -> PredictionOutput:
        """As in transformers: `predictions` of a classifier are its logits, (B, K) or (B, L, K), whether the rows have
        labels or not. Those of a denoiser are its counts."""
        metrics, reduce = self.compute_metrics, self.preprocess_logits_for_metrics
        if isinstance(metrics, ClassificationMetrics):
            self.preprocess_logits_for_metrics = lambda logits, labels: first_output(logits)
            self.compute_metrics = metrics.of_logits
        try:
            return super().predict(*args, **kwargs)
        finally:
            self.compute_metrics, self.preprocess_logits_for_metrics = metrics, reduce


class SPTTrainer(LongSeqTrainer):
    """Trains a model to restore, or to predict, its own inputs. Labels of the rows are never read.

    It picks the pretraining head (`...ForMaskedLM`, `...ForCausalLM`, `...ForPreTraining`), the collator with fresh
    masks for training and fixed ones for evaluation, and the metrics (accuracy, or mean absolute error, of the scored
    positions).

    Args:
        model: As for `LongSeqTrainer`; another head is replaced, around the same trunk.
        args: An `SPTConfig`.
        train_dataset, eval_dataset: Rows with `input_ids`, `input_values` or `text`.
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

    arguments_class = SPTConfig


def _made(build: Callable, trial=None) -> Any:
    """The model of a `model_init`; some take the trial of a search."""
    return build(trial) if number_of_arguments(build) else build()


def _finished(model: Any, peft_config, metrics: SplitMetrics | None) -> Any:
    """The model with its adapters, and with what the Trainer asks a model whose loss is that of `metrics`."""
    if model is not None and peft_config is not None:
        from peft import get_peft_model

        with explained("peft_config does not fit the model", ValueError, AttributeError, TypeError):
            model = get_peft_model(model, peft_config)
    if metrics and _is_foreign(model):
        bare = _bare(model)
        bare.accepts_loss_kwargs = False
        # how the Trainer counts labels; not every class name tells it
        bare.loss_type = "ForCausalLM" if getattr(metrics, "causal", False) else None
    return model


def _bare(model: Any) -> Any:
    """The model without adapters."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _is_foreign(model: Any) -> bool:
    """Whether a model, with adapters or without, is one of transformers that counts no items of a batch as ours do."""
    return isinstance(_bare(model), PreTrainedModel) and not hasattr(_bare(model), "parameter_groups")


def _check_wishes(args: TrainingArguments, model: Any, parts: Parts, given: dict[str, Any]) -> None:
    """Raise where transformers would smooth the labels of the wrong positions, or none, or numbers, and where outputs
    would be prepared for metrics that are not given."""
    smooths = parts.of_classes and not getattr(parts.metrics, "causal", False) and not _is_foreign(model)
    if args.label_smoothing_factor and not smooths:
        raise HfLongSeqError(
            f"label_smoothing_factor is {args.label_smoothing_factor:g}, which targets other than one class, causal "
            "objectives and models of transformers do not take here: leave it at 0."
        )
    if given.get("preprocess_logits_for_metrics") and not given.get("compute_metrics"):
        raise HfLongSeqError(
            "preprocess_logits_for_metrics has no compute_metrics to prepare for: give both, or neither."
        )
