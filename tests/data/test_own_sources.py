"""What stands late in a table or a stream is read as what stands first, and splits that a table names are kept."""

import json

import numpy as np
import pandas as pd
import pytest
from datasets import Audio, Dataset, DatasetDict, Image, IterableDataset

from hf_longseq.data.own_sources import keep_object, open_source, rows_of
from hf_longseq.data.task import load_task
from hf_longseq.errors import HfLongSeqError

LATE = 10_000  # rows of a csv file whose types `datasets` guesses at a time
# Cells of the first rows and of the last one, and the last one as it is read.
COLUMNS = {
    "codes": ("E11", "001", "001"),
    "texts": ("ACGT", "00102626", "00102626"),
    "whole numbers": ("7", "+008", 8),
    "decimal numbers": ("7", " 0.5", 0.5),
    "truth values": ("", "True", True),
    "labels after rows without": ("", "y", "y"),
    "numbers after rows without": ("", "3", 3.0),
    "long numbers": ("7", "12345678901234567890", "12345678901234567890"),
    "nothing": ("", "nan", None),
}


def open_rows(data, tmp_path):
    return open_source(data, cache_dir=str(tmp_path / "cache"))


def write(folder, **tables):
    folder.mkdir()
    for name, table in tables.items():
        pd.DataFrame(table, dtype=str).to_csv(folder / f"{name}.csv", index=False)
    return folder


def test_the_last_row_of_a_long_file_is_read_as_the_first_ones_are(tmp_path):
    table = {name: [first] * LATE + [last] for name, (first, last, _) in COLUMNS.items()}
    rows = open_rows(write(tmp_path / "a", rows={"text": ["t"] * (LATE + 1), **table}) / "rows.csv", tmp_path).first
    assert rows[-1] == {"text": "t", **{name: read for name, (_, _, read) in COLUMNS.items()}}
    assert rows.column_names == ["text", *COLUMNS] and len(rows) == LATE + 1


def test_the_cells_of_a_column_are_of_one_type_in_all_files(tmp_path):
    one, two = ({name: [cells[i]] * 2 for name, cells in COLUMNS.items()} for i in (0, 1))
    parts = open_rows(write(tmp_path / "parts", part1=one, part2=two), tmp_path).first
    splits = open_rows(write(tmp_path / "splits", train=one, test=two), tmp_path).splits
    assert parts[-1] == splits["test"][-1] == {name: read for name, (_, _, read) in COLUMNS.items()}
    assert splits["train"].features == splits["test"].features == parts.features


def test_a_column_may_begin_late_in_a_json_file(tmp_path):
    rows = [{"text": "t" * 1_000_000}] * 12 + [{"text": "t", "label": "b"}]  # datasets reads pieces of 10 MB
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    read = open_rows(tmp_path / "rows.jsonl", tmp_path).first
    assert read["label"][:] == [None] * 12 + ["b"]


def test_a_small_file_has_the_types_that_pandas_gives_it(tmp_path):
    cells = "1 +1 007 0x1F 1. .5 +.5 1e5 1e 1e400 -inf +inf Infinity NAN NA None true tRUE t 1_0 ++1 1,5 inf0".split()
    table = {
        f"{number} {more}": [cell, more] for number, cell in enumerate([" 1", "1 ", *cells]) for more in ("4", "", "x")
    }
    folder = write(tmp_path / "a", rows={"text": ["a", "b"], **table})
    read = pd.read_csv(folder / "rows.csv", keep_default_na=False, na_values=["", "nan", "NaN"])
    expected, rows = Dataset.from_pandas(read), open_rows(folder / "rows.csv", tmp_path).first
    assert rows.features == expected.features and rows[:] == expected[:]


def test_a_file_may_lack_the_labels_but_brings_no_column_of_its_own(tmp_path):
    labelled = {"text": ["a", "b"], "label": ["0", "1"]}
    rows = open_rows(write(tmp_path / "a", part1=labelled, part2={"text": ["c"]}), tmp_path).first
    assert rows[:] == {"text": ["a", "b", "c"], "label": [0, 1, None]}
    folder = write(tmp_path / "b", part1=labelled, part2={"text": ["c"], "subject": ["s"]})
    with pytest.raises(HfLongSeqError, match=r"part2\.csv has a column 'subject', which .*part1\.csv lacks: give"):
        open_rows(folder, tmp_path)


