# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Self-pretraining behind scikit-learn's `fit`: `SPTClassifier` and `SPTRegressor`.

    model = SPTClassifier(arch="s4").fit(X, y, X_unlabelled=more)
    model.predict(X_new)

`X` is an array (n, channels, length) or (n, length), a list of arrays (channels, length) of any lengths, or a list of
texts. Rows whose `y` is missing (NaN or None) and `X_unlabelled` are read by pretraining alone; the labelled rows by
both phases.
"""

import os
import tempfile
import warnings
from collections.abc import Sequence
from itertools import compress
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from datasets import Dataset
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from transformers import PrinterCallback, TrainingArguments

from hf_longseq.data import byte_text
from hf_longseq.data.collators import DataCollatorWithLongPadding
from hf_longseq.data.task import TaskSpec
from hf_longseq.training.config import SPTConfig
from hf_longseq.training.trainer import LongSeqTrainer, SPTTrainer

Inputs = np.ndarray | Sequence[np.ndarray] | Sequence[str]
# texts are cut to so many bytes
MOST_BYTES = 65_536


class _SelfPretrained(BaseEstimator):
    """What both estimators share.

    Args:
        arch: An architecture ("s4", "dlr", "transformer", "cnn", ...), a configuration, or the folder or repository of
            a model that is pretrained already.
        pretrain_steps: Optimiser steps of pretraining; 0 trains from scratch.
        finetune_steps: Optimiser steps with labels.
        objective: "masked" or "causal".
        mask_ratio: Share of positions that masked pretraining hides.
        pretrain_learning_rate, learning_rate: Peak rates of the two phases.
        batch_size: Sequences a step.
        seed: Seed of weights, masks, order and dropout.
        verbose: Whether the trainers show progress.
    """

    def __init__(
        self,
        arch: Any = "s4",
        *,
        pretrain_steps: int = 1000,
        finetune_steps: int = 300,
        objective: Literal["masked", "causal"] = "masked",
        mask_ratio: float = 0.5,
        pretrain_learning_rate: float = 1e-3,
        learning_rate: float = 1e-3,
        batch_size: int = 32,
        seed: int = 0,
        verbose: bool = False,
    ):
        self.arch = arch
        self.pretrain_steps = pretrain_steps
        self.finetune_steps = finetune_steps
        self.objective = objective
        self.mask_ratio = mask_ratio
        self.pretrain_learning_rate = pretrain_learning_rate
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.seed = seed
        self.verbose = verbose

    def fit(self, X: Inputs, y: Any, X_unlabelled: Inputs | None = None):
        """Pretrain on all inputs, then fine-tune on the labelled ones.

        Args:
            X: Inputs, see the module.
            y: A class or number for each row; missing (NaN, None) where it is not known.
            X_unlabelled: Further inputs.

        Raises:
            ValueError: If the shapes do not fit together, or no row has a label.
        """
        rows, self._form = _as_rows(X)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        targets = np.asarray(y)
        if targets.ndim == 2 and targets.shape[1] == 1:
            warnings.warn("A column-vector y was passed when a 1d array was expected.", DataConversionWarning, 2)
            targets = targets[:, 0]
        if targets.ndim != 1:
            raise ValueError(f"y has shape {targets.shape}: give one class or number for each row.")
        if len(targets) != len(rows):
            raise ValueError(f"X has {len(rows)} rows and y has {len(targets)}: give one label for each row.")
        # of objects: beside names, NumPy would turn NaN into the name "nan"
        known = ~pd.isna(np.asarray(y, dtype=object)).reshape(-1)
        if not known.any():
            raise ValueError("y is missing for every row: label some of them.")
        more = _as_rows(X_unlabelled, self._form)[0] if X_unlabelled is not None else []
        kind = byte_text.SPEC
        if "channels" in self._form:
            self.n_features_in_ = self._form["features"]
            kind = {"modality": "values", "num_channels": self._form["channels"]}
        labels, fields = self._targets(np.asarray(list(targets[known])))  # without None they have a type
        longest = max(len(row[self._column]) for row in [*rows, *more])
        spec = TaskSpec("sklearn", max_length=longest, mask_ratio=self.mask_ratio, **kind, **fields)
        labelled = [{**row, "labels": label} for row, label in zip(compress(rows, known), labels, strict=True)]
        with tempfile.TemporaryDirectory() as folder:
            self.model_ = self._trained(Path(folder), [*rows, *more], labelled, spec)
        self.spec_ = spec
        return self

    def _trained(self, folder: Path, inputs: list[dict], labelled: list[dict], spec: TaskSpec):
        """The two phases, with the trainers that everybody uses; returns the classifier, ready to predict."""
        common: dict[str, Any] = {
            "per_device_train_batch_size": self.batch_size, "seed": self.seed, "warmup_steps": 0.1,
            "lr_scheduler_type": "cosine", "save_strategy": "no", "eval_strategy": "no", "report_to": "none",
            "disable_tqdm": not self.verbose, "logging_strategy": "steps" if self.verbose else "no",
        }  # fmt: skip
        model = self.arch
        if self.pretrain_steps:
            phase = SPTConfig(
                str(folder / "pretrained"), objective=self.objective, mask_ratio=self.mask_ratio,
                max_steps=self.pretrain_steps, learning_rate=self.pretrain_learning_rate, **common,
            )  # fmt: skip
            model = self._run(SPTTrainer(model, phase, train_dataset=Dataset.from_list(inputs), spec=spec))
        arguments = TrainingArguments(
            str(folder / "tuned"), max_steps=self.finetune_steps, learning_rate=self.learning_rate, **common
        )
        rows = Dataset.from_list(labelled)
        return self._run(LongSeqTrainer(model, arguments, train_dataset=rows, spec=spec)).eval()

    def _run(self, trainer):
        if not self.verbose:
            trainer.remove_callback(PrinterCallback)
        trainer.train()
        return trainer.model

    @property
    def _column(self) -> str:
        return "input_values" if "channels" in self._form else "input_ids"

    def _targets(self, known: np.ndarray) -> tuple[list, dict[str, Any]]:
        """Labels as the trainer takes them, and what `TaskSpec` says of them."""
        raise NotImplementedError

    def _logits(self, X: Inputs) -> np.ndarray:
        """Outputs of the model for every row, (n, outputs), in batches of similar padding."""
        check_is_fitted(self, "model_")
        rows, form = _as_rows(X, self._form)
        if None not in (widths := {form.get("features"), self._form.get("features")}) and len(widths) > 1:
            raise ValueError(
                f"X has {form['features']} features, but {type(self).__name__} is expecting "
                f"{self._form['features']} features as input."
            )
        collate, device = DataCollatorWithLongPadding.from_task(self.spec_), self.model_.device
        order = np.argsort([len(row[self._column]) for row in rows], kind="stable")
        found = np.zeros((len(rows), self.model_.config.num_labels), np.float64)
        with torch.no_grad():
            for start in range(0, len(rows), self.batch_size):
                chosen = order[start : start + self.batch_size]
                batch = {name: one.to(device) for name, one in collate([rows[row] for row in chosen]).items()}
                found[chosen] = self.model_(**batch).logits.double().cpu().numpy()
        return found

    def save_pretrained(self, folder: str | os.PathLike) -> None:
        """Save the fitted model as `AutoModelForSequenceClassification.from_pretrained` opens it."""
        check_is_fitted(self, "model_")
        self.model_.save_pretrained(folder)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.three_d_array = True
        return tags


class SPTClassifier(ClassifierMixin, _SelfPretrained):
    """A classifier that is self-pretrained on its inputs before it is fine-tuned on its labels.

    Its arguments are those of the base class.

    Attributes:
        classes_: The classes, sorted.
        model_: The fine-tuned transformers model.

    Example:
        >>> X = np.sin(np.arange(40) * np.array([[[0.3]], [[0.9]]] * 20))
        >>> model = SPTClassifier("s4", pretrain_steps=20, finetune_steps=40, learning_rate=4e-3)
        >>> model.fit(X, ["slow", "fast"] * 20).predict(X[:2]).tolist()
        ['slow', 'fast']
    """

    def _targets(self, known):
        check_classification_targets(known)
        if known.dtype.kind == "f":  # NaN among whole numbers made them floats
            known = known.astype(np.int64) if (known == known.round()).all() else known
        self.classes_, labels = np.unique(known, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"Classifier can't train when only one class is present: {self.classes_[0]!r}.")
        return labels.tolist(), {"labels": tuple(map(str, self.classes_))}

    def predict_proba(self, X: Inputs) -> np.ndarray:
        """Probabilities of the classes, (n, classes), in the order of `classes_`."""
        return softmax(self._logits(X), axis=1)

    def predict(self, X: Inputs) -> np.ndarray:
        """The most probable class of each row, (n,)."""
        logits = self._logits(X)
        return self.classes_[logits.argmax(axis=1)]


class SPTRegressor(RegressorMixin, _SelfPretrained):
    """A regressor that is self-pretrained on its inputs before it is fine-tuned on its numbers.

    Its arguments are those of `SPTClassifier`; `y` is one number for each row.
    """

    def _targets(self, known):
        numbers = known.astype(np.float64)
        if not np.isfinite(numbers).all():
            raise ValueError("y holds infinity: give finite numbers, or NaN where the number is not known.")
        return numbers.tolist(), {"problem_type": "regression", "metric": "rmse"}

    def predict(self, X: Inputs) -> np.ndarray:
        """The number of each row, (n,)."""
        return self._logits(X)[:, 0]


def _as_rows(X: Inputs, form: dict[str, Any] | None = None) -> tuple[list[dict], dict[str, Any]]:
    """Rows of a data set, `input_ids` or `input_values` (L, C), and what all of them have in common."""
    if isinstance(X, str):
        raise ValueError("X is one text: give a list of texts.")
    if hasattr(X, "toarray"):
        raise TypeError("X is sparse: give dense arrays, or X.toarray().")
    if isinstance(X, (pd.DataFrame, pd.Series)):
        X = X.to_numpy()
    if not isinstance(X, (np.ndarray, list, tuple)) and hasattr(X, "__array__"):
        X = np.asarray(X)
    items = X if isinstance(X, np.ndarray) else list(X)
    if len(items) == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    if all(isinstance(one, str) for one in items):
        if form is not None and "channels" in form:
            raise ValueError("X holds texts, but the estimator was fitted on numbers: give arrays.")
        return [{"input_ids": byte_text.encode(one, MOST_BYTES)} for one in items], {}
    if isinstance(items, np.ndarray) and items.ndim == 1 and items.dtype != object:
        raise ValueError(
            "Expected 2D array, got 1D array instead: Reshape your data using array.reshape(1, -1) if it contains "
            "a single sample."
        )
    arrays = [_as_values(one, row) for row, one in enumerate(items)]
    channels = {one.shape[1] for one in arrays}
    if len(channels) > 1 or (form is not None and channels != {form.get("channels")}):
        asked = sorted(channels | ({form.get("channels")} if form else set()), key=str)
        raise ValueError(f"X has rows of {asked} channels: give all rows the same number, as (channels, length).")
    lengths = {len(one) for one in arrays}
    if lengths == {0}:
        raise ValueError(f"Found array with 0 feature(s) (shape={np.shape(X)}) while a minimum of 1 is required.")
    # a table has columns; series in a list may be of any length
    table = items.ndim == 2 if isinstance(items, np.ndarray) else all(isinstance(one, (list, tuple)) for one in items)
    found = {"channels": channels.pop(), "features": lengths.pop() if table and len(lengths) == 1 else None}
    return [{"input_values": one.tolist()} for one in arrays], found


def _as_values(one: Any, row: int) -> np.ndarray:
    """A row as (L, C) in float32, from (length,) or (channels, length)."""
    array = np.asarray(one)
    if np.iscomplexobj(array):
        raise ValueError("Complex data not supported: give real and imaginary parts as two channels.")
    if array.dtype.kind not in "fiub":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"X, row {row}: {error}; argument must be a string or a number.") from error
    if array.ndim not in (1, 2):
        raise ValueError(f"X, row {row} has shape {array.shape}: give (length,) or (channels, length).")
    array = np.atleast_2d(array).T.astype(np.float32)
    if not np.isfinite(array).all():
        raise ValueError(f"X, row {row} contains NaN or infinity: fill the gaps first.")
    return array
