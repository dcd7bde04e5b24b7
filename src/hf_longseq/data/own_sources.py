# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Opens what a user brings as data sets: files, folders, data sets on the Hub, and objects of Python."""

import contextlib
import logging
import os
import re
import tempfile
import zipfile
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from datasets import (
    Audio,
    ClassLabel,
    Column,
    Dataset,
    DatasetDict,
    Features,
    Image,
    IterableDataset,
    concatenate_datasets,
    load_dataset,
    load_from_disk,
)
from datasets.arrow_writer import ArrowWriter

from hf_longseq.data.own_tables import TABLE_FORMATS, read_tables
from hf_longseq.data.parquet_source import HUB_FAILURES
from hf_longseq.data.row_hashes import content_hash
from hf_longseq.data.task_spec import MissingDataError, cache_directory
from hf_longseq.errors import HfLongSeqError, did_you_mean, explained

logger = logging.getLogger(__name__)

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".gif", ".webp")
AUDIO_ENDINGS = (".wav", ".flac", ".ogg", ".mp3", ".aif", ".aiff")
MAX_NPZ_BYTES = 4 * 2**30
SPLIT_NAMES = {"train": "train", "training": "train", "validation": "validation", "valid": "validation"}
SPLIT_NAMES |= {"val": "validation", "dev": "validation", "test": "test", "testing": "test"}
# Usual names of the column of inputs.
INPUT_NAMES = tuple("text input_ids input_values sentence file image img audio x X input tokens words".split())


@dataclass
class Source:
    """What a user brings, opened; rows are numbered through all its splits.

    Args:
        splits: The rows under "train", "validation" and "test" if the source is split already, else under "all".
        names: What messages call each of them.
        main_column: The column of the file that was named, where every column is a file.
    """

    splits: dict[str, Dataset]
    names: dict[str, str]
    main_column: str | None = None

    @property
    def first(self) -> Dataset:
        """The rows for training; they say what the columns are."""
        return self.splits.get("train", next(iter(self.splits.values())))

    @property
    def name(self) -> str:
        """What messages call the source."""
        return self.names.get("train", next(iter(self.names.values())))

    def __len__(self) -> int:
        return sum(map(len, self.splits.values()))

    @property
    def split_of(self) -> np.ndarray:
        """The split of every row."""
        return np.repeat(np.array(list(self.splits), object), [len(rows) for rows in self.splits.values()])

    @property
    def fingerprints(self) -> list[list[str]]:
        """What changes with the content of a split."""
        splits = self.splits.items()
        return [[split, rows._fingerprint if rows.cache_files else content_hash(rows)] for split, rows in splits]

    def where(self, row: int) -> str:
        """What messages call a row, numbered from 1 in its file."""
        for split, rows in self.splits.items():
            if row < len(rows):
                return f"{self.names[split]}, row {row + 1},"
            row -= len(rows)
        raise IndexError(row)

    def column(self, name: str) -> Column:
        """All cells of a column, each read when it is asked for; pictures and sounds as their files."""
        parts = []
        for split, rows in self.splits.items():
            known = rows.column_names
            if name not in known:
                what = f"{self.names[split]} has no column {name!r}{did_you_mean(name, known)}"
                raise HfLongSeqError(f"{what}: it has {', '.join(known)}.")
            rows = rows.select_columns([name]).with_format(None)
            if isinstance(rows.features[name], Image | Audio):
                rows = rows.cast_column(name, type(rows.features[name])(decode=False))
            parts.append(rows)
        if any(rows.features != parts[0].features for rows in parts):  # whole numbers here and decimal ones there, say
            with explained(f"{self.name} has several types in column {name!r}", TypeError, ValueError):
                schemas = [rows.features.arrow_schema for rows in parts]
                common = Features.from_arrow_schema(pa.unify_schemas(schemas, promote_options="permissive"))
                parts = [rows.cast(common) for rows in parts]
        return concatenate_datasets(parts)[name]

    def labels(self, name: str) -> list[Any]:
        """All cells of a label column; None where the number of a named class is -1, for an unknown one."""
        unknown = () if self.classes(name) is None else (-1,)
        return [None if isinstance(cell, int) and cell in unknown else cell for cell in self.column(name)]

    def classes(self, name: str) -> list[str] | None:
        """Names of the numbered classes of a label column, if the source states them; all splits have to agree."""
        kinds = [(self.names[split], rows.features.get(name)) for split, rows in self.splits.items()]
        kinds = [(where, getattr(kind, "feature", kind)) for where, kind in kinds]  # of lists what they hold
        stated = [(where, kind.names) for where, kind in kinds if isinstance(kind, ClassLabel)]
        for where, names in stated:
            if names != stated[0][1]:
                raise HfLongSeqError(
                    f"{where} numbers the classes of column {name!r} in the order {', '.join(names)}, but "
                    f"{stated[0][0]} in the order {', '.join(stated[0][1])}: cast both to one ClassLabel."
                )
        return stated[0][1] if stated else None

    def input_name(self, others: Container[str | None] = ()) -> str:
        """The column of inputs: that of the file that was named, the first of the usual names, or the only one beside
        the `others` in use."""
        known = [name for name in self.first.column_names if name not in others]
        usual = [name for name in INPUT_NAMES if name in self.first.column_names]
        if self.main_column or usual or len(known) == 1:
            return self.main_column or (usual or known)[0]
        kinds = [str(getattr(self.first.features[name], "dtype", "")) for name in known]
        if known and all(kind.startswith(("int", "uint", "float")) for kind in kinds):
            raise HfLongSeqError(
                f"{self.name} has one number a row in each of {len(known)} columns ({', '.join(known[:3])}, ...): a "
                "row is one example, so write its numbers into one column, as '0.5 1.2 0.7' under input_values."
            )
        raise HfLongSeqError(f"{self.name} has columns {', '.join(known)}: say which one with --input_column.")


