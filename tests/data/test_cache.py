"""Generated sets: the same for any number of processes, made once, never mixed up."""

import os

import numpy as np
import pytest
from datasets import Features, List, Value

from hf_longseq.data.cache import load_generated

FEATURES = Features({"input_ids": List(Value("int32")), "labels": Value("int64")})
BROKEN_AT: set[int] = set()


def make_row(parameters, seed, number, draw=0):
    if number in BROKEN_AT:
        raise KeyboardInterrupt
    ids = np.random.default_rng([seed, number, draw]).integers(parameters["vocab"], size=parameters["length"])
    return {"input_ids": ids, "labels": ids[0]}


def load(cache_dir, num_workers=1, **changes):
    settings = {
        "name": "toy",
        "version": 1,
        "make_row": make_row,
        "features": FEATURES,
        "parameters": {"vocab": 50, "length": 6},
        "splits": {"train": 25, "validation": 7, "test": 7},
        "rows_per_part": 5,
    }
    return load_generated(**settings | changes, num_workers=num_workers, cache_dir=cache_dir)


def rows_of(splits):
    return {name: split.to_dict() for name, split in splits.items()}


def test_any_number_of_processes_and_any_size_of_parts_give_the_same_rows(tmp_path):
    one = rows_of(load(tmp_path / "one"))
    assert {name: len(rows["labels"]) for name, rows in one.items()} == {"train": 25, "validation": 7, "test": 7}
    assert one == rows_of(load(tmp_path / "two", 2))
    for size in (3, 25):
        assert one == rows_of(load(tmp_path / str(size), rows_per_part=size))


def test_what_an_interruption_leaves_is_no_data_and_is_cleared(tmp_path):
    BROKEN_AT.add(17)
    with pytest.raises(KeyboardInterrupt):
        load(tmp_path)
    BROKEN_AT.clear()
    assert not list(tmp_path.rglob("*.arrow"))
    whole = load(tmp_path)
    (folder,) = {file.parent for file in (tmp_path / "toy").rglob("*.arrow")}
    os.rename(folder, folder.with_suffix(".incomplete"))  # as a killed process leaves it
    load(tmp_path)
    assert {file.parent for file in (tmp_path / "toy").rglob("*.arrow")} == {folder}
    BROKEN_AT.add(0)  # what is there is not computed again
    try:
        assert rows_of(load(tmp_path)) == rows_of(whole)
    finally:
        BROKEN_AT.clear()


@pytest.mark.parametrize("changes", [{"seed": 1}, {"version": 2}, {"parameters": {"vocab": 50, "length": 7}}])
def test_other_data_have_another_folder(tmp_path, changes):
    for one in ({}, changes):
        load(tmp_path, **one)
    assert len(list((tmp_path / "toy").glob("*/train.arrow"))) == 2


def test_no_example_is_in_two_splits(tmp_path):
    few = {"parameters": {"vocab": 4, "length": 3}, "distinct_column": "input_ids"}  # 64 possible rows for 39
    splits = [load(tmp_path / str(n), n, **few) for n in (1, 2)]
    rows = [tuple(row) for split in splits[0].values() for row in split["input_ids"]]
    assert len(rows) == len(set(rows)) == 39
    assert all(split["labels"][i] == split["input_ids"][i][0] for split in splits[0].values() for i in range(7))
    assert rows_of(splits[0]) == rows_of(splits[1])


def test_more_examples_than_there_are_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="no 39 distinct examples"):
        load(tmp_path, parameters={"vocab": 2, "length": 2}, distinct_column="input_ids")
