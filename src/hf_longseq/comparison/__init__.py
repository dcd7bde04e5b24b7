# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Many runs: plan them, carry them out, collect their results, and write tables, figures and reports.

Start reading at `execute.py` (`compare` and `spt`), then `plan.py` (which runs), `results.py` (from run folders to
`scores.csv`), `scores.py` (all folders in one table), `statistics.py` (means, gains, verdicts) and `write.py` (the
report).
"""

from hf_longseq import import_on_demand

__all__ = ["compare", "spt"]


def __getattr__(name: str):
    return import_on_demand(__name__, dict.fromkeys(__all__, "execute"), name)
