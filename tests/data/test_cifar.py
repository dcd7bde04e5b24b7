"""Image and sCIFAR, on stand-ins of the Hub's parquet files."""

import numpy as np
import pytest
from datasets import Dataset
from stand_ins import CIFAR_IMAGES, CIFAR_LABELS, write_cifar_parquet

from hf_longseq.data.collators import DataCollatorForMaskedDenoising, DataCollatorWithLongPadding
from hf_longseq.data.task import load_task

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def parquet(tmp_path):
    return write_cifar_parquet(tmp_path)


def load(name, folder, **options):
    return load_task(name, data_dir=str(folder), cache_dir=str(folder.with_name("cache")), **options)


def test_all_pictures_come_with_their_labels(parquet):
    splits, _ = load("scifar", parquet)
    assert {split: len(rows) for split, rows in splits.items()} == {"train": 36, "validation": 4, "test": 10}
    assert np.array_equal(np.stack(splits["test"][:]["input_values"]), CIFAR_IMAGES[40:].reshape(10, 1024, 3))
    assert np.array_equal(splits["test"][:]["labels"], CIFAR_LABELS[40:])


def test_image_is_scaled_as_in_the_published_results(parquet):
    splits, spec = load("image", parquet)
    batch = DataCollatorWithLongPadding.from_task(spec)([splits["test"][0]])
    grey = np.asarray(Image.fromarray(CIFAR_IMAGES[40]).convert("L")).reshape(1, 1024, 1) / 255
    assert np.allclose(batch["input_values"], (grey - 122.6 / 255) / (61 / 255), atol=1e-5)


def test_scifar_has_three_channels(parquet):
    splits, spec = load("scifar", parquet)
    batch = DataCollatorForMaskedDenoising.from_task(spec)([splits["test"][0]])
    assert batch["input_values"].shape == (1, 1024, 3) and spec.num_channels == 3


def test_colour_has_no_token_form(parquet):
    with pytest.raises(ValueError, match="3 channels"):
        load("scifar", parquet, tokens=True)


def test_damage_is_named(parquet):
    rows = {"img": [{"bytes": b"", "path": None}], "label": [3]}
    Dataset.from_dict(rows).to_parquet(parquet / "plain_text" / "test-00000-of-00001.parquet")
    with pytest.raises(ValueError, match="image 0, is not a readable picture"):
        load("image", parquet)
