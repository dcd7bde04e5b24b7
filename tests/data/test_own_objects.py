"""One door for data: every object that Python users have gives the rows that a file gives."""

import itertools
import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import ClassLabel, Dataset, DatasetDict, Features, IterableDataset, List, Value

from hf_longseq import Recipe, compare, evaluate, finetune, predict, pretrain
from hf_longseq.data.byte_text import decode
from hf_longseq.data.own_reader import Reader
from hf_longseq.data.own_sources import keep_object, rows_of
from hf_longseq.data.task import load_task
from hf_longseq.errors import HfLongSeqError

ROWS = [{"text": f"text number {i}", "label": ("spam", "ham")[i % 2]} for i in range(60)]
SERIES = np.random.default_rng(0).normal(size=(60, 12, 2))
CLASSES = np.arange(60) % 3


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def load(data, **options):
    return load_task("own-data", data=data, **options)


def texts(splits):
    return {name: [(decode(row["input_ids"]), int(row["labels"])) for row in rows] for name, rows in splits.items()}


class Items(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, row):
        return self.rows[row]


TEXTS = {
    "DataFrame": pd.DataFrame(ROWS),
    "Dataset": Dataset.from_list(ROWS),
    "stream": Dataset.from_list(ROWS).to_iterable_dataset(),
    "list of dicts": ROWS,
    "mapping of columns": {name: [row[name] for row in ROWS] for name in ROWS[0]},
    "torch data set": Items(ROWS),
    "one split": DatasetDict({"train": Dataset.from_list(ROWS)}),
}


@pytest.mark.parametrize("data", TEXTS.values(), ids=TEXTS)
def test_texts_in_any_object_are_those_of_a_file(data):
    pd.DataFrame(ROWS).to_csv("rows.csv", index=False)
    splits, spec = load(data)
    assert texts(splits) == texts(load("rows.csv")[0]) and spec.labels == ("ham", "spam")


def test_rows_of_pandas_may_have_any_index():
    shuffled = pd.DataFrame(ROWS).sample(frac=1, random_state=0)
    assert texts(load(shuffled)[0]) == texts(load(shuffled.to_dict("records"))[0])
    assert rows_of(shuffled["text"])["text"][:] == shuffled["text"].tolist()
    assert rows_of(shuffled["text"], 3)["text"][:] == shuffled["text"].tolist()[:3]


def test_frames_by_the_names_of_their_splits_keep_them():
    frame = pd.DataFrame(ROWS)
    kept = load({"train": frame[:40], "validation": frame[40:50], "test": frame[50:]})[0]
    assert [text for split in ("train", "validation", "test") for text, _ in texts(kept)[split]] == [
        row["text"] for row in ROWS
    ]


ARRAYS = {
    "pair": (SERIES, CLASSES),
    "mapping": {"x": SERIES, "y": CLASSES},
    "list of dicts": [{"x": x, "y": int(y)} for x, y in zip(SERIES, CLASSES, strict=True)],
    "tensors": Items([{"x": torch.tensor(x), "y": torch.tensor(y)} for x, y in zip(SERIES, CLASSES, strict=True)]),
}


@pytest.mark.parametrize("data", ARRAYS.values(), ids=ARRAYS)
def test_series_in_any_object_are_those_of_a_file(data):
    np.savez("rows.npz", x=SERIES, y=CLASSES)
    expected, spec = load("rows.npz")
    splits, found = load(data)
    assert found.num_channels == 2 and found.normalization == spec.normalization
    for name, rows in expected.items():
        assert np.array_equal(np.stack(splits[name]["input_values"][:]), np.stack(rows["input_values"][:]))


