# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""What a linear model makes of a task: each baseline finds what its features hold, and nothing else."""

import numpy as np
import pandas as pd
import pytest
from datasets import Dataset

from hf_longseq.comparison import compare
from hf_longseq.comparison.baselines import MOST_ROWS, fit_baselines
from hf_longseq.data import byte_text
from hf_longseq.data.task import TaskSpec
from hf_longseq.errors import HfLongSeqError

DNA = TaskSpec("toy", "tokens", max_length=60, vocab_size=9, labels=("no", "yes"))
SOUND = TaskSpec("toy", "values", max_length=200, num_channels=2, labels=("low", "high"))
random = np.random.RandomState(0)


def scores(train, test, spec, metric="accuracy"):
    return {one.name: one.scores[metric] for one in fit_baselines(train, test, spec)}


def bases(count, planted):
    """Random bases; a row of class 1 holds what `planted` puts into it."""
    ids, labels = random.randint(5, 9, (count, 60)), np.arange(count) % 2
    for row, label in zip(ids, labels, strict=True):
        planted(row, label)
    return Dataset.from_dict({"input_ids": ids.tolist(), "labels": labels.tolist()})


def test_counts_see_what_a_sequence_holds():
    def planted(row, label):
        row[random.randint(50) :][:6] = 5 if label else 8

    found = scores(bases(200, planted), bases(100, planted), DNA)
    assert found["majority"] == 0.5
    assert found["counts of 4-mers"] > 0.9


def test_counts_by_quarter_see_where_it_stands():
    def planted(row, label):
        row[5 if label else 45 :][:8] = 5

    found = scores(bases(200, planted), bases(100, planted), DNA)
    assert found["counts by quarter"] > 0.95 > found["counts of 4-mers"]


def test_counts_in_frame_see_the_frame():
    def planted(row, label):  # the same run of three, in the frame of the middle or one off it
        for start in (0, 6, 12, 18, 24):
            row[start + (0 if label else 1) :][:3] = (5, 6, 7)

    found = scores(bases(300, planted), bases(100, planted), DNA)
    assert found["3-mers in frame, by quarter"] > 0.95


def test_words_are_counted_in_texts():
    spec = TaskSpec("toy", max_length=99, labels=("bad", "good"), **byte_text.SPEC)
    texts = [f"{'x' * (i % 7)} the film was {'good' if i % 2 else 'bad'}" for i in range(80)]
    rows = Dataset.from_dict(
        {"input_ids": [byte_text.encode(t, 99) for t in texts], "labels": [i % 2 for i in range(80)]}
    )
    assert scores(rows, rows, spec)["counts of words"] == 1.0


def waves(count):
    """Two channels of noise, the second with a tone whose pitch is the class."""
    labels, time = np.arange(count) % 2, np.arange(200)
    phase = random.rand(count, 1) * 7
    tone = np.sin(time * np.where(labels, 0.9, 0.4)[:, None] + phase)
    values = random.randn(count, 200, 2) * 0.3
    values[:, :, 1] += tone
    return Dataset.from_dict({"input_values": values.astype(np.float32).tolist(), "labels": labels.tolist()})


def test_spectra_and_random_kernels_hear_pitch():
    found = scores(waves(60), waves(60), SOUND)
    assert found["log spectra"] > 0.95
    assert found["random kernels"] > 0.95


def test_random_kernels_are_the_same_for_a_seed():
    train, test = waves(30), waves(30)
    one, two = (fit_baselines(train, test, SOUND, seed=3) for _ in range(2))
    assert [found.scores for found in one] == [found.scores for found in two]


def test_sequences_of_several_lengths_are_read():
    rows = Dataset.from_list(
        [{"input_values": (np.sin(np.arange(40 + i) * (0.3 + i % 2))).tolist(), "labels": i % 2} for i in range(40)]
    )
    spec = TaskSpec("toy", "values", max_length=99, num_channels=1, labels=("a", "b"))
    assert scores(rows, rows, spec)["log spectra"] == 1.0


def test_numbers_are_predicted_by_ridge():
    values = random.randn(80, 64) * np.linspace(0.1, 3, 80)[:, None]
    rows = Dataset.from_dict({"input_values": values.tolist(), "labels": np.log(values.std(axis=1)).tolist()})
    spec = TaskSpec("toy", "values", 64, num_channels=1, problem_type="regression", metric="rmse")
    found = scores(rows, rows, spec, "rmse")
    assert found["log spectra"] < 0.3 * found["majority"]


def test_two_numbers_at_every_position_are_predicted():
    values = random.randn(12, 40)
    labels = np.stack([values, -values], axis=2)
    rows = Dataset.from_dict({"input_values": values.tolist(), "labels": labels.tolist()})
    spec = TaskSpec("toy", "values", 40, num_channels=1, problem_type="regression", per_position=True, metric="rmse")
    found = scores(rows, rows, spec, "rmse")
    assert min(found.values()) < 0.1 < found["majority"]


def test_several_labels_are_scored_by_f1():
    ids = random.randint(1, 5, (80, 20))
    labels = np.stack([(ids == 1).sum(1) > 4, (ids == 2).sum(1) > 4], axis=1).astype(np.float32)
    spec = TaskSpec("toy", "tokens", 20, vocab_size=30, labels=("a", "b"), problem_type="multi_label_classification")
    rows = Dataset.from_dict({"input_ids": ids.tolist(), "labels": labels.tolist()})
    assert scores(rows, rows, spec, "f1")["counts of symbols"] > 0.8


