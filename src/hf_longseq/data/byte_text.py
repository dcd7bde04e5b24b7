# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Text as bytes: four special ids, then the 256 byte values."""

from typing import Any

import numpy as np

from hf_longseq.data.task_spec import TaskSpec
from hf_longseq.errors import HfLongSeqError

MASK_ID, PAD_ID, UNK_ID, EOS_ID = range(4)
BYTE_ID = 4
VOCAB_SIZE = BYTE_ID + 256
# what every task of text says in its `TaskSpec`
SPEC: dict[str, Any] = {"modality": "tokens", "vocab_size": VOCAB_SIZE}
SPEC |= {"pad_token_id": PAD_ID, "mask_token_id": MASK_ID, "eos_token_id": EOS_ID}


def encode(text: str | bytes, max_length: int) -> np.ndarray:
    """Ids of a text, cut to `max_length` with the end-of-sequence id that always closes it; int16 (L,)."""
    content = text.encode("utf-8") if isinstance(text, str) else text
    ids = np.empty(min(len(content), max_length - 1) + 1, dtype=np.int16)
    ids[:-1] = np.frombuffer(content, dtype=np.uint8, count=len(ids) - 1)
    ids[:-1] += BYTE_ID
    ids[-1] = EOS_ID
    return ids


def decode(ids) -> str:
    """The text of ids, without special ones; bytes that are not text become replacement characters."""
    ids = np.asarray(ids)
    return (ids[ids >= BYTE_ID] - BYTE_ID).astype(np.uint8).tobytes().decode("utf-8", errors="replace")


def is_read_by(spec: TaskSpec) -> bool:
    """Whether a task's tokens are bytes of text."""
    plain = spec.modality == "tokens" and not spec.vocabulary and spec.image_shape is None
    return plain and (spec.vocab_size, spec.eos_token_id) == (VOCAB_SIZE, EOS_ID)


def check_max_length(max_length: int) -> None:
    """Raise unless there is room for a byte and the end-of-sequence id."""
    if max_length < 2:
        raise HfLongSeqError(f"max_length is {max_length}: use at least 2, a byte and the end of the sequence.")
