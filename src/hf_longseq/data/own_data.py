# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Your own data as a task: text, token ids, series of numbers, pictures or sounds, with classes or numbers to predict,
for the whole or for every position (forms of such labels: `docs/spans.md`).

Rows of train without a label (in a csv file an empty cell or NaN; None and NA are names) become the split
"unlabelled" for pretraining, whose inputs never hold rows of validation and test. Results say how many
rows have labels, how they are split, and how many inputs are open to pretraining. Data without a label column are for
pretraining alone. Beside `X.npy` the arrays of its folder with as many rows are columns, such as the labels in
`y.npy`.

Splits that the source has, by names such as `train` and `reviews_test.csv`, are kept; rows of train that also stand in
its validation or test are counted and left out, unless `keep_duplicates` is set. Missing splits are taken out of train
by a hash of a row's inputs, or of its group if `group_column` is given. A row is therefore on the same side in every
command, under any label and at any place in the file; equal rows, and the rows of a subject, stay together. Shares
hold roughly, and each split gets a row.
The columns of inputs and groups, `seed` and the fractions decide the split: give `pretrain` and `finetune` the same.
A class without a row in train is an error; another `seed` moves rows.

The column `source_row` records which row of the source each example is, `row_hash` the hash of its inputs. Series and
sounds are standardised with the mean and deviation of train.

