# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Many runs: plan them, carry them out, collect their results, and write tables, figures and reports.

Start reading at `execute.py` (`compare` and `spt`), then `plan.py` (which runs), `results.py` (from run folders to
`results.json`), `dataframe.py` (results as tables of pandas) and `write.py` (the report).
"""

import importlib

_HOME = {"compare": "execute", "spt": "execute"}

__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
