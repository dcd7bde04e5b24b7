# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""A folder that `convert` made, as publishing sees it: which file its weights come from."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_longseq.errors import HfLongSeqError
from hf_longseq.escaping import cleaned
from hf_longseq.hub.records import without_paths
from hf_longseq.training import run_folder

CONVERSION = "conversion.json"


@dataclass(frozen=True)
class Converted:
    """Weights that came from elsewhere.

    Args:
        folder: Where they are.
        record: `conversion.json`: source file and its SHA-256, head, options and assumptions of the conversion.
    """

    folder: Path
    record: dict[str, Any]

    @property
    def command(self) -> str:
        """The command that repeats the conversion."""
        words = ["hf-longseq", "convert", self.record["source"], "--output_dir", "converted"]
        for name, value in self.record.get("options", {}).items():
            words += [f"--{name}"] if value is True and name == "causal" else [f"--{name}", _word(value)]
        return shlex.join(words)


def _word(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def read_converted(folder: str | os.PathLike) -> Converted | None:
    """The record of a converted folder; None for a folder that no conversion made, or that is a run by now.

    Raises:
        HfLongSeqError: If the record is damaged, or the folder holds a link out of it.
    """
    folder = Path(folder)
    if not (folder / CONVERSION).is_file() or (folder / run_folder.RESOLVED).is_file():
        return None
    run_folder.refuse_links(folder)
    try:
        record = without_paths(cleaned(run_folder.read_json(folder / CONVERSION)))
        damaged = not all(isinstance(record[name], str) for name in ("source", "sha256"))
    except (ValueError, KeyError, TypeError):
        damaged = True
    if damaged:
        raise HfLongSeqError(f"{folder / CONVERSION} is damaged: convert the checkpoint again.")
    return Converted(folder, record)
