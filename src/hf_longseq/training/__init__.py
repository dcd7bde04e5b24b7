# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""One run: `pretrain`, `finetune`, and the use of its result (`evaluate`, `predict`).

Start reading at `run.py` (a run), then `build.py` (its parts) and `trainer.py` (a step).
"""

import importlib

_HOME = {
    "Recipe": "recipe",
    "LongSeqTrainer": "trainer",
    "SPTConfig": "spt_config",
    "SPTTrainer": "spt_trainer",
    "pretrain": "run",
    "finetune": "run",
    "evaluate": "inference",
    "predict": "inference",
    "load_pretrained_classifier": "transfer",
}

__all__ = sorted(_HOME)


def __getattr__(name: str):
    # The parser of the command line needs only the sections of a recipe: torch is imported when training is.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
