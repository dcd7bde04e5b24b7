# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""One rule of precision: float32 at least, whatever the model's dtype, and float64 where the input is float64."""

import functools
from collections.abc import Callable

import torch
from torch.autograd.function import once_differentiable
from transformers.utils.generic import maybe_autocast


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """float64 for float64, float32 for any other floating-point dtype."""
    return torch.promote_types(dtype, torch.float32)


def widened(x: torch.Tensor) -> torch.Tensor:
    """`x` in the precision in which states, statistics and losses are computed."""
    return x.to(wide_dtype(x.dtype))


def without_autocast(backward: Callable) -> Callable:
    """Decorates `backward(ctx, *grads)` of an autograd.Function. Autograd runs it under whatever autocast is on where
    the caller called `loss.backward()`, while its forward pass switched autocast off. Its gradients have none of their
    own, and asking for those is an error."""

    @once_differentiable
    @functools.wraps(backward)
    def guarded(ctx, *grads):
        # gradients are None where no output was used, and then there is nothing to keep precise; what is saved may
        # be read only once under checkpointing, so it is not asked for the device
        device = next((grad.device.type for grad in grads if grad is not None), "cpu")
        with maybe_autocast(device_type=device, enabled=False):
            return backward(ctx, *grads)

    return guarded
