# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Kernels and convolution as the original designs compute them, without a compiled extension.

Axes: B batch, L length, H channels, N state, n = N/2 conjugate pairs, D directions; complex tensors here.
"""

import torch


def fft_convolution(u_BHL: torch.Tensor, kernel_DHL: torch.Tensor) -> torch.Tensor:
    """The textbook FFT convolution with a one- or two-sided kernel, (B, H, L)."""
    length = u_BHL.shape[-1]
    kernel = torch.nn.functional.pad(kernel_DHL[0], (0, length))
    if kernel_DHL.shape[0] == 2:
        kernel = kernel + torch.nn.functional.pad(kernel_DHL[1].flip(-1), (length, 0))
    spectrum = torch.fft.rfft(u_BHL, n=2 * length) * torch.fft.rfft(kernel, n=2 * length)
    return torch.fft.irfft(spectrum, n=2 * length)[..., :length]


def cauchy_kernel(
    log_dt_H: torch.Tensor,
    w_Hn: torch.Tensor,
    b_Hn: torch.Tensor,
    p_Hn: torch.Tensor,
    c_tilde_DHn: torch.Tensor,
    length: int,
    whole_pairs: bool = True,
) -> torch.Tensor:
    """The kernel as the original design makes it: its generating function at the roots of unity, then an inverse FFT.

    The resolvent of a diagonal-plus-rank-one matrix is four Cauchy sums (Woodbury).

    Args:
        log_dt_H: logarithm of the step.
        w_Hn: eigenvalues (complex), conjugate half.
        b_Hn: input column.
        p_Hn: low-rank factor.
        c_tilde_DHn: C (I - dA^L), as the original stores it.
        length: L.
        whole_pairs: False leaves the conjugate half out of the sums, as the original does without a compiled
            extension: half the work, and another kernel.

    Returns:
        (D, H, L). Source: Gu et al., "S4", 2022, algorithm 1.
    """
    dt = log_dt_H.exp()
    angles = torch.arange(length // 2 + 1, device=dt.device, dtype=dt.dtype) * (-2 * torch.pi / length)
    omega = torch.polar(torch.ones_like(angles), angles)
    z = 2 * (1 - omega) / (1 + omega)
    left = torch.cat((c_tilde_DHn, p_Hn.conj()[None]), 0)  # (D + 1, H, n)
    right = torch.stack((b_Hn, p_Hn), 0)  # (2, H, n)
    v = left[:, None] * right[None] * dt[:, None]
    r = cauchy_sum(v, z, w_Hn * dt[:, None], whole_pairs)  # (D + 1, 2, H, L/2 + 1)
    k = r[:-1, 0] - r[:-1, 1] * r[-1, 0] / (1 + r[-1, 1])
    return torch.fft.irfft(k * 2 / (1 + omega), n=length)


def cauchy_sum(v: torch.Tensor, z: torch.Tensor, w: torch.Tensor, whole_pairs: bool = True) -> torch.Tensor:
    """sum_n v_n / (z - w_n) over whole conjugate pairs, or what is given, by broadcasting every pole and frequency.

    v (..., H, n), z (Z,), w (H, n); returns (..., H, Z).
    """
    if whole_pairs:
        v, w = torch.cat((v, v.conj()), -1), torch.cat((w, w.conj()), -1)
    return (v[..., None] / (z - w[..., None])).sum(-2)


def vandermonde_kernel(weights_DHN: torch.Tensor, log_lambda_N: torch.Tensor, length: int) -> torch.Tensor:
    """Re sum_n W_n exp(log_lambda_n t) by a complex einsum over all powers, (D, H, L)."""
    powers = torch.exp(log_lambda_N[:, None] * torch.arange(length, device=log_lambda_N.device))
    return torch.einsum("dhn,nl->dhl", weights_DHN, powers).real
