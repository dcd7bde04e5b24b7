"""The embedded recordings: complete, real-valued, and with no syllable in two splits."""

import numpy as np
from datasets import Dataset

from hf_longseq.data.cache import SPLITS
from hf_longseq.data.collators import DataCollatorWithLongPadding
from hf_longseq.data.task import load_task
from hf_longseq.data.task_spec import EMBEDDED


def test_splits_sizes_and_labels():
    splits, spec = load_task("spoken-tones")
    assert {name: len(rows) for name, rows in splits.items()} == {"train": 668, "validation": 155, "test": 324}
    assert spec.labels == ("first", "second", "third", "fourth")
    for rows in splits.values():
        assert np.bincount(rows["labels"]).min() > 0.15 * len(rows)
        assert max(len(row) for row in rows["input_values"]) <= spec.max_length


def test_no_syllable_is_in_two_splits():
    seen: set[str] = set()
    for split in SPLITS:
        syllables = set(Dataset.from_parquet(str(EMBEDDED / f"spoken-tones-{split}.parquet"))["syllable"])
        assert not syllables & seen
        seen |= syllables


def test_a_batch_has_the_scale_of_normalised_audio():
    splits, spec = load_task("spoken-tones")
    batch = DataCollatorWithLongPadding.from_task(spec)([splits["train"][i] for i in range(64)])
    values = batch["input_values"][batch["attention_mask"].bool()]
    assert abs(values.mean()) < 0.05
    assert 0.5 < values.std() < 1.5


def test_the_description_is_that_of_the_recordings():
    splits, spec = load_task("spoken-tones")
    assert spec.labels == tuple(splits["train"].features["labels"].names)
    assert spec.max_length == max(len(row) for rows in splits.values() for row in rows["input_values"])
