# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The chunked scan of a state-space model, all in real arithmetic and matrix products.

One step of the model, x <- d x - a Re<b, x> + drive u, is that of `ssm_step`. The scan cuts the length into
chunks of T positions. Inside a chunk the kernel is one T x T Toeplitz matrix (both directions in the same matrix); a
chunk is summarised by N numbers; the summaries are chained by the T-step transition; the states are read out again by
one product. Cost and memory are linear in the length, and the chain is grouped so that no Python loop grows with it.

Axes: B batch, L length, H channels, N state, n = N/2 pairs, C chunks, T positions of a chunk, D directions (1 or 2),
E = D N, R rows. Matrices multiply row vectors from the right: y = x @ matrix.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F

from .ssm_powers import as_complex, as_real, halves, side_by_side, squares, step_powers
from .ssm_precision import without_autocast
from .ssm_step import DiscreteSystem, check_state, real_product

CHUNK_LENGTH = 64
"""Positions of a chunk. Longer chunks take bigger matrices to build, shorter ones more steps to chain."""

LONG_INPUT = 65536
"""Positions (batch x length) from which chunks twice as long repay their matrices."""

SHORT_INPUT = 8192
"""Positions up to which chunks half as long cost less, for their matrices are cheaper."""

GROUP = 16
"""Chunks chained one after the other before a second level takes over."""


class ChunkOperators(NamedTuple):
    """What the scan multiplies with; see :func:`chunk_operators`. M is the step, T the chunk's length.

    Attributes:
        toeplitz_HTT: input to output inside a chunk, both directions and the skip.
        columns_HTN: M^r drive for r = 0 ... T - 1, input to state.
        lag_HTN: readout M^(r + 1), state entering from the left to output.
        lead_HTN: second readout M^(T - 1 - r), state entering from the right to output; None if causal.
        transition: M^T, dense (H, N, N) acting on states as rows, or diagonal (H, N).
    """

    toeplitz_HTT: torch.Tensor
    columns_HTN: torch.Tensor
    lag_HTN: torch.Tensor
    lead_HTN: torch.Tensor | None
    transition: torch.Tensor


def _transpose(transition: torch.Tensor) -> torch.Tensor:
    return transition.mT if transition.dim() == 3 else as_real(as_complex(transition).conj_physical())


def _power(transition: torch.Tensor, exponent: int) -> torch.Tensor:
    """By squaring; ``exponent`` is a power of two."""
    if transition.dim() == 3:
        return squares(transition, exponent)[-1]
    turned = as_complex(transition)
    for _ in range(exponent.bit_length() - 1):
        turned = turned * turned
    return as_real(turned)


def chunk_operators(
    system: DiscreteSystem, readout_DHN: torch.Tensor, chunk_length: int, skip_H: torch.Tensor | None = None
) -> ChunkOperators:
    """Builds the chunk's matrices.

    Args:
        system: discretised model.
        readout_DHN: rows of `real_readout`, D = 1 (causal) or 2 (the second reads leads).
        chunk_length: T.
        skip_H: D of the model, added to the Toeplitz diagonal, so that the skip costs nothing.

    Returns:
        The operators of :func:`chunked_scan`; states are side by side.
    """
    rows_DHN = side_by_side(readout_DHN)
    diagonal_Hn, out_Hn, in_Hn, _ = system.cast(readout_DHN.dtype)
    lag_Hn = as_complex(rows_DHN[0])
    first_Hn = lag_Hn * diagonal_Hn.conj()
    if out_Hn is not None:
        first_Hn = first_Hn - real_product(lag_Hn, out_Hn) * in_Hn
    rows_KHN = torch.stack((as_real(first_Hn), *rows_DHN[1:]))
    columns_HTN, rows_HKTN, transition = step_powers(system, chunk_length, readout_DHN.dtype, rows_KHN)
    taps_HDT = torch.bmm(rows_DHN.transpose(0, 1), columns_HTN.mT)
    lags = taps_HDT[:, 0] if skip_H is None else taps_HDT[:, 0] + F.pad(skip_H[:, None], (0, chunk_length - 1))
    if readout_DHN.shape[0] == 2:
        lead_HTN, leads = rows_HKTN[:, 1].flip(1), taps_HDT[:, 1, :-1].flip(-1)
    else:
        lead_HTN, leads = None, lags.new_zeros(lags.shape[0], chunk_length - 1)
    toeplitz = torch.cat((leads, lags), dim=-1).unfold(-1, chunk_length, 1).flip(1)
    transition = transition.mT if transition.dim() == 3 else transition
    return ChunkOperators(toeplitz, columns_HTN, rows_HKTN[:, 0].contiguous(), lead_HTN, transition)


