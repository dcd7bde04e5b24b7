# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""How far a model looks: gradients of an output with respect to the inputs, and where attention goes.

Axes: B batch (1 here), L length, H channels, N heads, K keys that a row may see, O offsets -(L - 1) ... L - 1.
"""

from collections.abc import Callable

import numpy as np
import torch

FIELDS = (0.5, 0.9, 0.99)
"""Shares of the influence whose reach is reported."""


def influence(function: Callable, x_BLH: torch.Tensor, at: int, direction_H: torch.Tensor) -> np.ndarray:
    """Influence (L,) of every input position on one output: the norm over the input's channels of the gradient of the
    output's component along ``direction_H``, as shares of their sum."""
    x_BLH = x_BLH.detach().requires_grad_()
    with torch.enable_grad():
        (gradient_BLH,) = torch.autograd.grad(function(x_BLH)[0, at].float() @ direction_H, x_BLH)
    size_L = gradient_BLH[0].double().norm(dim=-1)
    return (size_L / size_L.sum().clamp(min=torch.finfo(torch.float64).tiny)).cpu().numpy()


def probe_position(length: int, bidirectional: bool) -> int:
    """The output looked at: the last one of a causal model, else the middle one: both see the most inputs."""
    return length // 2 if bidirectional else length - 1


def receptive_fields(model, inputs: list[dict], length: int) -> dict[int | str, np.ndarray]:
    """Mean influence by offset (2 length - 1,) of each layer's mixer alone, and of the whole trunk ("network").

    A mixer alone is one mixer at its own inputs, without norm, residual and feed-forward; the trunk runs from the
    embeddings to the last hidden state.

    Args:
        model: A base model in evaluation mode.
        inputs: Examples, each a batch of one without padding: {"input_ids": (1, L)} or {"input_values": ...}.
        length: Longest example.
    """
    generator = torch.Generator().manual_seed(0)
    totals: dict[int | str, np.ndarray] = {}

    def trunk(x_BLH):
        return model(inputs_embeds=x_BLH, use_cache=False)

    for example in inputs:
        with torch.no_grad():
            embedded_BLH = model.embed(**example)
        direction_H = torch.randn(model.config.hidden_size, generator=generator).to(embedded_BLH.device)
        at = probe_position(embedded_BLH.shape[1], model.config.bidirectional)
        calls = dict(enumerate(_mixer_calls(model, embedded_BLH)))
        for key, (module, x_BLH, kwargs) in (calls | {"network": (trunk, embedded_BLH, {})}).items():
            share_L = influence(lambda x, call=module, kwargs=kwargs: call(x, **kwargs)[0], x_BLH, at, direction_H)
            total = totals.setdefault(key, np.zeros(2 * length - 1))
            first = length - 1 - at
            total[first : first + len(share_L)] += share_L / len(inputs)
    return totals


def _mixer_calls(model, embedded_BLH: torch.Tensor) -> list[tuple]:
    """(mixer, input, keyword arguments) of every mixer in one forward pass."""
    calls = []

    def keep(mixer, args, kwargs):
        kwargs = {name: value for name, value in kwargs.items() if name != "past_key_values"}
        calls.append((mixer, args[0], kwargs))

    hooks = [layer.mixer.register_forward_pre_hook(keep, with_kwargs=True) for layer in model.layers]
    try:
        with torch.no_grad():
            model(inputs_embeds=embedded_BLH, use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    return calls


def field_reach(share_O: np.ndarray, share: float) -> int:
    """Smallest distance within which ``share`` of the influence lies, on both sides together."""
    middle = len(share_O) // 2
    by_distance = share_O[middle:].copy()
    by_distance[1:] += share_O[:middle][::-1]
    total = by_distance.sum()
    return int(np.searchsorted(np.cumsum(by_distance), share * total * (1 - 1e-9))) if total > 0 else 0


def key_offsets(config, length: int, keys: int) -> torch.Tensor:
    """Offset (L, K) of every key in attention weights (B, N, L, K) from its row: everything, a window or a chunk."""
    row, column = torch.arange(length)[:, None], torch.arange(keys)
    if getattr(config, "attention_window", None) is not None:
        window = min(config.attention_window, length)
        return (row // window - config.window_blocks_back) * window + column - row
    if getattr(config, "chunk_size", None) is not None:
        return row // keys * keys + column - row
    return column - row


@torch.no_grad()
def attention_by_offset(model, inputs: list[dict], length: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean share of a head's attention by offset, (layers, N, 2 length - 1), and that of equal attention to all that
    is visible, (2 length - 1,).

    The model runs with `attn_implementation="eager"`. Rows of weights that do not sum to one (MEGA's laplace) are
    scaled to.
    """
    total, uniform = np.zeros(()), np.zeros(())
    for example in inputs:
        attentions = model(**example, use_cache=False, output_attentions=True).attentions
        weights_JNLK = torch.cat(attentions).double()  # J layers, of the one example
        rows, keys = weights_JNLK.shape[2:]
        offsets_LK = key_offsets(model.config, rows, keys)
        position_LK = offsets_LK + torch.arange(rows)[:, None]
        visible_LK = (position_LK >= 0) & (position_LK < rows)
        if not model.config.bidirectional:
            visible_LK &= offsets_LK <= 0
        scaled = weights_JNLK / weights_JNLK.sum(-1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
        equal = visible_LK / visible_LK.sum(-1, keepdim=True)
        index, share = (offsets_LK[visible_LK] + length - 1).numpy(), 1 / rows / len(inputs)

        def by_offset(weights: np.ndarray, index=index, share=share) -> np.ndarray:
            return np.bincount(index, weights, minlength=2 * length - 1) * share

        total = total + np.apply_along_axis(by_offset, -1, scaled[..., visible_LK].numpy())
        uniform = uniform + by_offset(equal[visible_LK].numpy())
    return total, uniform


def mean_distance(share_O: np.ndarray) -> np.ndarray:
    """Mean distance (...) under shares by offset (..., O)."""
    distance = np.abs(np.arange(share_O.shape[-1]) - share_O.shape[-1] // 2)
    return (share_O * distance).sum(-1) / np.maximum(share_O.sum(-1), np.finfo(np.float64).tiny)
