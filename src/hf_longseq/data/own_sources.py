# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Opens what a user brings as tables of rows: files, folders, data sets on the Hub, and objects of Python."""

import json
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from datasets import Audio, ClassLabel, Dataset, DatasetDict, Image, IterableDataset, load_dataset, load_from_disk
from datasets.utils import logging as datasets_logging

from hf_longseq.data.row_hashes import content_hash
from hf_longseq.data.task_spec import MissingDataError, cache_directory
from hf_longseq.errors import HfLongSeqError, did_you_mean, explained

TABLE_FORMATS = {".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".json": "json", ".parquet": "parquet"}
IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".gif", ".webp")
AUDIO_ENDINGS = (".wav", ".flac", ".ogg", ".mp3", ".aif", ".aiff")
MAX_NPZ_BYTES = 4 * 2**30
SPLIT_NAMES = {"train": "train", "training": "train", "validation": "validation", "valid": "validation"}
SPLIT_NAMES |= {"val": "validation", "dev": "validation", "test": "test", "testing": "test"}


@dataclass
class Table:
    """Rows under named columns; `name` is for messages, `main_column` the file that was named, where every column is a
    file, and `stamp` the state of files that the rows name."""

    name: str
    rows: Dataset
    main_column: str | None = None
    stamp: Any = None

    @property
    def names(self) -> list[str]:
        return self.rows.column_names

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def fingerprint(self) -> str:
        """What changes with the content."""
        content = self.rows._fingerprint if self.rows.cache_files else content_hash(self.rows)
        return f"{content} {self.stamp}"

    def _feature(self, name: str) -> Any:
        feature = self.rows.features.get(name)
        return getattr(feature, "feature", feature)  # of a list, that of one

    def class_names(self, name: str) -> list[str] | None:
        """Names of the classes of a label column, if the data set states them."""
        feature = self._feature(name)
        return feature.names if isinstance(feature, ClassLabel) else None

    def modality(self, name: str) -> str | None:
        """ "image" or "audio", if the data set states it."""
        feature = self._feature(name)
        return "image" if isinstance(feature, Image) else "audio" if isinstance(feature, Audio) else None

    def labels(self, name: str) -> list:
        """All values of a label column; None where the number of a named class is -1, for an unknown one."""
        labels = self.column(name)
        if not self.class_names(name):
            return list(labels)
        return [None if isinstance(label, int) and label == -1 else label for label in labels]

    def column(self, name: str) -> "Column":
        """All values of a column, each read when it is asked for."""
        if name not in self.names:
            raise HfLongSeqError(
                f"{self.name} has no column {name!r}{did_you_mean(name, self.names)}: it has {', '.join(self.names)}."
            )
        rows = self.rows.select_columns([name])
        if self.modality(name):
            rows = rows.cast_column(name, type(rows.features[name])(decode=False))
        return Column.of(rows, name)


class Column(Sequence):
    """A column in its order, read a block of rows at a time; lists of numbers are arrays."""

    BLOCK = 500

    def __init__(self, rows: Dataset, name: str):
        self.rows, self.name = rows, name
        self.start, self.values = -1, []

    @classmethod
    def of(cls, rows: Dataset, name: str) -> "Column":
        """A column of a data set; what is not made of numbers may have to be decoded, JSON for one."""
        kind = rows.features.arrow_schema.field(name).type
        while pa.types.is_list(getattr(kind, "storage_type", kind)):
            kind = getattr(kind, "storage_type", kind).value_type
        plain = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        return cls(rows.select_columns([name]).with_format("arrow" if plain else None), name)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> Any:
        if not 0 <= row < len(self):
            raise IndexError(row)
        start = row - row % self.BLOCK
        if start != self.start:
            block = self.rows[start : start + self.BLOCK][self.name]
            self.start, self.values = start, [_value(cell) for cell in block]
        return self.values[row - start]


def _value(cell: Any) -> Any:
    """A cell as Python has it, or as an array (L,) or (L, C) where it is a list of numbers without a gap."""
    if not isinstance(cell, pa.Scalar):
        return cell
    values = getattr(cell.value if isinstance(cell, pa.ExtensionScalar) else cell, "values", None)
    if not isinstance(values, pa.Array) or values.null_count:
        return cell.as_py()
    values = getattr(values, "storage", values)
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        return values.to_numpy(zero_copy_only=False)
    if not (pa.types.is_list(values.type) or pa.types.is_fixed_size_list(values.type)) or not len(values):
        return cell.as_py()
    widths, flat = pc.list_value_length(values), values.flatten()
    plain = pa.types.is_integer(flat.type) or pa.types.is_floating(flat.type)
    if not plain or flat.null_count or pc.min_max(widths)["min"] != pc.min_max(widths)["max"]:
        return cell.as_py()
    return flat.to_numpy(zero_copy_only=False).reshape(len(values), -1)


