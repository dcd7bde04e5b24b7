"""Your own data: every format becomes a task, splits leak nothing, and what is wrong is named by file and row."""

import csv
import gzip
import io
import json
import logging
import os
import re
import tarfile
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Audio, ClassLabel, Dataset, DatasetDict, Features, Value

from hf_longseq.data import byte_text, own_sources
from hf_longseq.data.collators import DataCollatorForMaskedDenoising, DataCollatorWithLongPadding
from hf_longseq.data.task import load_task
from hf_longseq.errors import HfLongSeqError

RNG = np.random.default_rng(0)


def load(data, tmp_path, **options):
    return load_task("own-data", data=str(data), cache_dir=str(tmp_path / "cache"), **options)


def write_csv(path, rows, header=("text", "label")):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def sentences(count=40):
    return [(f"text number {i} {'é' * (i % 7)}", ("spam", "ham")[i % 2]) for i in range(count)]


def all_labels(splits):
    return np.concatenate([split[:]["labels"] for split in splits.values()])


class TestFormats:
    def check_text(self, data, tmp_path, **options):
        splits, spec = load(data, tmp_path, **options)
        assert {name: len(split) for name, split in splits.items()} == {"train": 34, "validation": 4, "test": 2}
        assert spec.labels == ("ham", "spam") and spec.vocab_size == byte_text.VOCAB_SIZE
        row = splits["test"][0]
        assert byte_text.decode(row["input_ids"]) == sentences()[row["source_row"]][0]
        assert spec.labels[row["labels"]] == sentences()[row["source_row"]][1]
        DataCollatorForMaskedDenoising.from_task(spec)([splits["train"][i] for i in range(8)])
        return splits

    def test_csv(self, tmp_path):
        self.check_text(write_csv(tmp_path / "a.csv", sentences()), tmp_path)

    def test_tsv_jsonl_and_parquet(self, tmp_path):
        lines = [f"{text}\t{label}" for text, label in sentences()]
        (tmp_path / "a.tsv").write_text("\n".join(["text\tlabel", *lines]))
        rows = [{"sentence": text, "target": label} for text, label in sentences()]
        (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, rows)))
        Dataset.from_list(rows).to_parquet(tmp_path / "c.parquet")
        for name in ("a.tsv", "b.jsonl", "c.parquet"):
            self.check_text(tmp_path / name, tmp_path)

    def test_the_source_says_whether_the_data_are_a_file_or_a_data_set_of_the_hub(self, tmp_path, monkeypatch):
        path = write_csv(tmp_path / "a.csv", sentences())
        assert load(path, tmp_path)[1].source == str(path)
        monkeypatch.setenv("HOME", str(tmp_path))
        assert load("~/a.csv", tmp_path)[1].source == "~/a.csv"
        rows = [{"text": text, "label": label} for text, label in sentences()]
        monkeypatch.setattr("hf_longseq.data.own_sources.load_dataset", lambda repo_id: Dataset.from_list(rows))
        assert load("org/texts", tmp_path)[1].source.endswith("/datasets/org/texts, its test split taken out of train")
        parts = DatasetDict({"train": Dataset.from_list(rows[:30]), "test": Dataset.from_list(rows[30:])})
        monkeypatch.setattr("hf_longseq.data.own_sources.load_dataset", lambda repo_id: parts)
        assert load("org/texts", tmp_path)[1].source.endswith("/datasets/org/texts")

    def test_series_are_standardised_by_train(self, tmp_path):
        series = RNG.normal(5, 3, (30, 12, 2))
        np.savez(tmp_path / "a.npz", x=series, y=np.arange(30) % 3)
        splits, spec = load(tmp_path / "a.npz", tmp_path)
        assert spec.modality == "values" and spec.num_channels == 2 and spec.labels == ("0", "1", "2")
        train = np.stack(splits["train"][:]["input_values"])
        assert np.allclose(train.mean((0, 1)), 0, atol=1e-5) and np.allclose(train.std((0, 1)), 1, atol=1e-5)
        row = splits["test"][0]
        mean, std = (np.array(part) for part in spec.normalization)
        assert np.allclose(row["input_values"] * std + mean, series[row["source_row"]], atol=1e-4)

    def test_npy_with_labels_beside_it(self, tmp_path):
        np.save(tmp_path / "signals.npy", RNG.normal(size=(20, 9)).astype(np.float32))
        np.save(tmp_path / "y.npy", np.arange(20) % 2)
        splits, spec = load(tmp_path / "signals.npy", tmp_path)
        assert spec.num_channels == 1 and splits["train"][0]["input_values"].shape == (9,)
        assert spec.labels == ("0", "1")
        np.save(tmp_path / "X.npy", np.zeros((20, 7), np.float32))  # a usual name, but another file was asked for
        assert load(tmp_path / "signals.npy", tmp_path)[1].max_length == 9

    def test_token_ids(self, tmp_path):
        rows = [{"input_ids": RNG.integers(0, 30, 5 + i % 3).tolist() + [29], "label": i % 2} for i in range(20)]
        Dataset.from_list(rows).to_parquet(tmp_path / "a.parquet")
        splits, spec = load(tmp_path / "a.parquet", tmp_path)
        assert (spec.vocab_size, spec.mask_token_id, spec.pad_token_id) == (32, 30, 31)
        DataCollatorForMaskedDenoising.from_task(spec)([splits["train"][0]])
        sizes = [load(tmp_path / "a.parquet", tmp_path, vocab_size=size)[1].vocab_size for size in (50, 10)]
        assert sizes == [52, 32]  # room for more, never for fewer

    def test_numbers_in_text_cells_of_different_lengths(self, tmp_path):
        rows = [(" ".join(str(v) for v in RNG.normal(size=4 + i % 3)), i % 2) for i in range(20)]
        splits, spec = load(write_csv(tmp_path / "a.csv", rows, ("x", "y")), tmp_path, modality="values")
        assert {len(x) for x in splits["train"][:]["input_values"]} == {4, 5, 6} and spec.max_length == 6

    @pytest.mark.parametrize(("name", "modality"), [("input_values", "values"), ("input_ids", "tokens")])
    def test_a_csv_column_with_the_name_of_the_models_input_holds_numbers(self, name, modality, tmp_path):
        rows = [(" ".join(str(v) for v in range(i, i + 7 + i % 3)), i % 2) for i in range(40)]
        splits, spec = load(write_csv(tmp_path / "a.csv", rows, (name, "label")), tmp_path)
        assert spec.modality == modality and spec.max_length == 9 and name in splits["train"].column_names

    def test_a_class_called_none_is_a_class_and_a_text_called_na_is_a_text(self, tmp_path):
        rows = [(f"NA{i}" if i else "NA", ("None", "null", "")[i % 3]) for i in range(60)]
        splits, spec = load(write_csv(tmp_path / "a.csv", rows), tmp_path)
        assert spec.labels == ("None", "null") and len(splits["unlabelled"]) == 20

    def classes(self, path, names, labels):
        features = Features({"text": Value("string"), "label": ClassLabel(names=names)})
        texts = [f"{path.name} {i}" for i in range(len(labels))]
        Dataset.from_dict({"text": texts, "label": labels}, features=features).to_parquet(path)

    def test_splits_that_number_their_classes_otherwise_are_refused(self, tmp_path):
        (tmp_path / "two").mkdir()
        self.classes(tmp_path / "two" / "train.parquet", ["no", "yes"], [0, 1] * 20)
        self.classes(tmp_path / "two" / "test.parquet", ["yes", "no"], [0, 1] * 20)
        with pytest.raises(ValueError, match=r"numbers the classes of column 'label' in the order no, yes, but test"):
            load(tmp_path / "two", tmp_path)

    def test_class_minus_one_of_named_classes_is_no_label(self, tmp_path):
        self.classes(tmp_path / "a.parquet", ["no", "yes"], [0, 1, -1] * 20)
        splits, spec = load(tmp_path / "a.parquet", tmp_path)
        assert spec.labels == ("no", "yes") and len(splits["unlabelled"]) == 20

    def test_the_split_for_training_says_which_column_holds_labels(self, tmp_path):
        (tmp_path / "two").mkdir()
        write_csv(tmp_path / "two" / "test.csv", [(f"t{i}",) for i in range(9)], header=("text",))
        write_csv(tmp_path / "two" / "train.csv", sentences())
        with pytest.raises(ValueError, match=r"test\.csv has no column 'label'"):
            load(tmp_path / "two", tmp_path)

    def test_a_folder_of_pictures_with_its_own_test_split(self, tmp_path):
        image = pytest.importorskip("PIL.Image")
        for i in range(24):
            folder = tmp_path / "pics" / ("test" if i < 4 else "train") / ("cat", "dog")[i % 2]
            folder.mkdir(parents=True, exist_ok=True)
            image.fromarray(RNG.integers(0, 255, (6, 5, 3), dtype=np.uint8)).save(folder / f"{i}.png")
        splits, spec = load(tmp_path / "pics", tmp_path)
        assert len(splits["test"]) == 4 and spec.image_shape == (6, 5) and spec.labels == ("cat", "dog")
        assert DataCollatorWithLongPadding.from_task(spec)([splits["train"][0]])["input_values"].shape == (1, 30, 1)
        _, spec = load(tmp_path / "pics", tmp_path, colour=True, image_size=4)
        assert (spec.num_channels, spec.image_shape, spec.max_length) == (3, (4, 4), 16)

    def test_a_folder_without_folders_of_classes_is_for_pretraining(self, tmp_path):
        image = pytest.importorskip("PIL.Image")
        for i in range(20):
            image.fromarray(RNG.integers(0, 255, (4, 4), dtype=np.uint8)).save(tmp_path / f"{i}.png")
        splits, spec = load(tmp_path, tmp_path / "cache")
        assert spec.labels == () and spec.problem_type is None and "labels" not in splits["train"].column_names

    def test_a_folder_of_sounds(self, tmp_path):
        soundfile = pytest.importorskip("soundfile")
        for i in range(20):
            folder = tmp_path / "clips" / ("low", "high")[i % 2]
            folder.mkdir(parents=True, exist_ok=True)
            soundfile.write(folder / f"{i}.wav", RNG.normal(0, 0.1, 80 + i), 8000)
        splits, spec = load(tmp_path / "clips", tmp_path)
        assert spec.num_channels == 1 and spec.max_length == 99 and spec.labels == ("high", "low")
        soundfile.write(tmp_path / "clips" / "low" / "x.wav", RNG.normal(0, 0.1, 80), 16000)
        with pytest.raises(ValueError, match="low/x.wav .clips, row 21. has 16000 Hz, earlier ones 8000 Hz: set"):
            load(tmp_path / "clips", tmp_path)
        pytest.importorskip("scipy")
        assert load(tmp_path / "clips", tmp_path, sampling_rate=4000)[1].max_length == 50
        soundfile.write(tmp_path / "clips" / "low" / "x.wav", np.zeros(0), 8000)
        with pytest.raises(ValueError, match="low/x.wav .clips, row 21. has length 0"):
            load(tmp_path / "clips", tmp_path, sampling_rate=4000)

    def test_pairs_of_documents(self, tmp_path):
        rows = [(f"first {i}", f"second {i}", i % 2) for i in range(20)]
        path = write_csv(tmp_path / "a.csv", rows, ("text", "other", "label"))
        splits, spec = load(path, tmp_path, second_input_column="other")
        batch = DataCollatorWithLongPadding.from_task(spec)([splits["train"][0]])
        assert spec.pair and byte_text.decode(batch["input_ids_2"][0].numpy()).startswith("second")

    def test_regression(self, tmp_path):
        path = write_csv(tmp_path / "a.csv", [(f"t{i}", i / 7) for i in range(20)])
        splits, spec = load(path, tmp_path, problem_type="regression")
        assert spec.problem_type == "regression" and spec.metric == "rmse" and spec.labels == ()
        assert np.allclose(np.sort(all_labels(splits)), np.arange(20) / 7, atol=1e-6)

    def test_long_inputs_are_cut(self, tmp_path):
        splits, spec = load(write_csv(tmp_path / "a.csv", sentences()), tmp_path, max_length=15)
        assert spec.max_length == 15 and splits["train"][0]["input_ids"][-1] == byte_text.EOS_ID


