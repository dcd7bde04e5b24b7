# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""What models learned: kernels, receptive fields and attention; and what a task's examples look like."""
