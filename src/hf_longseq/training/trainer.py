# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`LongSeqTrainer`: transformers' Trainer with what long sequences and state-space models need, and nothing else.

- the model declares its parameter groups (`model.parameter_groups`), the trainer uses and prints them;
- evaluation has its own collator, so that validation masks are fixed while training masks are fresh;
- denoising is scored by a few counts per example, never by keeping length x vocabulary logits;
- losses and metrics are exact over a split: sums divided once, no mean of batch means, no example dropped;
- a checkpoint counts only when it is complete, and going on from one gives the weights of the undisturbed run.

Axes: B batch, L length, C channels, V vocabulary, Q levels, K labels.
"""

import functools
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F
from transformers import PreTrainedModel, TrainerCallback
from transformers.trainer import TRAINING_ARGS_NAME
from transformers.trainer_callback import ExportableState
from transformers.trainer_utils import EvalPrediction
from transformers.utils import logging

from hf_longseq.errors import HfLongSeqError
from hf_longseq.metrics import load_metric
from hf_longseq.models.configuration_longseq import LongSeqConfig
from hf_longseq.models.longseq_losses import classification_loss, cross_entropy_loss, next_token_loss
from hf_longseq.training import checkpoints
from hf_longseq.training.length_grouping import LengthGroupedOrder, sequence_lengths
from hf_longseq.training.sharding import FilledSampler, ShardedTrainer

logger = logging.get_logger(__name__)


class LongSeqTrainer(ShardedTrainer):
    """A `Trainer` for the models of this package; other transformers models work with it too.

    Args:
        ssm_learning_rate: Learning rate of the parameters that a model declares as state-space ones; None gives them
            the same as the rest.
        eval_data_collator: Collator of evaluation and prediction; None uses `data_collator` there too.
        eval_metrics: A `DenoisingMetrics` or `ClassificationMetrics`; None reports the loss alone.
        group_by_length: Train on batches of examples of similar length.
        **kwargs: As for `Trainer`.
    """

    def __init__(
        self,
        *args,
        ssm_learning_rate: float | None = None,
        eval_data_collator: Callable | None = None,
        eval_metrics: "DenoisingMetrics | ClassificationMetrics | None" = None,
        group_by_length: bool = False,
        **kwargs,
    ):
        model = args[0] if args else kwargs.get("model")
        if isinstance(model, PreTrainedModel) and not hasattr(model, "parameter_groups") and eval_metrics:
            # Many heads of transformers ignore num_items_in_batch and get wrong gradients when accumulating.
            kwargs.setdefault("compute_loss_func", functools.partial(eval_metrics.loss, model.config))
            model.accepts_loss_kwargs = False
            # how the Trainer counts labels; not every class name tells it
            model.loss_type = "ForCausalLM" if getattr(eval_metrics, "causal", False) else None
        super().__init__(
            *args,
            compute_metrics=eval_metrics,
            preprocess_logits_for_metrics=eval_metrics.reduce if eval_metrics else None,
            **kwargs,
        )
        self.ssm_learning_rate = ssm_learning_rate
        self.eval_data_collator = eval_data_collator
        self.group_by_length = group_by_length
        self.add_callback(checkpoints.OwnBestCheckpoint)

    def create_optimizer(self, model=None) -> torch.optim.Optimizer:
        """Build AdamW from the groups that the model declares; see `parameter_groups` of the models."""
        model = self.model if model is None else model
        if self.optimizer is None and hasattr(model, "parameter_groups"):
            groups = model.parameter_groups(
                learning_rate=self.args.learning_rate,
                weight_decay=self.args.weight_decay,
                ssm_learning_rate=self.ssm_learning_rate,
            )
            groups = [group for group in groups if group["params"]]
            logger.info(f"Parameter groups of the optimizer:\n{parameter_group_table(groups)}")
            optimizer_class, arguments = self.get_optimizer_cls_and_kwargs(self.args, model)
            self.optimizer = optimizer_class(groups, **arguments)
            return self.optimizer
        return super().create_optimizer(model)

    def get_decay_parameter_names(self, model) -> list[str]:
        """Of models without groups of their own: no biases and norms, as in transformers, and no state-space ones."""
        tensors = dict(model.named_parameters(remove_duplicate=False))
        names = super().get_decay_parameter_names(model)
        return [name for name in names if tensors[name].ndim > 1 and name.rsplit(".", 1)[-1] != "A_log"]

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model=None) -> None:
        if self._loads_by_name():
            return super()._load_from_checkpoint(resume_from_checkpoint, model)
        self._load_by_model(resume_from_checkpoint)

    def _load_best_model(self) -> None:
        if self._loads_by_name():
            return super()._load_best_model()
        self._load_by_model(self.state.best_model_checkpoint)

    def _loads_by_name(self) -> bool:
        # our own architectures are saved under the names that they have
        foreign = isinstance(self.model, PreTrainedModel) and not isinstance(self.model.config, LongSeqConfig)
        return self.is_fsdp_enabled or not foreign

    def _load_by_model(self, checkpoint: str) -> None:
        """Load the weights of an architecture of transformers, some of which are saved under the names of old
        checkpoints: the stock Trainer leaves out what it does not find, and goes on with whatever was there."""
        saved = type(self.model).from_pretrained(checkpoint, config=self.model.config, dtype=self.model.dtype)
        self.model.load_state_dict(saved.state_dict())

    def _get_train_sampler(self, train_dataset=None):
        sampler = super()._get_train_sampler(train_dataset)
        if not self.group_by_length:
            return sampler
        filled = isinstance(sampler, FilledSampler)
        order = LengthGroupedOrder(
            sequence_lengths(self.train_dataset.dataset if filled else self.train_dataset),
            self.args.train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size,
            self.args.data_seed,
            # A whole number up to rounding, for an epoch begins.
            lambda: int((self.state.epoch or 0) + 1e-6),
        )
        if not filled:
            return order
        sampler.order = order
        return sampler

    def get_eval_dataloader(self, eval_dataset=None):
        return self._with_eval_collator(super().get_eval_dataloader, eval_dataset)

    def get_test_dataloader(self, test_dataset):
        return self._with_eval_collator(super().get_test_dataloader, test_dataset)

    def _get_dataloader(self, *args, **kwargs):
        # Each iterator over a loader draws a seed for its workers. From torch's own generator that would shift the
        # dropout of every later step, by as many draws as iterators were made, which a resume changes.
        loader = super()._get_dataloader(*args, **kwargs)
        loader.generator = torch.Generator().manual_seed(self.args.seed)
        return loader

    def _run_epoch(self, *args, **kwargs):
        # A run that was killed after its last step has nothing left to train; the stock loop would take one step more.
        if self.state.global_step < self.state.max_steps:
            super()._run_epoch(*args, **kwargs)

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
                # A pickle, which nothing here opens.
                (folder / TRAINING_ARGS_NAME).unlink(missing_ok=True)
                checkpoints.seal(folder)
        except Exception as error:
            if not checkpoints.is_writing_error(error):
                raise
            raise HfLongSeqError(self._unwritten(folder, error)) from error
        finally:
            self.args.save_total_limit = limit
        self.accelerator.wait_for_everyone()
        if self.args.should_save and limit:
            checkpoints.discard_superseded(folder.parent, keep=limit)

    def _unwritten(self, folder: Path, error: Exception) -> str:
        shutil.rmtree(folder, ignore_errors=True)
        kept = checkpoints.newest_intact(folder.parent)
        reason = checkpoints.writing_error(error, folder)
        return (
            f"{folder.name} could not be written to {folder.parent} ({reason}): make room there and give the same "
            f"command again, which goes on from {kept.name if kept else 'the start'}."
        )

    def _with_eval_collator(self, make_dataloader: Callable, dataset):
        training_collator = self.data_collator
        self.data_collator = self.eval_data_collator or training_collator
        try:
            return make_dataloader(dataset)
        finally:
            self.data_collator = training_collator

    def evaluation_loop(self, *args, metric_key_prefix: str = "eval", **kwargs):
        output = super().evaluation_loop(*args, metric_key_prefix=metric_key_prefix, **kwargs)
        # The stock loss is a mean of batch means; ours is the sum over the split divided once.
        exact = output.metrics.pop(f"{metric_key_prefix}_exact_loss", None)
        if exact is not None:
            output.metrics[f"{metric_key_prefix}_loss"] = exact
        return output


def parameter_group_table(groups: list[dict]) -> str:
    """Return the optimiser's groups as text: name, tensors, numbers, learning rate, weight decay."""
    lines = [f"{'group':<10}{'tensors':>8}{'parameters':>12}{'lr':>11}{'decay':>8}"]
    for group in groups:
        # a model that declares no groups has the two of the stock Trainer
        name = group.get("name", "decay" if group["weight_decay"] else "no_decay")
        numbers = sum(parameter.numel() for parameter in group["params"])
        lines.append(
            f"{name:<10}{len(group['params']):>8}{numbers:>12,}"
            f"{group.get('initial_lr', group['lr']):>11.2e}{group['weight_decay']:>8.3g}"
        )
    return "\n".join(lines)


