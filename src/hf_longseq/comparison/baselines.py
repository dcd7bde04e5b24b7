# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Baselines that take seconds: linear models on counts, spectra or random kernels, with scikit-learn.

    splits, spec = load_task("gene-starts", length=128)
    fit_baselines(splits["train"].select(range(100)), splits["test"], spec)

Each baseline is a fixed way to features and a ridge whose penalty leave-one-out cross-validation chooses on the very
labels that it is given. A network that stays below one of them has not earned its place.

Axes: B examples, L length, C channels, F features, P positions.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from datasets import Dataset, concatenate_datasets
from scipy.signal import welch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from hf_longseq.comparison.arms import BASELINE
from hf_longseq.comparison.plan import Run
from hf_longseq.comparison.prepare import DataCache
from hf_longseq.comparison.results import BASELINES
from hf_longseq.data import byte_text
from hf_longseq.data.task import TaskSpec
from hf_longseq.errors import HfLongSeqError
from hf_longseq.metrics import load_metric, spans
from hf_longseq.models.longseq_losses import IGNORE_INDEX
from hf_longseq.training.run_folder import write_whole

PENALTIES = 10.0 ** np.arange(-3, 8)
# a ridge on more rows, or on more positions, gains little and takes minutes
MOST_ROWS, MOST_POSITIONS = 20_000, 50_000
MOST_FEATURES = 4096
QUARTERS = 4
# alphabets up to this size (DNA with N and special ids) are read in frames of three
SMALL_ALPHABET = 12
# how far a position's features look to either side
NEAR, FAR, FRAME_REACHES = 4, 32, (48, 192)


@dataclass(frozen=True)
class Baseline:
    """A baseline's test score.

    Attributes:
        name: What it is, as a table says it.
        scores: Metrics of the test split, by name.
        labels: Labelled rows that it was fitted on.
        seconds: Seconds for features, fit and prediction.
    """

    name: str
    scores: dict[str, float]
    labels: int
    seconds: float


def fit_baselines(train: Dataset, test: Dataset, spec: TaskSpec, *, seed: int = 0) -> list[Baseline]:
    """Fit every baseline that suits the task on the labelled rows of `train`, and score it on `test`.

    Args:
        train: Labelled rows, all of which are used: the penalty is chosen among them by leave-one-out.
        test: Rows to score.
        spec: What the rows hold.
        seed: Seed of the rows and positions that are kept where there are more than a ridge needs.

    Returns:
        One `Baseline` per way to features, `majority` first.

    Raises:
        HfLongSeqError: If the task has nothing to predict.

    Example:
        >>> from datasets import Dataset
        >>> from hf_longseq.data.task import TaskSpec
        >>> spec = TaskSpec("toy", "tokens", max_length=4, vocab_size=4, labels=("left", "right"))
        >>> rows = Dataset.from_dict({"input_ids": [[1, 1, 2, 2], [2, 2, 1, 1]] * 8, "labels": [0, 1] * 8})
        >>> {one.name: one.scores["accuracy"] for one in fit_baselines(rows, rows, spec)}["counts by quarter"]
        1.0
    """
    if spec.problem_type is None:
        raise HfLongSeqError(f"task {spec.name!r} has no labels, so nothing can be fitted: name a column of labels.")
    if len(train) > MOST_ROWS:
        train = train.select(np.sort(np.random.RandomState(seed).permutation(len(train))[:MOST_ROWS]))
    guesses_and_truths = _per_position if spec.per_position else _per_sequence
    found, began = [], time.perf_counter()
    for name, scores in guesses_and_truths(train, test, spec, seed):
        found.append(Baseline(name, scores, len(train), round(time.perf_counter() - began, 2)))
        began = time.perf_counter()
    return found


