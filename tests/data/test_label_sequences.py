"""Labels for every position of own data: the forms of a cell, and what is refused."""

import json

import numpy as np
import pytest
from datasets import ClassLabel, Dataset, Features, List, Value

from hf_longseq import DataCollatorWithLongPadding, load_task
from hf_longseq.data.own_labels import read_labels
from hf_longseq.data.own_reader import Reader
from hf_longseq.data.own_sources import open_source
from hf_longseq.errors import HfLongSeqError
from hf_longseq.metrics.spans import Tags, spans_of

PER_POSITION = ["O"] * 3 + ["gene"] * 4 + ["O"] * 2


def load(tmp_path, cells, inputs=None, column="spans", **options):
    """Rows of nine values each (or of `inputs`), the first cell of labels twenty times."""
    inputs = inputs or [[float(i + row) for i in range(9)] for row in range(20)]
    cells = cells if len(cells) == len(inputs) else [cells[0]] * len(inputs)
    file = tmp_path / "own.jsonl"
    rows = [json.dumps({"x": one, column: cell}) for one, cell in zip(inputs, cells, strict=True)]
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return load_task("own-data", data=str(file), cache_dir=str(tmp_path / "cache"), **options)


@pytest.mark.parametrize(
    "cell",
    [
        PER_POSITION,
        " ".join(PER_POSITION),
        "O*3 gene*4 O*2",
        [["O", 3], ["gene", 4], ["O", 2]],
        [{"start": 3, "end": 7, "label": "gene"}],
        '[{"start": 3, "end": 7, "label": "gene"}]',
    ],
    ids=["list", "text", "runs as text", "runs", "spans", "spans as JSON text"],
)
def test_every_form_of_a_cell_gives_the_same_labels(tmp_path, cell):
    splits, spec = load(tmp_path, [cell])
    assert spec.per_position and spec.labels == ("O", "gene") and spec.metric == "token_f1"
    assert spec.problem_type == "single_label_classification"
    assert splits["train"][0]["labels"].tolist() == [0, 0, 0, 1, 1, 1, 1, 0, 0]


def test_a_span_without_a_known_label_is_not_scored(tmp_path):
    cell = [{"start": 3, "end": 5, "label": None}, {"start": 6, "end": 7, "label": "gene"}]
    splits, spec = load(tmp_path, [cell])
    assert spec.labels == ("O", "gene")
    assert splits["train"][0]["labels"].tolist() == [0, 0, 0, -100, -100, 0, 1, 0, 0]


def test_letters_of_text_are_spread_over_bytes_and_the_closing_token_has_no_label(tmp_path):
    texts = [f"aé{chr(97 + row)}z" for row in range(20)]
    splits, spec = load(tmp_path, ["OGGO"], texts)
    row = splits["train"][0]
    assert spec.labels == ("O", "G")
    assert len(row["input_ids"]) == 6 and row["labels"].tolist() == [0, 1, 1, 1, 0, -100]
    # as many labels as bytes are labels of bytes
    assert load(tmp_path, ["OGOOO"], texts)[0]["train"][0]["labels"].tolist() == [0, 1, 0, 0, 0, -100]


@pytest.mark.parametrize(
    "inputs, cell, message",
    [
        (
            [f"eleven le{chr(97 + row)}t" for row in range(20)],
            [{"start": 6, "end": 99, "label": "x"}],
            "span 6 to 99, outside the 11 characters",
        ),
        (None, [{"start": 6, "end": 12, "label": "x"}], "row 1, has the span 6 to 12, outside the 9 positions"),
    ],
)
def test_a_span_outside_of_its_input_is_named(tmp_path, inputs, cell, message):
    with pytest.raises(HfLongSeqError, match=message):
        load(tmp_path, [cell], inputs)


def test_a_span_that_begins_with_a_wide_letter_goes_on_in_its_bytes(tmp_path):
    splits, spec = load(tmp_path, [["B-x", "I-x", "O"]], [f"éé{chr(97 + row)}" for row in range(20)], column="tags")
    begin, inside, out = (spec.labels.index(name) for name in ("B-x", "I-x", "O"))
    assert splits["train"][0]["labels"].tolist() == [begin, inside, inside, inside, out, -100]


