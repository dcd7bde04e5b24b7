# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Keeps hand-written backward passes in the precision of their forward pass."""

import functools
from collections.abc import Callable

from transformers.utils.generic import maybe_autocast


def without_autocast(backward: Callable) -> Callable:
    """Decorates `backward(ctx, *grads)` of an autograd.Function. Autograd runs it under whatever autocast is on where
    the caller called `loss.backward()`, while its forward pass switched autocast off."""

    @functools.wraps(backward)
    def guarded(ctx, *grads):
        # gradients are None where no output was used, and then there is nothing to keep precise; what is saved may
        # be read only once under checkpointing, so it is not asked for the device
        device = next((grad.device.type for grad in grads if grad is not None), "cpu")
        with maybe_autocast(device_type=device, enabled=False):
            return backward(ctx, *grads)

    return guarded
