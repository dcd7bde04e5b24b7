"""Labels for every position of own data: the forms of a cell, and what is refused."""

import json

import numpy as np
import pytest

from hf_longseq import DataCollatorWithLongPadding, load_task
from hf_longseq.errors import HfLongSeqError

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
