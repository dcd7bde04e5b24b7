# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that leave the machine and checkpoints that come from elsewhere: publishing a run on the Hub with its
card, and conversion of the official code's checkpoints. Start reading at `publish.py` and at `convert.py`.
"""

import importlib

_HOME = {"convert_checkpoint": "convert", "publish": "publish"}

__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
