# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The error that the command line shows as one sentence, and the suggestion for a mistyped name."""

import contextlib
import difflib
from collections.abc import Iterable, Iterator


class HfLongSeqError(ValueError):
    """Something the user can put right: the message is one sentence that names what, where, the value, the remedy."""


MALFORMED = (AttributeError, LookupError, TypeError, ValueError)
"""What code raises that meets a text or a list where a record of this package has a mapping."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for the closest known name, or an empty string when nothing is close."""
    close = difflib.get_close_matches(word, [str(name) for name in known], n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


@contextlib.contextmanager
def explained(what: str, *kinds: type[Exception], remedy: str = "") -> Iterator[None]:
    """Raise errors of these kinds, of libraries that are given a user's settings or files, as one sentence of ours.

    Example:
        >>> with explained("a.json is not readable as JSON", ValueError, remedy="save it again"):
        ...     raise ValueError("no value at char 0")
        Traceback (most recent call last):
        ...
        hf_longseq.errors.HfLongSeqError: a.json is not readable as JSON (no value at char 0): save it again.
    """
    try:
        yield
    except HfLongSeqError:
        raise
    except kinds as error:
        from huggingface_hub.errors import StrictDataclassError

        reason = error.__cause__ if isinstance(error, StrictDataclassError) and error.__cause__ else error
        said = " ".join(str(reason).split())[:500]  # some quote the whole file
        raise HfLongSeqError(f"{what} ({said}): {remedy}." if remedy else f"{what}: {said}") from error
