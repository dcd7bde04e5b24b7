# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of layers, training steps and generation, looks at what models learned, and reports of comparisons.
Functions here return plain rows or write files; the commands show them.
"""
