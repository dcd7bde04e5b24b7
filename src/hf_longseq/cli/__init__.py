# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The command line `hf-longseq`: one thin module per command, listed in `main.py`.

`options.py` turns dataclasses into options; the work is done by the functions of `hf_longseq.training`.
"""
