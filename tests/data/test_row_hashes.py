"""A checkpoint's folder tells which rows it was trained on."""

import numpy as np
import pytest
from datasets import Dataset

from hf_longseq.data import row_hashes
from hf_longseq.data.row_hashes import count_trained_on, hash_of, save_trained_on
from hf_longseq.errors import HfLongSeqError


def rows(numbers):
    return Dataset.from_dict({"input_ids": [[number, number + 1] for number in numbers]})


def test_rows_that_were_trained_on_are_counted_through_several_checkpoints(tmp_path, caplog):
    for name, start in (("first", None), ("second", tmp_path / "first")):
        (tmp_path / name).mkdir()
        save_trained_on(tmp_path / name, rows(range(50) if start is None else range(100, 130)), start)
    assert count_trained_on(tmp_path / "first", rows(range(40, 60)), "test") == 10
    assert "10 of 20 test rows were among those that" in caplog.text
    assert count_trained_on(tmp_path / "second", rows([*range(40, 60), 105]), "test") == 11
    caplog.clear()
    assert count_trained_on(tmp_path / "first", rows(range(60, 80)), "test") == 0 and not caplog.text
    assert count_trained_on(tmp_path, rows(range(9)), "test") == 0  # a checkpoint from elsewhere records nothing


def test_inputs_are_kept_apart_in_the_hash_of_a_pair():
    assert hash_of([b"ab", b"c"]) != hash_of([b"a", b"bc"]) and -(2**63) <= hash_of([b"x"]) < 2**63


def test_a_damaged_record_is_named(tmp_path):
    (tmp_path / row_hashes.FILE).write_bytes(b"no array")
    with pytest.raises(HfLongSeqError, match=r"trained_on\.npy could not be read .*: restore it, or delete it"):
        count_trained_on(tmp_path, rows([1]), "test")
    np.save(tmp_path / row_hashes.FILE, np.zeros((2, 2)))
    with pytest.raises(HfLongSeqError, match=r"trained_on\.npy could not be read .it holds float64 of shape \(2, 2\)"):
        count_trained_on(tmp_path, rows([1]), "test")
