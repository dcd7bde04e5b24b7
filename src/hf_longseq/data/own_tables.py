# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Reads a user's tables from files; a column of csv files has one type, which all of its cells decide."""

import glob
from collections.abc import Mapping
from itertools import chain, groupby
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset, DatasetInfo, Features, Value, concatenate_datasets, load_dataset
from datasets.utils import logging as datasets_logging

from hf_longseq.errors import HfLongSeqError

TABLE_FORMATS = {".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".json": "json", ".parquet": "parquet"}
# Cells of csv files that are no text, as pandas reads them; arrow would also take 0x1F for a number.
CELL_TYPES = {
    "int64": r"\s*[+-]?\d+\s*",
    "float64": r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*|[+-]?(?i:inf|infinity)",
    "bool": r"(?i:true|false)",
}
# Bytes of a JSON file that are looked through for columns, which are held in memory.
LARGEST_PIECE = 1 << 28
Key = TypeVar("Key")


def read_tables(groups: Mapping[Key, list[Path]], cache_dir: str) -> dict[Key, Dataset]:
    """The rows of each group of files; a column of csv files has one type in all groups."""
    tables = {key: _read_files(files, cache_dir) for key, files in groups.items()}
    as_text = [key for key, files in groups.items() if TABLE_FORMATS[files[0].suffix.lower()] == "csv"]
    return tables | dict(zip(as_text, _typed([tables[key] for key in as_text]), strict=True))


def _read_files(files: list[Path], cache_dir: str) -> Dataset:
    kind = TABLE_FORMATS[files[0].suffix.lower()]
    named = ", ".join(file.name for file in files) if len(files) > 1 else str(files[0])
    if len({file.suffix.lower() for file in files}) > 1:
        raise HfLongSeqError(f"{named} are tables of several formats: save them as one.")
    verbosity = datasets_logging.get_verbosity()
    datasets_logging.set_verbosity(datasets_logging.CRITICAL)  # it logs what the error below says
    try:
        if kind == "csv":
            return _read_csv(files, cache_dir)
        # columns are those of the first piece of a file, and the first labels may come late
        whole = {"chunksize": min(max(file.stat().st_size for file in files) + 1, LARGEST_PIECE)}
        return _load(kind, files, cache_dir, **(whole if kind == "json" else {}))
    except HfLongSeqError:
        raise
    except Exception as error:  # the readers of datasets raise their own types for what they cannot parse
        reason = " ".join(str(error.__cause__ or error).split()).rstrip(".")
        raise HfLongSeqError(
            f"{named} could not be read as {kind} ({reason}): repair that row, or save it with rows, as UTF-8."
        ) from error
    finally:
        datasets_logging.set_verbosity(verbosity)


def _load(kind: str, files: list[Path], cache_dir: str, **options: Any) -> Dataset:
    names = [glob.escape(str(file)) for file in files]
    return load_dataset(kind, data_files=names, split="train", cache_dir=cache_dir, **options)


def _read_csv(files: list[Path], cache_dir: str) -> Dataset:
    """All cells as text: `datasets` would guess a type from the first rows of each file, and change later cells."""
    # an empty cell is empty; the class "None" and the text "NA" are not
    options = {"keep_default_na": False, "na_values": ["", "nan", "NaN"]}
    options["sep"] = "\t" if files[0].suffix.lower() == ".tsv" else ","
    headers = {file: _header(file, cache_dir, options) for file in files}
    known, parts = headers[files[0]], []
    for file, header in headers.items():
        for name in set(header).difference(known):
            raise HfLongSeqError(f"{file} has a column {name!r}, which {files[0]} lacks: give both the same header.")
    for _, some in groupby(files, lambda file: set(headers[file])):  # a file may lack the column of labels
        alike = list(some)
        features = Features(dict.fromkeys(headers[alike[0]], Value("large_string")))
        parts.append(_load("csv", alike, cache_dir, features=features, **options))
    return concatenate_datasets(parts, info=DatasetInfo())  # the merged one changes from call to call


def _header(file: Path, cache_dir: str, options: dict[str, Any]) -> list[str]:
    """Names of the columns of a csv file; raises for a header that pandas reads in its own way."""
    try:
        names = pa.Table.from_pandas(pd.read_csv(file, nrows=1, **options)).column_names
        header = pd.read_csv(file, sep=options["sep"], header=None, nrows=1, dtype=str).iloc[0]
    except UnicodeDecodeError:  # datasets unpacks a compressed file under any name
        names, header = _load("csv", [file], cache_dir, nrows=1, **options).column_names, pd.Series(dtype=str)
    named = [name for name in names if not name.startswith("__index_level_")]
    for mark in ",;\t|":
        if len(named) == 1 and mark != options["sep"] and mark in named[0]:
            raise HfLongSeqError(
                f"{file} separates its columns by {mark!r}: save it with commas as .csv, or with tabs as .tsv."
            )
    if named != names:
        raise HfLongSeqError(f"{file} has rows of more cells than its header: give every column a name.")
    for name in header[header.duplicated()].dropna():
        raise HfLongSeqError(f"{file} has two columns {name!r}: rename one of them.")
    return names


def _typed(tables: list[Dataset]) -> list[Dataset]:
    """Tables of text with numbers and truth values in the columns that hold nothing else in any table."""
    kinds = {name: _cell_type(tables, name) for name in dict.fromkeys(chain(*(rows.column_names for rows in tables)))}
    return [_cast(rows, {name: kinds[name] for name in rows.column_names}) for rows in tables]


def _cell_type(tables: list[Dataset], name: str) -> str:
    """The type that pandas would give a column if it read all of it at once."""
    columns = [rows.data.column(name) for rows in tables if name in rows.column_names]
    chunks = [chunk for column in columns for chunk in column.chunks]
    missing = sum(chunk.null_count for chunk in chunks)
    if missing == sum(map(len, chunks)):
        return "float64"
    for kind, pattern in CELL_TYPES.items():
        matches = (pc.match_substring_regex(chunk, f"^({pattern})$") for chunk in chunks)
        if all(pc.all(match, min_count=0).as_py() for match in matches):
            try:
                for chunk in chunks:
                    _cells(chunk, kind)
            except pa.ArrowInvalid:  # numbers of too many digits are names
                return "large_string"
            return "float64" if kind == "int64" and missing else kind
    return "large_string"


def _cells(texts: pa.Array | pa.ChunkedArray, kind: str) -> pa.Array | pa.ChunkedArray:
    return pc.cast(pc.utf8_ltrim(pc.ascii_trim_whitespace(texts), "+"), kind)


def _cast(rows: Dataset, kinds: dict[str, str]) -> Dataset:
    """Columns of text with other types; texts stay in the file where they are."""
    changed = {name: kind for name, kind in kinds.items() if kind != "large_string"}
    if not changed:
        return rows
    numbers = rows.select_columns(list(changed)).with_format("arrow")
    numbers = numbers.map(
        _cast_batch,
        batched=True,
        batch_size=10_000,
        fn_kwargs={"kinds": changed},
        features=Features({name: Value(kind) for name, kind in changed.items()}),
    ).with_format(None)
    texts = rows.remove_columns(list(changed))
    both = concatenate_datasets([texts, numbers], info=DatasetInfo(), axis=1) if texts.column_names else numbers
    return both.select_columns(list(kinds))


def _cast_batch(table: pa.Table, kinds: dict[str, str]) -> pa.Table:
    return pa.table({name: _cells(table[name], kind) for name, kind in kinds.items()})
