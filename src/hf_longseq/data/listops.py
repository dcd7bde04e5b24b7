# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""ListOps: nested lists of digits under MIN, MAX, MED (median) and SM (sum modulo 10); the label is the value.

The benchmark's distribution (Long Range Arena, section 2.2.1, after Nangia & Bowman 2018), drawn again from seeds: the
released files have no seed, so they cannot be reproduced byte for byte, only in distribution.

- A node at depth d < max_depth is an operator with probability 1/4, else a uniform digit; at max_depth it is a digit.
- An operator is uniform among the four and has 2..max_args arguments, uniformly.
- Trees whose length (tokens after removing the parentheses) is not strictly between min_length and max_length are
  drawn again; no tree appears twice, in one split or across splits.
"""

import random
import statistics
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from datasets import ClassLabel, DatasetDict, Features, List, Value

from hf_longseq.data.cache import Row, load_converted, load_generated
from hf_longseq.data.lra_release import COMMAND, release_lines
from hf_longseq.data.task_spec import TaskSpec, find_file
from hf_longseq.errors import HfLongSeqError

VOCABULARY = ("[MASK]", "[PAD]", "[UNK]", "[EOS]", *"0123456789", "[MIN", "[MAX", "[MED", "[SM", "X")
MASK_ID, PAD_ID, UNK_ID, EOS_ID = range(4)
DIGIT_ID = VOCABULARY.index("0")
OPERATOR_ID = VOCABULARY.index("[MIN")
CLOSE_ID = VOCABULARY.index("X")

# what [MIN, [MAX, [MED (mean of the middle two, rounded down, for an even count) and [SM make of their arguments
OPERATORS = (min, max, lambda values: int(statistics.median(values)), lambda values: sum(values) % 10)
OPERATOR_PROBABILITY = 0.25
MAX_TREES = 2_000_000
VERSION = 1  # of the rows that a seed gives

FILES = {"train": "basic_train.tsv", "validation": "basic_val.tsv", "test": "basic_test.tsv"}
FEATURES = Features({"input_ids": List(Value("int32")), "labels": ClassLabel(names=list("0123456789"))})


def load(
    train_examples: int = 96_000,
    eval_examples: int = 2_000,
    min_length: int = 500,
    max_length: int = 2_000,
    max_depth: int = 10,
    max_args: int = 10,
    seed: int = 0,
    num_workers: int | None = None,
    data_dir: str | None = None,
    cache_dir: str | None = None,
) -> tuple[DatasetDict, TaskSpec]:
    """Generate (once) and load ListOps, or read the released files.

    Args:
        train_examples: Examples in train.
        eval_examples: Examples in validation, and again in test.
        min_length, max_length: Lengths kept are strictly between; the end-of-sequence token comes on top.
        max_depth: Depth at which only digits grow.
        max_args: Most arguments of an operator.
        seed: Seed of the whole set.
        num_workers: Processes; any number gives the same data.
        data_dir: A folder with the released basic_train.tsv, basic_val.tsv and basic_test.tsv at any depth; then only
            `max_length` (a cut, end-of-sequence token included) counts.
        cache_dir: Where generated files are kept; default: `cache_directory()`.
    """
    if data_dir is not None:
        files = {split: find_file(data_dir, name, COMMAND) for split, name in FILES.items()}
        options, rows = {"max_length": max_length}, partial(released_rows, files, max_length)
        splits = load_converted("listops", options, files.values(), FEATURES, rows, cache_dir)
        return splits, replace(task_spec(max_length), source="the Long Range Arena release", note="")
    if max_depth < 2 or max_args < 2:
        raise HfLongSeqError(f"max_depth={max_depth} and max_args={max_args} allow no operator: use 2 or more.")
    longest = 1
    for _ in range(max_depth - 1):
        longest = min(2 + max_args * longest, 10**9)
    shortest = 4  # an operator, two digits, the closing bracket
    if min_length < 0 or max_length - 1 < max(min_length + 1, shortest) or min_length + 1 > longest:
        raise HfLongSeqError(
            f"min_length={min_length} and max_length={max_length} leave no length strictly between them that trees "
            f"with max_depth={max_depth} and max_args={max_args} have ({shortest}..{longest}): widen the range."
        )
    parameters = {"min_length": min_length, "max_length": max_length, "max_depth": max_depth, "max_args": max_args}
    splits = {"train": train_examples, "validation": eval_examples, "test": eval_examples}
    rows = load_generated(
        "listops", VERSION, make_row, FEATURES, parameters, splits, seed, "input_ids",
        num_workers=num_workers, cache_dir=cache_dir,
    )  # fmt: skip
    return rows, task_spec(max_length)


def task_spec(max_length: int = 2_000) -> TaskSpec:
    """Description of ListOps with lengths below `max_length`."""
    return TaskSpec(
        name="listops",
        modality="tokens",
        max_length=max_length,
        vocab_size=len(VOCABULARY),
        pad_token_id=PAD_ID,
        mask_token_id=MASK_ID,
        eos_token_id=EOS_ID,
        labels=tuple("0123456789"),
        mask_ratio=0.1,
        vocabulary=VOCABULARY,
        source="generated with the benchmark's distribution",
        license="Apache-2.0",
        note="drawn anew from a seed; the released files cannot be reproduced byte for byte",
    )


def make_row(parameters: dict[str, Any], seed: int, number: int, draw: int = 0) -> Row:
    """The row with a number: `input_ids` with the end-of-sequence token, and `labels`."""
    # Python hashes a seed string with SHA-512: streams of different examples do not overlap.
    ids, label = draw_example(random.Random(f"listops/{seed}/{number}/{draw}"), **parameters)
    return {"input_ids": np.array(ids, np.int32), "labels": label}


class _TooLong(Exception):
    """A tree that outgrows the range is given up at once."""


def draw_example(
    generator: random.Random, min_length: int, max_length: int, max_depth: int, max_args: int
) -> tuple[list[int], int]:
    """Token ids (with the end-of-sequence token) and value of one accepted tree."""
    uniform = generator.random
    for _ in range(MAX_TREES):
        # The root is an operator: a bare digit would be too short anyway.
        ids: list[int] = []
        try:
            value = _grow(uniform, ids, max_depth - 1, max_length - 1, max_args - 1)
        except _TooLong:
            continue
        if min_length < len(ids) < max_length:
            ids.append(EOS_ID)
            return ids, value
    raise HfLongSeqError(
        f"{MAX_TREES} trees in a row had no length between min_length={min_length} and max_length={max_length}: "
        "widen the range, or change max_depth and max_args."
    )


def _grow(uniform, ids: list[int], levels_below: int, longest: int, arg_choices: int) -> int:
    """Append an operator node with all that hangs below it to `ids`; return its value."""
    place = len(ids)
    ids.append(0)
    values = []
    for _ in range(2 + int(uniform() * arg_choices)):
        if levels_below > 1 and uniform() <= OPERATOR_PROBABILITY:
            values.append(_grow(uniform, ids, levels_below - 1, longest, arg_choices))
        else:
            digit = int(uniform() * 10)
            ids.append(DIGIT_ID + digit)
            values.append(digit)
    ids.append(CLOSE_ID)
    if len(ids) > longest:
        raise _TooLong
    operator = int(uniform() * 4)
    ids[place] = OPERATOR_ID + operator
    return OPERATORS[operator](values)


def released_rows(files: dict[str, Path], max_length: int) -> Iterator[tuple[str, Row]]:
    """Rows of the released tsv files: parentheses dropped, brackets closed by X, end-of-sequence added."""
    ids = {symbol: index for index, symbol in enumerate(VOCABULARY)} | {"]": CLOSE_ID}
    for split, where, (source, label) in release_lines(files, 2):
        if source == "Source":
            continue
        symbols = [symbol for symbol in source.split() if symbol not in "()"]
        unknown = next((symbol for symbol in symbols if symbol not in ids), None)
        if unknown is not None or not label.isdigit() or int(label) > 9:
            what = f"symbol {unknown!r}" if unknown is not None else f"label {label!r}"
            raise HfLongSeqError(f"{where} holds {what}: it is not the released ListOps file.")
        kept = [ids[symbol] for symbol in symbols][: max_length - 1]
        yield split, {"input_ids": np.array([*kept, EOS_ID]), "labels": int(label)}