def open_source(data: Any, num_rows: int | None = None, cache_dir: str | None = None) -> Source:
    """Open a path, a Hub id, or an object (see `rows_of`); `num_rows` are the first rows to read of every split."""
    if isinstance(data, str | os.PathLike):
        source = _open_path(Path(data).expanduser(), str(data), cache_dir)
    else:
        source = _of_splits(_splits_of(data, num_rows, cache_dir))
    if num_rows is not None:
        source.splits = {split: rows.select(range(min(num_rows, len(rows)))) for split, rows in source.splits.items()}
    return source


def keep_object(data: Any, cache_dir: str | None = None) -> str:
    """The name under which records and other processes find a source: a path or Hub id as it is.

    An object of Python is copied into the cache, once for the same content.
    """
    if isinstance(data, str | os.PathLike):
        return str(data)
    splits = _splits_of(data, None, cache_dir)
    if not all(map(len, splits.values())):
        raise HfLongSeqError(f"{next(name for name, rows in splits.items() if not len(rows))} has no rows.")
    digest = "-".join(_content_name(rows, 12) for rows in splits.values())
    folder = Path(cache_dir or cache_directory()) / "own-data" / "objects" / digest
    if not (folder / "dataset_dict.json").is_file():  # written last
        DatasetDict(splits).save_to_disk(str(folder))
    return str(folder)


def _content_name(rows: Dataset, length: int | None = None) -> str:
    """A name for what rows hold; the rate to which a column's sounds are cast is not in their content."""
    rates = [kind.sampling_rate for kind in rows.features.values() if isinstance(kind, Audio) and kind.sampling_rate]
    return "-".join([content_hash(rows)[:length], *map(str, rates)])


def _splits_of(data: Any, num_rows: int | None, cache_dir: str | None) -> dict[str, Dataset]:
    tables = (Dataset, IterableDataset, pd.DataFrame)
    if isinstance(data, Mapping) and any(isinstance(rows, tables) for rows in data.values()):
        return {str(split): rows_of(rows, num_rows, cache_dir) for split, rows in data.items()}
    return {"data": rows_of(data, num_rows, cache_dir)}