With `--data` and no recipe, batches hold examples of similar length; `--pretrain.train_sampling_strategy random` and
`--finetune.train_sampling_strategy random` mix them.
"""

import hashlib
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from datasets import Dataset, DatasetDict, Features, List, Value
from huggingface_hub.constants import ENDPOINT

from hf_longseq.data import byte_text
from hf_longseq.data.cache import SPLITS, Row, load_converted, sequence_feature
from hf_longseq.data.own_labels import LABEL_NAMES, Labels, read_labels
from hf_longseq.data.own_reader import MODALITIES, MOST_TOKEN_IDS, Reader, content_of, groups_of, modality_of
from hf_longseq.data.own_sources import AUDIO_ENDINGS, IMAGE_ENDINGS, Source, open_source
from hf_longseq.data.row_hashes import GROUP, INPUTS, ROW_HASH, hash_of, row_hashes
from hf_longseq.data.task_spec import TaskSpec
from hf_longseq.errors import HfLongSeqError

logger = logging.getLogger(__name__)

UNLABELLED, DROPPED = "unlabelled", "dropped"
# In the source of a data set of the Hub without a test split, so that its scores cannot be compared with others'.
TAKEN_OUT = ", its test split taken out of train"
# Column and type in which inputs are kept.
KEPT = {"text": ("input_ids", "int32"), "tokens": ("input_ids", "int32"), "image": ("input_values", "uint8")}
KEPT |= dict.fromkeys(("values", "audio"), ("input_values", "float32"))


def load(
    data: Any,
    input_column: str | None = None,
    label_column: str | None = None,
    second_input_column: str | None = None,
    group_column: str | None = None,
    modality: str | None = None,
    problem_type: str | None = None,
    max_length: int | None = None,
    num_rows: int | None = None,
    validation_fraction: float = 0.1,
    test_fraction: float = 0.1,
    seed: int = 0,
    colour: bool = False,
    image_size: int | None = None,
    sampling_rate: int | None = None,
    mask_ratio: float | None = None,
    vocab_size: int | None = None,
    per_position: bool | None = None,
    outside_label: str | None = None,
    keep_duplicates: bool = False,
    cache_dir: str | None = None,
) -> tuple[DatasetDict, TaskSpec]:
    """Load your own data.

    Args:
        data: A csv, tsv, jsonl, parquet, npy or npz file, a folder of such tables or of pictures or sounds (one folder
            per class, or `metadata.csv` with `file_name` and `label`), a saved data set, or the id of a data set on
            the Hub. From Python also a `Dataset`, a `DatasetDict`, a stream, a `DataFrame`, a list of dicts, texts or
            arrays, an array, a pair of inputs and labels, a mapping of columns, or a torch data set of dicts.
        input_column, label_column: Names; default: the first usual name that the data have. An empty label makes a row
            input for pretraining.
        second_input_column: Second document, for pairs.
        group_column: Rows with the same value (a subject, a recording) never get into different splits, nor do those
            of `data.unlabelled`, if it has the column.
        modality: "text" (read as bytes), "tokens", "values", "image" or "audio"; default: by the content.
        problem_type: "regression" to predict numbers, "multi_label_classification" for several labels a row; default:
            by the labels.
        max_length: Longer inputs are cut, pictures refused; default: the longest.
        num_rows: Read only the first rows, of a long stream say; default: all.
        validation_fraction, test_fraction: Shares taken out of train where the source has no such split.
        seed: Seed of the split.
        colour: Three channels for pictures.
        image_size: Resize pictures to this many pixels a side.
        sampling_rate: Resample sounds to this rate in Hz; default: that of an `Audio` column, if it states one.
        mask_ratio: Masked share in pretraining; default: 0.15 for text and tokens, 0.25 for series, 0.5 for pictures.
        vocab_size: Number of token ids to make room for, if these data do not hold all; `finetune --init_from` takes
            that of the checkpoint. Default: up to the highest.
        per_position: Whether every position has a label of its own; default: by the name and the content of the label
            column.
        outside_label: The class of positions outside of every span, if it is not called "O".
        keep_duplicates: Keep rows of train that also stand in the source's validation or test split.
        cache_dir: Where the converted data are kept; default: `cache_directory()`.
    """
    counts = {"max_length": max_length, "num_rows": num_rows, "image_size": image_size}
    for name, value in {**counts, "sampling_rate": sampling_rate, "vocab_size": vocab_size}.items():
        if value is not None and value < 1:
            raise HfLongSeqError(f"data.{name} is {value}: give a number of 1 or more.")
    source = open_source(data, num_rows, cache_dir)
    if not len(source.first):
        raise HfLongSeqError(f"{source.name} has no rows.")
    if not {"train", "all"} & set(source.splits):
        raise HfLongSeqError(
            f"{source.name} has rows of {' and '.join(source.splits)} alone, and none to train on: add a split train, "
            "or give one file or Dataset, which is split anew."
        )
    label_column = label_column or next((name for name in LABEL_NAMES if name in source.first.column_names), None)
    first = input_column or source.input_name((label_column, second_input_column, group_column))
    inputs = [first, *([second_input_column] if second_input_column else [])]
    for column, others in ((label_column, inputs), (second_input_column, inputs[:1]), (group_column, [label_column])):
        if column is not None and column in others:
            raise HfLongSeqError(f"column {column!r} of {source.name} is named for two things: name another for one.")
    if mask_ratio is not None and not 0 < mask_ratio < 1:
        raise HfLongSeqError(f"data.mask_ratio is {mask_ratio}: give a share between 0 and 1, both excluded.")
    modality = modality or modality_of(source, inputs[0])
    if modality not in MODALITIES:
        raise HfLongSeqError(f"modality is {modality!r}: use {', '.join(MODALITIES)}.")
    if modality == "audio" and sampling_rate is None:
        sampling_rate = getattr(source.first.features.get(first), "sampling_rate", None)  # that a data set states
    most_ids = max(vocab_size or 0, MOST_TOKEN_IDS)
    reader = Reader(modality, colour, image_size, sampling_rate, max_length, most_ids)
    labels = read_labels(source, label_column, inputs, reader, per_position, problem_type, outside_label)
    groups = groups_of(source, group_column) if group_column else None
    encoded = _encode(source, inputs, reader, cache_dir)
    shares = {"test": test_fraction, "validation": validation_fraction}
    split_of, duplicates = _make_splits(source, row_hashes(encoded), groups, labels.missing, shares, seed)
    if not keep_duplicates:
        split_of[duplicates] = DROPPED
    if "train" not in split_of:
        raise HfLongSeqError(
            f"Every row of train in {source.name} also stands in validation or test: give other rows to train, or set "
            "keep_duplicates."
        )
    form = _form(encoded, reader, np.isin(split_of, ("train", UNLABELLED)), vocab_size)
    options = {
        "rows": Path(encoded.cache_files[0]["filename"]).parent.name,
        "labels": [label_column, labels.problem, labels.names, outside_label, labels.per_position],
        "split": hashlib.sha256("".join(split_of).encode()).hexdigest(),
        "scale": form.get("normalization"),
    }
    kept = _features(reader, inputs) | {"labels": labels.feature, "source_row": Value("int64")}
    given = (*SPLITS, UNLABELLED) if UNLABELLED in split_of else SPLITS
    finished = partial(_finish, encoded, labels, split_of, form.get("normalization"), max_length)
    splits = load_converted("own-data", options, [], Features(kept), finished, cache_dir, given)
    if labels.problem is None:
        splits = splits.remove_columns("labels")
    if groups is not None:
        of_rows = np.array([hash_of([group.encode()]) for group in groups])
        for name, rows in splits.items():
            splits[name] = rows.add_column(GROUP, of_rows[rows["source_row"][:]])
    note = _report(source, labels, split_of, duplicates, group_column, keep_duplicates)
    logger.info("%s: %s", data if isinstance(data, str) else source.name, note)
    spec = TaskSpec(
        name="own-data",
        labels=labels.names,
        problem_type=labels.problem,
        metric=labels.metric,
        per_position=labels.per_position,
        mask_ratio=mask_ratio or {"text": 0.15, "tokens": 0.15, "image": 0.5}.get(modality, 0.25),
        pair=len(inputs) > 1,
        license="not stated",
        source=_origin(data, source),
        note=note,
        **form,
    )
    return splits, spec


def _origin(data: Any, source: Source) -> str:
    """Where the data come from: a path, an address on the Hub, or the kind of the object."""
    if not isinstance(data, str | os.PathLike):
        return f"a {type(data).__name__} of Python"
    if Path(data).expanduser().exists():
        return str(data)
    return f"{ENDPOINT}/datasets/{data}{'' if 'test' in source.splits else TAKEN_OUT}"


def _features(reader: Reader, inputs: list[str], dtype: str | None = None) -> dict[str, Any]:
    name, kept = KEPT[reader.modality]
    kind = sequence_feature(dtype or kept, reader.channels)
    return {**dict.fromkeys((name, f"{name}_2")[: len(inputs)], kind), ROW_HASH: Value("int64")}


def _encode(source: Source, inputs: list[str], reader: Reader, cache_dir: str | None) -> Dataset:
    """Every row's inputs as arrays, read and checked once: columns of inputs, `row_hash`, and `measures`, the numbers
    that the description needs."""
    columns = [source.column(name) for name in inputs]
    first = columns[0][0]
    reader.read(first, _where(source.where(0), inputs[0], first))  # its shape and rate are those of all
    series = reader.modality in ("values", "audio")
    kinds = _features(reader, inputs, "float64" if series else None)
    features = Features({**kinds, "measures": List(Value("float64"))})

    def encoded() -> Iterator[tuple[str, Row]]:
        for number, raws in enumerate(zip(*columns, strict=True)):
            wheres = [_where(source.where(number), *pair) for pair in zip(inputs, raws, strict=True)]
            arrays = [reader.read(*pair) for pair in zip(raws, wheres, strict=True)]
            contents = (content_of(raw, reader.modality, where) for raw, where in zip(raws, wheres, strict=True))
            kept = [array[:, 0] if series and reader.channels == 1 else array for array in arrays]
            row = dict(zip(features, kept, strict=False))
            yield "rows", row | {ROW_HASH: hash_of(contents), "measures": _measures(arrays, reader.modality)}

    cells = (cell for column in columns for cell in column) if reader.modality in ("image", "audio") else ()
    names = (cell if isinstance(cell, str) else (cell or {}).get("path") for cell in cells)
    files = [Path(name) for name in names if name and os.path.isfile(name)]
    options = {"version": 8, "rows": source.fingerprints, "reader": repr(reader), "inputs": inputs}
    return load_converted("own-data", options, files, features, encoded, cache_dir, ("rows",))["rows"]


def _where(where: str, name: str, value: Any) -> str:
    """What messages call an input: a picture or sound by its file, anything else by row and column."""
    is_file = isinstance(value, str) and len(value) < 1000 and value.lower().endswith(IMAGE_ENDINGS + AUDIO_ENDINGS)
    return f"{value} ({where.rstrip(',')})" if is_file else f"{where} column {name!r},"


def _measures(arrays: list[np.ndarray], modality: str) -> list[float]:
    """Longest length, then the highest id, or the number of steps with the mean and the sum of squared deviations from
    it of every channel."""
    longest = float(max(map(len, arrays)))
    if modality == "tokens":
        return [longest, float(max(array.max() for array in arrays))]
    if modality not in ("values", "audio"):
        return [longest]
    steps = np.concatenate(arrays).astype(np.float64, copy=False)
    apart = steps - steps[0]  # 0 where a channel is constant, which its mean over many steps only nearly is
    offset = apart.mean(0)
    return [longest, len(steps), *(steps[0] + offset), *np.square(apart - offset).sum(0)]


def _form(encoded: Dataset, reader: Reader, in_train: np.ndarray, vocab_size: int | None) -> dict[str, Any]:
    """Fields of the `TaskSpec` that the inputs decide, with mean and deviation of series over the training rows."""
    measures = np.stack(encoded.with_format("numpy", dtype=np.float64)["measures"][:])
    form: dict[str, Any] = {"max_length": int(measures[:, 0].max())}
    if reader.modality == "text":
        return form | byte_text.SPEC
    if reader.modality == "tokens":
        mask = max(int(measures[:, 1].max()) + 1, vocab_size or 0)
        return form | {"modality": "tokens", "vocab_size": mask + 2, "mask_token_id": mask, "pad_token_id": mask + 1}
    form |= {"modality": "values", "num_channels": reader.channels}
    if reader.modality == "image":
        return form | {"value_range": (-1.0, 1.0), "image_shape": reader.shape[:2]}
    mean, std = _mean_and_deviation(measures[in_train, 1:])
    return form | {"normalization": (tuple(mean.tolist()), tuple(std.tolist())), "sampling_rate": reader.rate}


def _mean_and_deviation(measures: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of every channel, from steps, means and sums of squared deviations of rows, (rows, 1 + 2 C).

    The deviations of rows are added to those of their means (Chan et al., 1983): a difference of large squares would
    lose the deviation of values that are far from 0, such as times.
    """
    means, squares = np.split(measures[:, 1:], 2, axis=1)
    share = measures[:, :1] / measures[:, 0].sum()
    apart = means - means[0]
    offset = (share * apart).sum(0)
    mean = means[0] + offset
    std = np.sqrt(squares.sum(0) / measures[:, 0].sum() + (share * np.square(apart - offset)).sum(0))
    # a constant channel, up to the rounding of its values, says nothing, and is left as it is
    return mean, np.where(std > 1e-14 * np.abs(mean), std, 1.0)


