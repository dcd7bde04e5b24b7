# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Recipes that ship with the package: one YAML file each, named by its path in this folder without `.yaml`.

A recipe states the model, the data and the two phases of a run; the command line can override every value.
"""

from pathlib import Path

from hf_longseq.errors import HfLongSeqError, did_you_mean

FOLDER = Path(__file__).parent


def names() -> list[str]:
    """Names of the shipped recipes."""
    return sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.yaml"))


def find(name: str) -> Path:
    """Return the file of a shipped recipe, or of a recipe given by its path."""
    own = Path(name)
    if own.suffix in (".yaml", ".yml"):
        if not own.is_file():
            raise HfLongSeqError(f"recipe file {name} does not exist: check the path, or name a shipped recipe.")
        return own
    if name not in names():
        raise HfLongSeqError(
            f"there is no recipe {name!r}{did_you_mean(name, names())}: see `hf-longseq recipes list`, or give the "
            "path of a .yaml file."
        )
    return FOLDER / f"{name}.yaml"


def summary(name: str) -> str:
    """The comment on the first line of a recipe."""
    first = find(name).read_text(encoding="utf-8").split("\n", 1)[0]
    return first.lstrip("# ").strip()
