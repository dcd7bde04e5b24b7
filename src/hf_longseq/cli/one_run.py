# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`hf-longseq one_run FILE --num_processes N`: the processes of one run of a comparison; it gives this command."""

import json
from pathlib import Path


def run(argv: list[str]) -> None:
    """Train the run that a file describes; every report of its progress is a line of JSON."""
    from hf_longseq.comparison.workers import DataCache, Task, perform
    from hf_longseq.training.progress import quiet_libraries

    quiet_libraries()
    perform(Task.read(Path(argv[0])), lambda *report: print(json.dumps(report), flush=True), DataCache())
