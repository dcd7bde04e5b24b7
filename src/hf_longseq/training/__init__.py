# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""One run: `pretrain`, `finetune`, and the use of its result (`evaluate`, `predict`).

Start reading at `run.py` (a run), then `trainer.py` (a step) and `assemble.py` (its parts).
"""
