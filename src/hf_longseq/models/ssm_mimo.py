# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Diagonal state spaces with many inputs and outputs: all channels drive all states, and every state is read by all
channels (LRU, S5).

One step is x <- lam x + B u, y = Re(C x) + D u. The scan cuts the length into chunks of T positions; inside a chunk
one triangular T x T matrix of powers per state does the work, and the states that leave the chunks are scanned by the
same function again, so that no Python loop grows with the length and the cost is linear in it.

Axes: B batch, L length, H channels, P complex states, D directions (1 or 2), C chunks, T positions of a chunk; an axis
of 2 is (real, imaginary).
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from transformers.cache_utils import Cache
from transformers.utils.generic import maybe_autocast

from .longseq_layers import one_direction
from .ssm_cache import RecurrentLayer, recurrent_layer
from .ssm_convolution import mode_kernel
from .ssm_precision import widened
from .ssm_step import check_state

CHUNK_LENGTH = 32
"""Positions of a chunk: the triangular product costs T per position and state, shorter chunks add levels."""

TRUNCATED_STD = 0.87962566103423978
"""Standard deviation of a standard normal that is cut at two."""


class MimoSystem(NamedTuple):
    """A discrete system; all parts have the dtype of the scan, float32 or float64.

    Attributes:
        lam_P2: one-step factors of the states.
        input_PH2: B, channels to states.
        readout_DHP2: C, states to channels; with two directions the second reads the scan that runs from the end.
        skip_H: D.
    """

    lam_P2: torch.Tensor
    input_PH2: torch.Tensor
    readout_DHP2: torch.Tensor
    skip_H: torch.Tensor


class MimoMixer(nn.Module):
    """GELU of a system's outputs: what LRU and S5 have in common.

    A mixer has `discrete_system(dtype)`, and `output(y_BLH, activated_BLH)`, which makes what leaves it of the
    system's outputs and their activation.
    """

    def kernel(self, length: int) -> torch.Tensor:
        """What a channel adds to itself j positions later (row 0) and earlier (row 1), without D: (D, H, L) for
        j = 0 ... L - 1. The present is in both rows."""
        return mimo_kernel(self.discrete_system(), length)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        past_key_values: Cache | None = None,
        direction: str | None = None,
        **kwargs,
    ) -> tuple[torch.Tensor, None]:
        """(B, L, H) to (B, L, H). ``attention_mask`` (B, L) is 1 at real positions; causal models carry their state
        (B, P, 2) in ``past_key_values``, from which any number of further positions may follow."""
        memory = None
        if past_key_values is not None:
            memory = recurrent_layer(past_key_values, self.layer_idx, self.bidirectional)
        with maybe_autocast(device_type=hidden_states.device.type, enabled=False):
            u_BLH = widened(hidden_states)
            if attention_mask is not None:
                u_BLH = u_BLH * attention_mask[..., None]
            system = self.discrete_system(u_BLH.dtype)
            system = system._replace(readout_DHP2=one_direction(system.readout_DHP2, direction))
            y_BLH = mimo_scan(u_BLH, system, memory).permute(1, 2, 0)
            activated_BLH = F.gelu(y_BLH, approximate="tanh").to(hidden_states.dtype)
        return self.output(y_BLH, activated_BLH), None