class DenoisingMetrics:
    """Loss and accuracy (or mean absolute error) over the scored positions of a split, from counts per example.

    Use with `batch_eval_metrics=True`: `reduce` turns logits into three numbers per example before anything is
    gathered, and calling the object adds a batch or, with `compute_result`, gives the result.

    Args:
        causal: The output at t is compared with the label at t + 1.
        documents: Rows per example: 2 where a pair of documents became two rows of the batch.
    """

    def __init__(self, causal: bool = False, documents: int = 1):
        self.causal = causal
        self.documents = documents
        self._metrics = {name: load_metric(name) for name in ("masked_accuracy", "masked_mae")}
        self._batches: list[np.ndarray] = []
        self._continuous = False

    def loss(self, config, outputs, labels: torch.Tensor, num_items_in_batch=None) -> torch.Tensor:
        """The loss of a language model of transformers, from its logits."""
        score = next_token_loss if self.causal else cross_entropy_loss
        return score(outputs.logits, labels, num_items_in_batch)

    def reduce(self, logits, labels: torch.Tensor) -> torch.Tensor:
        """Counts (B, 3) in float64: entries scored, those restored exactly, and the sum of their losses."""
        logits = logits[0] if isinstance(logits, (tuple, list)) else logits
        self._continuous = labels.is_floating_point()
        if not self._continuous:
            labels = labels.reshape(logits.shape[:-1])
        else:
            labels = labels.reshape(logits.shape)
        if self.causal:
            logits, labels = logits[:, :-1], labels[:, 1:]
        scored = labels != -100
        if self._continuous:
            right = torch.zeros_like(scored)
            loss = (logits.float() - labels).abs()
        else:
            right = logits.argmax(-1) == labels
            # One example at a time: the float32 copy of the logits is the largest tensor of an evaluation.
            loss = torch.stack([_cross_entropy(one, target) for one, target in zip(logits, labels, strict=True)])
        entries = [scored, right & scored, loss.masked_fill(~scored, 0)]
        counts = torch.stack([entry.flatten(1).sum(1, dtype=torch.float64) for entry in entries], dim=1)
        # Both documents of a pair are one example: what is gathered must have one row per example.
        return counts.unflatten(0, (self.documents, -1)).sum(0)

    def __call__(self, prediction: EvalPrediction, compute_result: bool = True) -> dict[str, float]:
        counts = prediction.predictions
        self._batches.append(counts.cpu().numpy() if torch.is_tensor(counts) else np.asarray(counts))
        if not compute_result:
            return {}
        counts, self._batches = np.concatenate(self._batches), []
        scored = counts[:, 0].astype(np.int64)
        loss = float(counts[:, 2].sum() / max(scored.sum(), 1))
        if self._continuous:
            metric = self._metrics["masked_mae"].compute(predictions=counts[:, 2], references=scored)
        else:
            metric = self._metrics["masked_accuracy"].compute(
                predictions=counts[:, 1].astype(np.int64), references=scored
            )
        return {**metric, "exact_loss": loss, "scored_positions": int(scored.sum())}


