# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Long-sequence tasks as `datasets.DatasetDict` objects, and the collators that turn their rows into batches.

`task.py` finds a task by its name, one file per task holds its definition, and `collators.py` masks, shifts and pads.
"""
