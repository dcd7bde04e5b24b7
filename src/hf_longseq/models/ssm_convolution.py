# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Kernels of many shared modes, and convolution with a kernel as long as the sequence (DLR).

Complex numbers stand side by side as real pairs, so that a kernel Re(W Lambda^t) is one real matrix product of W with
conj(Lambda)^t.

Axes: B batch, L length, H channels, D directions, N complex modes, T positions of a block, Q blocks, R rows.
"""

import torch
import torch.nn.functional as F
from torch import nn
from transformers.cache_utils import Cache
from transformers.utils.generic import maybe_autocast

from .ssm_powers import FLOOR, as_complex, as_real, good_fft_size, power_table
from .ssm_precision import widened, without_autocast

SLAB = 1024
"""Positions of a kernel that are made in one product; bounds the memory of the powers."""

MATRIX_POSITIONS = 64
"""Positions up to which batches are multiplied with Toeplitz matrices of taps: half the time of transforms there."""

GROUP_NUMBERS = 1 << 18
"""Numbers of a group of channels transformed together on a CPU: 1 MiB, and as much again for its spectrum."""

KEPT_NUMBERS = 1 << 22
"""Numbers of an input up to which its spectrum is kept for the backward pass: 16 MiB, and as much again."""

DEVICE_GROUP_NUMBERS = 1 << 26
"""The same where memory alone limits it."""


def mode_powers(decay_N: torch.Tensor, omega_N: torch.Tensor, start: int, length: int) -> torch.Tensor:
    """conj(Lambda)^t for t = start ... start + length - 1, with Lambda = exp(-decay + i omega).

    Args:
        decay_N: -Re log Lambda per position, non-negative, float32 or float64.
        omega_N: radians per position.
        start: first exponent.
        length: number of exponents.

    Returns:
        (length, 2N), real and imaginary parts side by side.
    """
    step_N = torch.polar(torch.exp(-decay_N.double()), -omega_N.double())
    table_1TN, _ = power_table(step_N[None], length, decay_N.dtype)
    # modes that have died out count as 0: denormal numbers would slow every product down
    return F.hardshrink(as_real(_turn(table_1TN[0], decay_N, -omega_N, start)), FLOOR)


def _turn(x_RN: torch.Tensor, decay_N: torch.Tensor, omega_N: torch.Tensor, exponent: int) -> torch.Tensor:
    """Complex rows times Lambda^exponent."""
    if exponent == 0:
        return x_RN
    # float64 because omega * t reaches 10^5 radians, where float32 keeps two digits of the phase
    modulus = F.hardshrink(torch.exp(-decay_N.double() * exponent), FLOOR)
    return x_RN * torch.polar(modulus, omega_N.double() * exponent).to(x_RN.dtype)


class _ModeKernel(torch.autograd.Function):
    """Kernel in slabs of positions. Powers of one slab serve all: the weights are turned on to the next slab instead.

    Nothing as large as modes x length is ever held. The gradient with respect to the weights is sum_t g_t Lambda^t,
    that with respect to log Lambda needs sum_t t g_t Lambda^t: both come from one product.
    """

    @staticmethod
    def forward(ctx, weights_RN2, decay_N, omega_N, length):
        powers, weights = mode_powers(decay_N, omega_N, 0, min(SLAB, length)), torch.view_as_complex(weights_RN2)
        # many slabs repay the powers of a second pass, one does not
        ctx.save_for_backward(weights_RN2, decay_N, omega_N, powers if length <= SLAB else None)
        ctx.length = length
        kernel = weights_RN2.new_empty(weights_RN2.shape[0], length)
        for start in range(0, length, SLAB):
            slab = kernel[:, start : start + SLAB]
            slab.copy_(as_real(_turn(weights, decay_N, omega_N, start)) @ powers[: slab.shape[1]].t())
        return kernel

    @staticmethod
    @without_autocast
    def backward(ctx, grad_RL):
        (weights_RN2, decay_N, omega_N, powers), length = ctx.saved_tensors, ctx.length
        offsets = torch.arange(length, device=grad_RL.device, dtype=grad_RL.dtype)
        if powers is not None and length < len(weights_RN2):  # log Lambda's comes through the powers, which are fewer
            terms = as_complex(grad_RL.t() @ weights_RN2.flatten(1)).conj() * as_complex(powers)
            grad_log_N = as_complex(offsets @ as_real(terms))
            return (grad_RL @ powers).view_as(weights_RN2), -grad_log_N.real, grad_log_N.imag, None
        powers = mode_powers(decay_N, omega_N, 0, SLAB) if powers is None else powers
        sums = None
        for start in range(0, length, SLAB):
            slab = grad_RL[:, start : start + SLAB]
            slab = torch.cat((slab, slab * offsets[start : start + SLAB]))
            # a gradient turns against what it belongs to
            part = _turn(as_complex(slab @ powers[: slab.shape[1]]), decay_N, -omega_N, start)
            sums = part if sums is None else sums.add_(part)
        plain, weighted = sums.chunk(2)
        grad_log_N = (weighted * torch.view_as_complex(weights_RN2).conj()).sum(0)
        return torch.view_as_real(plain), -grad_log_N.real, grad_log_N.imag, None


def mode_kernel(weights_RN2: torch.Tensor, decay_N: torch.Tensor, omega_N: torch.Tensor, length: int) -> torch.Tensor:
    """k[t] = Re(sum_n W_n Lambda_n^t) for t = 0 ... length - 1, with Lambda = exp(-decay + i omega).

    Args:
        weights_RN2: W, any number of rows.
        decay_N: per position, non-negative.
        omega_N: radians per position.
        length: L.

    Returns:
        (R, L), in the dtype of the arguments, differentiable in all three.
    """
    return _ModeKernel.apply(weights_RN2, decay_N, omega_N, length)


class _ChannelsFirst(torch.autograd.Function):
    """See :func:`channels_first`; a matrix is turned, in both passes, which torch does in tiles."""

    @staticmethod
    def forward(ctx, x_BLH):
        ctx.shape = x_BLH.shape
        return x_BLH.flatten(0, 1).t().contiguous().unflatten(1, x_BLH.shape[:2])

    @staticmethod
    def backward(ctx, grad_HBL):
        return grad_HBL.flatten(1).t().contiguous().view(ctx.shape)


def channels_first(x_BLH: torch.Tensor) -> torch.Tensor:
    """The same numbers as (H, B, L), contiguous: every sequence of a channel in one piece."""
    return _ChannelsFirst.apply(x_BLH)


class ColumnsLinear(nn.Linear):
    """A linear layer for inputs that are columns of a matrix, (T, H) transposed in memory.

    With its weight transposed as well, the product that gives the weight's gradient is a fifth faster on a CPU.
    """

    def forward(self, x_TH: torch.Tensor) -> torch.Tensor:
        if len(x_TH) < 64 * self.in_features:  # turning the weight costs more than it saves
            return super().forward(x_TH)
        return torch.addmm(self.bias, x_TH, self.weight.t().contiguous())


class ConvolutionMixer(nn.Module):
    """GLU(Linear(GELU(mix(u)))): what S4 and DLR have in common around what they do to a channel.

    A mixer has `taps(length)`, kernels (D, H, L) of which the second begins one position ahead; `mix(u_HBL,
    past_key_values, direction)`, with the skip; and a linear `output_projection`, H to 2 H.
    """

    def kernel(self, length: int) -> torch.Tensor:
        """What an input adds to the outputs j positions after it (row 0) and before it (row 1), without D: (D, H, L)
        for j = 0 ... L - 1. The present is in row 0 alone."""
        taps_DHL = self.taps(length)
        return torch.cat((taps_DHL[:1], F.pad(taps_DHL[1:], (1, 0))[..., :length]))

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        past_key_values: Cache | None = None,
        direction: str | None = None,
        **kwargs,
    ) -> tuple[torch.Tensor, None]:
        """(B, L, H) to (B, L, H). ``attention_mask`` (B, L) is 1 at real positions; causal models carry their state in
        ``past_key_values``, from which any number of further positions may follow."""
        batch, length, channels = hidden_states.shape
        with maybe_autocast(device_type=hidden_states.device.type, enabled=False):
            u_BLH = widened(hidden_states)
            u_HBL = channels_first(u_BLH if attention_mask is None else u_BLH * attention_mask[..., None])
            y_HBL = F.gelu(self.mix(u_HBL, past_key_values, direction)).to(hidden_states.dtype)
        # the projection reads the transposed matrix in place
        projected = self.output_projection(y_HBL.reshape(channels, batch * length).t())
        return F.glu(projected, dim=-1).view(batch, length, channels), None


class _LongConvolution(torch.autograd.Function):
    """FFT convolution whose backward pass also uses real transforms only.

    Channels go in groups one after the other: what is in work then stays in a cache, and spectra of large inputs,
    twice as large as these, are never held for all channels. Of small inputs they are kept for the backward pass.
    """

    @staticmethod
    def forward(ctx, u_HBL, kernel_DHL, skip_H, size):
        keep = any(ctx.needs_input_grad[:2])
        keep_inputs = keep and u_HBL.numel() <= KEPT_NUMBERS
        y, padded, kernels, inputs = torch.empty_like(u_HBL, memory_format=torch.contiguous_format), None, [], []
        for part in _channel_groups(u_HBL, size):
            padded = _pad(u_HBL[part], size, padded)
            spectrum, kernel = torch.fft.rfft(padded), _kernel_spectrum(kernel_DHL, skip_H, part, size)
            if keep:
                kernels.append(kernel)
            if keep_inputs:
                inputs.append(spectrum)
                spectrum = spectrum * kernel[:, None]
            else:
                spectrum.mul_(kernel[:, None])
            y[part] = torch.fft.irfft(spectrum, n=size)[..., : y.shape[-1]]
        ctx.save_for_backward(*(inputs or [u_HBL] * keep), *kernels)
        ctx.size, ctx.keep_inputs = size, keep_inputs
        ctx.directions, ctx.has_skip = len(kernel_DHL), skip_H is not None
        return y

    @staticmethod
    @without_autocast
    def backward(ctx, grad_HBL):
        saved, size, padded, (channels, batch, length) = ctx.saved_tensors, ctx.size, None, grad_HBL.shape
        groups = _channel_groups(grad_HBL, size)
        kernels, inputs = saved[-len(groups) :], saved[: -len(groups)]
        grad_u = None
        if ctx.needs_input_grad[0]:
            # laid out as the layer's input was, where groups are wide enough to write whole lines of a cache
            grad_u = grad_HBL.new_empty(batch, length, channels).permute(2, 0, 1)
            if groups[0].stop < 16:
                grad_u = grad_HBL.new_empty(grad_HBL.shape)
        grad_kernel = grad_HBL.new_empty(ctx.directions, channels, length)
        for index, part in enumerate(groups):
            padded = _pad(grad_HBL[part], size, padded)
            spectrum = torch.fft.rfft(padded)
            if ctx.keep_inputs:
                around = inputs[index].conj_physical()
            else:
                padded = _pad(inputs[0][part], size, padded)
                around = torch.fft.rfft(padded).conj_physical_()
            around = torch.fft.irfft(around.mul_(spectrum).sum(1), n=size)
            grad_kernel[0, part] = around[:, :length]
            if ctx.directions == 2:
                grad_kernel[1, part] = around[:, size - length :].flip(-1)
            if grad_u is not None:
                spectrum.mul_(kernels[index].conj_physical()[:, None])
                grad_u[part] = torch.fft.irfft(spectrum, n=size)[..., :length]
        return grad_u, grad_kernel, grad_kernel[0, :, 0].clone() if ctx.has_skip else None, None


def _pad(x_HBL: torch.Tensor, size: int, used: torch.Tensor | None) -> torch.Tensor:
    """Zeros behind every sequence; ``used``, padded before for as many channels, is filled again."""
    if used is None or used.shape[0] != x_HBL.shape[0]:
        return F.pad(x_HBL, (0, size - x_HBL.shape[-1]))
    used[..., : x_HBL.shape[-1]] = x_HBL
    return used


def _channel_groups(u_HBL: torch.Tensor, size: int) -> list[slice]:
    channels, batch, _ = u_HBL.shape
    at_once = GROUP_NUMBERS if u_HBL.device.type == "cpu" else DEVICE_GROUP_NUMBERS
    width = max(1, at_once // (batch * size))
    return [slice(start, min(start + width, channels)) for start in range(0, channels, width)]


def _kernel_spectrum(kernel_DHL, skip_H, part: slice, size: int) -> torch.Tensor:
    """Spectrum (H, size/2 + 1) of the one- or two-sided kernel laid out on a circle; lead j sits at index -j."""
    length = kernel_DHL.shape[-1]
    kernel = F.pad(kernel_DHL[0, part], (0, size - length))
    if kernel_DHL.shape[0] == 2:
        kernel[:, size - length :] += kernel_DHL[1, part].flip(-1)
    if skip_H is not None:
        kernel[:, 0] += skip_H[part]
    return torch.fft.rfft(kernel)


def long_convolution(
    u_HBL: torch.Tensor, kernel_DHL: torch.Tensor, skip_H: torch.Tensor | None = None
) -> torch.Tensor:
    """Convolves every channel with its own kernel, as long as the sequence, by FFT; short batches by a product.

    y_t = sum over lags j >= 0 of k0[j] u[t - j], plus, with two directions, over leads j >= 1 of k1[j - 1] u[t + j].

    Args:
        u_HBL: input, float32 or float64; fastest from :func:`channels_first`.
        kernel_DHL: D = 1 (causal) or 2 (the second kernel reads leads).
        skip_H: added to lag 0.

    Returns:
        (H, B, L), contiguous.
    """
    length = u_HBL.shape[-1]
    if length <= MATRIX_POSITIONS and 4 * u_HBL.shape[1] >= length:  # else the matrices cost more than they save
        return _toeplitz_convolution(u_HBL, kernel_DHL, skip_H)
    return _LongConvolution.apply(u_HBL, kernel_DHL, skip_H, good_fft_size(2 * length))


def _toeplitz_convolution(u_HBL, kernel_DHL, skip_H) -> torch.Tensor:
    """The same as a product with the (H, L, L) Toeplitz matrices of the taps."""
    length = u_HBL.shape[-1]
    if len(kernel_DHL) == 2:  # taps of lags 1 - L ... L - 1
        taps = torch.cat((kernel_DHL[1, :, : length - 1].flip(-1), kernel_DHL[0]), dim=-1)
    else:
        taps = F.pad(kernel_DHL[0], (length - 1, 0))
    y_HBL = torch.bmm(u_HBL, taps.unfold(-1, length, 1).flip(-2))  # [s, t] is the tap of lag t - s
    return y_HBL if skip_H is None else torch.addcmul(y_HBL, u_HBL, skip_H[:, None, None])


def final_mode_state(u_HBL: torch.Tensor, decay_N: torch.Tensor, omega_N: torch.Tensor) -> torch.Tensor:
    """State after the sequence from zero, sum_s Lambda^(L - 1 - s) u_s: (B, H, N), complex. Goes in slabs."""
    channels, batch, length = u_HBL.shape
    powers, state = mode_powers(decay_N, omega_N, 0, min(SLAB, length)), None
    for slab in u_HBL.flatten(0, 1).split(SLAB, dim=-1):
        added = as_complex(slab.flip(-1) @ powers[: slab.shape[-1]]).conj_physical()
        state = added if state is None else added + _turn(state, decay_N, omega_N, slab.shape[-1])
    return state.view(channels, batch, -1).transpose(0, 1)


def mode_step(
    state_BHN: torch.Tensor, multiplier_2N: torch.Tensor, readout_HK: torch.Tensor, u_BH: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """One position: x <- Lambda x + u for every channel and mode, y = Re(sum_n W_n x_n).

    Args:
        state_BHN: complex state before the position.
        multiplier_2N: Lambda, of :func:`mode_multiplier`.
        readout_HK: W, of :func:`mode_readout` (K = 2N).
        u_BH: the position's input.

    Returns:
        Output (B, H) and the new state (B, H, N).
    """
    rounded, remainder = multiplier_2N
    state = state_BHN * rounded + (state_BHN * remainder + u_BH[..., None])
    return (torch.view_as_real(state).flatten(-2) * readout_HK).sum(-1), state


def mode_multiplier(decay_N: torch.Tensor, omega_N: torch.Tensor) -> torch.Tensor:
    """Lambda = exp(-decay + i omega) as a sum of two complex numbers, (2, N): its rounded value and the remainder.

    A slow mode remembers ten thousand positions, over which the rounding of Lambda alone would add up to 2e-4.
    """
    decay, omega = decay_N.double(), omega_N.double()
    exact = torch.polar(torch.exp(-decay), omega)
    rounded = exact.to(torch.promote_types(decay_N.dtype, torch.complex64))
    return torch.stack((rounded, (exact - rounded).to(rounded.dtype)))


def mode_readout(weight_HN2: torch.Tensor) -> torch.Tensor:
    """The row (H, 2N) that reads Re(W x) from a state whose real and imaginary parts alternate."""
    return (weight_HN2 * weight_HN2.new_tensor([1.0, -1.0])).flatten(-2)


def propagate_modes(
    state_BHN: torch.Tensor, weight_HN2: torch.Tensor, decay_N: torch.Tensor, omega_N: torch.Tensor, length: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """What a state alone adds to the outputs after it, Re(sum_n W_n x_n Lambda_n^t) for t = 1 ... length.

    Returns:
        (H, B, L), and the state Lambda^length x that is left of it.
    """
    rows = (state_BHN * torch.view_as_complex(weight_HN2)).transpose(0, 1).flatten(0, 1)
    powers = mode_powers(decay_N, omega_N, 1, min(SLAB, length))
    slabs = []
    for start in range(0, length, SLAB):
        turned = as_real(_turn(rows, decay_N, omega_N, start))
        slabs.append(turned @ powers[: length - start].t())
    batch, channels, _ = state_BHN.shape
    left = _turn(state_BHN, decay_N, omega_N, length)
    return torch.cat(slabs, dim=-1).view(channels, batch, length), left