def _cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    flat = F.cross_entropy(logits.float().flatten(0, -2), labels.flatten(), ignore_index=-100, reduction="none")
    return flat.view(labels.shape)


class ClassificationMetrics:
    """Loss and the task's metrics over a whole split, from its K logits per example.

    Args:
        problem_type: "single_label_classification", "multi_label_classification" or "regression".
        metrics: Names of shipped metrics; None takes those that fit the problem.
        label_scale: Deviation of each target that a regression was standardised by: the loss is that of training,
            the metrics are in the targets' units.
    """

    FITTING = {
        "single_label_classification": ("accuracy",),
        "multi_label_classification": ("f1",),
        "regression": ("rmse", "mae", "r2"),
    }

    def __init__(
        self, problem_type: str, metrics: tuple[str, ...] | None = None, label_scale: list[float] | None = None
    ):
        self.problem_type = problem_type
        self._label_scale = torch.tensor(label_scale or [1.0], dtype=torch.float64)
        self._metrics = [load_metric(name) for name in metrics or self.FITTING[problem_type]]
        self._logits: list[np.ndarray] = []
        self._labels: list[np.ndarray] = []

    def loss(self, config, outputs, labels: torch.Tensor, num_items_in_batch=None) -> torch.Tensor:
        """The loss of a classifier of transformers, from its logits."""
        return classification_loss(outputs.logits, labels, config, num_items_in_batch)

    def reduce(self, logits, labels: torch.Tensor) -> torch.Tensor:
        """The logits (B, K) alone, in float32."""
        return (logits[0] if isinstance(logits, (tuple, list)) else logits).float()

    def __call__(self, prediction: EvalPrediction, compute_result: bool = True) -> dict[str, float]:
        self._logits.append(_to_numpy(prediction.predictions))
        self._labels.append(_to_numpy(prediction.label_ids))
        if not compute_result:
            return {}
        logits, labels = np.concatenate(self._logits), np.concatenate(self._labels)
        self._logits, self._labels = [], []
        decided, loss = decide(logits, self.problem_type), self._loss(logits, labels)
        if self.problem_type == "regression":
            decided, labels = decided.reshape(-1), labels.reshape(-1)
        result = {"exact_loss": loss}
        for metric in self._metrics:
            result |= metric.compute(predictions=decided, references=labels.astype(decided.dtype))
        return result

    def _loss(self, logits: np.ndarray, labels: np.ndarray) -> float:
        outputs = torch.from_numpy(logits).double()
        targets = torch.from_numpy(labels)
        if self.problem_type == "single_label_classification":
            return float(F.cross_entropy(outputs, targets.long()))
        targets = targets.double().reshape(outputs.shape)
        if self.problem_type == "regression":
            return float(F.mse_loss(outputs / self._label_scale, targets / self._label_scale))
        return float(F.binary_cross_entropy_with_logits(outputs, targets))


