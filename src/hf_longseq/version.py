# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The version, in a file of its own that the build can read alone."""

__version__ = "0.2.0"
