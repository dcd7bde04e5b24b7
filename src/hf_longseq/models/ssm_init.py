# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Initial values of the state-space mixers, as pure functions that always compute on the CPU.

Models are built on the meta device and in whatever default dtype the caller asked for, so nothing here relies on
either: matrices are made in float64 on the CPU and handed out as float32 real pairs.

Axes: N state size, n = N/2 conjugate pairs (one of each pair is kept), K DLR modes; a last axis of 2 is (real,
imaginary).
"""

import math

import torch
from torch import nn


def ssm_parameter(*shape: int) -> nn.Parameter:
    """A parameter to be drawn, float32 whatever the model's dtype."""
    return nn.Parameter(torch.empty(*shape, dtype=torch.float32))


def hippo_legs(state_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """HiPPO-LegS, the state matrix that projects a history on scaled Legendre polynomials.

    Args:
        state_size: N.

    Returns:
        A (N, N) and B (N,), float64 on the CPU. Source: Gu et al., "HiPPO", 2020, theorem 2 (time-invariant form).
    """
    degrees = torch.arange(state_size, dtype=torch.float64, device="cpu")
    root = torch.sqrt(2 * degrees + 1)
    a_NN = -torch.tril(root[:, None] * root[None, :], diagonal=-1) - torch.diag(degrees + 1)
    return a_NN, root


def legs_normal_part(state_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Eigenvalues (N,) and eigenvectors (N, N, in columns) of HiPPO-LegS + P P^T, by rising imaginary part.

    Adding P P^T with P_k = sqrt(k + 1/2) leaves -1/2 I plus a skew-symmetric matrix, which a unitary V diagonalises.
    Eigenvectors are only defined up to a phase; it is fixed here so that P is real and positive in their basis.

    Returns:
        complex128 on the CPU. Source: Gu et al., "S4", 2022, C.1; Smith et al., "S5", 2023, section 4.2.
    """
    a_NN, b_N = hippo_legs(state_size)
    p_N = b_N / math.sqrt(2)
    skew_NN = a_NN + torch.outer(p_N, p_N)
    skew_NN = (skew_NN - skew_NN.T) / 2
    imag_N, v_NN = torch.linalg.eigh(torch.complex(torch.zeros_like(skew_NN), -skew_NN))
    projected_N = v_NN.conj().T @ p_N.to(v_NN.dtype)
    return torch.complex(torch.full_like(imag_N, -0.5), imag_N), v_NN * (projected_N / projected_N.abs())


def hippo_legs_dplr(state_size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """HiPPO-LegS as A = V (diag(w) - P P*) V*, the conjugate half with Im w > 0.

    Args:
        state_size: N, even.

    Returns:
        w (n,), P (n,), B (n,), complex128 on the CPU, in rising order of Im w. Source: Gu et al., "S4", 2022, C.1.
    """
    w_N, v_NN = legs_normal_part(state_size)
    half = slice(state_size // 2, None)
    b_n = v_NN[:, half].conj().T @ hippo_legs(state_size)[1].to(v_NN.dtype)
    return w_N[half], b_n / math.sqrt(2), b_n


def diagonal_poles(state_size: int, kind: str) -> torch.Tensor:
    """Poles of a diagonal state-space model.

    Args:
        state_size: N, even.
        kind: "inv", "lin" or "legs".

    Returns:
        w (n,), complex128 on the CPU. Source: Gu et al., "S4D", 2022, section 4.

    Raises:
        ValueError: if ``kind`` is unknown.
    """
    index_n = torch.arange(state_size // 2, dtype=torch.float64, device="cpu")
    if kind == "inv":
        frequency_n = state_size / math.pi * (state_size / (2 * index_n + 1) - 1)
    elif kind == "lin":
        frequency_n = math.pi * index_n
    elif kind == "legs":
        return hippo_legs_dplr(state_size)[0]
    else:
        raise ValueError(f"diagonal_init is {kind!r}, but the diagonal initialisations are 'inv', 'lin' and 'legs'.")
    return torch.complex(torch.full_like(frequency_n, -0.5), frequency_n)


def log_uniform(count: int, low: float, high: float) -> torch.Tensor:
    """Logarithms of ``count`` numbers drawn log-uniformly between ``low`` and ``high``: (count,), float32, CPU."""
    unit = torch.rand(count, dtype=torch.float32, device="cpu")
    return unit * (math.log(high) - math.log(low)) + math.log(low)


def complex_normal(*shape: int, variance: float = 1.0) -> torch.Tensor:
    """Circular complex normal numbers with E|z|^2 = ``variance``, as pairs: (*shape, 2), float32, CPU."""
    return torch.randn(*shape, 2, dtype=torch.float32, device="cpu") * math.sqrt(variance / 2)


def normal_directions(parameter: torch.Tensor, rows: int, std: float = 1.0) -> torch.Tensor:
    """Normal numbers like ``parameter``, which has ``rows`` per direction. They are drawn for two directions always.

    A causal mixer keeps the first and drops the second, so that it starts as the forward direction of a bidirectional
    one does at the same seed, and so does all that is drawn after it.
    """
    drawn = torch.empty(2 * rows, *parameter.shape[1:], dtype=parameter.dtype, device=parameter.device)
    return drawn.normal_(std=std)[: len(parameter)]


def dlr_modes(state_size: int, dt_min: float, dt_max: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Modes of the diagonal linear recurrence, with Lambda = -a^2 + i omega.

    Args:
        state_size: K, the number of modes shared by all channels.
        dt_min: smallest step; the decay a^2 per position is half a step drawn log-uniformly.
        dt_max: largest step.

    Returns:
        a (K,) and omega (K,) in radians per position, evenly on the circle; float32 on the CPU.
        Source: Gupta et al., "Simplifying and Understanding State Space Models with Diagonal Linear RNNs", 2022.
    """
    decay_root_K = torch.exp(0.5 * (log_uniform(state_size, dt_min, dt_max) + math.log(0.5)))
    index_K = torch.arange(state_size, dtype=torch.float64, device="cpu")
    return decay_root_K, (2 * math.pi / state_size * index_K).to(torch.float32)


def as_pairs(z: torch.Tensor) -> torch.Tensor:
    """A complex tensor as float32 pairs on a new last axis."""
    return torch.view_as_real(z.to(torch.complex128)).to(torch.float32)