@pytest.mark.parametrize("start", [0, 1e9, 1.7e9, -1e12])
def test_series_far_from_zero_are_standardised_like_those_around_it(start):
    splits, spec = load((start + SERIES, CLASSES))
    apart = (start + SERIES)[splits["train"]["source_row"][:]] - start
    mean, std = map(np.array, spec.normalization)
    assert np.allclose(mean - start, apart.mean((0, 1)), atol=1e-3) and np.allclose(std, apart.std((0, 1)), rtol=1e-5)
    assert np.allclose(np.stack(splits["train"]["input_values"][:]).std((0, 1)), 1, atol=1e-5)


@pytest.mark.parametrize("value", [0, 0.1, 1013.27, 1e9 / 3])
def test_a_channel_that_is_constant_in_train_is_left_as_it_is(value):
    series = [np.stack([np.full(50 + row % 7, value), np.arange(50.0 + row % 7) + row], axis=1) for row in range(60)]
    splits, spec = load({"x": series, "y": CLASSES, "group": np.arange(60)}, group_column="group")
    assert spec.normalization[0][0] == value and spec.normalization[1][0] == 1
    held_out = splits["test"][0]["source_row"]
    series[held_out][:, 0] += 0.5
    splits, _ = load({"x": series, "y": CLASSES, "group": np.arange(60)}, group_column="group")
    assert np.allclose(splits["test"][0]["input_values"][:, 0], 0.5) and splits["test"][0]["source_row"] == held_out


def test_inputs_without_labels_are_for_pretraining():
    for data in ([row["text"] for row in ROWS], SERIES, list(SERIES), {"text": [row["text"] for row in ROWS]}):
        splits, spec = load(data)
        assert spec.problem_type is None and "labels" not in splits["train"].column_names
        assert sum(map(len, splits.values())) == 60


def test_the_first_rows_of_a_stream_are_read():
    def endless():
        while True:
            yield from ROWS

    from datasets import IterableDataset

    splits, _ = load(IterableDataset.from_generator(endless), num_rows=60)
    assert texts(splits) == texts(load(ROWS)[0])


def test_a_stream_is_copied_to_the_disk_once(tmp_path):
    for _ in range(2):
        assert texts(load(Dataset.from_list(ROWS).to_iterable_dataset())[0]) == texts(load(ROWS)[0])
    (kept,) = (tmp_path / "cache" / "own-data" / "streams").iterdir()
    assert kept.suffix == ".arrow"
    assert rows_of(Dataset.from_list(ROWS).to_iterable_dataset()).cache_files[0]["filename"] == str(kept)


def test_labels_may_be_numbers_to_predict_or_missing():
    splits, spec = load(pd.DataFrame({"text": [row["text"] for row in ROWS], "label": np.arange(60) / 7}))
    assert spec.problem_type == "regression" and spec.metric == "rmse"
    rows = [{**row, "label": None if i < 20 else row["label"]} for i, row in enumerate(ROWS)]
    splits, spec = load(rows)
    assert len(splits["unlabelled"]) + sum(len(splits[name]) for name in ("train", "validation", "test")) == 60
    assert spec.labels == ("ham", "spam")


def test_exact_decimals_of_a_database_are_numbers_like_any_other():
    for step, labels in ((3, ()), (1, tuple("01234567"))):
        rows = [{"text": row["text"], "label": Decimal(f"{i % 8 / step:.1f}")} for i, row in enumerate(ROWS)]
        assert load(rows)[1].labels == labels


@pytest.mark.parametrize(
    "cells, names",
    [
        ([["a"], ["a", "b"], []], ("a", "b")),
        ([[1, 0, 1], [0, 0, 0], [1, 1, 0]], ("0", "1", "2")),
        ([[3], [3, 7], [7]], ("3", "7")),
    ],
    ids=["names", "0 and 1", "numbers"],
)
def test_several_labels_a_row(cells, names):
    splits, spec = load([{"text": row["text"], "label": cells[i % 3]} for i, row in enumerate(ROWS)])
    assert spec.problem_type == "multi_label_classification" and spec.labels == names and spec.metric == "f1"
    for row in splits["train"]:
        cell = cells[int(decode(row["input_ids"]).split()[-1]) % 3]
        are_flags = len(cell) == len(names) and set(cell) <= {0, 1}
        assert row["labels"].tolist() == (cell if are_flags else [name in map(str, cell) for name in names])


