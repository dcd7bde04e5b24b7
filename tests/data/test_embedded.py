"""Embedded data sets open without a network, complete or not at all."""

import pytest
from datasets import ClassLabel, Dataset, Features, List, Value

from hf_longseq.data.embedded import SPLITS, load_embedded


def test_opens_every_split_with_its_features(tmp_path):
    features = Features({"input_ids": List(Value("int32")), "labels": ClassLabel(names=["a", "b"])})
    for size, split in enumerate(SPLITS, start=2):
        rows = {"input_ids": [[size, 1]] * size, "labels": [1] * size}
        Dataset.from_dict(rows, features=features).to_parquet(tmp_path / f"toy-{split}.parquet")
    splits = load_embedded("toy", tmp_path / "cache", tmp_path)
    assert [len(splits[split]) for split in SPLITS] == [2, 3, 4]
    assert splits["test"].features == features and splits["test"][0] == {"input_ids": [4, 1], "labels": 1}


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="toy-train.parquet is missing"):
        load_embedded("toy", folder=tmp_path)
