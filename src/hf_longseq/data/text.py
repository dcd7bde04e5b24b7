# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Text: the sentiment of IMDB film reviews, read byte by byte, 2 classes, up to 4,096 steps.

The published results choose the model on the test split. Here validation is held out of train: a review belongs to it
if the hash of its text falls into the first tenth, so that equal reviews stay together. The reviews without label are
not used, since self-pretraining sees nothing but the task's own training data.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from datasets import ClassLabel, DatasetDict, Features, List, Value

from hf_longseq.data import byte_text
from hf_longseq.data.cache import Row, load_converted
from hf_longseq.data.parquet_source import find_parquet, read_batches
from hf_longseq.data.task_spec import TaskSpec
from hf_longseq.errors import HfLongSeqError

REPO_ID = "stanfordnlp/imdb"
LABELS = ("neg", "pos")
FEATURES = Features({"input_ids": List(Value("int32")), "labels": ClassLabel(names=list(LABELS))})
NOTES = {
    "held_out": "validation is held out of train; the published results choose the model on the test split",
    "published": "validation is the test split, as in the published results: its accuracy is not an honest estimate",
}


def load(
    max_length: int = 4096, split: str = "held_out", data_dir: str | None = None, cache_dir: str | None = None
) -> tuple[DatasetDict, TaskSpec]:
    """Load the reviews.

    Args:
        max_length: Reviews are cut to this many steps, end-of-sequence id included.
        split: "held_out", or "published": all of train, and the test split once more as validation.
        data_dir: Folder with the parquet files of stanfordnlp/imdb; default: the Hub.
        cache_dir: Where the encoded reviews are kept; default: `cache_directory()`.
    """
    byte_text.check_max_length(max_length)
    if split not in NOTES:
        raise HfLongSeqError(f"split is {split!r}: use 'held_out' or 'published'.")
    files = find_parquet(REPO_ID, ("train", "test"), data_dir, cache_dir)

    def rows() -> Iterator[tuple[str, Row]]:
        for review in _reviews(files["train"]):
            held_out = split == "held_out" and is_held_out(review["text"])
            yield "validation" if held_out else "train", _row(review, max_length)
        for target in ("test",) if split == "held_out" else ("validation", "test"):
            yield from ((target, _row(review, max_length)) for review in _reviews(files["test"]))

    options, sources = {"version": 2, "max_length": max_length, "split": split}, [*files["train"], *files["test"]]
    return load_converted("text", options, sources, FEATURES, rows, cache_dir), task_spec(max_length, split)


def task_spec(max_length: int = 4096, split: str = "held_out") -> TaskSpec:
    """Description of the task with reviews cut to `max_length` steps."""
    return TaskSpec(
        name="text",
        **byte_text.SPEC,
        max_length=max_length,
        labels=LABELS,
        mask_ratio=0.15,
        source=f"Hugging Face Hub, {REPO_ID}",
        license="as stated by the Large Movie Review Dataset",
        note=NOTES[split],
    )


def _reviews(files: list[Path]) -> Iterator[dict]:
    return (row for batch in read_batches(files, ["text", "label"]) for row in batch.to_pylist())


def is_held_out(text: str) -> bool:
    """Whether a training review belongs to validation: one in ten, decided by its text."""
    return hashlib.blake2b(text.encode(), digest_size=8).digest()[0] < 26


def _row(review: dict, max_length: int) -> Row:
    label = review["label"]
    if label not in (0, 1):
        raise HfLongSeqError(f"A review of {REPO_ID} has label {label!r}: expected 0 (neg) or 1 (pos).")
    return {"input_ids": byte_text.encode(review["text"], max_length), "labels": label}
