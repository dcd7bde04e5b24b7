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

LOOP = 512
"""Chunks chained one after the other on a CPU; beyond, or where a step costs a launch, a second level takes over."""

CHANNELS = 64
"""Channels whose transitions stay in a cache through that loop."""

GROUP = 16
"""Chunks of a group of the second level."""


class ChunkOperators(NamedTuple):
    """What the scan multiplies with; see :func:`chunk_operators`. M is the step, T the chunk's length.

    Attributes:
        toeplitz_HTT: input to output inside a chunk, both directions and the skip.
        columns_HTE: input to state, M^(T - 1 - r) drive and, for the state that moves to the left, M^r drive.
        rows_HTE: state to output, readout M^(r + 1) and, for the state that enters from the right, second readout
            M^(T - 1 - r).
        transition: M^T, dense (H, N, N) acting on states as rows, or diagonal (H, N).
    """

    toeplitz_HTT: torch.Tensor
    columns_HTE: torch.Tensor
    rows_HTE: torch.Tensor
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
    diagonal_Hn, out_Hn, in_Hn, _ = system.cast(readout_DHN.dtype)
    lag_Hn = as_complex(readout_DHN[0])
    first_Hn = lag_Hn * diagonal_Hn.conj()
    if out_Hn is not None:
        first_Hn = first_Hn - real_product(lag_Hn, out_Hn) * in_Hn
    rows_KHN = torch.stack((as_real(first_Hn), *readout_DHN[1:]))
    columns_HTN, rows_HKTN, transition = step_powers(system, chunk_length, readout_DHN.dtype, rows_KHN)
    taps_HDT = torch.bmm(readout_DHN.transpose(0, 1), columns_HTN.mT)
    lags = taps_HDT[:, 0] if skip_H is None else taps_HDT[:, 0] + F.pad(skip_H[:, None], (0, chunk_length - 1))
    columns, (rows_HTE, *leading) = columns_HTN.flip(1), rows_HKTN.unbind(1)
    if leading:
        columns = torch.cat((columns, columns_HTN), dim=-1)
        rows_HTE = torch.cat((rows_HTE, leading[0].flip(1)), dim=-1)
        leads = taps_HDT[:, 1, :-1].flip(-1)
    else:
        leads = lags.new_zeros(lags.shape[0], chunk_length - 1)
    toeplitz = torch.cat((leads, lags), dim=-1).unfold(-1, chunk_length, 1).flip(1)
    transition = transition.mT if transition.dim() == 3 else transition
    return ChunkOperators(toeplitz, columns, rows_HTE, transition)


