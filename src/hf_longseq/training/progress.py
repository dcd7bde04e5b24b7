# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Progress shown on the terminal: one bar over all steps, one line per evaluation.

Runs report `listener(label, step, total, text)`; how that is shown, or sent to another process, is decided here.
"""

import logging
import sys
from collections.abc import Callable

from tqdm import tqdm

# label of the run, its step, its total number of steps, and a line of text or None. An empty label announces how many
# steps there are in the whole plan.
Listener = Callable[[str, int, int, "str | None"], None]


def silent(label: str, step: int, total: int, text: str | None) -> None:
    """Show nothing."""


class ProgressBar:
    """A bar over the steps of one run, or over those of a whole plan once that is announced; off a terminal, lines."""

    def __init__(self):
        self._bar: tqdm | None = None  # made with the first report, so that an early error stands alone
        self._planned: int | None = None
        self._steps: dict[str, int] = {}

    def __call__(self, label: str, step: int, total: int, text: str | None) -> None:
        if not sys.stderr.isatty():  # a log wants lines, no bar
            if label and text:
                print(f"{label}  {text}", file=sys.stderr, flush=True)
            return
        if not label:
            self._planned = total
            return
        if self._bar is None:
            if step >= total and not text:
                return  # nothing to do for a run that is finished
            self._bar = tqdm(total=self._planned, unit="step", mininterval=0.2, dynamic_ncols=True, file=sys.stderr)
        if label not in self._steps:
            if self._planned is None:
                self._bar.reset(total=total)
            self._bar.set_description(label, refresh=False)
        self._bar.update(step - self._steps.get(label, 0))
        self._steps[label] = step
        if text:
            self._bar.write(f"{label}  {text}", file=sys.stderr)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        if self._bar is not None:
            self._bar.close()


def show_data_notes() -> None:
    """Let what the data layer says of splits and classes show on the terminal, each sentence once."""
    notes = logging.getLogger("hf_longseq.data")
    notes.setLevel(logging.INFO)
    notes.propagate = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    said: dict[str, logging.LogRecord] = {}
    handler.addFilter(lambda record: said.setdefault(record.getMessage(), record) is record)
    notes.handlers = [handler]


def quiet_libraries() -> None:
    """Keep the libraries' notices from drowning the progress; their errors still show."""
    import datasets
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    datasets.utils.logging.set_verbosity_error()
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