class TestSplits:
    def test_no_subject_is_in_two_splits(self, tmp_path):
        subjects = np.repeat(np.arange(10), 6)
        np.savez(tmp_path / "a.npz", x=RNG.normal(size=(60, 4)), y=np.arange(60) % 2, subject=subjects)
        splits, spec = load(tmp_path / "a.npz", tmp_path, group_column="subject")
        found = [set(subjects[split[:]["source_row"]]) for split in splits.values()]
        assert [len(subjects) for subjects in found] == [6, 2, 2] and len(set.union(*found)) == 10
        assert "split by subject" in spec.note

    def test_equal_inputs_stay_together(self, tmp_path):
        path = write_csv(tmp_path / "a.csv", [(f"text {i % 15}", i % 15 % 2) for i in range(60)])
        splits, _ = load(path, tmp_path)
        texts = [{byte_text.decode(ids) for ids in split[:]["input_ids"]} for split in splits.values()]
        assert sum(map(len, texts)) == 15

    def test_the_seed_decides(self, tmp_path):
        path = write_csv(tmp_path / "a.csv", sentences())
        rows = [load(path, tmp_path, seed=seed)[0]["test"][:]["source_row"].tolist() for seed in (0, 0, 1)]
        assert rows[0] == rows[1] != rows[2]

    def test_a_row_is_on_the_same_side_whatever_its_label_its_place_and_its_file(self, tmp_path):
        """Split by content: other labels, another order, and a part of the file move nothing."""
        rows = [(f"text number {i}", i % 3) for i in range(200)]
        held = [{}, {}, {}, {}]
        files = [rows, rows[::-1], [(text, "") for text, _ in rows], rows[50:150]]
        for found, some in zip(held, files, strict=True):
            path = write_csv(tmp_path / "a.csv", some)
            column = {"label_column": "label"} if some[0][1] != "" else {"input_column": "text"}
            path = path if "label_column" in column else write_csv(path, [row[:1] for row in some], ("text",))
            for name, split in load(path, tmp_path, **column)[0].items():
                found |= {byte_text.decode(ids): name for ids in split[:]["input_ids"]}
        assert held[0] == held[1] == held[2] and len(held[0]) == 200
        assert held[3] == {text: held[0][text] for text, _ in rows[50:150]}
        assert 10 <= sum(name == "test" for name in held[0].values()) <= 30

    def test_a_cut_moves_no_row(self, tmp_path):
        path = write_csv(tmp_path / "a.csv", sentences(100))
        rows = [load(path, tmp_path, max_length=length)[0]["test"][:]["source_row"].tolist() for length in (None, 9)]
        assert rows[0] == rows[1]

    @pytest.mark.parametrize("count", range(4, 16))
    def test_of_few_rows_every_split_has_one(self, count, tmp_path):
        path = write_csv(tmp_path / "a.csv", [(f"text {i}", i * 1.5) for i in range(count)])
        splits, _ = load(path, tmp_path, problem_type="regression")
        assert min(map(len, splits.values())) >= 1 and sum(map(len, splits.values())) == count

    def test_a_class_without_a_training_example_is_named(self, tmp_path):
        rows = [(f"text number {i}", i % 2) for i in range(200)]
        held = load(write_csv(tmp_path / "a.csv", rows), tmp_path)[0]["test"][0]["source_row"]
        rows[held] = (rows[held][0], 7)
        with pytest.raises(ValueError, match="Class '7' has no training example, for a.csv, row .* is in test: give"):
            load(write_csv(tmp_path / "a.csv", rows), tmp_path)

    def two_splits(self, tmp_path, copies):
        """Rows of train and test; the first of test stand in train as well."""
        (tmp_path / "two").mkdir()
        rows = [(f"text number {i}", i % 2) for i in range(60)]
        write_csv(tmp_path / "two" / "train.csv", rows[:40] + rows[40 : 40 + copies])
        write_csv(tmp_path / "two" / "test.csv", rows[40:])
        return tmp_path / "two"

    def test_rows_in_two_splits_of_the_source_are_counted_and_left_out_of_train(self, tmp_path):
        folder = self.two_splits(tmp_path, 3)
        splits, spec = load(folder, tmp_path)
        assert len(splits["test"]) == 20 and len(splits["train"]) + len(splits["validation"]) == 40
        told = r"3 rows of train also stand in validation or test \(the first: train.csv, row 41\) and are "
        assert re.search(told + "left out", spec.note)
        splits, spec = load(folder, tmp_path, keep_duplicates=True)
        assert len(splits["train"]) + len(splits["validation"]) == 43 and re.search(told + "kept", spec.note)
        assert not set(splits["validation"][:]["row_hash"].tolist()) & set(splits["test"][:]["row_hash"].tolist())

    def test_a_train_split_that_stands_in_test_as_a_whole_is_refused(self, tmp_path):
        folder = self.two_splits(tmp_path, 20)
        write_csv(folder / "train.csv", [(f"text number {i}", i % 2) for i in range(40, 60)])
        with pytest.raises(ValueError, match="Every row of train in train.csv also stands in validation or test"):
            load(folder, tmp_path)

    def test_equal_rows_of_two_groups_are_not_in_two_splits(self, tmp_path):
        rows = [(f"text {i % 20}", i % 2, f"s{i // 20}") for i in range(200)]
        path = write_csv(tmp_path / "a.csv", rows, ("text", "label", "subject"))
        with pytest.raises(ValueError, match="Every row of train in a.csv also stands in val"):
            load(path, tmp_path, group_column="subject")
        splits, _ = load(path, tmp_path, group_column="subject", keep_duplicates=True)
        assert sum(map(len, splits.values())) == 200

    def test_uneven_classes_are_reported(self, tmp_path, caplog):
        path = write_csv(tmp_path / "a.csv", [(f"t{i}", int(i < 4)) for i in range(100)])
        with caplog.at_level(logging.INFO):
            _, spec = load(path, tmp_path)
        assert "Classes are uneven" in caplog.text and "largest class (0) has 95% of train" in spec.note


