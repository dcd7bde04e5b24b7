# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Kernels of many shared modes, and convolution with a kernel as long as the sequence (DLR).

Complex numbers are carried as real pairs, so that a kernel Re(W Lambda^t) is one real matrix product,
[Re W, -Im W] [Re Lambda^t; Im Lambda^t].

Axes: B batch, L length, H channels, D directions, N complex modes, T positions of a block, Q blocks, R rows.
"""

import math

import torch
import torch.nn.functional as F

BLOCK = 128
"""Positions whose powers are computed one by one; all others are products of these with powers of Lambda^BLOCK."""


def mode_powers(decay_N: torch.Tensor, omega_N: torch.Tensor, start: int, length: int) -> torch.Tensor:
    """Lambda^t for t = start ... start + length - 1, with Lambda = exp(-decay + i omega).

    Only L/T + T exponentials are computed: Lambda^(qT + r) = Lambda^(qT) Lambda^r.

    Args:
        decay_N: -Re log Lambda per position, non-negative, float32 or float64.
        omega_N: radians per position.
        start: first exponent.
        length: number of exponents.

    Returns:
        (2N, length), the real parts above the imaginary parts.
    """
    blocks = -(-length // BLOCK)
    inner = _powers(decay_N, omega_N, torch.arange(min(BLOCK, length), device=decay_N.device))
    outer = _powers(decay_N, omega_N, torch.arange(blocks, device=decay_N.device) * BLOCK + start)
    (a, b), (c, d) = (z[:, None, :] for z in inner), (z[:, :, None] for z in outer)
    powers = torch.stack((a * c - b * d, a * d + b * c)).flatten(2)
    return powers[..., :length].reshape(-1, length)


def _powers(decay_N, omega_N, exponents):
    # float64 because omega * t reaches 10^5 radians, where float32 keeps two digits of the phase
    decay, omega, t = decay_N.double()[:, None], omega_N.double()[:, None], exponents.double()
    modulus = torch.exp(-decay * t)
    return (modulus * torch.cos(omega * t)).to(decay_N.dtype), (modulus * torch.sin(omega * t)).to(decay_N.dtype)


def mode_kernel(weights_RN2: torch.Tensor, decay_N: torch.Tensor, omega_N: torch.Tensor, length: int) -> torch.Tensor:
    """k[t] = Re(sum_n W_n Lambda_n^t) for t = 0 ... length - 1: (R, length)."""
    weights = torch.cat((weights_RN2[..., 0], -weights_RN2[..., 1]), dim=-1)
    return weights @ mode_powers(decay_N, omega_N, 0, length)


def long_convolution(u_HBL: torch.Tensor, kernel_DHL: torch.Tensor) -> torch.Tensor:
    """Convolves every channel with its own kernel, as long as the sequence, by FFT.

    y_t = sum over lags j >= 0 of k0[j] u[t - j], plus, with two directions, over leads j >= 1 of k1[j - 1] u[t + j].

    Args:
        u_HBL: input, float32 or float64.
        kernel_DHL: D = 1 (causal) or 2 (the second kernel reads leads).

    Returns:
        (H, B, L).

    Raises:
        ValueError: for length 0.
    """
    length = u_HBL.shape[-1]
    if length == 0:
        raise ValueError("The convolution was given a sequence of length 0: pass at least one position.")
    size = good_fft_size(2 * length)
    kernel = F.pad(kernel_DHL[0], (0, size - length))
    if kernel_DHL.shape[0] == 2:
        # lead j sits at index -j of the circle
        kernel = kernel + F.pad(kernel_DHL[1].flip(-1), (size - length, 0))
    spectrum = torch.fft.rfft(u_HBL, n=size) * torch.fft.rfft(kernel)[:, None]
    return torch.fft.irfft(spectrum, n=size)[..., :length]


def good_fft_size(minimum: int) -> int:
    """The smallest 2^a, 3 2^a or 5 2^a (even) that is at least ``minimum``."""
    sizes = (odd << max(1, math.ceil(math.log2(minimum / odd))) for odd in (1, 3, 5))
    return min(size for size in sizes if size >= minimum)


def final_mode_state(u_HBL: torch.Tensor, decay_N: torch.Tensor, omega_N: torch.Tensor) -> torch.Tensor:
    """State after the sequence from zero, sum_s Lambda^(L - 1 - s) u_s: (B, H, N), complex."""
    channels, batch, length = u_HBL.shape
    powers = mode_powers(decay_N, omega_N, 0, length)
    state = (u_HBL.flip(-1).reshape(-1, length) @ powers.T).view(channels, batch, -1).transpose(0, 1)
    return torch.complex(*state.chunk(2, dim=-1))


def mode_step(
    state_BHN: torch.Tensor, decay_N: torch.Tensor, omega_N: torch.Tensor, u_BH: torch.Tensor
) -> torch.Tensor:
    """One position: x <- Lambda x + u for every channel and mode, (B, H, N) complex."""
    real, imag = _powers(decay_N, omega_N, decay_N.new_ones(1))
    return state_BHN * torch.complex(real[:, 0], imag[:, 0]) + u_BH[..., None]


def read_modes(state_BHN: torch.Tensor, weight_HN2: torch.Tensor) -> torch.Tensor:
    """Re(sum_n W_n x_n): (B, H)."""
    return (state_BHN.real * weight_HN2[..., 0] - state_BHN.imag * weight_HN2[..., 1]).sum(-1)


def propagate_modes(state_BHN: torch.Tensor, weight_HN2: torch.Tensor, powers: torch.Tensor) -> torch.Tensor:
    """What a state alone adds to the outputs after it, Re(sum_n W_n x_n Lambda_n^t) for the ``powers`` (2N, L) given.

    Returns (H, B, L).
    """
    product = state_BHN * torch.view_as_complex(weight_HN2)
    return (torch.cat((product.real, -product.imag), dim=-1) @ powers).transpose(0, 1)