def _of_splits(found: Mapping[str, Dataset] | Dataset, name: str | None = None) -> Source:
    """A source of the splits that the names of data sets mean; of the first one alone if they mean none."""
    found = {"all": found} if isinstance(found, Dataset) else found
    names = {SPLIT_NAMES[split]: split for split in found if split in SPLIT_NAMES}
    names = names or {"all": next(iter(found))}
    if left_out := ", ".join(repr(split) for split in found if split not in names.values()):
        text = "Of %s only %s is read, not %s: call the splits to be read train, validation or test."
        logger.warning(text, name or "the data", ", ".join(map(repr, names.values())), left_out)
    return Source(
        {split: found[of] for split, of in names.items()}, {split: name or of for split, of in names.items()}
    )


def rows_of(data: Any, num_rows: int | None = None, cache_dir: str | None = None) -> Dataset:
    """An object as a `Dataset`: a `Dataset`, a stream, a `DataFrame`, a list of dicts, of texts or of arrays, an array
    of inputs, a pair of inputs and labels, a mapping of columns, or any torch data set whose items are dicts.

    Of streams the first `num_rows` are read, or all, into a file of the cache; other objects stay in memory.
    """
    if isinstance(data, Dataset):
        return data.with_format(None)
    if isinstance(data, tuple) and len(data) == 2 and not isinstance(data[0], str | Mapping):
        data = {"x": data[0], "y": data[1]}
    if hasattr(data, "to_dict") and hasattr(data, "columns"):
        return Dataset.from_pandas(data, preserve_index=False)
    with explained("data could not be read as a table", pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError):
        if isinstance(data, IterableDataset):
            return _on_disk(data, num_rows, cache_dir)
        if isinstance(data, Mapping):
            return Dataset.from_dict({str(name): list(column) for name, column in data.items()})
        if not isinstance(data, list | tuple):
            random_access = hasattr(data, "__getitem__") and hasattr(data, "__len__")
            random_access &= not hasattr(data, "iloc")  # a Series, whose rows have the names of its index
            data = map(data.__getitem__, range(len(data))) if random_access else data
        items = list(islice(data, num_rows))
        if items and isinstance(items[0], Mapping):
            names = dict.fromkeys(name for item in items for name in item)  # the first rows may lack a label
            return Dataset.from_dict({name: [item.get(name) for item in items] for name in names})
        return Dataset.from_dict({"text" if items and isinstance(items[0], str) else "x": items})


def _on_disk(stream: IterableDataset, num_rows: int | None, cache_dir: str | None) -> Dataset:
    """The rows of a stream as a file that is named after its content; some rows at a time are in memory."""
    folder = Path(cache_dir or cache_directory()) / "own-data" / "streams"
    folder.mkdir(parents=True, exist_ok=True)
    for name, kind in (stream.features or {}).items():
        if isinstance(kind, Image | Audio):  # kept as the files they are
            stream = stream.cast_column(name, replace(kind, decode=False))
    with tempfile.TemporaryDirectory(dir=folder) as place:
        fresh = Path(place, "rows.arrow")
        with ArrowWriter(features=stream.features, path=str(fresh)) as writer:
            for row in _same_names(islice(stream, num_rows)):
                writer.write(row)
            writer.finalize()
        kept = folder / f"{_content_name(Dataset.from_file(str(fresh)))}.arrow"
        if not kept.is_file():
            fresh.rename(kept)
    return Dataset.from_file(str(kept))


