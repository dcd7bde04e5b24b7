# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of layers, training steps and generation, and looks at what models learned. Functions here return plain
rows; the commands show and save them.
"""