@dataclass
class Rows:
    """The rows of all tables, numbered through."""

    tables: dict[str, Table]

    @property
    def name(self) -> str:
        """What messages call the source: the table for training."""
        return self.first.name

    @property
    def first(self) -> Table:
        return self.tables.get("train", next(iter(self.tables.values())))

    def __len__(self) -> int:
        return sum(map(len, self.tables.values()))

    @property
    def split_of(self) -> list[str]:
        """The table of every row."""
        return [split for split, table in self.tables.items() for _ in range(len(table))]

    def where(self, row: int) -> str:
        """What messages call a row, numbered from 1 in its table."""
        for table in self.tables.values():
            if row < len(table):
                return f"{table.name}, row {row + 1},"
            row -= len(table)
        raise IndexError(row)

    def cell(self, row: int, column: str) -> Any:
        for table in self.tables.values():
            if row < len(table):
                return table.column(column)[row]
            row -= len(table)
        raise IndexError(row)

    def cells(self, column: str | None) -> list | None:
        """All values of a column, labels of no known class as None."""
        return column and [cell for table in self.tables.values() for cell in table.labels(column)]


def open_source(data: Any, num_rows: int | None = None, cache_dir: str | None = None) -> dict[str, Table]:
    """Tables of a source: under "train", "validation", "test" if it is split already, else under "all".

    `data` is a path, a Hub id, or an object (see `rows_of`); `num_rows` are the first rows to read of every table.
    """
    tables = _open_path(str(data), cache_dir) if isinstance(data, str | os.PathLike) else _open_object(data, num_rows)
    if num_rows is not None:
        for table in tables.values():
            table.rows = table.rows.select(range(min(num_rows, len(table))))
    return tables


def keep_object(data: Any, cache_dir: str | None = None) -> str:
    """The name under which records and other processes find a source: a path or Hub id as it is.

    An object of Python is copied into the cache, once for the same content.
    """
    if isinstance(data, str | os.PathLike):
        return str(data)
    splits = {split: table.rows for split, table in _open_object(data, None).items()}
    digest = "-".join(content_hash(rows)[:12] for rows in splits.values())
    folder = Path(cache_dir or cache_directory()) / "own-data" / "objects" / digest
    if not (folder / "dataset_dict.json").is_file():  # written last
        DatasetDict(splits).save_to_disk(str(folder))
    return str(folder)


def _open_object(data: Any, num_rows: int | None) -> dict[str, Table]:
    if isinstance(data, Mapping) and any(isinstance(rows, Dataset | IterableDataset) for rows in data.values()):
        return _by_name({name: Table(str(name), rows_of(rows, num_rows)) for name, rows in data.items()})
    return {"all": Table("data", rows_of(data, num_rows))}


def _by_name(tables: dict[str, Table]) -> dict[str, Table]:
    """Tables under the splits that their names mean; the first one alone if they mean none."""
    known = {SPLIT_NAMES[name]: table for name, table in tables.items() if name in SPLIT_NAMES}
    return known or {"all": next(iter(tables.values()))}


def rows_of(data: Any, num_rows: int | None = None) -> Dataset:
    """An object as a `Dataset`: a `Dataset`, a stream, a `DataFrame`, a list of dicts, of texts or of arrays, an array
    of inputs, a pair of inputs and labels, a mapping of columns, or any torch data set whose items are dicts.

    Of streams the first `num_rows` are read, or all.
    """
    if isinstance(data, Dataset):
        return data.with_format(None)
    if isinstance(data, tuple) and len(data) == 2 and not isinstance(data[0], str | Mapping):
        data = {"x": data[0], "y": data[1]}
    if hasattr(data, "to_dict") and hasattr(data, "columns"):
        return Dataset.from_pandas(data, preserve_index=False)
    with explained("data could not be read as a table", pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError):
        if isinstance(data, Mapping):
            lengths = {name: len(column) for name, column in data.items()}
            if len(set(lengths.values())) > 1:
                raise HfLongSeqError(f"data has columns of lengths {lengths}: give one entry per example to each.")
            return Dataset.from_dict({str(name): _plain(column) for name, column in data.items()})
        if isinstance(data, np.ndarray):
            return Dataset.from_dict({"x": _plain(data)})
        if not isinstance(data, list | tuple):
            random_access = hasattr(data, "__getitem__") and hasattr(data, "__len__")
            data = map(data.__getitem__, range(len(data))) if random_access else data
        items = list(islice(data, num_rows))
        if items and isinstance(items[0], Mapping):
            return Dataset.from_list([{name: _plain(value) for name, value in item.items()} for item in items])
        return Dataset.from_dict({"text" if items and isinstance(items[0], str) else "x": _plain(items)})


