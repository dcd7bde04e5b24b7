# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that leave the machine and checkpoints that come from elsewhere: publishing a run on the Hub with its
card, and conversion of the official code's checkpoints. Start reading at `publish.py` and at `convert.py`.
"""
