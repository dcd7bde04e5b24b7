# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Finds the parquet files of a public data set: in a folder that the user names, or on the Hugging Face Hub."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from huggingface_hub.errors import HfHubHTTPError

from hf_longseq.data.task_spec import MissingDataError, cache_directory
from hf_longseq.errors import HfLongSeqError, explained

# Errors of the Hub's client, of its HTTP library, and of its threads.
HUB_FAILURES: tuple[type[Exception], ...] = (HfHubHTTPError.__bases__[0], OSError, RuntimeError, ValueError)


def find_parquet(
    repo_id: str, splits: tuple[str, ...], data_dir: str | None = None, cache_dir: str | None = None
) -> dict[str, list[Path]]:
    """Parquet files of each split, with whose name theirs begin: below `data_dir`, or downloaded from the Hub."""
    target = Path(data_dir) if data_dir else Path(cache_dir or cache_directory()) / "downloads" / Path(repo_id).name
    command = f"hf download {repo_id} --repo-type dataset --include '*.parquet' --local-dir {target}"
    folder = download(repo_id, command) if data_dir is None and not target.exists() else target
    found = {split: sorted(folder.rglob(f"{split}-*.parquet")) for split in splits}
    for split, files in found.items():
        if not files:
            raise MissingDataError(f"{folder} holds no {split}-*.parquet of {repo_id}: run `{command}`.")
    return found


def download(
    repo_id: str, command: str, revision: str | None = None, patterns: Sequence[str] = ("*.parquet",)
) -> Path:
    """Files of a data set on the Hub, in the client's cache: a folder named after the commit."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(repo_id, repo_type="dataset", revision=revision, allow_patterns=list(patterns)))
    except HUB_FAILURES as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise MissingDataError(f"{repo_id} could not be downloaded ({reason}): run `{command}`.") from error


def read_batches(files: list[Path], columns: list[str], size: int = 1000) -> Iterator[pa.RecordBatch]:
    """Rows of parquet files, in order, some at a time; a damaged file or a missing column is named."""
    for file in files:
        remedy = "delete it and download it again"
        with explained(f"{file} is not a complete parquet file", pa.ArrowInvalid, OSError, remedy=remedy):
            reader = pq.ParquetFile(file)
            absent = [column for column in columns if column not in reader.schema_arrow.names]
            if absent:
                raise HfLongSeqError(
                    f"{file} has columns {reader.schema_arrow.names}, but not {absent[0]!r}: it is another data set."
                )
            yield from reader.iter_batches(batch_size=size, columns=columns)