def _plain(value: Any) -> Any:
    """Arrays and tensors as Arrow takes them."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return value.tolist() if isinstance(value, np.ndarray) and (value.dtype.kind in "OUS" or not value.ndim) else value


def _open_path(data: str, cache_dir: str | None) -> dict[str, Table]:
    path = Path(data).expanduser()
    if path.is_dir():
        return _open_folder(path, cache_dir)
    if path.suffix == ".npz":
        return {"all": _open_npz(path)}
    if path.suffix == ".npy":
        return {"all": _open_npy(path, cache_dir)}
    if path.suffix in TABLE_FORMATS:
        return {"all": _open_tables([path], cache_dir)}
    if path.exists():
        raise HfLongSeqError(
            f"{data} ends in {path.suffix!r}: give {', '.join(TABLE_FORMATS)}, .npy, .npz, a folder or a Hub id."
        )
    return _open_hub(data)


def _open_tables(files: list[Path], cache_dir: str | None) -> Table:
    for file in files:
        if not file.exists():
            raise MissingDataError(f"{file} does not exist: check the path.")
    if all(map(_is_empty, files)):
        raise HfLongSeqError(f"{files[0]} is empty: it has no rows.")
    kind = TABLE_FORMATS[files[0].suffix]
    options: dict[str, Any] = {"cache_dir": _arrow(cache_dir)}
    if kind == "csv":  # an empty cell is empty; the class "None" and the text "NA" are not
        options |= {"keep_default_na": False, "na_values": ["", "nan", "NaN"]}
        options |= {"sep": "\t"} if files[0].suffix == ".tsv" else {}
    verbosity = datasets_logging.get_verbosity()
    datasets_logging.set_verbosity(datasets_logging.CRITICAL)  # it logs what the error below says
    try:
        rows = load_dataset(kind, data_files=[str(file) for file in files], split="train", **options)
    except Exception as error:  # the readers of datasets raise their own types for what they cannot parse
        cause = error.__cause__ or error
        remedy = "save it as UTF-8" if isinstance(cause, UnicodeDecodeError) else "repair or remove that row"
        named = ", ".join(file.name for file in files) if len(files) > 1 else files[0]
        reason = _bad_line(files) or " ".join(str(cause).split()).rstrip(".")
        raise HfLongSeqError(f"{named} could not be read as {kind} ({reason}): {remedy}.") from error
    finally:
        datasets_logging.set_verbosity(verbosity)
    if kind == "csv" and len(rows.column_names) == 1 and ";" in rows.column_names[0]:
        raise HfLongSeqError(f"{files[0]} separates its columns by semicolons: save it with commas, or as .tsv.")
    return Table(files[0].name, rows)


def _is_empty(file: Path) -> bool:
    """Whether a table has no row: nothing, a csv's line of names alone, or an empty list."""
    if file.suffix == ".parquet":
        with explained(f"{file} could not be read as parquet", pa.ArrowInvalid, OSError, remedy="save it again"):
            return pq.read_metadata(file).num_rows == 0
    with open(file, "rb") as stream:
        beginning = list(islice((line for line in stream if line.strip()), 2))
    is_csv = TABLE_FORMATS[file.suffix] == "csv"
    return len(beginning) < (2 if is_csv else 1) or (len(beginning) == 1 and beginning[0].strip() == b"[]")


def _bad_line(files: list[Path]) -> str | None:
    """The first line of jsonl files that is no JSON object."""
    for file in files:
        for number, line in enumerate(file.open("rb") if file.suffix == ".jsonl" else (), start=1):
            try:
                if line.strip() and not isinstance(json.loads(line), dict):
                    return f"line {number} of {file.name} is no mapping"
            except ValueError as error:
                return f"line {number} of {file.name}: {error}"
    return None


def _open_npz(path: Path) -> Table:
    kinds = (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error)
    with explained(f"{path} could not be read", *kinds, remedy="save plain numeric or text arrays"):
        with zipfile.ZipFile(path) as packed:  # which never unpacks more than it states
            size = sum(member.file_size for member in packed.infolist())
        if size > MAX_NPZ_BYTES:
            raise HfLongSeqError(
                f"{path} unpacks to {size / 2**30:,.1f} GiB, and {MAX_NPZ_BYTES / 2**30:g} are the most that is read "
                "into memory: save each array as .npy, which is read in place."
            )
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    lengths = {name: len(array) for name, array in arrays.items() if array.ndim}
    if len(set(lengths.values())) != 1 or len(lengths) != len(arrays):
        raise HfLongSeqError(f"{path} has arrays of lengths {lengths}: every array needs one entry per example.")
    return Table(path.name, rows_of(arrays))