def test_several_labels_in_a_csv_file_are_lists_as_text():
    cells = [["a"], ["a", "b"], []]
    rows = [{"text": row["text"], "label": json.dumps(cells[i % 3])} for i, row in enumerate(ROWS)]
    pd.DataFrame(rows).to_csv("rows.csv", index=False)
    splits, spec = load("rows.csv", problem_type="multi_label_classification")
    assert spec.labels == ("a", "b") and not spec.per_position
    for row in splits["train"]:
        assert row["labels"].tolist() == [name in cells[row["source_row"] % 3] for name in spec.labels]


def named_classes(cells):
    features = Features({"text": Value("string"), "labels": List(ClassLabel(names=["joy", "anger", "fear"]))})
    rows = {"text": [row["text"] for row in ROWS], "labels": [cells[i % len(cells)] for i in range(60)]}
    return Dataset.from_dict(rows, features=features)


def test_class_minus_one_alone_in_a_list_of_named_classes_is_no_label():
    splits, spec = load(named_classes([[0], [-1], [0, 1], [2]]))
    assert spec.labels == ("joy", "anger", "fear")
    assert set(splits["unlabelled"]["source_row"][:] % 4) == {1} and len(splits["unlabelled"]) == 15
    assert splits["train"]["labels"][:].sum(0)[2] == sum(splits["train"]["source_row"][:] % 4 == 3)


def test_class_minus_one_beside_named_classes_is_refused():
    with pytest.raises(HfLongSeqError, match=r"row 2, has labels \[0, -1\], and named classes are numbered from 0"):
        load(named_classes([[0], [0, -1], [2, 1]]))


def test_several_named_classes_keep_their_order():
    splits, spec = load(named_classes([[0, 1], [1], [2, 1]]))
    assert spec.labels == ("joy", "anger", "fear") and splits["train"]["labels"][:].sum(0)[1] == len(splits["train"])


def test_words_with_tags_are_joined_and_their_tags_spread():
    names = ["O", "B-person", "I-person"]
    features = Features({"tokens": List(Value("string")), "ner_tags": List(ClassLabel(names=names))})
    words = [["Ada", "King", "wrote", f"{i}"] for i in range(40)]
    splits, spec = load(Dataset.from_dict({"tokens": words, "ner_tags": [[1, 2, 0, 0]] * 40}, features=features))
    row = splits["train"][0]
    assert spec.per_position and spec.labels == tuple(names)
    assert decode(row["input_ids"]).startswith("Ada King wrote ")
    assert row["labels"].tolist()[:15] == [1, 2, 2, 2, 2, 2, 2, 2] + [0] * 7
    with pytest.raises(HfLongSeqError, match="row 1, has 2 tags for 4 words: give one for each"):
        load([{"tokens": one, "ner_tags": ["O", "B-person"]} for one in words])


def test_an_object_has_a_name_under_which_other_processes_find_it():
    kept = keep_object(pd.DataFrame(ROWS))
    assert kept == keep_object(pd.DataFrame(ROWS)) != keep_object(ROWS[:50]) and keep_object("a.csv") == "a.csv"
    assert texts(load(kept)[0]) == texts(load(ROWS)[0])
    parts = DatasetDict({"train": Dataset.from_list(ROWS[:40]), "test": Dataset.from_list(ROWS[40:])})
    assert len(load(keep_object(parts))[0]["test"]) == 20


RECIPE = {
    "model": {"arch": "s4", "hidden_size": 8, "num_hidden_layers": 1, "state_size": 4, "bidirectional": True},
    "pretrain": {"max_steps": 1, "global_batch_size": 4},
    "finetune": {"max_steps": 1, "global_batch_size": 4},
}


