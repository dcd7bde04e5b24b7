# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""How many processes fit here, and what holds for each: workers of data and of comparisons, and launched ones."""

import os
import threading
import time


def available_cores() -> int:
    """Cores that this process may use, which may be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def end_with_parent() -> None:
    """Exit when the parent dies; a killed parent cannot clean up."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