def add_baselines(output_dir: Path, runs: Iterable[Run], data: DataCache) -> None:
    """Fit the baselines on the labels of every reported run, and add their scores to `baselines.csv` of a comparison.

    Labels that differ from seed to seed are fitted seed by seed. Scores that the file holds are kept.
    """
    path = output_dir / BASELINES
    known = pd.read_csv(path) if path.is_file() else pd.DataFrame(columns=["fraction", "seed", "subset_seed"])
    fitted = set(known[["fraction", "seed", "subset_seed"]].fillna(-1).itertuples(index=False, name=None))
    tables, seen = [known], set()
    for run in runs:
        section = run.recipe.data
        whole = section.num_train_examples is None and section.train_fraction in (None, 1)
        key = (-1 if run.fraction is None else run.fraction, run.seed, section.subset_seed)
        alike = (key[0], None if whole else key[1:])
        if run.phase != "finetune" or run.tuning or alike in seen:
            continue
        seen.add(alike)
        if key not in fitted:
            loaded = data.load(section)
            train = loaded.labelled
            if section.chosen_on == "labels":  # cross-validation needs no part of its own
                train = concatenate_datasets([train, loaded.validation])
            tables.append(pd.DataFrame(_lines(run, train, loaded.test, loaded.spec)))
    if len(tables) > 1:
        write_whole(path, pd.concat([one for one in tables if len(one)]).to_csv(index=False, lineterminator="\n"))


def _lines(run: Run, train: Dataset, test: Dataset, spec: TaskSpec) -> list[dict[str, Any]]:
    """A line per baseline and metric, in the columns of `scores.csv`."""
    same = {"fraction": run.fraction, "seed": run.seed, "subset_seed": run.recipe.data.subset_seed, "split": "test"}
    same |= {"arm": "scratch", "labels": len(train), "examples": len(test), "chosen": True, "tuning": False}
    same |= dict.fromkeys(("validation_labels", "inputs", "pretrain_steps", "finetune_steps"), 0) | {"converged": True}
    found = fit_baselines(train, test, spec, seed=run.seed)
    metrics = [(one, metric, value) for one in found for metric, value in one.scores.items()]
    return [
        {**same, "architecture": BASELINE + one.name, "seconds": one.seconds, "metric": metric, "value": value}
        for one, metric, value in metrics
    ]


Scores = Iterator[tuple[str, dict[str, float]]]


def _per_sequence(train: Dataset, test: Dataset, spec: TaskSpec, seed: int) -> Scores:
    sequences, others = (_inputs(rows, spec) for rows in (train, test))
    targets, truth = (np.asarray(rows["labels"][:]) for rows in (train, test))
    for name, features in {"majority": None, **_sequence_features(spec, seed)}.items():
        guess = _model(spec, features).fit(sequences, targets).predict(others)
        yield name, _sequence_scores(guess, truth, spec)


def _per_position(train: Dataset, test: Dataset, spec: TaskSpec, seed: int) -> Scores:
    """Every position of a row is an example, seen through windows around it."""
    inputs, test_inputs = (_inputs(rows, spec) for rows in (train, test))
    # of every position: (L,) or (L, labels)
    labels, test_labels = ([np.asarray(one) for one in rows["labels"][:]] for rows in (train, test))
    ways: dict[str, Callable] = {"majority": lambda one: one, "symbols around a position": around(spec)}
    if spec.modality == "tokens" and (spec.vocab_size or 0) <= SMALL_ALPHABET:
        ways |= {f"3-mers in frame, {reach} to either side": frames_around(inputs, reach) for reach in FRAME_REACHES}
    scored = [(one != IGNORE_INDEX).reshape(len(one), -1).all(axis=1) for one in labels]
    places = np.concatenate([np.stack([np.full(here.sum(), row), here.nonzero()[0]]).T
                             for row, here in enumerate(scored)])  # fmt: skip
    places = places[np.random.RandomState(seed).permutation(len(places))[:MOST_POSITIONS]]
    chosen = [(row, places[places[:, 0] == row, 1]) for row in np.unique(places[:, 0])]
    y = np.concatenate([labels[row][places_P] for row, places_P in chosen])
    for name, way in ways.items():
        x_PF = np.concatenate([way(inputs[row])[places_P] for row, places_P in chosen])
        model = _model(spec, None if name == "majority" else FunctionTransformer()).fit(x_PF, y)
        yield name, _position_scores([model.predict(way(one)) for one in test_inputs], test_labels, spec)