BAD = [
    ([("a", 1)] * 3, {"label_column": "lable"}, "has no column 'lable' .did you mean 'label'"),
    ([(f"t{i}", 1) for i in range(9)], {}, "Every row of a.csv has label 1"),
    (
        [(f"t{i}", i / 7) for i in range(9)],
        {"problem_type": "single_label_classification"},
        r"a.csv, row 2, has label 0.14\d+, which is not a class",
    ),
    ([(f"t{i}", "") for i in range(9)], {}, "No row of a.csv has a label"),
    ([(f"t{i}", i % 2) for i in range(20)], {"max_length": -3}, "data.max_length is -3: give a number of 1 or more"),
    ([("", 0), (" ", 1)], {}, "column 'text', is empty: name another --input_column"),
    ([("a", 0), ("", 1), ("c", 1)], {}, "row 2, column 'text', is empty"),
    ([("a", 0), ("b", 1)], {}, "a.csv has only .* too few to set validation and test examples apart"),
    ([], {}, "a.csv could not be read as csv .*save it with rows"),
    ([(f"t{i}", i % 2) for i in range(20)], {"test_fraction": 0.7}, "test_fraction is 0.7"),
    ([(f"t{i}", i % 2) for i in range(20)], {"modality": "video"}, "modality is 'video'"),
    (
        [(f"t{i}", i % 2) for i in range(20)],
        {"modality": "values"},
        "row 1, column 'text', is not a sequence of numbers",
    ),
    ([("1 nan", i % 2) for i in range(20)], {"modality": "values"}, "holds a missing or infinite value"),
    ([("1 -2", i % 2) for i in range(20)], {"modality": "tokens"}, "not a list of token ids"),
    ([(f"t{i}", i % 2) for i in range(20)], {"problem_type": "ranking"}, "problem_type is 'ranking'"),
    ([(f"t{i}", "inf" if i == 3 else i) for i in range(20)], {"problem_type": "regression"}, "row 4, has label inf"),
]