def _chain(summaries: tuple, power, first_HBN, forward_first: bool):
    """States entering every chunk, x[c + 1] = x[c] power + summary[c], in one direction or in both at once.

    Args:
        summaries: one or two (H, B, C, N); the second runs against the first.
        power: transition over a chunk.
        first_HBN: state before the first chunk of a single direction, or None for zero.
        forward_first: whether the first of them runs forward.

    Returns:
        The states, like ``summaries``, and what leaves at the end (H, D B, N).
    """
    channels, batch, chunks, state_size = summaries[0].shape
    if chunks <= 2 * GROUP:
        states = tuple(torch.empty_like(summary) for summary in summaries)
        return states, _chain_loop(summaries, power, first_HBN, forward_first, states)
    groups = -(-chunks // GROUP)
    padding = groups * GROUP - chunks
    if padding:
        summaries = tuple(F.pad(summary, (0, 0, 0, padding)) for summary in summaries)
    grouped = tuple(summary.reshape(channels, batch * groups, GROUP, state_size) for summary in summaries)
    totals = _chain_loop(grouped, power, None, forward_first, None).split(batch * groups, dim=1)
    totals = tuple(total.reshape(channels, batch, groups, state_size) for total in totals)
    entering, last = _chain(totals, _power(power, GROUP), first_HBN, forward_first)
    states = tuple(torch.empty_like(summary) for summary in grouped)
    entering = torch.cat([state.reshape(channels, batch * groups, state_size) for state in entering], dim=1)
    _chain_loop(grouped, power, entering, forward_first, states)
    states = (state.view(channels, batch, groups * GROUP, state_size)[:, :, :chunks] for state in states)
    return tuple(state.contiguous() for state in states), last


def _chain_loop(summaries, power, carry, forward_first, states):
    """The loop over chunks. Writes the entering states when given a place; returns what leaves, (H, D B, N)."""
    channels, batch, chunks, state_size = summaries[0].shape
    if carry is None:
        carry = summaries[0].new_zeros(channels, batch * len(summaries), state_size)
    for index in range(chunks):
        places = (index, chunks - 1 - index) if forward_first else (chunks - 1 - index, index)
        if states is not None:
            for part, state, place in zip(carry.split(batch, dim=1), states, places, strict=False):
                state[:, :, place] = part
        added = [summary[:, :, place] for summary, place in zip(summaries, places, strict=False)]
        added = torch.cat(added, dim=1) if len(added) == 2 else added[0].clone()
        carry = added.baddbmm_(carry, power) if power.dim() == 3 else added.add_(_turn(carry, power))
    return carry


def _turn(states_HRN: torch.Tensor, power_HN: torch.Tensor) -> torch.Tensor:
    return as_real(as_complex(states_HRN) * as_complex(power_HN)[:, None])


class _ChunkedScan(torch.autograd.Function):
    """Chunks in, chunks out; the backward pass is the same scan run the other way on the transposes."""

    @staticmethod
    def forward(ctx, u_HBCT, toeplitz_HTT, columns_HTN, lag_HTN, lead_HTN, power, first_HBN):
        channels, batch, chunks, length = u_HBCT.shape
        u = u_HBCT.view(channels, batch * chunks, length)
        columns = (columns_HTN.flip(1),) if lead_HTN is None else (columns_HTN.flip(1), columns_HTN)
        summaries = tuple(torch.bmm(u, column).view(channels, batch, chunks, -1) for column in columns)
        states, _ = _chain(summaries, power, first_HBN, True)
        last = states[0][:, :, -1].clone()
        y = torch.bmm(u, toeplitz_HTT)
        for state, rows in zip(states, (lag_HTN, lead_HTN), strict=False):
            y.baddbmm_(state.view(channels, batch * chunks, -1), rows.transpose(1, 2))
        ctx.save_for_backward(u_HBCT, toeplitz_HTT, columns_HTN, lag_HTN, lead_HTN, power, *states)
        ctx.has_first = first_HBN is not None
        ctx.set_materialize_grads(False)
        return y.view_as(u_HBCT), last

    @staticmethod
    @without_autocast
    def backward(ctx, grad_y_HBCT, grad_last_HBN):
        u_HBCT, toeplitz_HTT, columns_HTN, lag_HTN, lead_HTN, power, *states = ctx.saved_tensors
        channels, batch, chunks, length = u_HBCT.shape
        rows_shape = (channels, batch * chunks, -1)
        u = u_HBCT.view(rows_shape)
        grad_y = torch.zeros_like(u) if grad_y_HBCT is None else grad_y_HBCT.reshape(rows_shape)
        readouts = (lag_HTN,) if lead_HTN is None else (lag_HTN, lead_HTN)
        columns = (columns_HTN.flip(1), columns_HTN)
        states = [state.view(rows_shape) for state in states]
        grad_readouts = [torch.bmm(grad_y.transpose(1, 2), state) for state in states]
        grad_states = tuple(torch.bmm(grad_y, rows).view(channels, batch, chunks, -1) for rows in readouts)
        if grad_last_HBN is not None:
            grad_states[0][:, :, -1] += grad_last_HBN
        grad_summaries, grad_first = _chain(grad_states, _transpose(power), None, False)
        grad_summaries = [grad.view(rows_shape) for grad in grad_summaries]
        grad_power = sum(_outer(state, grad, power) for state, grad in zip(states, grad_summaries, strict=True))
        grad_u = torch.bmm(grad_y, toeplitz_HTT.transpose(1, 2))
        for grad, column in zip(grad_summaries, columns, strict=False):
            grad_u.baddbmm_(grad, column.transpose(1, 2))
        grad_columns = torch.bmm(u.transpose(1, 2), grad_summaries[0]).flip(1)
        if lead_HTN is not None:
            grad_columns.baddbmm_(u.transpose(1, 2), grad_summaries[1])
        return (
            grad_u.view_as(u_HBCT),
            torch.bmm(u.transpose(1, 2), grad_y),
            grad_columns,
            grad_readouts[0],
            grad_readouts[1] if lead_HTN is not None else None,
            grad_power,
            grad_first if ctx.has_first else None,
        )


def _outer(states_HRN, grads_HRN, power):
    """Gradient of ``power`` from states and the gradients of what it turned them into."""
    if power.dim() == 3:
        return torch.bmm(states_HRN.transpose(1, 2), grads_HRN)
    return as_real((as_complex(states_HRN).conj() * as_complex(grads_HRN)).sum(1))


def chunked_scan(
    u_HBL: torch.Tensor,
    system: DiscreteSystem,
    readout_DHN: torch.Tensor,
    skip_H: torch.Tensor | None = None,
    initial_state_BHN: torch.Tensor | None = None,
    return_state: bool = False,
    chunk_length: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Runs the model over a sequence of any length, in time and memory linear in it.

    With two directions, y_t = sum over lags j >= 0 of k0[j] u[t - j] plus, over leads j >= 1, k1[j - 1] u[t + j].

    Args:
        u_HBL: input, float32 or float64, channels first.
        system: from `discretise`, in the dtype of ``u_HBL`` or a wider one.
        readout_DHN: from `real_readout`; D = 2 is bidirectional.
        skip_H: added as skip * u.
        initial_state_BHN: state before the first position (causal only).
        return_state: also return the state after the last position (causal only).
        chunk_length: T; chosen from the sizes when None.

    Returns:
        y (H, B, L) and the final state (B, H, N) or None. Source: Gu et al., "S4", 2022; the chunkwise form is that of
        linear attention.

    Raises:
        ValueError: for length 0, a state of another shape, or a state in a bidirectional scan.
    """
    channels, batch, length = u_HBL.shape
    directions, _, state_size = readout_DHN.shape
    if length == 0:
        raise ValueError("The scan was given a sequence of length 0: pass at least one position.")
    if directions == 2 and (initial_state_BHN is not None or return_state):
        raise ValueError(
            "A state was asked of a bidirectional scan, which needs the whole sequence: build the model with "
            "bidirectional=False to stream or generate."
        )
    if initial_state_BHN is not None:
        check_state(initial_state_BHN, (batch, channels, state_size))
    size = chunk_length or choose_chunk_length(batch, length)
    operators = chunk_operators(system, readout_DHN, size, skip_H)
    chunks = -(-length // size)
    tail = length - (chunks - 1) * size
    u_HBL = u_HBL.contiguous()  # products of strided chunks would go channel by channel
    u_HBCT = (F.pad(u_HBL, (0, size - tail)) if tail < size else u_HBL).view(channels, batch, chunks, size)
    first = None if initial_state_BHN is None else side_by_side(initial_state_BHN.transpose(0, 1))
    y, last = _ChunkedScan.apply(u_HBCT, *operators, first)
    y = y.view(channels, batch, chunks * size)[..., :length]
    if not return_state:
        return y, None
    # the last chunk may be short: advance the state that entered it by the positions it really has
    transition = operators.transition
    if tail < size:
        transition = step_powers(system, tail, u_HBL.dtype)[2]
        transition = transition.mT if transition.dim() == 3 else transition
    reached = torch.bmm(u_HBL[..., length - tail :], operators.columns_HTN[:, :tail].flip(1))
    reached = reached + (torch.bmm(last, transition) if transition.dim() == 3 else _turn(last, transition))
    return y, halves(reached).transpose(0, 1)


def choose_chunk_length(batch: int, length: int) -> int:
    """T for an input: 64, or 128 for very much and 32 for little, or the power of two that covers a short sequence."""
    positions = batch * length
    longest = 2 * CHUNK_LENGTH if positions >= LONG_INPUT else CHUNK_LENGTH
    return min(longest // 2 if positions <= SHORT_INPUT else longest, 1 << (length - 1).bit_length())


def kernel(system: DiscreteSystem, readout_DHN: torch.Tensor, length: int) -> torch.Tensor:
    """The convolution kernel (D, H, L), k[t] = readout M^t drive: an impulse sent through the scan."""
    directions, channels, _ = readout_DHN.shape
    impulse = F.pad(readout_DHN.new_ones(channels, 1, 1), (0, length - 1))
    taps = [chunked_scan(impulse, system, readout_DHN[d : d + 1])[0] for d in range(directions)]
    return torch.cat(taps, dim=1).transpose(0, 1)