def test_spans_of_tags_are_those_of_characters_whatever_bytes_these_take(tmp_path):
    cell = ["S-x", "O", "B-x", "I-x", "E-x"]
    for letters in ("abcd", "äécd", "ab→é", "😀😀😀😀"):
        splits, spec = load(tmp_path, [cell], [letters + chr(97 + row) for row in range(20)], column="tags")
        first, _, *within = (len(letter.encode()) for letter in letters)
        spans = spans_of(splits["train"][0]["labels"][:-1], Tags.of(spec.labels))
        start = len(letters[:2].encode())
        assert spans.tolist() == [[0, first, 0], [start, start + sum(within) + 1, 0]]


WORDS = ["John", "Smith", "met", "Bob", "I"]
TAGS = {
    "with ends": (["B-x", "E-x", "O", "S-x", "S-x"], ["O", "B-x", "E-x", "I-x"]),
    "with beginnings": (["B-x", "I-x", "O", "B-x", "B-x"], ["O", "B-x", "I-x"]),
    "with beginnings between neighbours": (["I-x", "I-x", "O", "I-x", "B-x"], ["O", "B-x", "I-x"]),
}


@pytest.mark.parametrize("tags, names", TAGS.values(), ids=TAGS)
def test_a_span_of_words_is_a_span_of_their_letters(tmp_path, tags, names):
    rows = [[*WORDS, f"{row}"] for row in range(20)]
    splits, spec = load(tmp_path, [[*tags, "O"]], rows, column="ner_tags")
    spans = spans_of(splits["train"][0]["labels"][:-1], Tags.of(spec.labels))
    assert spec.labels == tuple(names) and spans.tolist() == [[0, 10, 0], [15, 18, 0], [19, 20, 0]]


def test_spans_of_one_word_go_on_over_its_letters_with_a_class_of_their_own(tmp_path):
    """In data that hold no longer span, and in data that name their classes."""
    rows = {"tokens": [["Bob", f"{row}"] for row in range(20)], "ner_tags": [["B-x", "O"]] * 20}
    named = Features({"tokens": List(Value("string")), "ner_tags": List(ClassLabel(names=["B-x", "O"]))})
    for data, names in (
        (Dataset.from_dict(rows), "O B-x I-x"),
        (Dataset.from_dict(rows, features=named), "B-x O I-x"),
    ):
        splits, spec = load_task("own-data", data=data, cache_dir=str(tmp_path))
        assert " ".join(spec.labels) == names
        assert [spec.labels[label] for label in splits["train"][0]["labels"][:5]] == ["B-x", "I-x", "I-x", "O", "O"]


@pytest.mark.parametrize("names, expected", [("O B-x I-x", [1, 2, 2, 0, 0]), ("O B-x", [1, 1, 1, 0, 0])])
def test_words_of_a_new_file_have_the_classes_of_the_model(names, expected):
    source = open_source([{"tokens": ["Bob", "met"], "tags": ["B-x", "O"]}, {"tokens": ["Eve"], "tags": ["B-x"]}])
    labels = read_labels(source, "tags", ["tokens"], Reader("text"), names=names.split())
    assert labels.lay_out(0, 8, cut=False).tolist()[:5] == expected


def test_the_class_outside_of_spans_may_have_another_name(tmp_path):
    _, spec = load(tmp_path, [["rest"] * 5 + ["step"] * 4], outside_label="rest")
    assert spec.labels == ("O", "step")


def test_numbers_and_several_labels_for_every_position(tmp_path):
    numbers = [0.5, None, *range(7)]
    splits, spec = load(tmp_path, [numbers], problem_type="regression")
    assert (spec.problem_type, spec.labels, spec.metric) == ("regression", (), "rmse")
    assert splits["train"][0]["labels"].tolist()[:3] == [0.5, -100, 0]
    splits, spec = load(tmp_path, [[[1, 0], [0, 1], *[[0, 0]] * 7]])
    assert (spec.problem_type, spec.labels, spec.metric) == ("multi_label_classification", ("0", "1"), "f1")
    assert splits["train"][0]["labels"].tolist()[:2] == [[1, 0], [0, 1]]
    splits, _ = load(tmp_path, [[None, [0, 1], *[[0, 0]] * 7]])
    assert splits["train"][0]["labels"].tolist()[:2] == [[-100, -100], [0, 1]]


