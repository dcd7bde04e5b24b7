# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The estimators keep scikit-learn's manners."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_classifiers_train, check_estimator
from transformers import AutoModelForSequenceClassification

from hf_longseq import S4Config
from hf_longseq.sklearn import SPTClassifier, SPTRegressor

TOY = S4Config(hidden_size=8, num_hidden_layers=1, state_size=4, bidirectional=True)
FEW = {"arch": TOY, "pretrain_steps": 2, "finetune_steps": 4, "batch_size": 8}
random = np.random.RandomState(0)
SLOW_FAST = (
    np.sin(np.arange(40) * np.where(np.arange(32) % 2, 0.9, 0.3)[:, None])[:, None] + random.randn(32, 1, 40) / 9
)
NAMES = np.array(["slow", "fast"] * 16)


def test_it_learns_what_a_series_tells():
    model = SPTClassifier(TOY, pretrain_steps=30, finetune_steps=60, learning_rate=1e-2, mask_ratio=0.3)
    model.fit(SLOW_FAST, NAMES)
    assert model.classes_.tolist() == ["fast", "slow"]
    assert model.score(SLOW_FAST, NAMES) > 0.9
    assert np.allclose(model.predict_proba(SLOW_FAST).sum(axis=1), 1)


def test_a_regressor_answers_in_the_units_of_its_targets():
    scale = np.linspace(1, 4, 32)
    X, y = random.randn(32, 1, 30) * scale[:, None, None], 100 + 10 * scale
    model = SPTRegressor(TOY, pretrain_steps=5, finetune_steps=150, learning_rate=1e-2).fit(X, y)
    assert model.score(X, y) > 0.5
    assert 100 < model.predict(X).mean() < 150


def test_rows_without_a_label_are_inputs_of_pretraining_alone(monkeypatch):
    seen = {}
    trained = SPTClassifier._trained

    def spy(self, folder, inputs, labelled, spec):
        seen.update(inputs=len(inputs), labelled=len(labelled))
        return trained(self, folder, inputs, labelled, spec)

    monkeypatch.setattr(SPTClassifier, "_trained", spy)
    y = NAMES.astype(object)
    y[::4] = None
    SPTClassifier(**FEW).fit(SLOW_FAST, y, X_unlabelled=SLOW_FAST[:5])
    assert seen == {"inputs": 32 + 5, "labelled": 24}


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (["slow", "fast", "slow", float("nan")], ["fast", "slow"]),
        ([0, 1, 0, None], [0, 1]),
        ([0, 1, 0, float("nan")], [0, 1]),
        ([True, False, True, None], [False, True]),
        (pd.Series([True, False, True, pd.NA], dtype="boolean"), [False, True]),
        (pd.Series(["slow", "fast", "slow", pd.NA], dtype="string"), ["fast", "slow"]),
        (pd.Series(["slow", "fast", "slow", None], dtype="category"), ["fast", "slow"]),
        (np.array([[0], [1], [0], [np.nan]]), [0, 1]),
    ],
)
@pytest.mark.filterwarnings("ignore:A column-vector y")
def test_a_missing_label_is_no_class(monkeypatch, y, classes):
    monkeypatch.setattr(SPTClassifier, "_trained", lambda *words: None)
    found = SPTClassifier(**FEW).fit(SLOW_FAST[:4], y).classes_
    assert found.tolist() == classes and found.dtype == np.asarray(classes).dtype


def test_missing_numbers_are_no_targets():
    y = np.arange(32.0)
    y[3] = np.nan
    assert np.isfinite(SPTRegressor(**FEW).fit(SLOW_FAST, y).predict(SLOW_FAST)).all()


def test_texts_and_series_of_several_lengths_are_read():
    texts = ["good film", "a bad, bad film"] * 8
    assert SPTClassifier(**FEW).fit(texts, [1, 0] * 8).predict(["so good"]).shape == (1,)
    series = [random.randn(2, 10 + i) for i in range(16)]
    assert SPTClassifier(**FEW).fit(series, [0, 1] * 8).predict(series).shape == (16,)


def test_a_seed_gives_the_same_model_whatever_batches_predict():
    one, two = (SPTClassifier(**FEW, seed=5).fit(SLOW_FAST, NAMES) for _ in range(2))
    two.batch_size = 3
    assert np.allclose(one.predict_proba(SLOW_FAST), two.predict_proba(SLOW_FAST), atol=1e-6)


def test_zero_steps_of_pretraining_train_from_scratch():
    assert SPTClassifier(**FEW | {"pretrain_steps": 0}).fit(SLOW_FAST, NAMES).predict(SLOW_FAST).shape == (32,)


def test_clone_pipeline_grid_search_and_pickle_work(tmp_path):
    model = SPTClassifier(**FEW)
    assert clone(model).get_params()["pretrain_steps"] == 2
    search = GridSearchCV(model, {"learning_rate": [1e-3, 1e-2]}, cv=2).fit(SLOW_FAST, NAMES)
    assert search.best_estimator_.model_ is not None
    assert len(cross_val_score(make_pipeline(FunctionTransformer(), model), SLOW_FAST, NAMES, cv=2)) == 2
    fitted = model.fit(SLOW_FAST, NAMES)
    assert (pickle.loads(pickle.dumps(fitted)).predict(SLOW_FAST) == fitted.predict(SLOW_FAST)).all()


def test_save_pretrained_writes_what_auto_classes_open(tmp_path):
    SPTClassifier(**FEW).fit(SLOW_FAST, NAMES).save_pretrained(tmp_path)
    assert AutoModelForSequenceClassification.from_pretrained(tmp_path).config.id2label == {0: "fast", 1: "slow"}


@pytest.mark.parametrize(
    ("X", "y", "said"),
    [
        (SLOW_FAST, NAMES[:3], "one label for each row"),
        (SLOW_FAST, [None] * 32, "missing for every row"),
        (SLOW_FAST, ["one"] * 32, "only one class"),
        ("a text", ["one"], "a list of texts"),
        ([np.zeros((2, 5)), np.zeros((3, 5))], [0, 1], "channels"),
        (np.full((2, 1, 5), np.nan), [0, 1], "row 0 contains NaN"),
        (np.zeros((2, 1, 1, 5)), [0, 1], "shape"),
    ],
)
def test_bad_inputs_are_named(X, y, said):
    with pytest.raises(ValueError, match=said):
        SPTClassifier(**FEW).fit(X, y)


# Checks that ask for what a sequence model of a step cannot give, each with the reason.
EXCEPTIONS = {
    "check_regressors_train": "asks for a linear function of ten columns without an order",
    "check_classifiers_train": "takes more steps, below",
}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "pretrain_steps"), [(SPTClassifier, 1), (SPTRegressor, 0)])
def test_check_estimator_passes(kind, pretrain_steps):
    small = FEW | {"pretrain_steps": pretrain_steps, "finetune_steps": 1}
    check_estimator(kind(**small), expected_failed_checks=EXCEPTIONS)


def test_a_classifier_learns_what_scikit_learn_asks():
    steps = {"pretrain_steps": 1, "finetune_steps": 60, "learning_rate": 1e-2}
    check_classifiers_train("SPTClassifier", SPTClassifier(**FEW | steps))
