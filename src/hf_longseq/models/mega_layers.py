# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The parts of MEGA's mixer: the moving average, the layout of chunks, the position bias and its cache.

Axes: B batch, L length, D channels, R rows of averages (D, or 2 D of which the last D run from the end), n
averages per row, C chunks, T positions of a chunk, K keys that a row may see, z width of queries and keys.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from transformers import initialization as init
from transformers.cache_utils import Cache
from transformers.utils.generic import maybe_autocast

from .longseq_layers import one_direction, packing
from .ssm_cache import RecurrentCache, RecurrentLayer
from .ssm_convolution import long_convolution
from .ssm_init import normal_directions, ssm_parameter
from .ssm_precision import wide_dtype, widened
from .ssm_step import check_state

POWER_BLOCK = 64
"""Positions whose powers are computed one by one; all others are products of these with powers of q^POWER_BLOCK."""


class MegaEMA(nn.Module):
    """SiLU(e + omega x) with e the sum of n damped moving averages per channel (Ma et al., 2023, section 3.1).

    s <- q s + p beta x and e = sum gamma / sqrt(n) s, with p = sigmoid(delta) and q = 1 - p sigmoid(alpha). Two
    directions have averages of their own, and both include the present. Parameters are float32 whatever the model's
    dtype.
    """

    def __init__(self, config):
        super().__init__()
        self.truncation = config.ema_truncation
        rows = config.hidden_size * (2 if config.bidirectional else 1)

        self.damping_delta = ssm_parameter(rows, config.state_size)
        self.decay_alpha = ssm_parameter(rows, config.state_size)
        self.input_beta = ssm_parameter(rows, config.state_size)
        self.output_gamma = ssm_parameter(rows, config.state_size)
        self.skip_omega = ssm_parameter(config.hidden_size)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        channels = len(self.skip_omega)
        init.copy_(self.damping_delta, normal_directions(self.damping_delta, channels, std=0.2))
        init.copy_(self.decay_alpha, normal_directions(self.decay_alpha, channels, std=0.2))
        signs_n = 1.0 - 2.0 * (torch.arange(self.input_beta.shape[1], device=self.input_beta.device) % 2)
        init.copy_(self.input_beta, signs_n + 0.02 * normal_directions(self.input_beta, channels))
        init.copy_(self.output_gamma, normal_directions(self.output_gamma, channels))
        init.normal_(self.skip_omega)

    def coefficients(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """log q, p beta and gamma / sqrt(n), each (R, n)."""
        delta, alpha, beta, gamma = (
            p.to(dtype) for p in (self.damping_delta, self.decay_alpha, self.input_beta, self.output_gamma)
        )
        damping = torch.sigmoid(delta)
        # saturated sigmoids would make log q infinite
        log_q = torch.log1p(-(damping * torch.sigmoid(alpha)).clamp(max=1 - 1e-7))
        return log_q, damping * beta, gamma * gamma.shape[1] ** -0.5

    def kernel(self, length: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """The averages' weights at lags 0 ... length - 1, (R, length)."""
        log_q, drive, readout = self.coefficients(dtype)
        return decaying_sums((drive * readout)[:, None], log_q, length)[:, 0]

    def forward(
        self,
        x_BLD: torch.Tensor,
        valid_BL: torch.Tensor | None = None,
        memory: RecurrentLayer | None = None,
        direction: str | None = None,
    ) -> torch.Tensor:
        """(B, L, D) to (B, L, D). Positions that ``valid_BL`` marks 0 enter no average; ``memory`` holds the state
        (B, D, n) of a causal model."""
        with maybe_autocast(device_type=x_BLD.device.type, enabled=False):
            x = widened(x_BLD)
            u_DBL = (x if valid_BL is None else x * valid_BL[..., None]).permute(2, 0, 1)
            e_DBL = self._convolve(u_DBL, direction) if memory is None else self._continue(u_DBL, memory)
            y = F.silu(e_DBL.permute(1, 2, 0) + self.skip_omega.to(x.dtype) * x)
        return y.to(x_BLD.dtype)

    def _convolve(self, u_DBL: torch.Tensor, direction: str | None = None) -> torch.Tensor:
        channels, length = u_DBL.shape[0], u_DBL.shape[-1]
        taps = min(length, self.truncation or length)
        kernel_RL = F.pad(self.kernel(taps, u_DBL.dtype), (0, length - taps))
        forward_DL, *backward = one_direction(kernel_RL.unflatten(0, (-1, channels)), direction)
        if not backward:
            return long_convolution(u_DBL, forward_DL[None])
        # the convolution's second kernel starts one position ahead
        present, ahead_DL = backward[0][:, :1], F.pad(backward[0][:, 1:], (0, 1))
        forward_DL = forward_DL + F.pad(present, (0, length - 1))
        return long_convolution(u_DBL, torch.stack((forward_DL, ahead_DL)))

    def _continue(self, u_DBL: torch.Tensor, memory: RecurrentLayer) -> torch.Tensor:
        channels, batch, length = u_DBL.shape
        log_q, drive, readout = self.coefficients(u_DBL.dtype)
        state = memory.state
        if state is not None:
            check_state(state, (batch, channels, log_q.shape[1]))
        if state is not None and length == 1:
            state = state * log_q.exp() + drive * u_DBL[..., 0].t()[..., None]
            memory.advance(state, 1)
            return (state * readout).sum(-1).t()[..., None]
        e_DBL = self._convolve(u_DBL)
        reached = drive * final_sums(u_DBL, log_q)
        if state is not None:
            weights_DBn = (state * log_q.exp() * readout).transpose(0, 1)
            e_DBL = e_DBL + decaying_sums(weights_DBn, log_q, length)
            reached = reached + state * (length * log_q).exp()
        memory.advance(reached, length)
        return e_DBL


def _power_blocks(log_q_Rn: torch.Tensor, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """q^b for b < T (R, n, T) and q^(aT) for every block a (R, A, n)."""
    size = min(POWER_BLOCK, length)
    inner = torch.arange(size, device=log_q_Rn.device, dtype=log_q_Rn.dtype)
    outer = torch.arange(0, length, size, device=log_q_Rn.device, dtype=log_q_Rn.dtype)
    return (log_q_Rn[..., None] * inner).exp(), (log_q_Rn[:, None] * outer[:, None]).exp()


def decaying_sums(weights_RMn: torch.Tensor, log_q_Rn: torch.Tensor, length: int) -> torch.Tensor:
    """sum_n w_n q_n^t for t = 0 ... length - 1: (R, M, length)."""
    inner_RnT, outer_RAn = _power_blocks(log_q_Rn, length)
    blocks_RMAn = weights_RMn[:, :, None] * outer_RAn[:, None]
    return torch.matmul(blocks_RMAn.flatten(1, 2), inner_RnT).reshape(*weights_RMn.shape[:2], -1)[..., :length]


def final_sums(u_DBL: torch.Tensor, log_q_Dn: torch.Tensor) -> torch.Tensor:
    """sum_t q^(L - 1 - t) u_t, (B, D, n)."""
    channels, batch, length = u_DBL.shape
    inner_DnT, outer_DAn = _power_blocks(log_q_Dn, length)
    blocks, size = outer_DAn.shape[1], inner_DnT.shape[2]
    reversed_DBL = F.pad(u_DBL.flip(-1), (0, blocks * size - length))
    sums = torch.bmm(reversed_DBL.reshape(channels, batch * blocks, size), inner_DnT.transpose(1, 2))
    return (sums.view(channels, batch, blocks, -1) * outer_DAn[:, None]).sum(2).transpose(0, 1)


@dataclass
class MegaLayout:
    """Who may see whom, planned once per forward.

    Attributes:
        chunk: positions T of a chunk; the length when there is one chunk, or when a cache is continued.
        order_BL: index that packs real positions to the front, so that padding moves no chunk and counts in no offset,
            wherever it stands; None without padding.
        inverse_BL: index that undoes it.
        visible: which keys a row may see, broadcastable to (B C, 1, T, K), or None for all.
        offsets_BLK: position of the key less that of the row, where a cache is continued.
    """

    chunk: int
    order_BL: torch.Tensor | None
    inverse_BL: torch.Tensor | None
    visible: torch.Tensor | None
    offsets_BLK: torch.Tensor | None


def plan_whole(
    batch: int,
    length: int,
    chunk: int | None,
    direction: str | None,
    valid_BL: torch.Tensor | None,
    device: torch.device,
) -> MegaLayout:
    """Layout of a sequence that starts here, seen in both directions (None) or one. A last chunk that is short is
    filled with padding, which changes nothing: padded keys are not seen and not counted."""
    size = length if chunk is None else min(chunk, length)
    chunks = -(-length // size)
    order = inverse = visible = None
    if valid_BL is not None:
        order, inverse = packing(valid_BL)
        valid_BL = valid_BL.gather(1, order)
    if valid_BL is not None or chunks * size > length:
        if valid_BL is None:
            valid_BL = torch.ones(batch, length, device=device)
        visible = F.pad(valid_BL.bool(), (0, chunks * size - length)).view(batch * chunks, 1, 1, size)
    if direction is not None:
        seen_TT = torch.ones(size, size, dtype=torch.bool, device=device)
        seen_TT = seen_TT.tril() if direction == "forward" else seen_TT.triu()
        visible = seen_TT if visible is None else visible & seen_TT
    return MegaLayout(size, order, inverse, visible, None)


def plan_continuation(
    length: int, seen: int, cached: int, chunk: int | None, valid: torch.Tensor | None, device: torch.device
) -> MegaLayout:
    """Layout of new positions behind a cache of ``cached`` keys; ``valid`` (B, seen + length) covers both."""
    if valid is None:
        position = torch.arange(seen + length, device=device)[None]
    else:
        position = (valid.long().cumsum(-1) - 1).clamp(min=0)
    total = cached + length
    column = torch.arange(total, device=device)
    visible = column <= column[-length:, None]
    key, row = position[:, None, -total:], position[:, -length:, None]
    if chunk is not None:
        visible = visible & (key // chunk == row // chunk)
    if valid is not None:
        visible = visible & valid.bool()[:, None, -total:]
    visible = visible.expand(position.shape[0], length, total)[:, None]
    return MegaLayout(length, None, None, visible, key - row)


def open_columns(length: int, chunk: int | None, valid_BL: torch.Tensor | None) -> int:
    """How many of the newest columns later positions may still see: those of a chunk that is not full yet."""
    if chunk is None:
        return length
    if valid_BL is None:
        return length % chunk
    count_B1 = valid_BL.long().sum(-1, keepdim=True)
    open_BL = valid_BL.bool() & (valid_BL.long().cumsum(-1) > count_B1 - count_B1 % chunk)
    first = torch.where(open_BL.any(-1), open_BL.int().argmax(-1), length)
    return length - int(first.min())


class MegaPositionBias(nn.Module):
    """What a score gains from the offset between key and row: a table, or the product of two turned vectors."""

    def __init__(self, config):
        super().__init__()
        self.table = self.query_vector = self.key_vector = None
        if config.position_bias == "simple":
            self.table = nn.Parameter(torch.empty(2 * (config.chunk_size or config.max_position_embeddings) - 1))
        else:
            self.query_vector = nn.Parameter(torch.empty(config.shared_representation_size))
            self.key_vector = nn.Parameter(torch.empty(config.shared_representation_size))

    def reset_parameters(self) -> None:
        for parameter in self.parameters():
            init.normal_(parameter, std=0.02)

    def of_offsets(self, reach: int) -> torch.Tensor:
        """Bias at the offsets -(reach - 1) ... reach - 1, (2 reach - 1,)."""
        if self.table is not None:
            middle = self.table.shape[0] // 2
            return self.table[middle - reach + 1 : middle + reach]
        dtype = wide_dtype(self.query_vector.dtype)
        (a, b), (c, d) = (vector.to(dtype).chunk(2) for vector in (self.query_vector, self.key_vector))
        dims = torch.arange(a.shape[0], device=a.device, dtype=dtype)
        offsets = torch.arange(1 - reach, reach, device=a.device, dtype=dtype)
        angles = offsets[:, None] * torch.pow(10000.0, -dims / a.shape[0])
        return angles.cos() @ (a * c + b * d) + angles.sin() @ (b * c - a * d)

    def forward(self, layout: MegaLayout) -> torch.Tensor:
        """(T, T) for whole chunks, (B, 1, L, K) behind a cache."""
        if layout.offsets_BLK is None:
            return self.of_offsets(layout.chunk).unfold(0, layout.chunk, 1).flip(0)
        reach = layout.offsets_BLK.shape[-1]
        if self.table is not None:
            reach = min(reach, self.table.shape[0] // 2 + 1)
        # beyond the reach lies only what is not visible
        index = layout.offsets_BLK.clamp(1 - reach, reach - 1) + reach - 1
        return self.of_offsets(reach)[index][:, None]


class MegaLayer(RecurrentLayer):
    """One layer's averages (B, D, n), and the keys (B, K, z) and values (B, K, v) of the chunk that is not full yet,
    or of everything where attention is not cut into chunks."""

    def extend(self, keys: torch.Tensor, values: torch.Tensor, keep: int) -> tuple[torch.Tensor, torch.Tensor]:
        """All keys and values, old and new, of which the newest ``keep`` stay."""
        if self.keys is not None:
            keys, values = torch.cat((self.keys, keys), dim=1), torch.cat((self.values, values), dim=1)
        self.keys, self.values = keys[:, keys.shape[1] - keep :], values[:, values.shape[1] - keep :]
        return keys, values

    def _change(self, function) -> None:
        if self.keys is not None:
            self.keys, self.values = function(self.keys), function(self.values)

    def reset(self) -> None:
        super().reset()
        self.has_previous_state[0] = False
        self.keys = self.values = None

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        super().reorder_cache(beam_idx)
        self._change(lambda x: x.index_select(0, beam_idx.to(x.device)))

    def batch_repeat_interleave(self, repeats: int) -> None:
        super().batch_repeat_interleave(repeats)
        self._change(lambda x: x.repeat_interleave(repeats, dim=0))

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        super().batch_select_indices(indices)
        self._change(lambda x: x[indices, ...])


class MegaCache(RecurrentCache):
    """A :class:`MegaLayer` for every layer of the model."""

    def __init__(self, config):
        Cache.__init__(self, layers=[MegaLayer() for _ in range(config.num_hidden_layers)])