@pytest.mark.parametrize(("rows", "options", "message"), BAD, ids=[case[2] for case in BAD])
def test_bad_rows_are_named(rows, options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        load(write_csv(tmp_path / "a.csv", rows), tmp_path, **options)


def test_bad_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.csv does not exist|nothing.csv"):
        load(tmp_path / "nothing.csv", tmp_path)
    (tmp_path / "a.docx").write_text("x")
    with pytest.raises(ValueError, match=r"ends in '\.docx'"):
        load(tmp_path / "a.docx", tmp_path)
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(ValueError, match=r"empty\.csv could not be read as csv \(No columns"):
        load(tmp_path / "empty.csv", tmp_path)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"bad\.parquet could not be read as parquet"):
        load(tmp_path / "bad.parquet", tmp_path)
    np.save(tmp_path / "pickled.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"pickled\.npy could not be read"):
        load(tmp_path / "pickled.npy", tmp_path)
    np.savez(tmp_path / "whole.npz", x=np.zeros((3, 2)))
    whole = (tmp_path / "whole.npz").read_bytes()
    header, directory = whole.index(b"{'descr'"), whole.index(b"PK\x01\x02")
    for torn in (
        b"PK\x03\x04 but no more",
        whole[:header] + b"{'descr': (" + whole[header + 11 :],
        whole[: directory + 6] + b"\xff" + whole[directory + 7 :],
    ):
        (tmp_path / "broken.npz").write_bytes(torn)
        with pytest.raises(ValueError, match=r"broken\.npz could not be read"):
            load(tmp_path / "broken.npz", tmp_path)
    (tmp_path / "latin.csv").write_bytes("text,label\nh\xe9,1\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"latin\.csv could not be read as csv .*, as UTF-8"):
        load(tmp_path / "latin.csv", tmp_path)
    (tmp_path / "wide.tsv").write_text("text\tlabel\na\t1\nb\t2\tc\n")
    with pytest.raises(ValueError, match=r"wide\.tsv could not be read as csv .*line 3.*: repair that row"):
        load(tmp_path / "wide.tsv", tmp_path)
    np.savez(tmp_path / "uneven.npz", x=np.zeros((3, 2)), y=np.zeros(2))
    with pytest.raises(ValueError, match=r"uneven\.npz could not be read .*of one length"):
        load(tmp_path / "uneven.npz", tmp_path)


def test_an_archive_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "bomb.npz", x=np.zeros((1000, 100)), y=np.arange(1000) % 2)
    monkeypatch.setattr(own_sources, "MAX_NPZ_BYTES", 2**19)
    monkeypatch.setattr(np, "load", lambda *args, **kwargs: pytest.fail("the archive was unpacked"))
    with pytest.raises(ValueError, match=r"bomb\.npz unpacks to 0\.0 GiB, and .* save each array as \.npy"):
        load(tmp_path / "bomb.npz", tmp_path)


def test_other_labels_are_read_although_size_and_time_of_the_file_are_the_same(tmp_path):
    file, series, splits = tmp_path / "a.npz", RNG.normal(size=(40, 6)), []
    for shift in (0, 1):
        np.savez(file, x=series, y=(np.arange(40) + shift) % 2)
        os.utime(file, (1_000_000_000, 1_000_000_000))
        splits.append(load(file, tmp_path)[0]["train"])
    first, second = (
        dict(zip(one["source_row"][:].tolist(), one["labels"][:].tolist(), strict=True)) for one in splits
    )
    common = set(first) & set(second)
    assert common and all(first[row] != second[row] for row in common)


def test_sounds_in_a_table_are_decoded_by_soundfile(tmp_path):
    """`datasets` itself would ask for torchcodec."""
    soundfile, sounds = pytest.importorskip("soundfile"), []
    for i in range(40):
        soundfile.write(sound := io.BytesIO(), np.sin(np.arange(50) / (3 + i)), 1000, format="WAV")
        sounds.append({"bytes": sound.getvalue(), "path": None})
    schema = Features({"audio": Audio(), "label": Value("int64")}).arrow_schema
    pq.write_table(pa.table({"audio": sounds, "label": [i % 2 for i in range(40)]}, schema), tmp_path / "a.parquet")
    splits, spec = load(tmp_path / "a.parquet", tmp_path)
    assert spec.sampling_rate == 1000 and len(splits["train"]["input_values"][0]) == 50


def test_a_row_without_a_group_is_named(tmp_path):
    rows = [(f"t{i}", i % 2, "" if i == 3 else f"s{i % 10}") for i in range(40)]
    path = write_csv(tmp_path / "a.csv", rows, header=("text", "label", "subject"))
    with pytest.raises(ValueError, match=r"a\.csv, row 4, has no subject"):
        load(path, tmp_path, group_column="subject")


def test_a_group_in_two_splits_of_the_source_is_named(tmp_path):
    (tmp_path / "two").mkdir()
    for split, first in (("train", 0), ("test", 3)):
        rows = [(f"{split} {i}", i % 2, f"s{first + i % 4}") for i in range(40)]
        write_csv(tmp_path / "two" / f"{split}.csv", rows, header=("text", "label", "subject"))
    words = r"train\.csv, row 4, belongs to group s3 and to train, but others of the group to test"
    with pytest.raises(ValueError, match=words):
        load(tmp_path / "two", tmp_path, group_column="subject")
    assert len(load(tmp_path / "two", tmp_path)[0]["test"]) == 40


def test_several_numbers_a_row_are_refused_and_one_in_an_array_is_taken(tmp_path):
    x = RNG.normal(size=(20, 5))
    np.savez(tmp_path / "two.npz", x=x, y=np.arange(40).reshape(20, 2))
    with pytest.raises(ValueError, match=r"two\.npz, row 1, has 2 labels: give one"):
        load(tmp_path / "two.npz", tmp_path, problem_type="regression")
    np.savez(tmp_path / "one.npz", x=x, y=np.arange(20)[:, None] % 2)
    for problem in (None, "regression"):
        splits, _ = load(tmp_path / "one.npz", tmp_path, problem_type=problem)
        assert sorted(all_labels(splits).tolist()) == [0] * 10 + [1] * 10


def test_pictures_of_16_bits_are_refused_instead_of_turning_white(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for i in range(20):
        folder = tmp_path / "pics" / ("cat", "dog")[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        image.fromarray(np.full((4, 4), 1000 + i, np.uint16)).save(folder / f"{i}.png")
    with pytest.raises(ValueError, match=r"cat/0\.png .* has more than 8 bits a pixel"):
        load(tmp_path / "pics", tmp_path)


def test_pictures_of_different_sizes_and_empty_files_are_named(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for i in range(10):
        folder = tmp_path / "pics" / ("cat", "dog")[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        image.new("L", (4, 5 if i == 7 else 4)).save(folder / f"{i}.png")
    with pytest.raises(ValueError, match=r"7\.png .*has height and width .*set image_size"):
        load(tmp_path / "pics", tmp_path)
    (tmp_path / "pics" / "cat" / "0.png").write_bytes(b"")
    with pytest.raises(ValueError, match="not a readable picture"):
        load(tmp_path / "pics", tmp_path)


def test_a_part_of_a_picture_is_no_picture(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for i in range(20):
        folder = tmp_path / "pics" / ("cat", "dog")[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        image.new("L", (5, 4), i).save(folder / f"{i}.png")
    with pytest.raises(HfLongSeqError, match=r"png .*has 4 x 5 pixels, but max_length is 19: set image_size"):
        load(tmp_path / "pics", tmp_path, max_length=19)
    assert load(tmp_path / "pics", tmp_path, max_length=20)[1].max_length == 20


TEXTS = [{"text": f"text {i}", "label": "ab"[i % 2]} for i in range(20)]
MISTAKES = {
    "types": ([{**row, "label": i % 2 if i else "one"} for i, row in enumerate(TEXTS)], {}, None),
    "a mapping as label": ([{**row, "label": {"a": 1}} for row in TEXTS], {}, "row 1, has label .* give a class"),
    "a list in a label": ([{**row, "label": [["a"]]} for row in TEXTS], {"per_position": False}, "row 1, has label"),
    "empty lists": ([{**row, "label": []} for row in TEXTS], {}, "No row of rows.jsonl has a label in its list"),
    "a class a row": (
        [{**row, "label": f"c{i}"} for i, row in enumerate(TEXTS)],
        {},
        "has a class of its own, such as",
    ),
    "words to predict": (TEXTS, {"problem_type": "regression"}, "row 1, has label 'a' .*: give a number"),
    "a large label": ([{**row, "label": 1e300} for row in TEXTS], {}, "row 1, has label 1e\\+300: give a finite"),
    "ragged": ([{"x": [[1.0, 2.0], [3.0]], "y": i % 2} for i in range(9)], {}, "'x', is not a sequence of numbers"),
    "a large value": ([{"x": [1e300, 2.0], "y": i % 2} for i in range(9)], {}, "'x', holds 1e\\+300, beyond 1e\\+150"),
    "a number a row": ([{"x": i / 2, "y": i % 2} for i in range(9)], {}, "holds 0.0 .float. as one input: give"),
    "None among ids": (
        [{"input_ids": [1, None], "y": i % 2} for i in range(9)],
        {},
        r"holds .1, None. .list. as one",
    ),
    "nested ids": ([{"input_ids": [[1, 2]], "y": i % 2} for i in range(9)], {}, "is not a list of token ids from 0"),
    "twice": (TEXTS, {"label_column": "text"}, "column 'text' of rows.jsonl is named for two things"),
    "one document": (TEXTS, {"second_input_column": "text"}, "column 'text' of rows.jsonl is named for two things"),
    "mask ratio": (TEXTS, {"mask_ratio": 2.0}, "data.mask_ratio is 2.0"),
    "wide": (
        [{"t0": i / 2, "t1": i, "y": i % 2} for i in range(9)],
        {},
        "one number a row in each of 2 columns .t0, t1",
    ),
    "no name": ("", {}, "data is an empty name"),
}


@pytest.mark.parametrize("data, options, message", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_rows_is_named(tmp_path, data, options, message):
    if data:
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in data))
        data = tmp_path / "rows.jsonl"
    if message is None:
        assert load(data, tmp_path, **options)[1].labels == ("0", "1", "one")
        return
    with pytest.raises(HfLongSeqError, match=message) as caught:
        load(data, tmp_path, **options)
    assert "\n" not in str(caught.value)


def test_the_only_column_beside_the_label_is_the_input(tmp_path):
    write_csv(
        tmp_path / "dna.csv", [("ACGT" * (2 + i), "ab"[i % 2], i // 2) for i in range(20)], ("seq", "label", "who")
    )
    splits, spec = load(tmp_path / "dna.csv", tmp_path, group_column="who")
    assert spec.labels == ("a", "b") and byte_text.decode(splits["train"][0]["input_ids"]).startswith("ACGT")


@pytest.mark.parametrize("cell", ["[{0}.5, 2, -3e1]", "[{0} 2 3]", "[[{0}, 1], [2, 3]]", "{0} 2.5 3"])
def test_numbers_as_text_are_numbers(tmp_path, cell):
    name = "x" if cell.startswith("[") else "input_values"
    rows = [{name: cell.format(i), "label": i % 2} for i in range(20)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    splits, spec = load(tmp_path / "rows.jsonl", tmp_path)
    assert spec.modality == ("tokens" if cell == "[{0} 2 3]" else "values")
    assert len(splits["train"][0]["input_ids" if spec.modality == "tokens" else "input_values"]) == 3 - ("[[" in cell)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_labels_of_pictures_stand_in_a_metadata_file(tmp_path, kind):
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path / "pics [1]"
    (folder / "all").mkdir(parents=True)
    for i in range(20):
        image.fromarray(RNG.integers(0, 255, (4, 4), dtype=np.uint8)).save(folder / "all" / f"{i}_test.png")
    table = pd.DataFrame({"file_name": [f"all/{i}_test.png" for i in range(20)], "label": ["a", "b"] * 10})
    write = {"csv": table.to_csv, "parquet": table.to_parquet}.get(kind)
    if write:
        write(folder / f"metadata.{kind}", index=False)
    else:
        table.to_json(folder / "metadata.jsonl", orient="records", lines=True)
    splits, spec = load(folder, tmp_path)
    assert spec.labels == ("a", "b") and spec.image_shape == (4, 4) and sum(map(len, splits.values())) == 20
    (folder / "all" / "3_test.png").unlink()
    with pytest.raises(HfLongSeqError, match=r"3_test\.png .pics .1., row 4. .*there is no file"):
        load(folder, tmp_path)


def test_labels_of_sounds_stand_in_a_metadata_file(tmp_path):
    soundfile = pytest.importorskip("soundfile")
    for split, count in (("train", 12), ("test", 4)):
        (tmp_path / "clips" / split).mkdir(parents=True)
        for i in range(count):
            soundfile.write(tmp_path / "clips" / split / f"{i}.wav", RNG.normal(0, 0.1, 80 + i), 8000)
        rows = [(f"{i}.wav", "ab"[i % 2]) for i in range(count)]
        write_csv(tmp_path / "clips" / split / "metadata.csv", rows, ("file_name", "label"))
    splits, spec = load(tmp_path / "clips", tmp_path)
    assert len(splits["test"]) == 4 and spec.sampling_rate == 8000 and spec.labels == ("a", "b")


@pytest.mark.parametrize("name", ["../secret.png", "/etc/hostname", "a/../../secret.png"])
def test_a_metadata_file_names_files_of_its_folder_alone(tmp_path, name):
    (tmp_path / "pics").mkdir()
    for path in ("secret.png", "pics/0.png"):
        (tmp_path / path).write_bytes(b"")
    write_csv(tmp_path / "pics" / "metadata.csv", [(name, "a"), ("0.png", "b")], ("file_name", "label"))
    with pytest.raises(HfLongSeqError, match="outside of its folder"):
        load(tmp_path / "pics", tmp_path)


def test_a_file_beside_the_folders_of_classes_is_named(tmp_path):
    for name in ("cat/0.png", "dog/1.png", "stray.png"):
        (tmp_path / "pics" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pics" / name).write_bytes(b"")
    with pytest.raises(HfLongSeqError, match=r"stray\.png lies beside the folders of classes"):
        load(tmp_path / "pics", tmp_path)


HEADERS = {
    "semicolons": ("rows.csv", "text;label", "t;1", "separates its columns by ';': save it with commas"),
    "semicolons and commas": ("rows.csv", "text;label", "a, b, c;1", "separates its columns by ';'"),
    "tabs": ("rows.csv", "text\tlabel", "t\t1", r"separates its columns by '\\t'"),
    "bars": ("rows.csv", "text|label", "t|1", r"separates its columns by '\|'"),
    "commas in a tsv": ("rows.tsv", "text,label", "t,1", "separates its columns by ','"),
    "twice": ("rows.csv", "text,label,label", "t,1,0", "has two columns 'label': rename one of them"),
    "more cells": ("rows.csv", "text,label", "t,1,0", "has rows of more cells than its header"),
}


@pytest.mark.parametrize("name, header, row, message", HEADERS.values(), ids=HEADERS)
def test_a_header_that_would_be_read_in_another_way_is_named(tmp_path, name, header, row, message):
    (tmp_path / name).write_text("\n".join([header, *[row] * 20]))
    with pytest.raises(HfLongSeqError, match=message):
        load(tmp_path / name, tmp_path)


def test_a_packed_table_is_unpacked(tmp_path):
    text = "\n".join(["text,label", *(f"t{i},{i % 2}" for i in range(20))])
    (tmp_path / "rows.CSV").write_bytes(gzip.compress(text.encode()))
    assert sum(map(len, load(tmp_path / "rows.CSV", tmp_path)[0].values())) == 20


def test_a_name_with_marks_of_a_pattern_is_a_name(tmp_path):
    (tmp_path / "rows[1]*.csv").write_text("\n".join(["text,label", *(f"t{i},{i % 2}" for i in range(20))]))
    assert sum(map(len, load(tmp_path / "rows[1]*.csv", tmp_path)[0].values())) == 20


def test_an_array_of_one_number_is_named(tmp_path):
    np.save(tmp_path / "one.npy", np.float32(3))
    with pytest.raises(ValueError, match=r"one\.npy holds a single number: save an array with one entry per example"):
        load(tmp_path / "one.npy", tmp_path)


def test_the_line_of_a_jsonl_file_that_is_no_json_is_named(tmp_path):
    lines = [json.dumps({"text": f"t{i}", "label": i % 2}) for i in range(300)]
    lines[222] = '{"text": "cut off'
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"a\.jsonl could not be read as json \(.* in row 222\): repair"):
        load(tmp_path / "a.jsonl", tmp_path)


def test_a_huge_token_id_needs_room_that_is_asked_for(tmp_path):
    rows = [{"input_ids": [i, 5_000_000 if i == 3 else 7], "label": i % 2} for i in range(40)]
    with pytest.raises(ValueError, match="row 4, .* token id 5,000,000, and ids below 1,000,000 are read: state"):
        load_task("own-data", data=rows, cache_dir=str(tmp_path))
    _, spec = load_task("own-data", data=rows, cache_dir=str(tmp_path), vocab_size=5_000_001)
    assert spec.vocab_size == 5_000_003


def test_a_class_that_stands_in_test_alone_is_named_by_that_file(tmp_path):
    (tmp_path / "two").mkdir()
    write_csv(tmp_path / "two" / "train.csv", sentences())
    write_csv(tmp_path / "two" / "test.csv", [(f"other {i}", ("spam", "eggs")[i == 2]) for i in range(9)])
    with pytest.raises(ValueError, match=r"Class 'eggs' has no training example, for test\.csv, row 3 is in test"):
        load(tmp_path / "two", tmp_path)


def test_too_few_rows_to_predict_numbers_are_not_said_to_be_of_a_class(tmp_path):
    with pytest.raises(ValueError, match=r"a\.csv has only 2 different rows: too few to set") as error:
        load(write_csv(tmp_path / "a.csv", [("a", 0.5), ("b", 1.5)]), tmp_path)
    assert "class" not in str(error.value)


def test_a_data_set_of_the_hub_that_is_a_script_is_refused(tmp_path, monkeypatch):
    def refuse(repo_id, **options):
        assert "trust_remote_code" not in options
        raise RuntimeError("Dataset scripts are no longer supported, but found texts.py")

    monkeypatch.setattr(own_sources, "load_dataset", refuse)
    with pytest.raises(FileNotFoundError, match=r"org/texts .* the Hub \(Dataset scripts are no longer supported"):
        load("org/texts", tmp_path)


def test_archives_and_scripts_in_a_folder_are_left_closed(tmp_path):
    """Nothing is unpacked, so that no member's name can lead out of a folder, and nothing is run."""
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path / "pics"
    for i in range(20):
        (folder / ("cat", "dog")[i % 2]).mkdir(parents=True, exist_ok=True)
        image.fromarray(RNG.integers(0, 255, (4, 4), dtype=np.uint8)).save(folder / ("cat", "dog")[i % 2] / f"{i}.png")
    with zipfile.ZipFile(folder / "more.zip", "w") as archive:
        archive.writestr("../../slipped.png", (folder / "cat" / "0.png").read_bytes())
    with tarfile.open(folder / "more.tar", "w") as archive:
        archive.add(folder / "cat" / "0.png", "../../slipped.png")
    (folder / "pics.py").write_text("raise SystemExit('the script was run')")
    splits, _ = load(folder, tmp_path)
    assert sum(map(len, splits.values())) == 20 and not list(tmp_path.rglob("slipped.png"))


def test_a_member_of_an_npz_file_never_leads_out_of_it(tmp_path):
    arrays = io.BytesIO()
    np.savez(arrays, x=RNG.normal(size=(40, 6)), y=np.arange(40) % 2)
    with zipfile.ZipFile(arrays) as packed, zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for name in packed.namelist():
            archive.writestr(name, packed.read(name))
        archive.writestr("../../slipped.npy", packed.read("y.npy"))
    splits, _ = load(tmp_path / "a.npz", tmp_path)
    assert sum(map(len, splits.values())) == 40 and not list(tmp_path.parent.rglob("slipped*"))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_no_number_is_named_by_its_row(value, tmp_path):
    series = RNG.normal(size=(40, 6))
    series[7, 2] = value
    np.savez(tmp_path / "a.npz", x=series, y=np.arange(40) % 2)
    with pytest.raises(ValueError, match=r"a\.npz, row 8, column 'x', holds a missing or infinite value"):
        load(tmp_path / "a.npz", tmp_path)