def _inputs(rows: Dataset, spec: TaskSpec) -> list[Any]:
    """The inputs of a split: ids (L,), pairs of them, or values (L, C) in float32."""
    if spec.modality == "values":
        return [np.asarray(row, np.float32).reshape(len(row), -1) for row in rows["input_values"][:]]
    ids = [np.asarray(row, np.int64) for row in rows["input_ids"][:]]
    if spec.pair:
        return list(zip(ids, (np.asarray(row, np.int64) for row in rows["input_ids_2"][:]), strict=True))
    return ids


def _model(spec: TaskSpec, features: Any) -> Any:
    """A ridge on standardised features, or the most frequent class (the mean) where there are no features."""
    classes = spec.problem_type != "regression"
    if features is None:
        return DummyClassifier(strategy="most_frequent") if classes else DummyRegressor()
    ridge = RidgeClassifierCV(PENALTIES) if classes else RidgeCV(PENALTIES)
    return make_pipeline(features, StandardScaler(), ridge)


def _sequence_features(spec: TaskSpec, seed: int) -> dict[str, Any]:
    """The ways to features that suit a task."""
    if spec.modality == "values":
        of_values = {"log spectra": _each(log_spectrum), "random kernels": RandomKernels(seed)}
        # every k-th value where there are more than enough
        step = -(-spec.max_length * (spec.num_channels or 1) // MOST_FEATURES)
        flat = {"values as they are": _each(lambda values_LC: values_LC.ravel()[::step])}
        return flat | of_values if spec.image_shape else of_values
    small = (spec.vocab_size or 0) <= SMALL_ALPHABET
    longest = 4 if small else 2 if byte_text.is_read_by(spec) else 1
    ways: dict[str, Callable] = {
        f"counts of {longest}-mers" if longest > 1 else "counts of symbols": lambda ids: runs(ids, longest),
        "counts by quarter": lambda ids: runs(ids, longest, QUARTERS),
    }
    if small:
        ways["3-mers in frame, by quarter"] = in_frame
    if byte_text.is_read_by(spec):
        ways["counts of words"] = lambda ids: byte_text.decode(ids).lower().split()
    return {name: Pair(_counts(way)) if spec.pair else _counts(way) for name, way in ways.items()}


def _each(function: Callable[[np.ndarray], np.ndarray]) -> FunctionTransformer:
    """The same function of every sequence; nothing is fitted."""
    return FunctionTransformer(lambda sequences: np.stack([function(one) for one in sequences]))


def _counts(found_in: Callable[[np.ndarray], list]) -> Pipeline:
    """How often each of the things that the training rows hold most often is found in a row, as logarithms."""
    counted = CountVectorizer(analyzer=found_in, max_features=MOST_FEATURES, dtype=np.float32)
    return make_pipeline(counted, FunctionTransformer(lambda counts: np.log1p(counts.toarray())))


def runs(ids_L: np.ndarray, longest: int, parts: int = 1) -> list[tuple]:
    """Every run of up to `longest` symbols, after the part of the sequence in which it begins."""
    ids = ids_L.tolist()
    return [
        (start * parts // len(ids), *ids[start : start + length])
        for length in range(1, longest + 1)
        for start in range(len(ids) - length + 1)
    ]


def in_frame(ids_L: np.ndarray) -> list[tuple]:
    """Every run of three symbols in the frame of the middle, after its quarter."""
    starts = range(len(ids_L) // 2 % 3, len(ids_L) - 2, 3)
    return [(start * QUARTERS // len(ids_L), *ids_L[start : start + 3].tolist()) for start in starts]


class Pair(BaseEstimator, TransformerMixin):
    """Features of two documents: those of each, and how far they are apart."""

    def __init__(self, way: Pipeline):
        self.way = way

    def fit(self, pairs: Sequence[tuple[np.ndarray, np.ndarray]], y=None) -> "Pair":
        self.way.fit([one for pair in pairs for one in pair])
        return self

    def transform(self, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        first, second = (self.way.transform(column) for column in zip(*pairs, strict=True))
        return np.concatenate([first, second, np.abs(first - second)], axis=1)


def log_spectrum(values_LC: np.ndarray, bands: int = 32) -> np.ndarray:
    """Mean log power of `bands` frequencies in each channel, by Welch's method, and each channel's mean: (F,)."""
    window = 2 * bands
    padded_LC = np.pad(values_LC, ((0, max(0, window - len(values_LC))), (0, 0)))
    _, power_FC = welch(padded_LC, nperseg=window, axis=0)
    return np.concatenate([np.log(power_FC + 1e-9).ravel(), values_LC.mean(axis=0)]).astype(np.float32)


class RandomKernels(BaseEstimator, TransformerMixin):
    """MiniRocket (Dempster, Schmidt, Webb, KDD 2021): 84 fixed kernels of nine taps at several dilations.

    A feature is the share of positions at which a kernel's response exceeds a bias, and biases are quantiles of the
    responses of training rows. Sequences of other lengths are stretched to the longest of training.
    """

    def __init__(self, seed: int, features: int = 2048):
        self.seed, self.features = seed, features

    def fit(self, sequences: Sequence[np.ndarray], y=None) -> "RandomKernels":
        self.chosen: list[np.ndarray] = []
        self.biases: list[np.ndarray] = []
        random = np.random.RandomState(self.seed)
        self.length = max(9, *map(len, sequences))
        most = int(np.log2(max(1, (self.length - 1) // 8))) + 1
        self.dilations = tuple(2**power for power in range(most))
        quantiles = max(1, self.features // (84 * most))
        sample = [sequences[row] for row in random.permutation(len(sequences))[: 4 * quantiles]]
        channels = sequences[0].shape[1]
        for dilation in self.dilations:
            self.chosen.append(random.rand(84, channels) < max(0.5, 1 / channels))
            self.chosen[-1][np.arange(84), random.randint(channels, size=84)] = True
            response_BKL = self._responses(sample, dilation, self.chosen[-1])
            flat_KN = response_BKL.transpose(1, 0, 2).reshape(84, -1)
            places = (np.arange(quantiles) + 0.5) / quantiles
            self.biases.append(np.quantile(flat_KN, places, axis=1).T)  # (84, quantiles)
        return self

    def transform(self, sequences: Sequence[np.ndarray]) -> np.ndarray:
        rows = []
        for start in range(0, len(sequences), 64):
            batch, parts = sequences[start : start + 64], []
            for dilation, bias_KQ, channels in zip(self.dilations, self.biases, self.chosen, strict=True):
                response_BKL = self._responses(batch, dilation, channels)
                parts += [(response_BKL > bias_KQ[:, quantile, None]).mean(-1) for quantile in range(bias_KQ.shape[1])]
            rows.append(np.concatenate(parts, axis=1, dtype=np.float32))
        return np.concatenate(rows)

    def _responses(self, sequences: Sequence[np.ndarray], dilation: int, channels_KC: np.ndarray) -> np.ndarray:
        """Responses at every position, (B, 84, L): six taps of -1 and three of 2, summed over a kernel's channels."""
        places = np.linspace(0, 1, self.length)
        stretched = [
            np.stack([np.interp(places, np.linspace(0, 1, len(one)), column) for column in one.T]) for one in sequences
        ]
        values_BCL = torch.from_numpy(np.stack(stretched).astype(np.float32))
        taps_K9 = torch.full((84, 9), -1.0)
        for kernel, three in enumerate(itertools.combinations(range(9), 3)):
            taps_K9[kernel, list(three)] = 2.0
        weight_KC9 = taps_K9[:, None] * torch.from_numpy(channels_KC)[:, :, None]
        with torch.no_grad():
            return torch.conv1d(values_BCL, weight_KC9, padding=4 * dilation, dilation=dilation).numpy()


def around(spec: TaskSpec) -> Callable[[np.ndarray], np.ndarray]:
    """What stands at each of the `NEAR` places on either side, and the means over `FAR` places before and after."""

    def features(one: np.ndarray) -> np.ndarray:
        if spec.modality == "tokens":
            kinds = min(spec.vocab_size or 1, 64)
            one = np.eye(kinds, dtype=np.float32)[one % kinds]
        padded = np.pad(one, ((FAR, FAR), (0, 0)))
        near = [padded[FAR + shift : FAR + shift + len(one)] for shift in range(-NEAR, NEAR + 1)]
        sums = np.concatenate([np.zeros((1, one.shape[1])), padded.cumsum(axis=0, dtype=np.float64)])
        before, here, after = (sums[FAR * part :][: len(one)] for part in range(3))
        return np.concatenate([*near, (here - before) / FAR, (after - here) / FAR], axis=1, dtype=np.float32)

    return features


def frames_around(inputs: Sequence[np.ndarray], reach: int) -> Callable[[np.ndarray], np.ndarray]:
    """How often each run of three symbols comes within `reach` of a position, in each of the three frames."""
    symbols, counts = np.unique(np.concatenate(list(inputs)), return_counts=True)
    symbols = np.sort(symbols[np.argsort(-counts)][:4])  # the bases

    def features(ids_L: np.ndarray) -> np.ndarray:
        length, index_L = len(ids_L), np.searchsorted(symbols, ids_L).clip(max=len(symbols) - 1)
        padded = np.append(index_L, [0, 0])
        codes_L = padded[:-2] * 16 + padded[1:-1] * 4 + padded[2:]
        hits = np.zeros((length, 3, 64), np.float32)
        hits[np.arange(length), np.arange(length) % 3, codes_L] = 1
        sums = np.concatenate([np.zeros((1, 3, 64), np.float32), hits.cumsum(axis=0)])
        places = np.arange(length)
        window = sums[(places + reach).clip(max=length)] - sums[(places - reach).clip(min=0)]
        # the frame counts from the position itself, not from the start of the sequence
        frames = (places[:, None] + np.arange(3)) % 3
        return window[places[:, None], frames].reshape(length, -1)

    return features


def _sequence_scores(guess: np.ndarray, truth: np.ndarray, spec: TaskSpec) -> dict[str, float]:
    metric = {"multi_label_classification": "f1", "regression": "rmse"}.get(spec.problem_type or "", "accuracy")
    shape = truth.shape if metric == "f1" else -1
    return load_metric(metric).compute(predictions=guess.reshape(shape), references=truth.reshape(shape))


def _position_scores(guesses: list[np.ndarray], truths: list[np.ndarray], spec: TaskSpec) -> dict[str, float]:
    """Scores over the scored positions of a split, and of spans where the labels are classes."""
    pairs = [(guess.reshape(truth.shape), truth) for guess, truth in zip(guesses, truths, strict=True)]
    kept = [(truth != IGNORE_INDEX).reshape(len(truth), -1).all(axis=1) for truth in truths]
    pairs = [(guess[here], truth[here]) for (guess, truth), here in zip(pairs, kept, strict=True)]
    guess, truth = (np.concatenate(side) for side in zip(*pairs, strict=True))
    if spec.problem_type != "single_label_classification":
        return _sequence_scores(guess, truth, spec)
    confusion_KK = np.zeros((len(spec.labels),) * 2)
    np.add.at(confusion_KK, (truth, guess), 1)
    tags = spans.Tags.of(spec.labels)
    counted = np.sum([spans.count_spans(*pair, tags) for pair in pairs], axis=0)
    return spans.position_scores(confusion_KK, spec.labels) | spans.span_scores(counted)
