# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The state-space engine: discretise, chunked scan and single step, all in real arithmetic and matrix products.

A channel's state is the real vector [Re x; Im x] over n conjugate pairs (N = 2n numbers). There a complex diagonal
acts as a rotation and the low-rank term as a real rank-1 matrix, so one step of the discretised system is

    x <- (rotate(d) - a b^T) x + drive u        y = readout x

The scan cuts the length into chunks of T positions. Inside a chunk the kernel is one T x T Toeplitz matrix (both
directions in the same matrix); a chunk is summarised by N numbers; the summaries are chained by the T-step
transition; the states are read out again by one product. Cost and memory are linear in the length, and the chain is
grouped so that no Python loop grows with it.

Axes: B batch, L length, H channels, N state, n = N/2 pairs, C chunks, T positions of a chunk, D directions (1 or 2),
E = D N, R rows. Matrices multiply row vectors from the right: y = x @ matrix.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F

CHUNK_LENGTH = 64
"""Positions of a chunk. 64 and 128 need about the same work when N is 64; shorter chunks lose to the chain."""

GROUP = 16
"""Chunks chained one after the other before a second level takes over."""


class DiscreteSystem(NamedTuple):
    """One step of a state-space model per channel, x <- (rotate(d) - a b^T) x + drive u.

    Attributes:
        diagonal_Hn2: d as (real, imaginary).
        low_rank_out_HN: a, or None for a diagonal system.
        low_rank_in_HN: b, or None for a diagonal system.
        drive_HN: the input's column.
    """

    diagonal_Hn2: torch.Tensor
    low_rank_out_HN: torch.Tensor | None
    low_rank_in_HN: torch.Tensor | None
    drive_HN: torch.Tensor


def _complex_mul(x: tuple, y: tuple) -> tuple[torch.Tensor, torch.Tensor]:
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def discretise(
    log_dt_H: torch.Tensor, w_Hn2: torch.Tensor, b_Hn2: torch.Tensor, p_Hn2: torch.Tensor | None = None
) -> DiscreteSystem:
    """Bilinear discretisation of A = diag(w) - P P*, B with a step per channel.

    (I - dt/2 A) is diagonal plus rank one, so its inverse is written down (Sherman-Morrison) and nothing is solved.

    Args:
        log_dt_H: logarithm of the step.
        w_Hn2: eigenvalues, real part negative.
        b_Hn2: input column.
        p_Hn2: low-rank factor, or None for a diagonal model.

    Returns:
        The step's matrices, in the dtype of the arguments. Source: Gu et al., "S4", 2022, section 3.
    """
    half_dt = 0.5 * log_dt_H.exp()[:, None]
    real, imag = half_dt * w_Hn2[..., 0], half_dt * w_Hn2[..., 1]
    norm = (1 - real).square() + imag.square()
    inverse = (1 - real) / norm, imag / norm  # 1 / (1 - dt/2 w)
    # (1 + z) / (1 - z), written so that the modulus keeps its digits when dt is tiny
    diagonal = (1 - real.square() - imag.square()) / norm, 2 * imag / norm
    drive = torch.cat(_complex_mul(inverse, b_Hn2.unbind(-1)), dim=-1)
    if p_Hn2 is None:
        return DiscreteSystem(torch.stack(diagonal, -1), None, None, 2 * half_dt * drive)
    p_real, p_imag = p_Hn2.unbind(-1)
    column = torch.cat(_complex_mul(inverse, (p_real, p_imag)), dim=-1)
    row = torch.cat(_complex_mul((inverse[0], -inverse[1]), (p_real, p_imag)), dim=-1)
    feedback = ((p_real.square() + p_imag.square()) * inverse[0]).sum(-1, keepdim=True)
    column = column * (2 * half_dt / (1 + 2 * half_dt * feedback))
    b_N = torch.cat(b_Hn2.unbind(-1), dim=-1)
    drive = 2 * half_dt * (drive - column * (row * b_N).sum(-1, keepdim=True))
    return DiscreteSystem(torch.stack(diagonal, -1), 2 * column, row, drive)


