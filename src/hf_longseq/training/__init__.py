# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""One run: `pretrain`, `finetune`, and the use of its result (`evaluate`, `predict`).

Start reading at `run.py` (a run), then `build.py` (its parts) and `trainer.py` (a step).
"""

from hf_longseq import import_on_demand

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
    return import_on_demand(__name__, _HOME, name)
