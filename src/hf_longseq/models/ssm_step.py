# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""One step of a state-space model: discretisation, the recurrence itself, and checks of what it is given.

A channel's state is the real vector [Re x; Im x] over n conjugate pairs (N = 2n numbers). There a complex diagonal
acts as a rotation and the low-rank term as a real rank-1 matrix, so one step of the discretised system is

    x <- (rotate(d) - a b^T) x + drive u        y = readout x

Axes: B batch, H channels, N state, n = N/2 pairs, D directions; a last axis of 2 is (real, imaginary).
"""

from typing import NamedTuple

import torch


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


def complex_mul(x: tuple, y: tuple) -> tuple[torch.Tensor, torch.Tensor]:
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
        The step's matrices, in the dtype of the arguments. With float64 arguments, which cost nothing at this size,
        a float32 scan stays within 1e-6 of an exact one at any length; with float32 ones a rounded pole is off by
        as much per position as it is rounded. Source: Gu et al., "S4", 2022, section 3.
    """
    half_dt = 0.5 * log_dt_H.exp()[:, None]
    real, imag = half_dt * w_Hn2[..., 0], half_dt * w_Hn2[..., 1]
    norm = (1 - real).square() + imag.square()
    inverse = (1 - real) / norm, imag / norm  # 1 / (1 - dt/2 w)
    # (1 + z) / (1 - z), written so that the modulus keeps its digits when dt is tiny
    diagonal = (1 - real.square() - imag.square()) / norm, 2 * imag / norm
    drive = torch.cat(complex_mul(inverse, b_Hn2.unbind(-1)), dim=-1)
    if p_Hn2 is None:
        return DiscreteSystem(torch.stack(diagonal, -1), None, None, 2 * half_dt * drive)
    p_real, p_imag = p_Hn2.unbind(-1)
    column = torch.cat(complex_mul(inverse, (p_real, p_imag)), dim=-1)
    row = torch.cat(complex_mul((inverse[0], -inverse[1]), (p_real, p_imag)), dim=-1)
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
    return torch.cat(complex_mul((real, imag), diagonal_n2.unbind(-1)), dim=-1)


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
    system = DiscreteSystem(*(None if part is None else part.to(u_BH.dtype) for part in system))
    state = rotate(state_BHN, system.diagonal_Hn2) + system.drive_HN * u_BH[..., None]
    if system.low_rank_out_HN is not None:
        fed_back = (state_BHN * system.low_rank_in_HN).sum(-1, keepdim=True)
        state = state - system.low_rank_out_HN * fed_back
    return (state * readout_HN).sum(-1), state


def check_state(state: torch.Tensor, shape: tuple[int, ...], is_complex: bool = False) -> None:
    """Raises ValueError unless ``state`` has ``shape``, (batch, channels, state_size), and is of the right kind."""
    if tuple(state.shape) == tuple(shape) and state.is_complex() == is_complex:
        return
    found, needed = ("complex" if flag else "real" for flag in (state.is_complex(), is_complex))
    raise ValueError(
        f"The recurrent state is {found} of shape {tuple(state.shape)} but this layer and batch need {needed} "
        f"{tuple(shape)}: pass a cache made by this model for this batch size."
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
