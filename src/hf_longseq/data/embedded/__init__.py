# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Small real data sets that travel with the package: one folder per task, a parquet file per split, an ORIGIN.md.

Read with `hf_longseq.data.embedded_task.load_embedded`, which the task's own file calls with its description.
"""