def mimo_scan(u_BLH: torch.Tensor, system: MimoSystem, memory: RecurrentLayer | None = None) -> torch.Tensor:
    """Runs the system over a sequence; what ``memory`` holds comes before it, and its end is left there.

    With two directions, y_t = Re(C0 x_t) + Re(C1 z_t) + D u_t where x runs from the start, z from the end, and both
    include u_t, so that the present is counted twice (Smith et al., "S5", 2023).

    Args:
        u_BLH: input.
        system: the discrete system.
        memory: state (B, P, 2) of a causal model.

    Returns:
        y (H, B, L), channels first.

    Raises:
        ValueError: for a state of another shape.
    """
    batch, length, channels = u_BLH.shape
    num_states = system.lam_P2.shape[0]
    state = None if memory is None else memory.state
    if state is not None:
        check_state(state, (batch, num_states, 2))
        state = state.permute(2, 1, 0).to(u_BLH.dtype)

    u_HR = u_BLH.reshape(batch * length, channels).t()
    weight = system.input_PH2.permute(2, 0, 1).reshape(2 * num_states, channels)
    drive = (weight @ u_HR).view(2, num_states, batch, length)
    y_HR = system.skip_H[:, None] * u_HR
    for direction, c_HP2 in enumerate(system.readout_DHP2):
        states = diagonal_scan(drive, system.lam_P2, state, reverse=direction == 1)
        row = torch.cat((c_HP2[..., 0], -c_HP2[..., 1]), dim=-1)
        y_HR = torch.addmm(y_HR, row, states.view(2 * num_states, batch * length))
    if memory is not None:
        memory.advance(states[..., -1].permute(2, 1, 0), length)
    return y_HR.view(channels, batch, length)


def diagonal_scan(
    drive_2PBL: torch.Tensor,
    lam_P2: torch.Tensor,
    first_2PB: torch.Tensor | None = None,
    reverse: bool = False,
) -> torch.Tensor:
    """All states of x_t = lam x_(t - 1) + drive_t, or of x_t = lam x_(t + 1) + drive_t when ``reverse``.

    Args:
        drive_2PBL: what enters every state at every position.
        lam_P2: factor of every state.
        first_2PB: state before the first position scanned; None for zero.
        reverse: scan from the end.

    Returns:
        (2, P, B, L), differentiable once in the first three arguments.
    """
    return _DiagonalScan.apply(drive_2PBL, lam_P2, first_2PB, reverse)


def mimo_kernel(system: MimoSystem, length: int) -> torch.Tensor:
    """Impulse responses of every channel to itself, Re(C lam^j B)_hh for j = 0 ... length - 1: (D, H, length)."""
    weights = torch.view_as_complex(system.readout_DHP2) * torch.view_as_complex(system.input_PH2).t()
    lam = torch.view_as_complex(system.lam_P2)
    decay_P = -lam.abs().clamp(min=torch.finfo(lam.real.dtype).tiny).log()
    taps = mode_kernel(torch.view_as_real(weights).flatten(0, 1), decay_P, lam.angle(), length)
    return taps.view(*weights.shape[:2], length)


class _DiagonalScan(torch.autograd.Function):
    """The backward pass is the same scan with the conjugate factors, run the other way; only the states are kept."""

    @staticmethod
    def forward(ctx, drive, lam, first, reverse):
        states = _scan(drive, lam, first, reverse)
        ctx.save_for_backward(states, lam, first)
        ctx.reverse = reverse
        return states

    @staticmethod
    def backward(ctx, grad_states):
        states, lam, first = ctx.saved_tensors
        conjugate = torch.stack((lam[:, 0], -lam[:, 1]), dim=-1)
        with maybe_autocast(device_type=states.device.type, enabled=False):
            grad = _scan(grad_states.contiguous(), conjugate, None, not ctx.reverse)
        if ctx.reverse:
            before, after, edge = states[..., 1:], grad[..., :-1], grad[..., -1]
        else:
            before, after, edge = states[..., :-1], grad[..., 1:], grad[..., 0]
        real = (before * after).sum(dim=(0, 2, 3))
        imag = (before[0] * after[1] - before[1] * after[0]).sum(dim=(1, 2))
        grad_first = None
        if first is not None:
            real = real + (first * edge).sum(dim=(0, 2))
            imag = imag + (first[0] * edge[1] - first[1] * edge[0]).sum(dim=1)
            c, d = conjugate[:, :1], conjugate[:, 1:]
            grad_first = torch.stack((c * edge[0] - d * edge[1], c * edge[1] + d * edge[0]))
        return grad, torch.stack((real, imag), dim=-1), grad_first, None


