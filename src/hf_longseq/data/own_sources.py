# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Opens a user's files as tables: csv, tsv, jsonl, parquet, npy, npz, a folder of images or sounds, a Hub data set."""

import re
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Audio, ClassLabel, Dataset, DatasetDict, Image, load_dataset
from datasets.utils import logging as datasets_logging

from hf_longseq.data.task_spec import MissingDataError
from hf_longseq.errors import HfLongSeqError, did_you_mean, explained

TABLE_FORMATS = {".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".json": "json", ".parquet": "parquet"}
IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".gif", ".webp")
AUDIO_ENDINGS = (".wav", ".flac", ".ogg", ".mp3", ".aif", ".aiff")
MAX_NPZ_BYTES = 4 * 2**30
SPLIT_NAMES = {"train": "train", "training": "train", "validation": "validation", "valid": "validation"}
SPLIT_NAMES |= {"val": "validation", "dev": "validation", "test": "test", "testing": "test"}


@dataclass
class Table:
    """Rows under named columns: a `datasets.Dataset`, or arrays (or lists) of one length; `name` is for messages,
    `files` are what the rows come from, to notice changes, and `main_column` is the file that was named, where every
    column is a file.
    """

    name: str
    columns: "Dataset | dict[str, Any]"
    files: list[Path]
    main_column: str | None = None

    @property
    def names(self) -> list[str]:
        return list(self.columns.column_names if isinstance(self.columns, Dataset) else self.columns)

    def __len__(self) -> int:
        if isinstance(self.columns, Dataset):
            return len(self.columns)
        return len(next(iter(self.columns.values())))

    def class_names(self, name: str) -> list[str] | None:
        """Names of the classes of a label column, if the data set states them."""
        feature = self.columns.features.get(name) if isinstance(self.columns, Dataset) else None
        feature = getattr(feature, "feature", feature)  # of a list of labels, that of one
        return feature.names if isinstance(feature, ClassLabel) else None

    def labels(self, name: str) -> Any:
        """All values of a label column; None where the number of a named class is -1, for an unknown one."""
        labels = self.column(name)
        return [None if label == -1 else label for label in labels] if self.class_names(name) else labels

    def modality(self, name: str) -> str | None:
        """ "image" or "audio", if the data set states it."""
        feature = self.columns.features.get(name) if isinstance(self.columns, Dataset) else None
        return "image" if isinstance(feature, Image) else "audio" if isinstance(feature, Audio) else None

    def column(self, name: str) -> Any:
        """All values of a column, each read when it is asked for."""
        if name not in self.names:
            raise HfLongSeqError(
                f"{self.name} has no column {name!r}{did_you_mean(name, self.names)}: it has {', '.join(self.names)}."
            )
        if not isinstance(self.columns, Dataset):
            return self.columns[name]
        rows = self.columns.with_format(None).select_columns([name])
        if self.modality(name):
            rows = rows.cast_column(name, type(rows.features[name])(decode=False))
        return Column(rows, name)


class Column(Sequence):
    """A column of a data set in its order: reading a block of rows at a time is many times faster than row by row."""

    BLOCK = 500

    def __init__(self, rows: Dataset, name: str):
        self.rows, self.name = rows, name
        self.start, self.values = -1, []

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> Any:
        start = row - row % self.BLOCK
        if start != self.start:
            self.start, self.values = start, self.rows[start : start + self.BLOCK][self.name]
        return self.values[row - start]


def open_source(data: str) -> dict[str, Table]:
    """Tables of a source: under "train", "validation", "test" if it is split already, else under "all"."""
    path = Path(data).expanduser()
    if path.is_dir():
        return _open_folder(path)
    if path.suffix == ".npz":
        return {"all": _open_npz(path)}
    if path.suffix == ".npy":
        return {"all": _open_npy(path)}
    if path.suffix in TABLE_FORMATS:
        return {"all": _open_tables([path])}
    if path.exists():
        raise HfLongSeqError(
            f"{data} ends in {path.suffix!r}: give {', '.join(TABLE_FORMATS)}, .npy, .npz, a folder or a Hub id."
        )
    return _open_hub(data)


