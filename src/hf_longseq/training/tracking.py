# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Trackers of transformers' Trainer (tensorboard, trackio, wandb): off unless asked for, logs inside the run folder.

Tokens and accounts are the tracker's own business: it reads them where its documentation says.
"""

import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from accelerate.utils import patch_environment

from hf_longseq.errors import HfLongSeqError

# The packages that serve a tracker; the first is the one to install.
PACKAGES = {"tensorboard": ("tensorboard", "tensorboardX"), "trackio": ("trackio",), "wandb": ("wandb",)}
PROJECT = "hf-longseq"


@contextlib.contextmanager
def tracker(names: list[str], section: str, folder: str | os.PathLike) -> Iterator[None]:
    """Let the Trainer's tracker write below a run folder, and close its run afterwards; without one do nothing."""
    name = next(iter(names), None)
    if name is None:
        yield
        return
    packages = PACKAGES[name]
    if not any(importlib.util.find_spec(package) for package in packages):
        raise HfLongSeqError(
            f"{section}.report_to is {name!r}, but its package is not installed: pip install {packages[0]}, or use "
            "--report_to none."
        )
    folder = Path(folder).resolve()
    places = {
        "TENSORBOARD_LOGGING_DIR": str(folder / "tensorboard"),
        "TRACKIO_DIR": str(folder / "trackio"),
        "WANDB_DIR": str(folder),
        "WANDB_PROJECT": os.environ.get("WANDB_PROJECT", PROJECT),
    }
    try:
        with patch_environment(**places):
            yield
    finally:
        # The Trainer leaves a run of wandb open, and the next run of this process would be added to it.
        if "wandb" in sys.modules and sys.modules["wandb"].run is not None:
            sys.modules["wandb"].finish()