def _scan(x_2PBL, lam_P2, first_2PB, reverse):
    _, num_states, batch, length = x_2PBL.shape
    size = min(CHUNK_LENGTH, length)
    chunks = -(-length // size)
    padding = chunks * size - length
    if padding:
        # zeros on the far side: behind the end of a forward scan, before the start of a reverse one
        x_2PBL = F.pad(x_2PBL, (0, padding))
    x = x_2PBL.reshape(2, num_states, batch * chunks, size)
    powers_PT2 = _powers(lam_P2, size)
    real, imag = _triangles(powers_PT2, reverse, x.dtype)
    if torch.compiler.is_compiling():  # torch.export takes no out=
        y = torch.stack((x[0] @ real - x[1] @ imag, x[0] @ imag + x[1] @ real))
    else:
        y = torch.empty_like(x)
        torch.bmm(x[0], real, out=y[0]).baddbmm_(x[1], imag, alpha=-1)
        torch.bmm(x[0], imag, out=y[1]).baddbmm_(x[1], real)

    entering = _entering(y, powers_PT2[:, size], first_2PB, batch, chunks, reverse)
    if entering is not None:
        decay_P1T2 = powers_PT2[:, None, 1:] if not reverse else powers_PT2[:, None, 1:].flip(2)
        real, imag = (part.to(y.dtype) for part in decay_P1T2.unbind(-1))
        y[0].baddbmm_(entering[0], real).baddbmm_(entering[1], imag, alpha=-1)
        y[1].baddbmm_(entering[0], imag).baddbmm_(entering[1], real)
    y = y.view(2, num_states, batch, chunks * size)
    return y[..., :length].contiguous() if padding else y


def _entering(y, chunk_lam_P2, first_2PB, batch, chunks, reverse):
    """States that enter every chunk, (2, P, B C, 1), or None when all are zero."""
    num_states = y.shape[1]
    if chunks == 1:
        return None if first_2PB is None else first_2PB[..., None]
    leaving = y[..., 0 if reverse else -1].reshape(2, num_states, batch, chunks)
    left = _scan(leaving, chunk_lam_P2, first_2PB, reverse)
    first = torch.zeros_like(left[..., :1]) if first_2PB is None else first_2PB[..., None]
    parts = (left[..., 1:], first) if reverse else (first, left[..., :-1])
    return torch.cat(parts, dim=-1).view(2, num_states, batch * chunks, 1)


def _powers(lam_P2: torch.Tensor, count: int) -> torch.Tensor:
    """lam^0 ... lam^count, (P, count + 1, 2), in float64: the powers of a power would lose digits otherwise."""
    lam = torch.view_as_complex(lam_P2.double().contiguous())[:, None]
    factors = torch.cat((torch.ones_like(lam), lam.expand(-1, count)), dim=1)
    return torch.view_as_real(torch.cumprod(factors, dim=1))


def _triangles(powers_PT2: torch.Tensor, reverse: bool, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Real and imaginary part of the matrices (P, T, T) that the rows of a chunk are multiplied with."""
    size = powers_PT2.shape[1] - 1
    padded = F.pad(powers_PT2[:, :size].to(dtype), (0, 0, size - 1, 0))
    matrix = padded.unfold(1, size, 1).flip(1)  # (P, T, 2, T)
    real, imag = matrix.unbind(2)
    return (real.transpose(1, 2), imag.transpose(1, 2)) if reverse else (real, imag)


def lecun_normal(*shape: int, std: float) -> torch.Tensor:
    """Normal numbers cut at two standard deviations and rescaled to ``std``, as JAX draws them: float64, CPU."""
    drawn = torch.empty(*shape, dtype=torch.float64, device="cpu")
    return torch.nn.init.trunc_normal_(
        drawn, std=std / TRUNCATED_STD, a=-2 * std / TRUNCATED_STD, b=2 * std / TRUNCATED_STD
    )