def _open_tables(files: list[Path]) -> Table:
    for file in files:
        if not file.exists():
            raise MissingDataError(f"{file} does not exist: check the path.")
        if file.stat().st_size == 0:
            raise HfLongSeqError(f"{file} is empty: it has no rows.")
    kind = TABLE_FORMATS[files[0].suffix]
    options: dict[str, Any] = {}
    if kind == "csv":  # an empty cell is empty; the class "None" and the text "NA" are not
        options = {"keep_default_na": False, "na_values": ["", "nan", "NaN"]}
        options |= {"sep": "\t"} if files[0].suffix == ".tsv" else {}
    verbosity = datasets_logging.get_verbosity()
    datasets_logging.set_verbosity(datasets_logging.CRITICAL)  # it logs what the error below says
    try:
        rows = load_dataset(kind, data_files=[str(file) for file in files], split="train", **options)
    except Exception as error:  # the readers of datasets raise their own types for what they cannot parse
        cause = error.__cause__ or error
        if "corresponds to no data" in str(cause):
            raise HfLongSeqError(f"{files[0]} has no rows.") from error
        encoding = isinstance(cause, UnicodeDecodeError)
        named = ", ".join(file.name for file in files) if len(files) > 1 else files[0]
        raise HfLongSeqError(
            f"{named} could not be read as {kind} ({' '.join(str(cause).split()).rstrip('.')}): "
            f"{'save it as UTF-8' if encoding else 'repair or remove that row'}."
        ) from error
    finally:
        datasets_logging.set_verbosity(verbosity)
    return Table(files[0].name, rows, files)


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
    return Table(path.name, arrays, [path])


def _open_npy(path: Path) -> Table:
    """An array of examples, with other .npy files of the same folder as further columns."""
    arrays, files = {}, [path, *sorted(file for file in path.parent.glob("*.npy") if file != path)]
    for file in files:
        try:
            arrays[file.stem] = np.load(file, allow_pickle=False, mmap_mode="r")
        except (OSError, ValueError, EOFError) as error:
            if file == path:
                raise HfLongSeqError(f"{path} could not be read ({error}): save a plain numeric array.") from error
    rows = len(arrays[path.stem])
    columns = {name: array for name, array in arrays.items() if array.ndim and len(array) == rows}
    return Table(path.name, columns, [file for file in files if file.stem in columns], main_column=path.stem)


def _open_folder(folder: Path) -> dict[str, Table]:
    """A folder of tables named after splits, or of pictures or sounds in one folder per class (and split)."""
    tables = sorted(file for file in folder.iterdir() if file.suffix in TABLE_FORMATS)
    if tables:
        grouped = _by_split(tables, lambda file: re.split("[-_]", file.stem)[0])
        return {split: _open_tables(files) for split, files in grouped.items()}
    endings = IMAGE_ENDINGS + AUDIO_ENDINGS
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in endings)
    if not files:
        raise HfLongSeqError(f"{folder} holds no table, picture or sound: check the path.")
    found = {}
    for split, some in _by_split(files, lambda file: file.relative_to(folder).parts[0]).items():
        columns = {"file": [str(file) for file in some]}
        if any(len(file.relative_to(folder).parts) > (1 if split == "all" else 2) for file in some):
            columns["label"] = [file.parent.name for file in some]  # else no folder of a class: for pretraining
        found[split] = Table(folder.name, columns, some)
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
    if not isinstance(splits, DatasetDict):
        return {"all": Table(repo_id, splits, [])}
    known = {SPLIT_NAMES[name]: Table(repo_id, rows, []) for name, rows in splits.items() if name in SPLIT_NAMES}
    return known or {"all": Table(repo_id, next(iter(splits.values())), [])}