def _same_names(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows with the names of the first one, None where a row lacks one: the writer drops every other name."""
    names: dict[str, None] = {}
    for number, row in enumerate(rows, 1):
        names = names or dict.fromkeys(row)
        for name in row:
            if name not in names:
                raise HfLongSeqError(
                    f"The stream, row {number}, has {name!r}, which its first row lacks (it has {', '.join(names)}): "
                    "give every row the same names, with None for what is missing."
                )
        yield {name: row.get(name) for name in names}


def _open_path(path: Path, data: str, cache_dir: str | None) -> Source:
    if not data:
        raise HfLongSeqError("data is an empty name: give a file, a folder, or a Hub id such as 'org/name'.")
    if path.is_dir():
        return _open_folder(path, cache_dir)
    known = (*TABLE_FORMATS, ".npy", ".npz")
    if not path.exists():
        if path.suffix in known or data.count("/") != 1 or data.startswith(("/", ".", "~")):
            raise MissingDataError(f"{data} does not exist: give a file, a folder, or a Hub id such as 'org/name'.")
        return _open_hub(data)
    suffix = path.suffix.lower()
    if suffix not in known:
        raise HfLongSeqError(f"{data} ends in {path.suffix!r}: give {', '.join(known)}, a folder or a Hub id.")
    if suffix == ".npy":
        return _open_npy(path, cache_dir)
    rows = _read_npz(path) if suffix == ".npz" else read_tables({"all": [path]}, _arrow(cache_dir))["all"]
    return Source({"all": rows}, {"all": path.name})


def _read_npz(path: Path) -> Dataset:
    # a damaged archive raises what its reader happens to meet
    with explained(f"{path} could not be read", Exception, remedy="save arrays of numbers or text, of one length"):
        with zipfile.ZipFile(path) as packed:  # which never unpacks more than it states
            size = sum(member.file_size for member in packed.infolist())
        if size > MAX_NPZ_BYTES:
            raise HfLongSeqError(
                f"{path} unpacks to {size / 2**30:,.1f} GiB, and {MAX_NPZ_BYTES / 2**30:g} are the most that is read "
                "into memory: save each array as .npy, which is read in place."
            )
        with np.load(path, allow_pickle=False) as archive:
            return Dataset.from_dict(dict(archive))


def _open_npy(path: Path, cache_dir: str | None) -> Source:
    """An array of examples, with other .npy files of the same folder as further columns."""
    # a damaged header is parsed as Python, and raises what that parser raises
    with explained(f"{path} could not be read", Exception, remedy="save a plain numeric array"):
        shape = np.load(path, allow_pickle=False, mmap_mode="r").shape
    if not shape:
        raise HfLongSeqError(f"{path} holds a single number: save an array with one entry per example.")
    stamps = {}
    for file in (path, *sorted(path.parent.glob("*.npy"))):
        with contextlib.suppress(Exception):
            if np.load(file, allow_pickle=False, mmap_mode="r").shape[:1] == shape[:1]:
                stamps[str(file)] = (file.stat().st_size, file.stat().st_mtime_ns)
    rows = Dataset.from_generator(_npy_rows, gen_kwargs={"stamps": stamps}, cache_dir=_arrow(cache_dir))
    return Source({"all": rows}, {"all": path.name}, main_column=path.stem)


def _npy_rows(stamps: dict[str, tuple[int, int]]) -> Iterator[dict[str, Any]]:
    arrays = {Path(file).stem: np.load(file, allow_pickle=False, mmap_mode="r") for file in stamps}
    for row in range(len(next(iter(arrays.values())))):
        yield {name: array[row] for name, array in arrays.items()}


def _open_folder(folder: Path, cache_dir: str | None) -> Source:
    """A folder of tables named after splits, of a saved data set, or of pictures or sounds, in one folder per class or
    with their labels in a metadata file."""
    if (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file():
        with explained(f"{folder} could not be read as a saved data set", OSError, ValueError, pa.ArrowInvalid):
            saved = load_from_disk(str(folder))
        known = isinstance(saved, DatasetDict) and "data" in saved  # an object of Python, by `keep_object`
        return _of_splits(saved, "data" if known else folder.name)
    endings = IMAGE_ENDINGS + AUDIO_ENDINGS
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in endings)
    described = sorted(file for file in folder.rglob("metadata.*") if file.suffix.lower() in TABLE_FORMATS)
    tables = sorted(file for file in folder.iterdir() if file.suffix.lower() in TABLE_FORMATS)
    if tables and not (files and described):
        # without a file to train on, "test" within a name is another word, of blood tests say
        trains = any(SPLIT_NAMES[word] == "train" for file in tables for word in _split_words(file))
        grouped = _by_split(tables, _split_in if trains else lambda file: re.split("[-_]", file.stem)[0])
        return Source(
            read_tables(grouped, _arrow(cache_dir)), {split: files[0].name for split, files in grouped.items()}
        )
    if not files:
        raise HfLongSeqError(f"{folder} holds no table, picture or sound: check the path.")
    if described:
        splits = _read_described(folder, described, cache_dir)
        return Source(splits, dict.fromkeys(splits, folder.name))
    splits = {}
    for split, some in _by_split(files, lambda file: file.relative_to(folder).parts[0]).items():
        columns = {"file": [str(file) for file in some]}
        top = [file for file in some if len(file.relative_to(folder).parts) == (1 if split == "all" else 2)]
        if top and len(top) < len(some):
            raise HfLongSeqError(f"{top[0]} lies beside the folders of classes: move it into one of them.")
        if not top:  # else no folder of a class: for pretraining
            columns["label"] = [file.parent.name for file in some]
        splits[split] = Dataset.from_dict(columns)
    return Source(splits, dict.fromkeys(splits, folder.name))


def _read_described(folder: Path, described: list[Path], cache_dir: str | None) -> dict[str, Dataset]:
    """Pictures or sounds by split, as the tables beside them list them."""
    tables = read_tables({file: [file] for file in described}, _arrow(cache_dir))
    grouped = _by_split(described, lambda file: file.relative_to(folder).parts[0])
    splits = {
        split: concatenate_datasets([_with_files(tables[file], file) for file in some])
        for split, some in grouped.items()
    }
    if "all" not in splits:
        return splits
    rows, top = splits["all"], os.path.normpath(folder)
    files = [Path(file) for file in rows["file"]]  # one table may list the files of all splits
    grouped = _by_split(files, lambda file: file.relative_to(top).parts[0])
    split_of = {file: split for split, some in grouped.items() for file in some}
    return {split: rows.select([i for i, file in enumerate(files) if split_of[file] == split]) for split in grouped}


def _with_files(rows: Dataset, table: Path) -> Dataset:
    """The rows of a table with the paths of the files that its column `file_name` names."""
    if "file_name" not in rows.column_names:
        known = ", ".join(rows.column_names)
        raise HfLongSeqError(f"{table} has columns {known}: call the one that names the files file_name.")
    files = []
    for number, name in enumerate(rows["file_name"], 1):
        if not name:
            raise HfLongSeqError(f"{table}, row {number}, names no file: remove the row.")
        files.append(path := os.path.normpath(table.parent / str(name)))
        # the table may be a stranger's
        if not Path(path).is_relative_to(os.path.normpath(table.parent)):
            raise HfLongSeqError(f"{table} names {path}, outside of its folder: move the file into {table.parent}.")
    return rows.remove_columns("file_name").add_column("file", files)


def _split_words(file: Path) -> list[str]:
    """The words of a file's name that name splits, as in `train_1.csv` and `reviews.test.csv`."""
    return [word for word in re.split(r"[-_. ]", file.stem.lower()) if word in SPLIT_NAMES]


def _split_in(file: Path) -> str:
    """The one of these words; "" if there is none."""
    words = _split_words(file)
    if len({SPLIT_NAMES[word] for word in words}) > 1:
        raise HfLongSeqError(f"{file} names several splits ({', '.join(words)}): rename it to have one of them.")
    return words[0] if words else ""


def _by_split(files: list[Path], name_of: Callable[[Path], str]) -> dict[str, list[Path]]:
    """Files under the split that `name_of` names, or all under "all" if it names none."""
    grouped: dict[str, list[Path]] = {}
    for file in files:
        grouped.setdefault(SPLIT_NAMES.get(name_of(file).lower(), "all"), []).append(file)
    if "all" in grouped and len(grouped) > 1:
        raise HfLongSeqError(f"{grouped['all'][0]} lies beside files or folders named after splits: move it away.")
    return grouped


def _open_hub(repo_id: str) -> Source:
    try:
        splits = load_dataset(repo_id)
    except HUB_FAILURES as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise MissingDataError(
            f"{repo_id} is not a file here and could not be loaded from the Hub ({reason})."
        ) from error
    return _of_splits(splits, repo_id)


def _arrow(cache_dir: str | None) -> str:
    return str(Path(cache_dir or cache_directory()) / "arrow")