def pictures(folder, names):
    image = pytest.importorskip("PIL.Image")
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        image.new("L", (4, 4), number).save(folder / name)
    table = pd.DataFrame({"file_name": names, "label": ["a", "b"] * (len(names) // 2)})
    table.to_csv(folder / "metadata.csv", index=False)


def test_one_table_for_the_pictures_of_all_splits_keeps_the_splits(tmp_path):
    names = [f"{('test', 'train', 'train')[i % 3]}/{i}.png" for i in range(60)]
    pictures(tmp_path / "pics", names)
    splits, spec = load_task("own-data", data=str(tmp_path / "pics"), cache_dir=str(tmp_path / "cache"))
    assert {name: len(rows) for name, rows in splits.items()} == {"train": 38, "validation": 2, "test": 20}
    found = open_rows(tmp_path / "pics", tmp_path).splits
    assert found["test"]["file"][:] == [str(tmp_path / "pics" / name) for name in names if name.startswith("test")]
    pictures(tmp_path / "pics", [*names, "others/0.png", "others/1.png"])
    with pytest.raises(HfLongSeqError, match=r"others/0\.png lies beside files or folders named after splits"):
        open_rows(tmp_path / "pics", tmp_path)


def test_any_word_of_a_name_may_be_that_of_a_split(tmp_path):
    rows = {name: {"text": [name]} for name in ("mine_train", "mine.TEST", "mine-val-1", "mine-val-2")}
    splits = open_rows(write(tmp_path / "a", **rows), tmp_path).splits
    read = {"train": ["mine_train"], "test": ["mine.TEST"], "validation": ["mine-val-1", "mine-val-2"]}
    assert {split: some["text"][:] for split, some in splits.items()} == read
    shards = {name: {"text": [name]} for name in ("train-00000-of-00002", "train-00001-of-00002", "test_1")}
    splits = open_rows(write(tmp_path / "b", **shards), tmp_path).splits
    assert {split: len(some) for split, some in splits.items()} == {"train": 2, "test": 1}
    blood = {name: {"text": [name]} for name in ("blood_test_1", "blood_test_2")}
    assert set(open_rows(write(tmp_path / "d", **blood), tmp_path).splits) == {"all"}  # none is called train
    other = {name: {"text": [name]} for name in ("reviews_training", "reviews_testing")}
    assert set(open_rows(write(tmp_path / "e", **other), tmp_path).splits) == {"train", "test"}
    with pytest.raises(HfLongSeqError, match=r"train_test\.csv names several splits \(train, test\): rename it"):
        open_rows(write(tmp_path / "c", train_test={"text": ["a"]}), tmp_path)


def test_splits_of_other_names_are_said_to_be_left_out(tmp_path, caplog):
    rows = Dataset.from_list(LABELLED)
    assert len(open_rows(DatasetDict({"train": rows, "dev": rows}), tmp_path)) == 120
    assert not caplog.text
    open_rows(DatasetDict({"train": rows, "eval": rows}), tmp_path)
    assert "Of the data only 'train' is read, not 'eval': call the splits to be read train" in caplog.text


def test_a_split_of_test_alone_trains_nothing(tmp_path):
    with pytest.raises(HfLongSeqError, match="test has rows of test alone, and none to train on: add a split train"):
        load_task("own-data", data=DatasetDict({"test": Dataset.from_list(LABELLED)}), cache_dir=str(tmp_path))


LABELLED = [{"text": f"text number {i}", "label": ("spam", "ham")[i % 2]} for i in range(60)]


def test_the_first_rows_of_a_list_may_lack_the_label(tmp_path):
    rows = [{"text": f"without {i}"} for i in range(3)] + LABELLED
    splits, spec = load_task("own-data", data=rows, cache_dir=str(tmp_path))
    assert spec.labels == ("ham", "spam") and len(splits["unlabelled"]) == 3


def test_a_row_of_a_stream_may_lack_a_name_of_the_first_row_but_has_no_other(tmp_path):
    late = [*LABELLED * 20, {"text": "without"}, LABELLED[1]]  # more than are written at a time
    rows = rows_of(IterableDataset.from_generator(lambda: iter(late)), cache_dir=str(tmp_path))
    assert rows["label"][-2:] == [None, "ham"]
    stream = IterableDataset.from_generator(lambda: iter([{"text": "without"}, *LABELLED]))
    with pytest.raises(
        HfLongSeqError, match="stream, row 2, has 'label', which its first row lacks .it has text.: give"
    ):
        rows_of(stream, cache_dir=str(tmp_path))


@pytest.mark.parametrize("kind, ending", [(Audio(), "wav"), (Image(), "jpg")], ids=["sounds", "pictures"])
def test_sounds_and_pictures_of_a_stream_are_those_of_a_data_set(kind, ending, tmp_path):
    """`datasets` itself would ask for torchcodec, and would pack a picture again."""
    soundfile, image = pytest.importorskip("soundfile"), pytest.importorskip("PIL.Image")
    files = [str(tmp_path / f"{i}.{ending}") for i in range(20)]
    for number, file in enumerate(files):
        if ending == "wav":
            soundfile.write(file, np.sin(np.arange(50) / (3 + number)), 8000)
        else:
            image.new("L", (4, 4), number).save(file)
    name = type(kind).__name__.lower()
    data = Dataset.from_dict({name: files, "label": [0, 1] * 10}).cast_column(name, kind)
    loaded = [
        load_task("own-data", data=rows, cache_dir=str(tmp_path))[0] for rows in (data, data.to_iterable_dataset())
    ]
    one, two = (np.stack(splits["train"]["input_values"][:]) for splits in loaded)
    assert len(one) > 1 and np.array_equal(one, two)


def test_sounds_have_the_rate_to_which_their_column_is_cast(tmp_path):
    soundfile, files = pytest.importorskip("soundfile"), [str(tmp_path / f"{i}.wav") for i in range(20)]
    for number, file in enumerate(files):
        soundfile.write(file, np.sin(np.arange(60) / (3 + number)), 6000)
    rows = Dataset.from_dict({"audio": files, "label": [0, 1] * 10}).cast_column("audio", Audio())

    def rate_of(data, **options):
        splits, spec = load_task("own-data", data=data, cache_dir=str(tmp_path), **options)
        return spec.sampling_rate, spec.max_length

    for stated, found in ((None, (6000, 60)), (2000, (2000, 20)), (3000, (3000, 30))):
        cast = rows.cast_column("audio", Audio(sampling_rate=stated))
        stream = rows.to_iterable_dataset().cast_column("audio", Audio(sampling_rate=stated))
        assert rate_of(cast) == rate_of(stream) == rate_of(keep_object(cast, str(tmp_path))) == found
        assert rate_of(cast, sampling_rate=1000) == (1000, 10)
