"""Image and sCIFAR, on stand-in files: the Hub's parquet and the official binary archive."""

import numpy as np
import pytest
from datasets import Dataset
from stand_ins import CIFAR_IMAGES, write_cifar_binary, write_cifar_parquet

from hf_longseq.data.cifar import to_grey
from hf_longseq.data.collators import DataCollatorForMaskedDenoising, DataCollatorWithLongPadding
from hf_longseq.data.task import load_task

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def parquet(tmp_path):
    return write_cifar_parquet(tmp_path)


@pytest.fixture
def binary(tmp_path):
    return write_cifar_binary(tmp_path)


def load(name, folder, **options):
    return load_task(name, data_dir=str(folder), cache_dir=str(folder.with_name("cache")), **options)


def test_grey_is_what_pillow_makes_of_it():
    expected = np.stack([np.asarray(Image.fromarray(image).convert("L")) for image in CIFAR_IMAGES])
    assert np.array_equal(to_grey(CIFAR_IMAGES), expected)


def test_both_formats_give_the_same_sequences(parquet, binary):
    for name in ("image", "scifar"):
        first, second = load(name, parquet)[0], load(name, binary)[0]
        for split, count in (("train", 36), ("validation", 4), ("test", 10)):
            assert len(first[split]) == count
            assert np.array_equal(
                np.stack(first[split][:]["input_values"]), np.stack(second[split][:]["input_values"])
            )
            assert np.array_equal(first[split][:]["labels"], second[split][:]["labels"])


def test_image_is_scaled_as_in_the_published_results(binary):
    splits, spec = load("image", binary)
    batch = DataCollatorWithLongPadding.from_task(spec)([splits["test"][0]])
    grey = to_grey(CIFAR_IMAGES[40:41]).reshape(1, 1024, 1) / 255
    assert np.allclose(batch["input_values"], (grey - 122.6 / 255) / (61 / 255), atol=1e-5)


def test_scifar_has_three_channels(binary):
    splits, spec = load("scifar", binary)
    batch = DataCollatorForMaskedDenoising.from_task(spec)([splits["test"][0]])
    assert batch["input_values"].shape == (1, 1024, 3) and spec.num_channels == 3


def test_colour_has_no_token_form(binary):
    with pytest.raises(ValueError, match="3 channels"):
        load("scifar", binary, tokens=True)


def test_damage_is_named(binary, parquet):
    (binary / "cifar-10-batches-bin" / "data_batch_2.bin").write_bytes(b"x" * 1000)
    with pytest.raises(ValueError, match="data_batch_2.bin has 1000 bytes"):
        load("image", binary)
    (binary / "cifar-10-batches-bin" / "data_batch_2.bin").unlink()
    with pytest.raises(ValueError, match="some of data_batch_1.bin"):
        load("image", binary)
    rows = {"img": [{"bytes": b"", "path": None}], "label": [3]}
    Dataset.from_dict(rows).to_parquet(parquet / "plain_text" / "test-00000-of-00001.parquet")
    with pytest.raises(ValueError, match="image 0, is no readable picture"):
        load("image", parquet)
