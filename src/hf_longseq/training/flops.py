# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Floating-point operations of a training step, counted once per run on one batch by `torch.utils.flop_counter`.

Counted, forward and backward: matrix products, convolutions, attention, and Fourier transforms as 5 n log2 n (half of
that for real ones). Not counted: everything elementwise (norms, activations, gates, softmax outside of attention,
recurrences that multiply and add), the optimiser, evaluation, and the recomputation that gradient checkpointing adds
where the checkpointed code runs outside of autograd. A complex product counts as one of the same shape, though it
takes four real ones. Read the figure as a measure to compare budgets by, not as the work of a device.
"""

import copy
import math
from collections.abc import Callable, Sequence

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import PreTrainedModel
from transformers.utils import logging

from hf_longseq.data.collators import in_direction

logger = logging.get_logger(__name__)


def training_flops(
    model: PreTrainedModel, collator: Callable, rows: Sequence[dict], device: torch.device
) -> float | None:
    """Floating-point operations of one forward and backward pass, per example; None where they cannot be counted.

    Works on a copy of the model, so that neither gradients nor running statistics change, and leaves the random
    generators of torch as they were. The collator must draw nothing from a state of its own. All rows are padded
    to the longest, and cost as much.
    """
    devices = [device] if device.type == "cuda" else []
    try:
        with torch.random.fork_rng(devices=devices):
            batch = {name: tensor.to(device) for name, tensor in collator(list(rows)).items()}
            twin = copy.deepcopy(model).train()
            twin.to(device)  # type: ignore[arg-type]  # its decorator hides that it is a method
            if getattr(twin.config, "use_cache", None):
                twin.config.use_cache = False
            with FlopCounterMode(display=False, custom_mapping=_also_counted()) as counter:
                twin(**in_direction(batch, "forward")).loss.backward()
        return counter.get_total_flops() / len(rows)
    except (RuntimeError, ValueError, TypeError, NotImplementedError, AssertionError) as error:  # torch asserts shapes
        logger.info(f"the operations of {type(model).__name__} could not be counted: {error}")
        return None


def _also_counted() -> dict:
    """What torch leaves out: attention on a processor, and Fourier transforms."""
    aten = torch.ops.aten
    attention = "_scaled_dot_product_flash_attention_for_cpu"
    names = {
        attention: lambda q, k, v, *_, **__: 2 * _attention(q, k, v),
        # Scores are computed anew, then four products for the gradients of q, k, v and the weights.
        f"{attention}_backward": lambda grad, q, k, v, *_, **__: 5 * _attention(q, k, v),
        "_fft_r2c": lambda x, dim, *_, **__: _fourier(x, dim) // 2,
        "_fft_c2r": lambda x, dim, *_, out_shape, **__: _fourier(out_shape, dim) // 2,
        "_fft_c2c": lambda x, dim, *_, **__: _fourier(x, dim),
    }
    return {getattr(aten, name): count for name, count in names.items() if hasattr(aten, name)}


def _attention(query, key, value) -> int:
    """One product of B x H score matrices: query (B, H, Lq, D), key (B, H, Lk, D)."""
    batch, heads, length, width = query
    return 2 * batch * heads * length * key[-2] * max(width, value[-1])


def _fourier(shape, dims) -> int:
    points = math.prod(shape[dim] for dim in dims)
    return int(5 * math.prod(shape) * math.log2(max(points, 2)))