@pytest.mark.parametrize(
    "data", [pd.DataFrame(ROWS), Dataset.from_list(ROWS), ROWS], ids=["frame", "data set", "list"]
)
def test_an_object_goes_through_both_phases_and_back(data, tmp_path):
    recipe = Recipe.load({**RECIPE, "data": {"task": "own-data", "data": data}})
    first = pretrain(recipe, tmp_path / "first")
    second = finetune(recipe, tmp_path / "second", init_from=first.output_dir)
    assert "test_examples_trained_on" not in second.metrics
    assert evaluate(second.output_dir)["accuracy"] == second.metrics["test"]["accuracy"]
    answers = predict(second.output_dir, source=["one text", "another"])
    assert [answer["text"] for answer in answers] == ["one text", "another"] and answers[0]["prediction"] in (
        "spam",
        "ham",
    )
    again = predict(second.output_dir, source=data, limit=3)
    assert [answer["label"] for answer in again] == ["spam", "ham", "spam"]

    endless = IterableDataset.from_generator(lambda: map(dict, itertools.cycle(ROWS)))
    assert predict(second.output_dir, source=endless, limit=3) == again


@pytest.mark.slow
def test_runs_in_processes_of_their_own_find_the_rows_of_an_object(tmp_path):
    data = {"task": "own-data", "data": pd.DataFrame(ROWS), "unlabelled": [{"text": "more"}] * 3}
    recipe = {**RECIPE, "data": data}
    options = {"inits": ["spt"], "baselines": False}
    compared = [compare(recipe, tmp_path / f"{jobs}", jobs=jobs, **options).scores for jobs in (1, 2)]
    assert compared[0]["value"].tolist() == compared[1]["value"].tolist() and len(compared[0]) > 1


@pytest.mark.parametrize(
    "data, message",
    [
        ([], "data has no rows"),
        (3, "data could not be read as a table"),
        ((ROWS[0],), "has only 1 different rows|has label"),
        (SERIES, "no labels to fine-tune on"),
    ],
    ids=["no rows", "a number", "one row", "no labels"],
)
def test_what_is_wrong_is_said_before_anything_is_trained(tmp_path, data, message):
    with pytest.raises(HfLongSeqError, match=message):
        compare({**RECIPE, "data": {"task": "own-data", "data": data}}, tmp_path / "run")
    assert not list(tmp_path.glob("run/runs/*"))


def test_a_table_in_the_place_of_a_recipe_is_named(tmp_path):
    with pytest.raises(HfLongSeqError, match="the recipe is DataFrame: give a name, a file or a mapping"):
        compare(pd.DataFrame(ROWS), tmp_path / "run")


def test_rows_are_read_once_and_never_again(monkeypatch):
    pd.DataFrame(ROWS).to_csv("rows.csv", index=False)
    read, plain = [], Reader.read

    def counted(self, raw, *more, **options):
        read.append(raw)
        return plain(self, raw, *more, **options)

    monkeypatch.setattr(Reader, "read", counted)
    first = texts(load("rows.csv")[0])
    assert len(read) == 61  # one of them to see what the data are
    del read[:]
    assert texts(load("rows.csv")[0]) == first and len(read) == 1
    load("rows.csv", max_length=5)
    assert len(read) == 1 + 61


EMPTY = {
    "no rows": ([], "data has no rows"),
    "an empty Dataset": (Dataset.from_dict({"text": []}), "data has no rows"),
    "None": ([*ROWS, {"text": None, "label": "ham"}], "data, row 61, column 'text', is empty: remove the row"),
    "uneven columns": ({"x": [1, 2], "y": [1]}, "Column 1 named y expected length 2 but got length 1"),
    "mixed": ([{"text": "a"}, {"text": 3}], "data could not be read as a table"),
}


@pytest.mark.parametrize("data, message", EMPTY.values(), ids=EMPTY)
def test_what_is_wrong_with_an_object_is_one_sentence(data, message):
    with pytest.raises(HfLongSeqError, match=message):
        load(data)