def test_long_inputs_and_their_labels_are_cut_together(tmp_path):
    splits, _ = load(tmp_path, [PER_POSITION], max_length=5)
    assert splits["train"][0]["labels"].tolist() == [0, 0, 0, 1, 1]
    splits, _ = load(tmp_path, ["OOOGG"], [f"{chr(97 + row)}text" for row in range(20)], max_length=4)
    assert splits["train"][0]["labels"].tolist() == [0, 0, 0, -100]  # the last one closes the text


def test_changed_labels_are_read_anew(tmp_path):
    first, _ = load(tmp_path, [PER_POSITION])
    second, _ = load(tmp_path, [PER_POSITION[::-1]])
    assert first["train"][0]["labels"].tolist() != second["train"][0]["labels"].tolist()


@pytest.mark.parametrize(
    ("cell", "options", "words"),
    [
        (["O"] * 5 + ["a"] * 3, {}, ["row", "8 labels for 9 positions"]),
        ([{"start": 3, "label": "a"}], {}, ["row 1", "without 'end'"]),
        ([{"start": 3, "end": 3, "label": "a"}], {}, ["row 1", "3 to 3"]),
        ([{"start": 0, "end": 3, "label": "a"}, {"start": 2, "end": 4, "label": "a"}], {}, ["2 to 4", "overlap"]),
        ([{"start": 0.5, "end": 1.2, "label": "a"}], {}, ["row 1", "0.5 for a number of positions", "whole"]),
        ([{"start": None, "end": 3, "label": "a"}], {}, ["row 1", "None for a number of positions"]),
        ([{"start": -1, "end": 3, "label": "a"}], {}, ["row 1", "-1 for a number of positions"]),
        ([["O", 12], ["a", -3]], {}, ["row 1", "-3 for a number of positions"]),
        ([["O", "x"], ["a", 3]], {}, ["row 1", "'x' for a number of positions"]),
        ([[1, 0]] * 8 + [[1]], {}, ["row 1", "not a number"]),
        ("[1, 2", {}, ["row 1", "not JSON"]),
        (["O"] * 9, {}, ["Every position has label O"]),
        ([0.5] * 9, {}, ["row 1", "0.5", "problem_type='regression'"]),
        (["a"] * 9, {"problem_type": "regression"}, ["row 1", "not a number"]),
        (PER_POSITION, {"outside_label": "gen"}, ["outside_label is 'gen'", "gene"]),
    ],
)  # fmt: skip
def test_labels_that_do_not_fit_are_named(tmp_path, cell, options, words):
    with pytest.raises(HfLongSeqError) as error:
        load(tmp_path, [cell], **options)
    assert all(word in str(error.value) for word in words), error.value


def test_the_collator_scores_neither_padding_nor_what_has_no_label():
    collate = DataCollatorWithLongPadding(num_labels=3, per_position=True, problem_type="single_label_classification")
    rows = [
        {"input_ids": [5, 6, 7], "labels": np.array([0, -100, 2], np.int16)},
        {"input_ids": [5, 6, 7, 8], "labels": np.array([1, 1, 0, 0], np.int16), "attention_mask": [0, 1, 1, 1]},
    ]
    assert collate(rows)["labels"].tolist() == [[0, -100, 2, -100], [-100, 1, 0, 0]]
    collate = DataCollatorWithLongPadding(per_position=True, problem_type="regression", pad_to_multiple_of=4)
    rows = [{"input_values": [0.1, 0.2], "labels": np.array([0.5, np.nan], np.float32)}]
    assert collate(rows)["labels"].tolist() == [[0.5, -100, -100, -100]]


@pytest.mark.parametrize(
    ("labels", "words"),
    [([0, 3, 0], ["example 0", "is 3", "0..2"]), ([0, 1], ["shape (2,)", "3 steps"]), (1, ["shape ()", "3 steps"])],
)
def test_the_collator_names_wrong_labels(labels, words):
    collate = DataCollatorWithLongPadding(num_labels=3, per_position=True)
    with pytest.raises(HfLongSeqError) as error:
        collate([{"input_ids": [1, 2, 3], "labels": np.array(labels)}])
    assert all(word in str(error.value) for word in words), error.value
