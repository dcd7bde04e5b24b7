# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Retrieval: does one paper of the ACL Anthology Network cite the other? Pairs of documents as bytes, 2 classes."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from datasets import ClassLabel, DatasetDict, Features, List, Value

from hf_longseq.data import byte_text
from hf_longseq.data.cache import SPLITS, Row, load_converted
from hf_longseq.data.lra_release import release_lines
from hf_longseq.data.task_spec import TaskSpec, cache_directory, find_file
from hf_longseq.errors import HfLongSeqError

REPO_ID = "OpenNLPLab/lra"
LABELS = ("unrelated", "linked")
FILES = {split: f"new_aan_pairs.{part}.tsv" for split, part in zip(SPLITS, ("train", "eval", "test"), strict=True)}
FEATURES = Features(
    {"input_ids": List(Value("int32")), "input_ids_2": List(Value("int32")), "labels": ClassLabel(names=list(LABELS))}
)


def load(
    max_length: int = 4000, data_dir: str | None = None, cache_dir: str | None = None
) -> tuple[DatasetDict, TaskSpec]:
    """Load the pairs, 147,086/18,090/17,437 in the release.

    Args:
        max_length: Documents are cut to this many steps, end-of-sequence id included.
        data_dir: A folder with the released new_aan_pairs.{train,eval,test}.tsv (10.6 GB) at any depth.
        cache_dir: Where the encoded pairs are kept; default: `cache_directory()`.
    """
    byte_text.check_max_length(max_length)
    place = data_dir or f"{cache_dir or cache_directory()}/downloads/aan"
    command = f"hf download {REPO_ID} --repo-type dataset --include '*new_aan_pairs*' --local-dir {place}"
    files = {split: find_file(place, name, command) for split, name in FILES.items()}
    options, rows = {"version": 2, "max_length": max_length}, partial(aan_rows, files, max_length)
    return load_converted("retrieval", options, files.values(), FEATURES, rows, cache_dir), task_spec(max_length)


def task_spec(max_length: int = 4000) -> TaskSpec:
    """Description of the task with documents cut to `max_length` steps."""
    return TaskSpec(
        name="retrieval",
        **byte_text.SPEC,
        max_length=max_length,
        labels=LABELS,
        mask_ratio=0.15,
        pair=True,
        source="ACL Anthology Network, as in the Long Range Arena release",
        license="as stated by the ACL Anthology Network",
    )


def aan_rows(files: dict[str, Path], max_length: int) -> Iterator[tuple[str, Row]]:
    """Rows of Retrieval from its tsv files (label, two ids, two texts; quotes mean nothing)."""
    for split, where, (label, _, _, first, second) in release_lines(files, 5):
        if label not in ("0", "1", "0.0", "1.0"):
            raise HfLongSeqError(f"{where} has label {label!r}: expected 0 or 1.")
        if not first or not second:
            raise HfLongSeqError(f"{where} has an empty document: remove the row.")
        ids, ids_2 = (byte_text.encode(text, max_length) for text in (first, second))
        yield split, {"input_ids": ids, "input_ids_2": ids_2, "labels": int(float(label))}
