"""Rows without labels are inputs of pretraining, and of pretraining alone."""

import os
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset

from hf_longseq import Recipe
from hf_longseq.cli.main import main
from hf_longseq.data import own_data
from hf_longseq.data.byte_text import decode
from hf_longseq.data.task import load_task
from hf_longseq.data.unlabelled import read_unlabelled, without_held_out
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.run import load_data

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def write_rows(path="rows.csv", labelled=200, unlabelled=1000, twins=0, group=False):
    """Rows `text,label[,subject]`: labelled ones, unlabelled ones, and unlabelled copies of all labelled ones."""
    header = "text,label" + (",subject" if group else "")
    rows = [[f"note {i} {'ab' * (i % 7 + 1)}", str(i % 2), f"s{i % 10}"] for i in range(labelled)]
    rows += [[f"free {i} {'ba' * (i % 7 + 1)}", "", f"s{i % 20}"] for i in range(unlabelled)]
    rows += [[text, "", subject] for text, _, subject in rows[:twins]]
    lines = [",".join(row if group else row[:2]) for row in rows]
    with open(path, "w") as file:
        file.write("\n".join([header, *lines]))
    return str(path)


def inputs_of(rows):
    (name,) = {"input_ids", "input_values"} & set(rows.column_names)
    return [np.asarray(row) for row in rows.with_format("numpy")[name]]


def data_of(**data):
    return load_data(Recipe.load(None, {"data": data}).data)


def test_rows_without_a_label_are_read_by_pretraining_alone():
    data = data_of(task="own-data", data=write_rows())
    assert (len(data.labelled), len(data.validation), len(data.test)) == (177, 15, 8)
    assert len(data.pretrain) == 177 + 1000 and "labels" not in data.pretrain.column_names
    assert "200 labelled rows of 1,200 (177 train, 15 validation, 8 test examples)" in data.spec.note
    assert "1,177 inputs open to pretraining (1,000 unlabelled, 177 of train)" in data.spec.note


def test_two_thousand_rows_of_which_two_hundred_are_labelled_run_without_another_word(capsys, undrawn):
    """The table says what the file holds, and what the arms read of it: nothing that validation or test holds."""
    write_rows(unlabelled=2_000)
    assert main("spt --data rows.csv --tiny --max_steps 2".split()) == 0
    out, progress = capsys.readouterr()
    told = "200 labelled rows of 2,200 (177 train, 15 validation, 8 test examples), 2,177 inputs open to pretraining"
    assert told in progress and f"Data: {told}" in out
    assert "scratch" in out and "equal budget" in out and "177 + 15 labels, 2,177 inputs, labels scarce" in out
    report = Path("runs/spt-rows/report/report.md").read_text()
    assert f"Data: {told}" in report and "177 + 15 labels, 2,177 inputs, labels scarce" in report

    data = data_of(task="own-data", data="rows.csv")
    held_out = [decode(row) for rows in (data.validation, data.test) for row in rows["input_ids"]]
    assert len(held_out) == 23 and not {decode(row) for row in data.pretrain["input_ids"]} & set(held_out)


@pytest.mark.parametrize(
    ("inputs", "count"), [("subset", 8), ("all", 177), ("unlabelled", 1000), ("all+unlabelled", 1177), (30, 30)]
)
def test_pretraining_reads_what_it_is_told_to(inputs, count):
    section = {"task": "own-data", "data": write_rows(), "num_train_examples": 10, "pretrain_inputs": inputs}
    assert len(data_of(**section).pretrain) == count


def test_pretraining_on_unlabelled_inputs_alone_needs_some():
    with pytest.raises(HfLongSeqError, match="pretrain_inputs is unlabelled.*name others by data.unlabelled"):
        data_of(task="spoken-tones", pretrain_inputs="unlabelled")


def test_copies_of_held_out_rows_are_left_out_and_counted():
    data = data_of(task="own-data", data=write_rows(twins=200))
    assert len(data.pretrain) == 177 + 1000 + 177
    assert "23 unlabelled left out (equal to, or of the group of, a held-out row)" in data.spec.note


def test_a_group_never_crosses_splits_through_its_unlabelled_rows():
    splits, _ = own_data.load(write_rows(group=True), group_column="subject")
    subjects = [f"s{i % 10}" for i in range(200)] + [f"s{i % 20}" for i in range(1000)]
    of = {name: {subjects[row] for row in rows["source_row"]} for name, rows in splits.items()}
    assert of["unlabelled"] and not of["unlabelled"] & (of["validation"] | of["test"])


def test_rows_that_choose_a_checkpoint_are_of_other_groups_than_those_that_train():
    data = data_of(task="own-data", data=write_rows(group=True), group_column="subject", validation="labels")
    choosing, trained = set(data.validation["group"]), set(data.labelled["group"])
    assert choosing and trained and not choosing & trained
    assert 0.1 < len(data.validation) / (len(data.validation) + len(data.labelled)) < 0.4


def test_one_group_cannot_train_and_choose():
    lines = ["text,label,subject", *(f"note {i},{i % 2},s{i // 10}" for i in range(30))]  # a subject a split
    Path("rows.csv").write_text("\n".join(lines))
    with pytest.raises(HfLongSeqError, match="rows of one group cannot train and choose as well"):
        data_of(task="own-data", data="rows.csv", group_column="subject", validation="labels")


def test_data_without_a_label_column_pretrain_and_say_what_fine_tuning_lacks(capsys):
    np.save("waves.npy", np.random.default_rng(0).normal(size=(60, 40)).astype(np.float32))
    assert main("pretrain --data waves.npy --tiny --output_dir pretrained".split()) == 0
    assert main("spt --data waves.npy --tiny --output_dir both".split()) == 2
    assert "waves.npy has no labels to fine-tune on: name their column with --label_column" in capsys.readouterr().err


