# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Small real data sets that travel with the package: `<task>-<split>.parquet` and `<task>.md` (origin, licence).

A task's own module opens them with `load_embedded` and adds its `TaskSpec`.
"""

from pathlib import Path

from datasets import DatasetDict

from hf_longseq.data.task import MissingDataError

SPLITS = ("train", "validation", "test")


def load_embedded(name: str, cache_dir: str | Path | None = None, folder: str | Path | None = None) -> DatasetDict:
    """Open the embedded parquet files of a task, memory-mapped.

    Args:
        name: Name of the task, the beginning of its files' names.
        cache_dir: Where the memory-mapped form is kept; default: the cache of `datasets`.
        folder: Folder with the files; default: this package's.

    Raises:
        MissingDataError: If the installation lacks a file.
    """
    folder = Path(folder) if folder is not None else Path(__file__).parent
    paths = {split: str(folder / f"{name}-{split}.parquet") for split in SPLITS}
    for path in paths.values():
        if not Path(path).exists():
            raise MissingDataError(f"{path} is missing: install hf-longseq again, its embedded data are not complete.")
    return DatasetDict.from_parquet(paths, cache_dir=str(cache_dir) if cache_dir is not None else None)
