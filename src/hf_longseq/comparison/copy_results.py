# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The small files of a comparison, fit to be committed: scores, curves, settings and pictures.

A report of such a folder says the same as one of the comparison itself.
"""

import os
import re
from pathlib import Path

from hf_longseq.comparison.results import CURVES, PLAN, RESULTS, SCORES
from hf_longseq.comparison.scores import files_of, find_folders, read_results
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.run_folder import RESOLVED, read_json, refuse_links, write_whole

# /home/me/x.csv, but not https://… or a/b/c
ABSOLUTE = re.compile(r"(?<![\w.:/~-])/(?:[^\s/:'\"]+/)+([^\s/:'\"]*)")


def copy_results(source: str | os.PathLike, folder: str | os.PathLike, *, name: str | None = None) -> list[str]:
    """Copy what can be committed of a comparison; returns the names of the written files.

    Args:
        source: Output folder of `compare` or `spt`.
        folder: A new folder, or one that holds an earlier copy of results of the same task.
        name: Name of the data in reports; by default the task.
    """
    source, folder = Path(source), Path(folder)
    if find_folders(source) != [source]:
        raise HfLongSeqError(f"{source} holds several results folders: name one of them.")
    read_results([str(source)])  # says what is wrong with it
    refuse_links(source, "*.png")
    found = files_of(source)
    task, held = found.results["task"], folder / RESULTS
    if folder.exists() and (not held.is_file() or (folder / PLAN).is_file() or read_json(held)["task"] != task):
        raise HfLongSeqError(f"{folder} is no earlier copy of results of {task!r}: choose another folder.")
    found.scores["data"] = name or found.scores["data"]
    found.write(folder)
    write_whole(held, portable(held.read_text(encoding="utf-8"), source))
    more = {path.name: path.read_bytes() for path in sorted(source.glob("*.png"))}
    if (source / RESOLVED).is_file():
        more[RESOLVED] = portable((source / RESOLVED).read_text(encoding="utf-8"), source).encode()
    for file, content in more.items():
        write_whole(folder / file, content)
    return [RESULTS, SCORES, CURVES, *more]


def portable(text: str, source: Path) -> str:
    """A file without paths of this machine: those in the source become relative, of others the name is left."""
    for spelled in (source.resolve(), source):
        text = text.replace(f"{spelled}/", "")
    return ABSOLUTE.sub(r"\1", text)
