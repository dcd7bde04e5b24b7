# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The version, alone, so that building the package imports nothing else."""

__version__ = "0.1.0"
