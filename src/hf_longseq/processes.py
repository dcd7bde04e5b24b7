# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""What holds for any process that another one has started: workers of data and of comparisons, and launched ones."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator


def end_with_parent() -> None:
    """Exit when the parent dies; a killed parent cannot clean up."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def ended_as_interrupted() -> Iterator[None]:
    """Let SIGTERM, which may reach this process alone, end what it started as Ctrl-C does, if nobody else answers."""
    unanswered = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    mine = unanswered and threading.current_thread() is threading.main_thread()
    if mine:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        if mine:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