def _chain(added_HRCE, power, first_HDRN, forward_first: bool):
    """States entering every chunk, x[c + 1] = x[c] power + added[c], in one direction or in both at once.

    Args:
        added_HRCE: what every chunk adds to the state, R independent rows of C chunks; the second direction runs
            against the first.
        power: transition over a chunk.
        first_HDRN: states before the first chunk, or None for zero.
        forward_first: whether the first direction runs forward.

    Returns:
        The states, like ``added_HRCE``, and what leaves at the end, (H, D, R, N).
    """
    channels, rows, chunks, width = added_HRCE.shape
    device_steps = added_HRCE.device.type != "cpu" or torch.compiler.is_compiling()
    if chunks <= (2 * GROUP if device_steps else LOOP):
        return _chain_loop(added_HRCE, power, first_HDRN, forward_first)
    groups = -(-chunks // GROUP)
    grouped = F.pad(added_HRCE, (0, 0, 0, groups * GROUP - chunks)).view(channels, rows * groups, GROUP, width)
    totals = _chain_loop(grouped, power, None, forward_first)[1].transpose(1, 2)
    totals = totals.reshape(channels, rows, groups, width)
    entering, last = _chain(totals, _power(power, GROUP), first_HDRN, forward_first)
    entering = entering.view(channels, rows * groups, -1, power.shape[-1]).transpose(1, 2)
    states = _chain_loop(grouped, power, entering, forward_first)[0]
    return states.view(channels, rows, groups * GROUP, width)[:, :, :chunks].contiguous(), last


def _chain_loop(added_HRCE, power, first_HDRN, forward_first):
    """The loop over chunks, in place in a buffer in which every step of it is one piece."""
    channels, rows, chunks, width = added_HRCE.shape
    state_size, states = power.shape[-1], torch.empty_like(added_HRCE)
    buffer = added_HRCE.new_empty(chunks + 1, channels, width // state_size, rows, state_size)
    buffer[0] = 0 if first_HDRN is None else first_HDRN
    places = []  # what the chunks add and where states go, in the order in which a direction meets the chunks
    for d, parts in enumerate(zip(*(x.split(state_size, dim=-1) for x in (added_HRCE, states)), strict=True)):
        places.append([part.unbind(2)[:: 1 if forward_first != d else -1] for part in parts])
        torch._foreach_copy_(buffer[1:, :, d].unbind(), places[d][0])
    groups = zip(buffer.flatten(2, 3).split(CHANNELS, dim=1), power.contiguous().split(CHANNELS), strict=True)
    for group, factor in groups:
        steps = group.unbind()
        for before, after in zip(steps[:-1], steps[1:], strict=True):
            if power.dim() == 3:
                after.baddbmm_(before, factor)
            else:
                after += _turn(before, factor)
    for d, (_, targets) in enumerate(places):
        torch._foreach_copy_(targets, buffer[:-1, :, d].unbind())
    return states, buffer[-1]


def _turn(states_HRN: torch.Tensor, power_HN: torch.Tensor) -> torch.Tensor:
    return as_real(as_complex(states_HRN) * as_complex(power_HN)[:, None])


class _ChunkedScan(torch.autograd.Function):
    """Chunks in, chunks out; the backward pass is the same scan run the other way on the transposes."""

    @staticmethod
    def forward(ctx, u_HBCT, toeplitz_HTT, columns_HTE, rows_HTE, power, first_HBN):
        u = u_HBCT.flatten(1, 2)
        added = torch.bmm(u, columns_HTE).view(*u_HBCT.shape[:3], -1)
        states, _ = _chain(added, power, None if first_HBN is None else first_HBN[:, None], True)
        y = torch.bmm(u, toeplitz_HTT).baddbmm_(states.flatten(1, 2), rows_HTE.mT)
        ctx.save_for_backward(u_HBCT, toeplitz_HTT, columns_HTE, rows_HTE, power, states)
        ctx.has_first = first_HBN is not None
        ctx.set_materialize_grads(False)
        return y.view_as(u_HBCT), states[:, :, -1, : power.shape[-1]].clone()

    @staticmethod
    @without_autocast
    def backward(ctx, grad_y_HBCT, grad_last_HBN):
        u_HBCT, toeplitz_HTT, columns_HTE, rows_HTE, power, states_HBCE = ctx.saved_tensors
        u, states = u_HBCT.flatten(1, 2), states_HBCE.flatten(1, 2)
        grad_y = torch.zeros_like(u) if grad_y_HBCT is None else grad_y_HBCT.reshape(u.shape)
        grad_states = torch.bmm(grad_y, rows_HTE).view_as(states_HBCE)
        if grad_last_HBN is not None:
            grad_states[:, :, -1, : power.shape[-1]] += grad_last_HBN
        grad_added, grad_first = _chain(grad_states, _transpose(power), None, False)
        grad_added, size = grad_added.flatten(1, 2), power.shape[-1]
        pairs = zip(states.split(size, dim=-1), grad_added.split(size, dim=-1), strict=True)
        grad_power = sum(_outer(state, grad, power) for state, grad in pairs)
        return (
            torch.bmm(grad_y, toeplitz_HTT.mT).baddbmm_(grad_added, columns_HTE.mT).view_as(u_HBCT),
            torch.bmm(u.mT, grad_y),
            torch.bmm(u.mT, grad_added),
            torch.bmm(grad_y.mT, states),
            grad_power,
            grad_first[:, 0] if ctx.has_first else None,
        )


def _outer(states_HRN, grads_HRN, power):
    """Gradient of ``power`` from states and the gradients of what it turned them into."""
    if power.dim() == 3:
        return torch.bmm(states_HRN.mT, grads_HRN)
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
        ValueError: for a state of another shape.
    """
    channels, batch, length = u_HBL.shape
    if initial_state_BHN is not None:
        check_state(initial_state_BHN, (batch, channels, readout_DHN.shape[-1]))
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
    reached = torch.bmm(u_HBL[..., length - tail :], operators.columns_HTE[:, size - tail :])
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
