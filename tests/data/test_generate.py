"""Generated sets: the same for any number of processes, resumed after an interruption, never mixed up."""

import hashlib
import json

import numpy as np
import pytest
from datasets import Features, List, Value
from filelock import FileLock

from hf_longseq.data.generate import MANIFEST, GeneratedTask, generate, load_generated, read_folder
from hf_longseq.errors import HfLongSeqError

FEATURES = Features({"input_ids": List(Value("int32")), "labels": Value("int64")})
BROKEN_AT: set[int] = set()


def make_row(parameters, seed, number, draw=0):
    if number in BROKEN_AT:
        raise KeyboardInterrupt
    ids = np.random.default_rng([seed, number, draw]).integers(parameters["vocab"], size=parameters["length"])
    return {"input_ids": ids, "labels": ids[0]}


def task(**changes):
    settings = {
        "name": "toy",
        "version": 1,
        "make_row": make_row,
        "features": FEATURES,
        "parameters": {"vocab": 50, "length": 6},
        "splits": {"train": 25, "validation": 7, "test": 7},
        "rows_per_file": 5,
    }
    return GeneratedTask(**settings | changes)


def hashes(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.parquet")}


def test_any_number_of_processes_writes_the_same_files(tmp_path):
    one = generate(task(), tmp_path / "one", num_workers=1)
    two = generate(task(), tmp_path / "two", num_workers=2)
    assert hashes(one) == hashes(two) and len(hashes(one)) == 5 + 2 + 2
    splits = read_folder(one, ["train", "validation", "test"], tmp_path)
    assert {name: len(split) for name, split in splits.items()} == {"train": 25, "validation": 7, "test": 7}


def test_rows_do_not_depend_on_the_size_of_files(tmp_path):
    splits = [load_generated(task(rows_per_file=n), tmp_path / str(n), 1) for n in (3, 25)]
    assert splits[0]["train"][:] == splits[1]["train"][:] and splits[0]["test"][:] == splits[1]["test"][:]


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    whole = generate(task(), tmp_path / "whole", num_workers=1)
    folder = tmp_path / "cut"
    BROKEN_AT.add(17)
    with pytest.raises(KeyboardInterrupt):
        generate(task(), folder, num_workers=1)
    BROKEN_AT.clear()
    done = hashes(folder)
    assert not json.loads((folder / MANIFEST).read_text())["complete"] and len(done) == 3
    (folder / "train-00001-of-00005.parquet").write_bytes(b"cut off")  # a damaged file is written again
    (folder / "train-00003-of-00005.parquet.tmp-1").write_bytes(b"left over")
    BROKEN_AT.add(0)  # what was finished is not computed again
    try:
        generate(task(), folder, num_workers=1)
    finally:
        BROKEN_AT.clear()
    assert hashes(folder) == hashes(whole) and not list(folder.glob("*.tmp-*"))


def test_a_finished_folder_is_left_as_it_is(tmp_path):
    folder = generate(task(), tmp_path / "a", num_workers=1)
    before = (folder / MANIFEST).stat().st_mtime_ns
    generate(task(), folder, num_workers=1)
    assert (folder / MANIFEST).stat().st_mtime_ns == before


@pytest.mark.parametrize("changes", [{"seed": 1}, {"version": 2}, {"parameters": {"vocab": 50, "length": 7}}])
def test_other_data_have_another_folder(tmp_path, changes):
    assert task().folder(tmp_path) != task(**changes).folder(tmp_path)


def test_a_finished_folder_is_read_by_several_at_a_time_and_an_unfinished_one_written_by_one(tmp_path):
    (tmp_path / "unfinished").mkdir()
    generate(task(), tmp_path / "finished", num_workers=1)
    with FileLock(tmp_path / "finished" / ".lock"), FileLock(tmp_path / "unfinished" / ".lock"):
        assert generate(task(), tmp_path / "finished", num_workers=1) == tmp_path / "finished"
        with pytest.raises(HfLongSeqError, match="is being written by another process"):
            generate(task(), tmp_path / "unfinished", num_workers=1)


def test_a_lost_file_is_written_again(tmp_path):
    folder = generate(task(), tmp_path / "a", num_workers=1)
    before = hashes(folder)
    (folder / "test-00001-of-00002.parquet").unlink()
    assert hashes(generate(task(), folder, num_workers=1)) == before


def test_no_example_is_in_two_splits(tmp_path):
    few = task(parameters={"vocab": 4, "length": 3}, distinct_column="input_ids")  # 64 possible rows for 39
    splits = [load_generated(few, tmp_path / str(n), num_workers=n) for n in (1, 2)]
    rows = [tuple(row) for split in splits[0].values() for row in split["input_ids"]]
    assert len(rows) == len(set(rows)) == 39
    assert all(split["labels"][i] == split["input_ids"][i][0] for split in splits[0].values() for i in range(7))
    assert splits[0]["test"][:] == splits[1]["test"][:]


def test_more_examples_than_there_are_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="no 39 distinct examples"):
        generate(task(parameters={"vocab": 2, "length": 2}, distinct_column="input_ids"), tmp_path, 1)