def real_readout(c_DHn2: torch.Tensor) -> torch.Tensor:
    """The row (D, H, N) that reads 2 Re(C x) from the real state."""
    return 2 * torch.cat((c_DHn2[..., 0], -c_DHn2[..., 1]), dim=-1)


def rotate(state: torch.Tensor, diagonal_n2: torch.Tensor) -> torch.Tensor:
    """Multiplies the complex numbers packed in the last axis (N) by ``diagonal_n2`` (..., n, 2)."""
    real, imag = state.chunk(2, dim=-1)
    return torch.cat(_complex_mul((real, imag), diagonal_n2.unbind(-1)), dim=-1)


def step(
    system: DiscreteSystem, readout_HN: torch.Tensor, state_BHN: torch.Tensor, u_BH: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """One position of the recurrence: O(N) per channel, whatever came before.

    Args:
        system: discretised model.
        readout_HN: row of :func:`real_readout` of the causal direction.
        state_BHN: state before the position.
        u_BH: the position's input.

    Returns:
        Output (B, H) and the new state (B, H, N).

    Raises:
        ValueError: if the state has another shape.
    """
    check_state(state_BHN, (u_BH.shape[0], *readout_HN.shape))
    state = rotate(state_BHN, system.diagonal_Hn2) + system.drive_HN * u_BH[..., None]
    if system.low_rank_out_HN is not None:
        fed_back = (state_BHN * system.low_rank_in_HN).sum(-1, keepdim=True)
        state = state - system.low_rank_out_HN * fed_back
    return (state * readout_HN).sum(-1), state


def check_state(state: torch.Tensor, shape: tuple[int, ...]) -> None:
    """Raises ValueError unless ``state`` has ``shape``: (batch, channels, state_size)."""
    if tuple(state.shape) != tuple(shape):
        raise ValueError(
            f"The recurrent state has shape {tuple(state.shape)} but this layer and batch need {tuple(shape)}: "
            "pass a cache made by this model for this batch size."
        )


def check_finite(owner: object, parameters: tuple[torch.Tensor | None, ...]) -> None:
    """Raises ValueError when a parameter holds NaN or infinity. Looks only where that is free: eager, on the CPU."""
    known = [parameter for parameter in parameters if parameter is not None]
    if known[0].device.type != "cpu" or torch.compiler.is_compiling() or torch.jit.is_tracing():
        return
    total = sum(parameter.detach().sum() for parameter in known)
    if not torch.isfinite(total):
        raise ValueError(
            f"A state-space parameter of {type(owner).__name__} is NaN or infinite: load a sound checkpoint, or lower "
            "the learning rate of the state-space parameters."
        )


def dense_transition(system: DiscreteSystem) -> torch.Tensor:
    """The one-step matrix that acts on row vectors, (H, N, N): x_next = x @ matrix."""
    real, imag = system.diagonal_Hn2.unbind(-1)
    top = torch.cat((torch.diag_embed(real), torch.diag_embed(imag)), dim=-1)
    bottom = torch.cat((torch.diag_embed(-imag), torch.diag_embed(real)), dim=-1)
    matrix = torch.cat((top, bottom), dim=-2)
    return matrix - system.low_rank_in_HN[:, :, None] * system.low_rank_out_HN[:, None, :]


class ChunkOperators(NamedTuple):
    """What the scan multiplies with; see :func:`chunk_operators`.

    Attributes:
        toeplitz_HTT: input to output inside a chunk, both directions and the skip.
        summary_HTE: input to the chunk's contribution to the state (forward half, backward half).
        readout_HET: state entering the chunk (forward half, backward half) to output.
        powers: one-step transition to the powers 1, 2, 4, ..., T: dense (H, N, N) or diagonal (H, 1, n, 2).
    """

    toeplitz_HTT: torch.Tensor
    summary_HTE: torch.Tensor
    readout_HET: torch.Tensor
    powers: tuple[torch.Tensor, ...]


def _apply(rows_HRN: torch.Tensor, power: torch.Tensor) -> torch.Tensor:
    """Advances state rows (H, R, N) by a dense (H, N, N) or diagonal (H, 1, n, 2) power."""
    return rotate(rows_HRN, power) if power.dim() == 4 else torch.bmm(rows_HRN, power)


def _transpose(power: torch.Tensor) -> torch.Tensor:
    if power.dim() == 4:
        return torch.stack((power[..., 0], -power[..., 1]), dim=-1)
    return power.transpose(1, 2)


def _square(power: torch.Tensor) -> torch.Tensor:
    if power.dim() == 4:
        return torch.stack(_complex_mul(power.unbind(-1), power.unbind(-1)), dim=-1)
    return torch.bmm(power, power)


def chunk_operators(
    system: DiscreteSystem, readout_DHN: torch.Tensor, chunk_length: int, skip_H: torch.Tensor | None = None
) -> ChunkOperators:
    """Builds the chunk's matrices by doubling: log2 T products make all T powers that are needed.

    Args:
        system: discretised model.
        readout_DHN: rows of :func:`real_readout`, D = 1 (causal) or 2 (the second reads leads).
        chunk_length: T, a power of two.
        skip_H: D of the model, added to the Toeplitz diagonal, so that the skip costs nothing.

    Returns:
        The operators of :func:`chunked_scan`.
    """
    directions, channels, state_size = readout_DHN.shape
    power = system.diagonal_Hn2[:, None] if system.low_rank_out_HN is None else dense_transition(system)
    columns_HTN, rows_HRN = system.drive_HN[:, None], readout_DHN.transpose(0, 1)
    powers, length = [power], 1
    while length < chunk_length:
        columns_HTN = torch.cat((columns_HTN, _apply(columns_HTN, power)), dim=1)
        rows_HRN = torch.cat((rows_HRN, _apply(rows_HRN, _transpose(power))), dim=1)
        power = _square(power)
        powers.append(power)
        length *= 2
    # rows are ordered (time, direction): unfold them to (H, D, T, N)
    rows_HDTN = rows_HRN.view(channels, chunk_length, directions, state_size).transpose(1, 2)
    taps_HDT = torch.matmul(rows_HDTN, system.drive_HN[:, None, :, None]).squeeze(-1)
    summary, readout = [columns_HTN.flip(1)], [_apply(rows_HDTN[:, 0], _transpose(powers[0])).transpose(1, 2)]
    diagonals = taps_HDT[:, 0] if skip_H is None else taps_HDT[:, 0] + F.pad(skip_H[:, None], (0, chunk_length - 1))
    leads = taps_HDT[:, 1, :-1].flip(-1) if directions == 2 else diagonals.new_zeros(channels, chunk_length - 1)
    diagonals = torch.cat((leads, diagonals), dim=-1)
    if directions == 2:
        summary.append(columns_HTN)
        readout.append(rows_HDTN[:, 1].flip(1).transpose(1, 2))
    toeplitz = diagonals.unfold(-1, chunk_length, 1).flip(1)
    return ChunkOperators(toeplitz, torch.cat(summary, -1), torch.cat(readout, 1), tuple(powers))


def _chain(summary_HBCE, power, first_HBE, forward_first, state_size):
    """States entering every chunk, x[c + 1] = x[c] power + summary[c], for one or two directions at once.

    The halves of E (one half when E = N) run against each other; ``forward_first``: whether the first runs forward.
    Returns the states (H, B, C, E) and what leaves at the end (H, B, E).
    """
    if summary_HBCE.shape[2] <= 2 * GROUP:
        states = torch.empty_like(summary_HBCE)
        return states, _chain_loop(summary_HBCE, power, first_HBE, forward_first, state_size, states)
    channels, batch, chunks, width = summary_HBCE.shape
    groups = -(-chunks // GROUP)
    padding = groups * GROUP - chunks
    grouped = F.pad(summary_HBCE, (0, 0, 0, padding)) if padding else summary_HBCE
    grouped = grouped.reshape(channels, batch * groups, GROUP, width)
    totals = _chain_loop(grouped, power, None, forward_first, state_size)
    group_power = power
    for _ in range(GROUP.bit_length() - 1):
        group_power = _square(group_power)
    totals = totals.view(channels, batch, groups, width)
    entering, last = _chain(totals, group_power, first_HBE, forward_first, state_size)
    states = torch.empty_like(grouped)
    entering = entering.reshape(channels, batch * groups, width)
    _chain_loop(grouped, power, entering, forward_first, state_size, states)
    return states.view(channels, batch, groups * GROUP, width)[:, :, :chunks], last


def _chain_loop(summary_HBCE, power, first_HBE, forward_first, state_size, states_HBCE=None):
    """The loop over chunks. Writes the entering states when given a place; returns what leaves, (H, B, E)."""
    channels, batch, chunks, width = summary_HBCE.shape
    halves = [(slice(0, state_size), forward_first)]
    if width > state_size:
        halves.append((slice(state_size, width), not forward_first))
    if first_HBE is None:
        carry = summary_HBCE.new_zeros(channels, batch * len(halves), state_size)
    else:
        carry = torch.cat([first_HBE[..., half] for half, _ in halves], dim=1)
    for index in range(chunks):
        places = [(half, index if forward else chunks - 1 - index) for half, forward in halves]
        if states_HBCE is not None:
            for part, (half, place) in zip(carry.split(batch, dim=1), places, strict=True):
                states_HBCE[:, :, place, half] = part
        added = torch.cat([summary_HBCE[:, :, place, half] for half, place in places], dim=1)
        carry = torch.baddbmm(added, carry, power) if power.dim() == 3 else added + rotate(carry, power)
    return torch.cat(carry.split(batch, dim=1), dim=-1)


class _ChunkedScan(torch.autograd.Function):
    """Chunks in, chunks out, with the backward pass written as the same scan run the other way on the transposes.

    The states are not kept: the backward pass makes them again from the input, which costs less than their memory.
    """

    @staticmethod
    def forward(ctx, u_HBCT, toeplitz_HTT, summary_HTE, readout_HET, power, first_HBN):
        ctx.save_for_backward(u_HBCT, toeplitz_HTT, summary_HTE, readout_HET, power, first_HBN)
        channels, batch, chunks, length = u_HBCT.shape
        u = u_HBCT.view(channels, batch * chunks, length)
        states = _entering_states(u_HBCT, summary_HTE, power, first_HBN)
        y = torch.bmm(u, toeplitz_HTT)
        y = y.baddbmm_(states.reshape(channels, batch * chunks, -1), readout_HET)
        return y.view_as(u_HBCT), states[:, :, -1, : _state_size(power)].contiguous()

    @staticmethod
    def backward(ctx, grad_y_HBCT, grad_last_HBN):
        u_HBCT, toeplitz_HTT, summary_HTE, readout_HET, power, first_HBN = ctx.saved_tensors
        channels, batch, chunks, length = u_HBCT.shape
        state_size, width = _state_size(power), readout_HET.shape[1]
        u = u_HBCT.view(channels, batch * chunks, length)
        grad_y = grad_y_HBCT.reshape(channels, batch * chunks, length)
        states = _entering_states(u_HBCT, summary_HTE, power, first_HBN).reshape(channels, batch * chunks, width)
        grad_readout = torch.bmm(states.transpose(1, 2), grad_y)
        grad_states = torch.bmm(grad_y, readout_HET.transpose(1, 2)).view(channels, batch, chunks, width)
        if grad_last_HBN is not None:
            grad_states[:, :, -1, :state_size] += grad_last_HBN
        grad_summary, grad_first = _chain(grad_states, _transpose(power), None, False, state_size)
        grad_summary = grad_summary.reshape(channels, batch * chunks, width)
        grad_power = _outer(states[..., :state_size], grad_summary[..., :state_size], power)
        if width > state_size:
            grad_power = grad_power + _outer(states[..., state_size:], grad_summary[..., state_size:], power)
        grad_u = torch.bmm(grad_y, toeplitz_HTT.transpose(1, 2)).baddbmm_(grad_summary, summary_HTE.transpose(1, 2))
        return (
            grad_u.view_as(u_HBCT),
            torch.bmm(u.transpose(1, 2), grad_y),
            torch.bmm(u.transpose(1, 2), grad_summary),
            grad_readout,
            grad_power,
            None if first_HBN is None else grad_first[..., :state_size],
        )


def _state_size(power: torch.Tensor) -> int:
    return power.shape[1] if power.dim() == 3 else 2 * power.shape[2]


def _entering_states(u_HBCT, summary_HTE, power, first_HBN):
    channels, batch, chunks, length = u_HBCT.shape
    summaries = torch.bmm(u_HBCT.view(channels, batch * chunks, length), summary_HTE)
    return _chain(summaries.view(channels, batch, chunks, -1), power, first_HBN, True, _state_size(power))[0]


def _outer(states_HRN, grads_HRN, power):
    """Gradient of ``power`` from states and the gradients of what it turned them into."""
    if power.dim() == 3:
        return torch.bmm(states_HRN.transpose(1, 2), grads_HRN)
    (x_real, x_imag), (g_real, g_imag) = states_HRN.chunk(2, dim=-1), grads_HRN.chunk(2, dim=-1)
    real = (x_real * g_real + x_imag * g_imag).sum(1, keepdim=True)
    imag = (x_real * g_imag - x_imag * g_real).sum(1, keepdim=True)
    return torch.stack((real, imag), dim=-1)


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
        system: from :func:`discretise`.
        readout_DHN: from :func:`real_readout`; D = 2 is bidirectional.
        skip_H: added as skip * u.
        initial_state_BHN: state before the first position (causal only).
        return_state: also return the state after the last position (causal only).
        chunk_length: T, a power of two; chosen from the sizes when None.

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
    size = chunk_length or choose_chunk_length(length)
    operators = chunk_operators(system, readout_DHN, size, skip_H)
    chunks = -(-length // size)
    tail = length - (chunks - 1) * size
    u_HBCT = (F.pad(u_HBL, (0, size - tail)) if tail < size else u_HBL).reshape(channels, batch, chunks, size)
    first = None if initial_state_BHN is None else initial_state_BHN.transpose(0, 1)
    y, last = _ChunkedScan.apply(
        u_HBCT, operators.toeplitz_HTT, operators.summary_HTE, operators.readout_HET, operators.powers[-1], first
    )
    y = y.reshape(channels, batch, chunks * size)[..., :length]
    if not return_state:
        return y, None
    # the last chunk may be short: advance the state that entered it by the positions it really has
    for bit, power in enumerate(operators.powers):
        if tail >> bit & 1:
            last = _apply(last, power)
    added = torch.bmm(u_HBL[..., length - tail :], operators.summary_HTE[:, size - tail :, :state_size])
    return y, (last + added).transpose(0, 1)


def choose_chunk_length(length: int) -> int:
    """T for a sequence: the power of two that covers it, at most :data:`CHUNK_LENGTH`."""
    return min(CHUNK_LENGTH, 1 << (length - 1).bit_length())


def kernel(system: DiscreteSystem, readout_DHN: torch.Tensor, length: int) -> torch.Tensor:
    """The convolution kernel (D, H, L), k[t] = readout M^t drive: an impulse sent through the scan."""
    directions, channels, _ = readout_DHN.shape
    impulse = F.pad(readout_DHN.new_ones(channels, 1, 1), (0, length - 1))
    taps = [chunked_scan(impulse, system, readout_DHN[d : d + 1])[0] for d in range(directions)]
    return torch.cat(taps, dim=1).transpose(0, 1)