def test_pairs_are_compared():
    first = random.randint(20, 40, (120, 12))
    same = np.arange(120) % 2
    second = np.where(same[:, None], first, random.randint(40, 60, (120, 12)))
    rows = Dataset.from_dict({"input_ids": first.tolist(), "input_ids_2": second.tolist(), "labels": same.tolist()})
    spec = TaskSpec("toy", "tokens", 12, vocab_size=64, labels=("other", "same"), pair=True)
    assert scores(rows, rows, spec)["counts of symbols"] == 1.0


def test_positions_are_told_by_what_stands_around_them():
    ids = random.randint(1, 30, (20, 50))
    labels = np.where(np.roll(ids, 1, axis=1) == 3, 1, 0)
    labels[:, 0] = -100
    rows = Dataset.from_dict({"input_ids": ids.tolist(), "labels": labels.tolist()})
    spec = TaskSpec("toy", "tokens", 50, vocab_size=30, labels=("O", "after"), per_position=True, metric="token_f1")
    found = scores(rows, rows, spec, "token_f1")
    assert found["symbols around a position"] > 0.95 > found["majority"] == 0.0


def test_frames_around_a_position_count_from_it():
    ids = random.randint(5, 9, (30, 120))
    labels = np.zeros((30, 120), int)
    for row, label in zip(ids, labels, strict=True):
        start = random.randint(20, 60)
        row[start : start + 30] = [5, 6, 7] * 10
        label[start : start + 30 : 3] = 1
    rows = Dataset.from_dict({"input_ids": ids.tolist(), "labels": labels.tolist()})
    spec = TaskSpec("toy", "tokens", 120, vocab_size=9, labels=("O", "first"), per_position=True, metric="mcc")
    assert scores(rows, rows, spec, "mcc")["3-mers in frame, 48 to either side"] > 0.5


def test_the_test_split_chooses_nothing():
    """The same predictions whatever the test labels: reversed labels give the mirrored accuracy."""
    train, test = waves(40), waves(40)
    mirrored = test.map(lambda row: {"labels": 1 - row["labels"]})
    told, untold = scores(train, test, SOUND), scores(train, mirrored, SOUND)
    assert told == pytest.approx({name: 1 - value for name, value in untold.items()})


def test_a_large_split_is_cut_for_the_ridge():
    count = MOST_ROWS + 10
    rows = Dataset.from_dict({"input_ids": [[1, 2]] * count, "labels": [0, 1] * (count // 2)})
    spec = TaskSpec("toy", "tokens", 2, vocab_size=40, labels=("a", "b"))
    assert fit_baselines(rows, rows.select(range(4)), spec)[0].labels == MOST_ROWS


def test_a_task_without_labels_is_refused():
    spec = TaskSpec("toy", "tokens", 2, vocab_size=4, problem_type=None)
    rows = Dataset.from_dict({"input_ids": [[1, 2]]})
    with pytest.raises(HfLongSeqError, match="has no labels"):
        fit_baselines(rows, rows, spec)


STEPS = {"pretrain": {"max_steps": 2}, "finetune": {"max_steps": 2}}


def compared(folder, **data):
    raw = {"data": {"task": "waves"}, "model": {"arch": "s4"}}
    return compare(raw, folder, inits=["scratch"], seeds=[0, 1], overrides=STEPS | {"data": data}, tiny=True)


def linear(folder):
    scores = pd.read_csv(folder / "scores.csv")
    return scores[scores["architecture"].str.startswith("linear:")]


def test_a_comparison_has_a_row_for_each_baseline_on_each_seeds_labels(tmp_path):
    comparison = compared(tmp_path, num_train_examples=20)
    rows = linear(tmp_path)
    assert set(rows["architecture"]) == {"linear:majority", "linear:log spectra", "linear:random kernels"}
    assert set(rows["seed"]) == {0, 1} and set(rows["labels"]) == {20} and set(rows["split"]) == {"test"}
    assert rows["chosen"].all() and not rows["tuning"].any()
    assert "log spectra, linear" in comparison.table()
    before = (tmp_path / "baselines.csv").read_bytes()
    compared(tmp_path, num_train_examples=20)
    assert (tmp_path / "baselines.csv").read_bytes() == before


def test_with_all_labels_a_baseline_is_fitted_once(tmp_path):
    compared(tmp_path)
    assert linear(tmp_path).groupby("architecture")["seed"].unique().str.len().eq(1).all()


def test_labels_count_those_that_pay_for_validation(tmp_path):
    compared(tmp_path, num_train_examples=20, validation="labels")
    scores = pd.read_csv(tmp_path / "scores.csv")
    assert set(scores["labels"]) == {20}


def test_baselines_can_be_left_out(tmp_path):
    raw = {"data": {"task": "waves"}, "model": {"arch": "s4"}}
    compare(raw, tmp_path, inits=["scratch"], overrides=STEPS, tiny=True, baselines=False)
    assert not len(linear(tmp_path)) and not (tmp_path / "baselines.csv").exists()
