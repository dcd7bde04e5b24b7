# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The error that the command line shows as one sentence, and the suggestion for a mistyped name."""

import difflib
from collections.abc import Iterable


class HfLongSeqError(ValueError):
    """Something the user can put right: the message is one sentence that names what, where, the value, the remedy."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for the closest known name, or an empty string when nothing is close."""
    close = difflib.get_close_matches(word, [str(name) for name in known], n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