def test_another_source_without_labels_joins_any_task():
    train = load_task("spoken-tones")[0]["train"]
    np.save("more.npy", np.random.default_rng(0).normal(size=(7, 300)).astype(np.float32))
    data = data_of(task="spoken-tones", unlabelled="more.npy")
    assert (
        len(data.pretrain) == len(train) + 7
        and data.pretrain.features["input_values"] == train.features["input_values"]
    )
    texts = data_of(task="own-data", data=write_rows(unlabelled=0), unlabelled=write_rows("more.csv", 0, 30))
    assert len(texts.pretrain) == 177 + 30 and decode(texts.pretrain[177]["input_ids"])[:6] == "free 0"


@pytest.mark.parametrize("modality", ["values", "tokens"])
def test_held_out_numbers_are_found_again_where_text_holds_them(modality):
    series = [f"{i % 7} {i // 7} 3 1" for i in range(40)]
    for name, label in (("labelled.csv", lambda i: f",{i % 2}"), ("more.csv", lambda i: "")):
        header = "signal,label" if name == "labelled.csv" else "signal"
        Path(name).write_text("\n".join([header, *(f"{one}{label(i)}" for i, one in enumerate(series))]))
    own = {"task": "own-data", "data": "labelled.csv", "modality": modality, "input_column": "signal"}
    data = data_of(**own, unlabelled="more.csv")
    held_out = {row.tobytes() for rows in (data.validation, data.test) for row in inputs_of(rows)}
    assert held_out and not held_out & {row.tobytes() for row in inputs_of(data.pretrain)}


def test_groups_of_another_source_never_cross_splits_either(caplog):
    subjects = [f"s{i % 10}" for i in range(200)]
    own = {"data": write_rows(unlabelled=0, group=True), "group_column": "subject", "pretrain_inputs": "unlabelled"}
    write_rows("more.csv", labelled=0, unlabelled=100, group=True)  # of 10 more subjects
    data = data_of(task="own-data", unlabelled="more.csv", **own)
    held_out = {subjects[row] for rows in (data.validation, data.test) for row in rows["source_row"]}
    read = {f"s{int(decode(row).split()[1]) % 20}" for row in data.pretrain["input_ids"]}
    assert held_out and read == {f"s{i}" for i in range(20)} - held_out
    assert "group" not in data.pretrain.column_names

    write_rows("more.csv", labelled=0, unlabelled=99)
    assert len(data_of(task="own-data", unlabelled="more.csv", **own).pretrain) == 99
    assert "more.csv has no column 'subject', so pretraining may read groups of validation and test" in caplog.text


@pytest.mark.parametrize("shape", [(60, 12), (60, 900), (60, 20, 2)], ids=["short", "long", "channels"])
def test_held_out_series_are_found_again_in_other_decimals(shape):
    series = 5 + RNG.normal(size=shape)
    np.savez("rows.npz", x=series, y=np.arange(60) % 2)
    own = {"task": "own-data", "data": "rows.npz", "pretrain_inputs": "unlabelled"}
    np.save("copies.npy", series.astype(np.float32))
    data = data_of(unlabelled="copies.npy", **own)
    assert len(data.pretrain) == 60 - len(data.validation) - len(data.test) < 60
    np.save("others.npy", series * 1.001)
    assert len(data_of(unlabelled="others.npy", **own).pretrain) == 60


def test_series_of_several_lengths_are_compared_with_those_of_their_own():
    held_out = Dataset.from_dict({"input_values": [[0.1, 0.2, 0.3], [4.0], [0.0]]})
    rows = Dataset.from_dict({"input_values": [[0.1, 0.2], [4.000001], [0.1, 0.2, 0.3, 0.0], [0.0, 0.0], [0.3]]})
    assert without_held_out(rows, [held_out])["input_values"][:] == [rows[i]["input_values"] for i in (0, 2, 3, 4)]


def test_equal_inputs_are_found_whatever_their_length():
    held_out = Dataset.from_dict({"input_ids": [[1, 2, 3], [4]], "labels": [0, 1]}).with_format("numpy")
    rows = Dataset.from_dict({"input_ids": [[1, 2], [4], [1, 2, 3], [5]]}).with_format("numpy")
    kept = without_held_out(rows, [held_out])
    assert [row.tolist() for row in kept["input_ids"]] == [[1, 2], [5]]


def test_a_source_that_does_not_fit_the_task_is_named():
    rows, spec = load_task("spoken-tones")
    write_rows("texts.csv", 0, 5)
    with pytest.raises(HfLongSeqError, match="texts.csv, row 1, is not a sequence of numbers"):
        read_unlabelled("texts.csv", spec, rows["train"], "text")
    np.save("two.npy", np.zeros((5, 30, 2), dtype=np.float32))
    with pytest.raises(HfLongSeqError, match=r"two.npy, row 1, does not fit the model: .*1 channel"):
        read_unlabelled("two.npy", spec, rows["train"])
    with pytest.raises(FileNotFoundError, match="nothing.csv does not exist"):
        read_unlabelled("nothing.csv", spec, rows["train"])


def test_an_unlabelled_row_of_a_held_out_split_is_named():
    os.mkdir("splits")
    write_rows("splits/train.csv", 30, 0)
    write_rows("splits/test.csv", 30, 1)
    with pytest.raises(HfLongSeqError, match="test.csv, row 31, is in test and has no label: label it, remove it, or"):
        own_data.load("splits")
