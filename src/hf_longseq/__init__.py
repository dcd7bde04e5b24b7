# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Self-pretraining for long sequences in the Hugging Face ecosystem.

Importing the package registers its architectures with transformers' Auto classes; everything else is imported when
it is first used.
"""

import importlib
import sys
from pathlib import PurePath

from .version import __version__

_HEADS = ("Config", "Model", "ForMaskedLM", "ForCausalLM", "ForPreTraining", "ForSequenceClassification")
_PUBLIC = {
    **{
        f"{prefix}{head}": "models"
        for prefix in ("S4", "DLR", "LongTransformer", "LRU", "S5", "Mega")
        for head in _HEADS
    },
    "LongSeqImageProcessor": "models",
    "LongSeqFeatureExtractor": "models",
    "DataCollatorForMaskedDenoising": "data.collators",
    "DataCollatorForCausalDenoising": "data.collators",
    "DataCollatorWithLongPadding": "data.collators",
    "TaskSpec": "data.task",
    "load_task": "data.task",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str):
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


def _started_as_command() -> bool:
    """Whether this process is `hf-longseq ...` or `python -m hf_longseq ...`, which must answer --help at once and
    imports the models itself when a command needs them."""
    if PurePath(sys.argv[0] if sys.argv else "").stem == "hf-longseq":
        return True
    return sys.argv[:1] == ["-m"] and "hf_longseq" in sys.orig_argv


if not _started_as_command():
    from . import models  # noqa: F401  registers the architectures