def _finish(
    encoded: Dataset, labels: Labels, split_of: np.ndarray, normalization: tuple | None, max_length: int | None
) -> Iterator[tuple[str, Row]]:
    """Rows as they are kept: split, scaled, with their labels."""
    mean, std = map(np.array, normalization or (0, 1))
    # unless told so, numpy's format rounds to float32
    exact = {} if normalization is None else {"dtype": np.float64}
    rows, hashes = encoded.remove_columns("measures").with_format("numpy", **exact), row_hashes(encoded)
    for number, (row, split) in enumerate(zip(rows, split_of, strict=True)):
        if split == DROPPED:
            continue
        for name in [name for name in row if name in INPUTS]:
            if normalization is not None:
                row[name] = ((row[name] - mean) / std).astype(np.float32)
            length = len(row[name])
        row |= {ROW_HASH: hashes[number], "labels": labels.targets[number], "source_row": number}
        if labels.per_position and split != UNLABELLED:
            row["labels"] = labels.lay_out(number, length, cut=length == max_length)
        yield split, row


def _make_splits(
    source: Source,
    hashes: np.ndarray,
    groups: list[str] | None,
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
    keys = inputs if groups is None else pd.Series(groups, dtype=object)
    if groups is not None:
        _check_groups(source, split_of, keys)
    held_out = split_of.isin(("validation", "test"))
    whole = keys[(split_of == "train") & ~inputs.isin(inputs[held_out])]
    taken = _split_by_hash(whole.unique(), shares, list(missing), seed)
    if taken and not {"train", *missing} <= set(taken.values()):
        what = f"{len(taken)} different rows" if groups is None else f"{len(taken)} groups"
        raise HfLongSeqError(f"{source.name} has only {what}: too few to set validation and test examples apart.")
    split_of[whole.index] = whole.map(taken)
    held_out = split_of.isin(("validation", "test"))
    equal = inputs.isin(inputs[held_out])
    split_of[(split_of == UNLABELLED) & (equal | keys.isin(keys[held_out]))] = DROPPED
    return split_of.to_numpy(copy=True), (equal & (split_of == "train")).to_numpy()


def _split_by_hash(keys: Iterable[Any], shares: dict[str, float], missing: list[str], seed: int) -> dict[Any, str]:
    """The split of every key, by where its hash falls between 0 and 1.

    Each split has a part of that range of its own, `missing` or not. A split of which no key falls into
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


def _report(
    source: Source,
    labels: Labels,
    split_of: np.ndarray,
    duplicates: np.ndarray,
    group_column: str | None,
    keep: bool,
) -> str:
    """What was split how, and how uneven the classes are."""
    sizes = Counter(split_of.tolist())
    parts = [", ".join(f"{sizes[split]:,} {split}" for split in SPLITS) + " examples"]
    unlabelled_dropped = sizes[DROPPED] - (0 if keep else int(duplicates.sum()))
    if sizes[UNLABELLED] or unlabelled_dropped:
        labelled = sum(sizes[split] for split in SPLITS)
        parts[0] = f"{labelled:,} labelled rows of {len(split_of):,} ({parts[0]})"
        parts.append(
            f"{sizes['train'] + sizes[UNLABELLED]:,} inputs open to pretraining ({sizes[UNLABELLED]:,} unlabelled, "
            f"{sizes['train']:,} of train)"
        )
    if unlabelled_dropped:
        parts.append(f"{unlabelled_dropped:,} unlabelled left out (equal to, or of the group of, a held-out row)")
    if duplicates.any():
        first = source.where(int(duplicates.argmax())).rstrip(",")
        parts.append(
            f"{duplicates.sum():,} rows of train also stand in validation or test (the first: {first}) and are "
            + ("kept" if keep else "left out")
        )
    if group_column:
        parts.append(f"split by {group_column}")
    if labels.problem == "single_label_classification" and not labels.per_position:
        parts.append(_balance(source, labels, split_of))
    return ", ".join(parts)


def _balance(source: Source, labels: Labels, split_of: np.ndarray) -> str:
    """The share of the largest class; a class that stands in held-out rows alone is an error."""
    names, targets = labels.names, labels.targets
    counts = np.bincount(targets[split_of == "train"], minlength=len(names))
    for row in np.flatnonzero(np.isin(split_of, ("validation", "test"))).tolist():
        if not counts[targets[row]]:
            raise HfLongSeqError(
                f"Class {names[targets[row]]!r} has no training example, for {source.where(row).rstrip(',')} is in "
                f"{split_of[row]}: give train more rows of it, change data.seed, or split the data yourself."
            )
    most, least = counts.argmax(), np.where(counts, counts, counts.max()).argmin()
    if counts[most] > 10 * counts[least]:
        text = "Classes are uneven: %s has %d training examples, %s %d; look at F1 beside accuracy."
        logger.warning(text, names[most], counts[most], names[least], counts[least])
    return f"the largest class ({names[most]}) has {counts[most] / counts.sum():.0%} of train"