def _open_npy(path: Path, cache_dir: str | None) -> Table:
    """An array of examples, with other .npy files of the same folder as further columns."""
    arrays, files = {}, {path.stem: path, **{file.stem: file for file in sorted(path.parent.glob("*.npy"))}}
    for name, file in files.items():
        try:
            arrays[name] = np.load(file, allow_pickle=False, mmap_mode="r")
        except (OSError, ValueError, EOFError) as error:
            if file == path:
                raise HfLongSeqError(f"{path} could not be read ({error}): save a plain numeric array.") from error
    if not arrays[path.stem].ndim:
        raise HfLongSeqError(f"{path} holds a single number: save an array with one entry per example.")
    fitting = [name for name, array in arrays.items() if array.ndim and len(array) == len(arrays[path.stem])]
    stamps = {str(files[name]): (stat.st_size, stat.st_mtime_ns) for name in fitting if (stat := files[name].stat())}
    rows = Dataset.from_generator(_npy_rows, gen_kwargs={"stamps": stamps}, cache_dir=_arrow(cache_dir))
    return Table(path.name, rows, main_column=path.stem)


def _npy_rows(stamps: dict[str, tuple[int, int]]) -> Iterator[dict[str, Any]]:
    arrays = {Path(file).stem: np.load(file, allow_pickle=False, mmap_mode="r") for file in stamps}
    for row in range(len(next(iter(arrays.values())))):
        yield {name: _plain(np.asarray(array[row])) for name, array in arrays.items()}


def _open_folder(folder: Path, cache_dir: str | None) -> dict[str, Table]:
    """A folder of tables named after splits, of a saved data set, or of pictures or sounds in one folder per class."""
    if (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file():
        with explained(f"{folder} could not be read as a saved data set", OSError, ValueError, pa.ArrowInvalid):
            saved = load_from_disk(str(folder))
        splits = saved if isinstance(saved, DatasetDict) else {"all": saved}
        return _by_name({split: Table(folder.name, rows) for split, rows in splits.items()})
    tables = sorted(file for file in folder.iterdir() if file.suffix in TABLE_FORMATS)
    if tables:
        grouped = _by_split(tables, lambda file: re.split("[-_]", file.stem)[0])
        return {split: _open_tables(files, cache_dir) for split, files in grouped.items()}
    endings = IMAGE_ENDINGS + AUDIO_ENDINGS
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in endings)
    if not files:
        raise HfLongSeqError(f"{folder} holds no table, picture or sound: check the path.")
    found = {}
    for split, some in _by_split(files, lambda file: file.relative_to(folder).parts[0]).items():
        columns = {"file": [str(file) for file in some]}
        if any(len(file.relative_to(folder).parts) > (1 if split == "all" else 2) for file in some):
            columns["label"] = [file.parent.name for file in some]  # else no folder of a class: for pretraining
        found[split] = Table(folder.name, Dataset.from_dict(columns))
    return found


def _by_split(files: list[Path], name_of: Callable[[Path], str]) -> dict[str, list[Path]]:
    """Files under the split that `name_of` names, or all under "all" if it names none."""
    grouped: dict[str, list[Path]] = {}
    for file in files:
        grouped.setdefault(SPLIT_NAMES.get(name_of(file).lower(), "all"), []).append(file)
    if "all" in grouped and len(grouped) > 1:
        raise HfLongSeqError(f"{grouped['all'][0]} lies beside files or folders named after splits: move it away.")
    return grouped


def _open_hub(repo_id: str) -> dict[str, Table]:
    from huggingface_hub.errors import HfHubHTTPError

    if repo_id.count("/") != 1 or repo_id.startswith(("/", ".", "~")):
        raise MissingDataError(f"{repo_id} does not exist: give a file, a folder, or a Hub id such as 'org/name'.")
    try:
        splits = load_dataset(repo_id)
    except (OSError, HfHubHTTPError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise MissingDataError(
            f"{repo_id} is no file here and could not be loaded from the Hub ({reason})."
        ) from error
    splits = splits if isinstance(splits, DatasetDict) else {"all": splits}
    return _by_name({name: Table(repo_id, rows) for name, rows in splits.items()})


def _arrow(cache_dir: str | None) -> str:
    return str(Path(cache_dir or cache_directory()) / "arrow")