def decide(logits: np.ndarray, problem_type: str) -> np.ndarray:
    """Turn logits (B, K) into answers: class ids (B,), 0/1 per label (B, K), or the numbers themselves."""
    if problem_type == "single_label_classification":
        return logits.argmax(-1)
    if problem_type == "multi_label_classification":
        return (logits > 0).astype(np.int64)
    return logits.astype(np.float64)


def _to_numpy(array) -> np.ndarray:
    return array.cpu().numpy() if torch.is_tensor(array) else np.asarray(array)


class WallClock(TrainerCallback, ExportableState):
    """Seconds spent in training, evaluations included, added up over resumes (kept in each checkpoint)."""

    def __init__(self, seconds: float = 0.0):
        self.seconds = seconds
        self._started: float | None = None

    def on_train_begin(self, args, state, control, **kwargs):
        self._started = time.monotonic() - self.seconds

    def on_train_end(self, args, state, control, **kwargs):
        self.seconds = time.monotonic() - self._started
        self._started = None

    def state(self) -> dict:
        now = self.seconds if self._started is None else time.monotonic() - self._started
        return {"args": {"seconds": now}, "attributes": {}}


class ProgressReport(TrainerCallback):
    """Tells a listener how far a run is: `listener(label, step, total, text)` after each step and evaluation.

    Args:
        label: Name of the run in the progress shown.
        listener: Receives the report; `text` is a line for an evaluation, else None.
        metric: The validation metric to show, besides the loss.
    """

    def __init__(self, label: str, listener: Callable, metric: str):
        self.label = label
        self.listener = listener
        self.metric = metric

    def on_train_begin(self, args, state, control, model=None, optimizer=None, **kwargs):
        if state.is_world_process_zero:
            size = f"{model.num_parameters():,} parameters, {state.max_steps} steps of {_batch(args)}"
            text = f"{size}\n{parameter_group_table(optimizer.param_groups)}"
            self.listener(self.label, state.global_step, state.max_steps, text)

    def on_step_end(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            self.listener(self.label, state.global_step, state.max_steps, None)

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        names = dict.fromkeys(["eval_loss", f"eval_{self.metric}"])
        shown = [f"{name.removeprefix('eval_')} {metrics[name]:.4f}" for name in names if name in (metrics or {})]
        if shown and state.is_world_process_zero:
            text = f"step {state.global_step}/{state.max_steps}: validation {', '.join(shown)}"
            self.listener(self.label, state.global_step, state.max_steps, text)


def _batch(args) -> str:
    micro, accumulation, processes = (
        args.per_device_train_batch_size,
        args.gradient_accumulation_steps,
        args.world_size,
    )
    return (
        f"{micro * accumulation * processes} examples "
        f"(micro batch {micro} x accumulation {accumulation} x processes {processes})"
    )
