# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Splits of own data by the content of their rows."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from hf_longseq.data.own_sources import Source
from hf_longseq.data.row_hashes import hash_of
from hf_longseq.errors import HfLongSeqError

UNLABELLED, DROPPED = "unlabelled", "dropped"


def make_splits(
    source: Source,
    hashes: np.ndarray,
    groups: list | None,
    unlabelled: np.ndarray,
    shares: dict[str, float],
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Split of every row, and which rows of train equal a held-out row, of another split of the source or group.

    Splits of the source are kept; `shares` of train make those that it lacks, by hashes. Unlabelled rows that equal a
    held-out row, or belong to the group of one, are left out.
    """
    given = source.split_of
    split_of = pd.Series(np.where(given == "all", "train", given), dtype=object)
    split_of[unlabelled] = UNLABELLED
    missing = {split: share for split, share in shares.items() if split not in given}
    for split, share in missing.items():
        if not 0 < share < 0.5:
            raise HfLongSeqError(f"{split}_fraction is {share}: use a share between 0 and 0.5.")
    inputs = pd.Series(hashes)
    keys = inputs if groups is None else pd.Series([str(group) for group in groups], dtype=object)
    if groups is not None:
        _check_groups(source, split_of, keys)
    held_out = split_of.isin(("validation", "test"))
    whole = keys[(split_of == "train") & ~inputs.isin(inputs[held_out])]
    taken = split_by_hash(whole.unique(), shares, list(missing), seed)
    if taken and not {"train", *missing} <= set(taken.values()):
        what = f"{len(taken)} different rows" if groups is None else f"{len(taken)} groups"
        raise HfLongSeqError(f"{source.name} has only {what}: too few to set validation and test examples apart.")
    split_of[whole.index] = whole.map(taken)
    held_out = split_of.isin(("validation", "test"))
    equal = inputs.isin(inputs[held_out])
    split_of[(split_of == UNLABELLED) & (equal | keys.isin(keys[held_out]))] = DROPPED
    return split_of.to_numpy(copy=True), (equal & (split_of == "train")).to_numpy()


def split_by_hash(keys: Iterable[Any], shares: dict[str, float], missing: list[str], seed: int) -> dict[Any, str]:
    """The split of every key, by where its hash falls between 0 and 1.

    Each split has a part of that range of its own, whichever of them are `missing`. A split of which no key falls into
    its part takes the next key above, so that it has at least one.
    """
    place = {key: (hash_of([f"{seed} {key}".encode()]) % 2**64) / 2**64 for key in keys}
    taken, starts, start = dict.fromkeys(place, "train"), {}, 0.0
    for split, share in shares.items():
        if split in missing:
            starts[split] = start
            taken |= dict.fromkeys((key for key, value in place.items() if start <= value < start + share), split)
        start += share
    for split, start in starts.items():
        if split not in taken.values():
            free = [key for key, of in taken.items() if of == "train"]
            taken |= dict.fromkeys(sorted(free, key=lambda key: (place[key] - start) % 1)[:1], split)
    return taken


def _check_groups(source: Source, split_of: pd.Series, groups: pd.Series) -> None:
    """Raise if the source has a group in two of its splits."""
    settled = split_of[split_of != UNLABELLED]
    home = settled.groupby(groups[settled.index]).transform("first")
    for row in settled.index[settled != home]:
        raise HfLongSeqError(
            f"{source.where(row)} belongs to group {groups[row]} and to {settled[row]}, but others of the group to "
            f"{home[row]}: give all rows in one file, or leave out group_column."
        )
