# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Attention over everything or over blocks of a window, and the positions it uses.

Axes: B batch, N heads, L length, D head size, W window (block length), M blocks, K keys that a block sees, H hidden.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F
from transformers.integrations import use_kernel_forward_from_hub
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .longseq_layers import packing
from .ssm_precision import wide_dtype, widened


def sinusoidal_positions(
    position_ids_BL: torch.Tensor, hidden_size: int, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """(B, L, H) sines in even and cosines in odd dimensions, wavelengths from 2 pi to 10,000 * 2 pi, in `dtype`."""
    dims = torch.arange(0, hidden_size, 2, dtype=dtype, device=position_ids_BL.device)
    angles = position_ids_BL[..., None].to(dtype) * torch.pow(10000.0, -dims / hidden_size)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


def rotary_angles(
    position_ids_BL: torch.Tensor, head_dim: int, theta: float, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines (B, 1, L, D / 2) of the rotary angles, in `dtype`."""
    dims = torch.arange(0, head_dim, 2, dtype=dtype, device=position_ids_BL.device)
    angles = position_ids_BL[:, None, :, None].to(dtype) * torch.pow(float(theta), -dims / head_dim)
    return angles.cos(), angles.sin()


def apply_rotary(x_BNLD: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn the interleaved pairs (2m, 2m + 1) of `x_BNLD`, in float32 at least; same dtype out."""
    pairs = widened(x_BNLD).unflatten(-1, (-1, 2))
    if torch.compiler.is_compiling():  # inductor makes one kernel of this, and knows no complex numbers
        even, odd = pairs.unbind(-1)
        turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
    else:  # a third of the time
        turned = torch.view_as_real(torch.view_as_complex(pairs) * torch.complex(cos, sin))
    return turned.flatten(-2).to(x_BNLD.dtype)


def local_bias(query_positions_BL: torch.Tensor, key_positions_BK: torch.Tensor, num_heads: int) -> torch.Tensor:
    """What distance costs: -m_h |i - j| with m_h = 2^(-8 h / N) for heads h = 1 ... N. (B, N, L, K), float32."""
    heads = torch.arange(1, num_heads + 1, dtype=torch.float32, device=query_positions_BL.device)
    distance_BLK = (query_positions_BL[:, :, None] - key_positions_BK[:, None, :]).abs().float()
    return -torch.exp2(-8.0 * heads / num_heads)[:, None, None] * distance_BLK[:, None]


def additive(allowed: torch.Tensor, bias: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor:
    """A mask of what may be seen, and a bias of the scores, as one number to add to each score."""
    bias = torch.zeros((), dtype=dtype, device=allowed.device) if bias is None else bias.to(dtype)
    return torch.where(allowed, bias, torch.finfo(dtype).min)


def eager_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float = 1.0,
    **kwargs,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention as plain products, with its weights: (B, L, N, D) and (B, N, L, keys)."""
    scores = torch.matmul(query, key.transpose(2, 3)) * scaling
    if attention_mask is not None:
        scores = scores + attention_mask
    weights = F.softmax(scores, dim=-1, dtype=wide_dtype(scores.dtype)).to(query.dtype)
    weights = F.dropout(weights, p=dropout, training=module.training)
    return torch.matmul(weights, value).transpose(1, 2).contiguous(), weights


@dataclass
class WindowLayout:
    """How a batch is cut into blocks, prepared once per forward.

    Blocks are counted from the first real position, so that padding on the left does not move them.

    Attributes:
        window: block length W.
        back, ahead: blocks seen before and after a position's own.
        order_BL: index that packs the real positions to the front; None when they are there already.
        inverse_BL: index that undoes it.
        mask_BMWK: which keys each block may see, broadcastable to (B, M, W, K).
        bias_1NWK: what is added to the scores of a block; None for nothing.
    """

    window: int
    back: int
    ahead: int
    order_BL: torch.Tensor | None
    inverse_BL: torch.Tensor | None
    mask_BMWK: torch.Tensor
    bias_1NWK: torch.Tensor | None = None


def window_layout(
    length: int,
    window: int,
    back: int,
    ahead: int,
    direction: str | None,
    valid_BL: torch.Tensor | None,
    device: torch.device,
    biased_heads: int | None = None,
) -> WindowLayout:
    """Plan block-local attention. The mask holds one row per block, and W x K more only in one direction or where
    the scores of `biased_heads` heads get the local bias."""
    window = min(window, length)
    order = inverse = None
    if valid_BL is not None:
        order, inverse = packing(valid_BL)
        valid_BL = valid_BL.bool().gather(1, order)
    else:
        valid_BL = torch.ones(1, length, dtype=torch.bool, device=device)
    num_blocks = -(-length // window)
    tail = num_blocks * window - length
    padded = F.pad(valid_BL, (back * window, tail + ahead * window))
    mask_BMWK = padded.unfold(1, (back + 1 + ahead) * window, window)[:, :, None, :]
    if direction is not None:
        row = torch.arange(window, device=device)[:, None] + back * window
        column = torch.arange((back + 1 + ahead) * window, device=device)
        mask_BMWK = mask_BMWK & (column <= row if direction == "forward" else column >= row)
    # a block of nothing but padding would have no key at all: let it see everything, its output is not used
    mask_BMWK = mask_BMWK | ~mask_BMWK.any(dim=-1, keepdim=True)
    bias = None
    if biased_heads is not None:
        row = torch.arange(window, device=device)[None] + back * window
        bias = local_bias(row, torch.arange((back + 1 + ahead) * window, device=device)[None], biased_heads)
    return WindowLayout(window, back, ahead, order, inverse, mask_BMWK, bias)


def _take(x_BNLD: torch.Tensor, index_BL: torch.Tensor) -> torch.Tensor:
    return x_BNLD.gather(2, index_BL[:, None, :, None].expand_as(x_BNLD))


def block_local_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    layout: WindowLayout,
    dropout: float,
    scaling: float,
    eager: bool,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Attention of each block to itself and its neighbours: (B, N, L, D) to (B, L, N, D), in memory O(L W).

    The weights, given when `eager`, are (B, N, L, K). Fused kernels do not take this mask's shape, so the choice is
    between scaled-dot-product attention and plain products.
    """
    batch, heads, length, _ = query.shape
    if layout.order_BL is not None:
        query, key, value = (_take(x, layout.order_BL) for x in (query, key, value))
    window, num_blocks = layout.window, -(-length // layout.window)
    tail = num_blocks * window - length
    span = (layout.back + 1 + layout.ahead) * window

    def context(x_BNLD: torch.Tensor) -> torch.Tensor:
        padded = F.pad(x_BNLD, (0, 0, layout.back * window, tail + layout.ahead * window))
        blocks_BNMDK = padded.unfold(2, span, window)
        return blocks_BNMDK.permute(0, 2, 1, 4, 3).reshape(batch * num_blocks, heads, span, -1)

    query = F.pad(query, (0, 0, 0, tail)).unflatten(2, (num_blocks, window))
    query = query.transpose(1, 2).reshape(batch * num_blocks, heads, window, -1)
    mask = layout.mask_BMWK.expand(batch, num_blocks, -1, -1).reshape(batch * num_blocks, 1, -1, span)
    if eager or layout.bias_1NWK is not None:
        mask = additive(mask, layout.bias_1NWK, query.dtype)
    weights = None
    if eager:
        out, weights = eager_attention(module, query, context(key), context(value), mask, dropout, scaling)
        weights = weights.unflatten(0, (batch, num_blocks)).transpose(1, 2).flatten(2, 3)[:, :, :length]
        out = out.transpose(1, 2)
    else:
        out = F.scaled_dot_product_attention(
            query, context(key), context(value), attn_mask=mask, dropout_p=dropout, scale=scaling
        )
    out_BNLD = out.unflatten(0, (batch, num_blocks)).transpose(1, 2).flatten(2, 3)[:, :, :length]
    if layout.inverse_BL is not None:
        out_BNLD = _take(out_BNLD, layout.inverse_BL)
        weights = None if weights is None else _take(weights, layout.inverse_BL)
    return out_BNLD.transpose(1, 2), weights


@use_kernel_forward_from_hub("LongAttention")
class LongAttention(nn.Module):
    """Multi-head attention; the mixer of the long Transformer. Masked positions are as if they were not there."""

    def __init__(self, config, layer_idx: int):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.is_causal = not config.bidirectional
        self.head_dim = config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size)
        self.k_proj = nn.Linear(config.hidden_size, config.hidden_size)
        self.v_proj = nn.Linear(config.hidden_size, config.hidden_size)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size)

    def reset_parameters(self) -> None:
        """Nothing of its own: the four dense layers are initialised as every dense layer is."""

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        past_key_values=None,
        rotary: tuple[torch.Tensor, torch.Tensor] | None = None,
        window: WindowLayout | None = None,
        direction: str | None = None,
        **kwargs,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """(B, L, H) to (B, L, H) and the attention weights (None unless eager).

        `attention_mask` is what transformers' mask functions made; `window` replaces it in block-local attention.
        """
        batch, length, _ = hidden_states.shape
        query, key, value = (
            proj(hidden_states).view(batch, length, -1, self.head_dim).transpose(1, 2)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        if rotary is not None:
            query, key = apply_rotary(query, *rotary), apply_rotary(key, *rotary)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)

        dropout = self.config.attention_dropout if self.training else 0.0
        scaling = self.head_dim**-0.5
        implementation = self.config._attn_implementation
        dense = self.config.attention_window is not None or self.config.attention_bias is not None or direction
        if dense and implementation != "eager":
            implementation = "sdpa"  # fused kernels take no dense mask: of a window, a bias, or the backward direction
        if window is not None:
            key, value = key[:, :, :length], value[:, :, :length]  # without the room of a cache of fixed size
            out, weights = block_local_attention(
                self, query, key, value, window, dropout, scaling, eager=implementation == "eager"
            )
        else:
            attend = ALL_ATTENTION_FUNCTIONS.get_interface(implementation, eager_attention)
            out, weights = attend(self, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs)
        return self.o_proj(out.reshape(batch, length, -1).contiguous()), weights
