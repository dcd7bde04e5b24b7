# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""What holds for any process that another one has started: workers of data and of comparisons, and launched ones."""

import os
import threading
import time


def end_with_parent() -> None:
    """Exit when the parent dies; a killed parent cannot clean up."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
