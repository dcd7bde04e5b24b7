# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""One step of a state-space model: discretisation, the recurrence itself, and checks of what it is given.

A channel's state is the real vector [Re x; Im x] over n conjugate pairs (N = 2n numbers). There a complex diagonal
acts as a rotation and the low-rank term as a real rank-1 matrix, so one step of the discretised system is

    x <- d x - a Re<b, x> + drive u        y = readout [Re x_1, Im x_1, Re x_2, ...]

Axes: B batch, H channels, N state, n = N/2 pairs, D directions; a last axis of 2 is (real, imaginary).
"""

from typing import NamedTuple

import torch


class DiscreteSystem(NamedTuple):
    """One step of a state-space model per channel, x <- d x - a Re<b, x> + drive u; all parts complex.

    Attributes:
        diagonal_Hn: d.
        low_rank_out_Hn: a, or None for a diagonal system.
        low_rank_in_Hn: b, or None for a diagonal system.
        drive_Hn: the input's column.
    """

    diagonal_Hn: torch.Tensor
    low_rank_out_Hn: torch.Tensor | None
    low_rank_in_Hn: torch.Tensor | None
    drive_Hn: torch.Tensor

    def cast(self, dtype: torch.dtype) -> "DiscreteSystem":
        """The same with real and imaginary parts of ``dtype``."""
        kind = torch.promote_types(dtype, torch.complex64)
        return DiscreteSystem(*(None if part is None else part.to(kind) for part in self))


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
        The step's parts, as precise as the arguments. With float64 arguments, which cost nothing at this size,
        a float32 scan stays within 1e-6 of an exact one at any length; with float32 ones a rounded pole is off by
        as much per position as it is rounded. Source: Gu et al., "S4", 2022, section 3.
    """
    dt, b = log_dt_H.exp()[:, None], torch.view_as_complex(b_Hn2)
    z = (0.5 * dt) * torch.view_as_complex(w_Hn2)
    inverse = (1 - z).reciprocal()
    # (1 + z) / (1 - z), written so that the modulus keeps its digits when dt is tiny
    diagonal, drive = 1 + 2 * z * inverse, inverse * b
    if p_Hn2 is None:
        return DiscreteSystem(diagonal, None, None, dt * drive)
    p = torch.view_as_complex(p_Hn2)
    column, row = inverse * p, inverse.conj() * p
    feedback = (p_Hn2.square().sum(-1) * inverse.real).sum(-1, keepdim=True)
    column = column * (dt / (1 + dt * feedback))
    drive = dt * (drive - column * real_product(row, b))
    return DiscreteSystem(diagonal, 2 * column, row, drive)


def real_product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Re<x, y> over the last axis of complex tensors, which is kept."""
    return (torch.view_as_real(x) * torch.view_as_real(y)).sum((-2, -1))[..., None]


def real_readout(c_DHn2: torch.Tensor) -> torch.Tensor:
    """The row (D, H, N) that reads 2 Re(C x) from a state whose real and imaginary parts alternate."""
    return (c_DHn2 * c_DHn2.new_tensor([2.0, -2.0])).flatten(-2)


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
    system, state = system.cast(u_BH.dtype), torch.complex(*state_BHN.chunk(2, dim=-1))
    moved = system.diagonal_Hn * state + system.drive_Hn * u_BH[..., None]
    if system.low_rank_out_Hn is not None:
        moved = moved - system.low_rank_out_Hn * real_product(system.low_rank_in_Hn, state)
    y_BH = (torch.view_as_real(moved).flatten(-2) * readout_HN).sum(-1)
    return y_BH, torch.cat((moved.real, moved.imag), dim=-1)


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
