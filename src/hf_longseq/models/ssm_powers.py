# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The first powers of a model's step, applied to its columns and rows: what scan and convolution are built from.

The step is M x = d x - a <b, x>: a rotation of complex pairs, and a rank-1 feedback. Without the feedback, powers are
elementwise. With it, the numbers <b, M^t x> that are fed back obey a triangular Toeplitz system, which is solved; then
every power is the open one minus a Toeplitz product,

    M^r x = d^r x - sum over j < r of s_j d^(r - 1 - j) a
    s = (1 + z g)^-1 s0        g_t = <b, d^t a>        s0_t = <b, d^t x>

so that nothing is formed that is larger than what is asked for.

States here are complex pairs side by side, [Re x_1, Im x_1, Re x_2, ...], so that one buffer is read as n complex or
as N = 2n real numbers. Axes: H channels, R powers, K rows, N state, n = N/2 pairs, D directions; a last axis of 2 is
(real, imaginary).
"""

import torch
import torch.nn.functional as F

from .ssm_precision import without_autocast
from .ssm_step import DiscreteSystem

BLOCK = 16
"""Repeated products made one after the other before whole blocks of them follow."""


FLOOR = 1e-18
"""Numbers of decayed powers below this, where the first are about 1, count as 0: products of two such would be
denormal, and a CPU multiplies those a hundred times more slowly."""


def as_complex(x: torch.Tensor) -> torch.Tensor:
    """(..., N) side by side to (..., n) complex, in place."""
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)))


def as_real(x: torch.Tensor) -> torch.Tensor:
    """(..., n) complex to (..., N) side by side, in place."""
    return torch.view_as_real(x).flatten(-2)


def side_by_side(x: torch.Tensor) -> torch.Tensor:
    """(..., N) as [Re; Im] to side by side."""
    return torch.stack(x.chunk(2, dim=-1), dim=-1).flatten(-2)


def halves(x: torch.Tensor) -> torch.Tensor:
    """(..., N) side by side to [Re; Im]."""
    return torch.cat(x.unflatten(-1, (-1, 2)).unbind(-1), dim=-1)


def power_table(diagonal_Hn: torch.Tensor, count: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """d^0 ... d^(count - 1), (H, count, n), complex of ``dtype``, and d^count, (H, n), as precise as d.

    Args:
        diagonal_Hn: d; in float64 all powers are exact to the rounding of ``dtype``.
        count: any number.
        dtype: of the real parts.
    """
    inner = 1 << (count.bit_length() // 2)
    small = _running_powers(diagonal_Hn, inner)
    large = _running_powers(small[:, inner], -(-count // inner))
    kind = torch.promote_types(dtype, torch.complex64)
    table = large[:, :-1, None].to(kind) * small[:, None, :-1].to(kind)
    return table.flatten(1, 2)[:, :count].contiguous(), large[:, count // inner] * small[:, count % inner]


def _running_powers(d_Hn: torch.Tensor, count: int) -> torch.Tensor:
    """d^0 ... d^count, (H, count + 1, n)."""
    return torch.stack((torch.ones_like(d_Hn), *(d_Hn,) * count), dim=1).cumprod(dim=1)


def toeplitz(series_HR: torch.Tensor, delay: int) -> torch.Tensor:
    """The lower triangle that convolves with a series, later by ``delay``: [r, j] is series[r - j - delay]."""
    return _hankel(series_HR, delay).flip(1)


def _hankel(series_HR: torch.Tensor, delay: int = 0) -> torch.Tensor:
    """The rows of :func:`toeplitz` from the last to the first, overlapping in memory."""
    length = series_HR.shape[1]
    return F.pad(series_HR[:, : length - delay].flip(1), (0, length - 1 + delay)).unfold(1, length, 1)


def _hankel_sums(matrix_HRR: torch.Tensor, delay: int = 0) -> torch.Tensor:
    """What :func:`_hankel` passes back to its series."""
    channels, length, _ = matrix_HRR.shape
    # rows of 2R numbers read as rows of 2R - 1: each moves one to the right, and antidiagonals become columns
    skewed = F.pad(matrix_HRR, (0, length)).flatten(1)[:, : length * (2 * length - 1)]
    sums = skewed.view(channels, length, 2 * length - 1).sum(1)[:, : length - delay]
    return F.pad(sums.flip(1), (0, delay))


def _toeplitz_sums(matrix_HRR: torch.Tensor) -> torch.Tensor:
    """What :func:`toeplitz` with a delay of 1 passes back to its series."""
    return _hankel_sums(matrix_HRR.flip(1), 1)


def _open_feedback(table_HRn, a_HN, b_HN) -> tuple[torch.Tensor, torch.Tensor]:
    """d^r a and conj(d)^r b, (H, R, N) each."""
    injected = table_HRn * as_complex(a_HN)[:, None]
    return as_real(injected), as_real((table_HRn * as_complex(b_HN).conj()[:, None]).conj_physical())


def _probes(a_HN, b_HN, column_HN, rows_HKN) -> torch.Tensor:
    """What d^r is multiplied with to give <b, d^r a>, <b, d^r column> and <row, d^r a>: (H, 2 + K, n)."""
    a, b = as_complex(a_HN).conj()[:, None], as_complex(b_HN)[:, None]
    probes = [b * a, b * as_complex(column_HN)[:, None].conj()]
    if rows_HKN is not None:
        probes.append(as_complex(rows_HKN) * a)
    return torch.cat(probes, dim=1)


def _solve(table_HRn: torch.Tensor, probes_HKn: torch.Tensor) -> torch.Tensor:
    """Signals with feedback, (H, R, 2 + K), from those without."""
    open_HRK = torch.bmm(as_real(table_HRn), as_real(probes_HKn).transpose(1, 2))
    loop, right = _loop(open_HRK[..., 0]), open_HRK.clone()
    right[..., 0] = 0
    right[:, 0, 0] = 1
    return torch.linalg.solve_triangular(loop, right, upper=False, unitriangular=True)


def _solve_backward(table_HRn, probes_HKn, signals_HRK, grad_HRK) -> torch.Tensor:
    """Gradient of the signals without feedback; in the place of the impulse stands that of g."""
    g_HR = torch.bmm(as_real(table_HRn), as_real(probes_HKn[:, :1]).transpose(1, 2))[..., 0]
    grad = torch.linalg.solve_triangular(_loop(g_HR).mT, grad_HRK, upper=True, unitriangular=True).contiguous()
    grad[..., 0] = _toeplitz_sums(torch.bmm(grad, signals_HRK.transpose(1, 2))).neg_()
    return grad


def _loop(g_HR: torch.Tensor) -> torch.Tensor:
    """1 + z g as a matrix; its unit diagonal is left to the solver."""
    return toeplitz(g_HR, 1)


def _rotation(diagonal_Hn: torch.Tensor) -> torch.Tensor:
    """What a row is multiplied with from the right to be multiplied by ``diagonal_Hn``: (H, N, N)."""
    channels, pairs = diagonal_Hn.shape
    matrix = torch.zeros(channels, pairs, 2, pairs, 2, dtype=diagonal_Hn.real.dtype, device=diagonal_Hn.device)
    blocks = matrix.diagonal(dim1=1, dim2=3)  # (H, 2, 2, n)
    blocks[:, 0, 0] = blocks[:, 1, 1] = diagonal_Hn.real
    blocks[:, 0, 1] = diagonal_Hn.imag
    blocks[:, 1, 0] = -diagonal_Hn.imag
    return matrix.view(channels, 2 * pairs, 2 * pairs)


def _rotation_sums(grad_HNN: torch.Tensor) -> torch.Tensor:
    """What :func:`_rotation` passes back, (H, n)."""
    blocks = grad_HNN.unflatten(2, (-1, 2)).unflatten(1, (-1, 2)).diagonal(dim1=1, dim2=3)
    return torch.complex(blocks[:, 0, 0] + blocks[:, 1, 1], blocks[:, 0, 1] - blocks[:, 1, 0])


class _Powers(torch.autograd.Function):
    """See :func:`step_powers`. Signals are the solved feedback (H, R, 2 + K): of an impulse, the column, the rows."""

    @staticmethod
    def forward(ctx, diagonal_Hn, a_HN, b_HN, column_HN, rows_HKN, count):
        table, last_Hn = power_table(diagonal_Hn, count, column_HN.dtype)
        last_Hn = last_Hn.to(table.dtype)
        columns = as_real(table * as_complex(column_HN)[:, None])
        rows = None
        if rows_HKN is not None:
            rows = as_real(table.conj_physical()[:, None] * as_complex(rows_HKN)[:, :, None])
        signals = backwards = None
        if a_HN is None:
            transition = as_real(last_Hn)
        else:
            injected, returned = _open_feedback(table, a_HN, b_HN)
            signals = _solve(table, _probes(a_HN, b_HN, column_HN, rows_HKN))
            columns.baddbmm_(toeplitz(signals[..., 1], 1), injected, alpha=-1)
            for k in range(signals.shape[2] - 2):
                rows[:, k] -= torch.bmm(toeplitz(signals[..., 2 + k], 1), returned)
            backwards = torch.bmm(_hankel(signals[..., 0]), returned)
            transition = _rotation(last_Hn.conj()).baddbmm_(injected.transpose(1, 2), backwards, alpha=-1)
        ctx.save_for_backward(diagonal_Hn, a_HN, b_HN, column_HN, rows_HKN, table, signals, backwards)
        return columns, rows, transition

    @staticmethod
    @without_autocast
    def backward(ctx, grad_columns, grad_rows, grad_transition):
        diagonal_Hn, a_HN, b_HN, column_HN, rows_HKN, table, signals, backwards = ctx.saved_tensors
        pull, grad_columns = _Pull(table), grad_columns.contiguous()
        grad_column = pull.columns(grad_columns, column_HN)
        grad_starts = None
        if rows_HKN is not None:
            pairs = zip(grad_rows.unbind(1), rows_HKN.unbind(1), strict=True)
            grad_starts = torch.stack([pull.rows(grad, start) for grad, start in pairs], dim=1)
        if a_HN is None:
            pull.last(as_complex(grad_transition))
            return pull.grad.to(diagonal_Hn.dtype), None, None, grad_column, grad_starts, None

        injected, returned = _open_feedback(table, a_HN, b_HN)
        pull.last(_rotation_sums(grad_transition).conj())
        grad_backwards = torch.bmm(injected, grad_transition).neg_()
        grad_injected = torch.bmm(backwards, grad_transition.transpose(1, 2)).neg_()
        grad_injected.baddbmm_(toeplitz(signals[..., 1], 1).transpose(1, 2), grad_columns, alpha=-1)
        grad_returned = torch.bmm(_hankel(signals[..., 0]), grad_backwards)
        grad_signals = [
            _hankel_sums(torch.bmm(grad_backwards, returned.transpose(1, 2))),
            _toeplitz_sums(torch.bmm(grad_columns, injected.transpose(1, 2))).neg_(),
        ]
        for k in range(signals.shape[2] - 2):
            grad_returned.baddbmm_(toeplitz(signals[..., 2 + k], 1).transpose(1, 2), grad_rows[:, k], alpha=-1)
            grad_signals.append(_toeplitz_sums(torch.bmm(grad_rows[:, k], returned.transpose(1, 2))).neg_())
        probes = _probes(a_HN, b_HN, column_HN, rows_HKN)
        grad_open = _solve_backward(table, probes, signals, torch.stack(grad_signals, dim=-1))
        grad_a = pull.columns(grad_injected, a_HN)
        grad_b = pull.rows(grad_returned, b_HN)
        grad_probes = pull.probes(grad_open, probes)
        a, b, column = as_complex(a_HN), as_complex(b_HN), as_complex(column_HN)
        grad_b += as_real(grad_probes[:, 0] * a + grad_probes[:, 1] * column)
        grad_a += as_real(grad_probes[:, 0].conj() * b)
        grad_column += as_real(grad_probes[:, 1].conj() * b)
        if rows_HKN is not None:
            grad_starts += as_real(grad_probes[:, 2:] * a[:, None])
            grad_a += as_real((grad_probes[:, 2:].conj() * as_complex(rows_HKN)).sum(1))
        return pull.grad.to(diagonal_Hn.dtype), grad_a, grad_b, grad_column, grad_starts, None


class _Pull:
    """Passes gradients of powers d^r times something back to that something, and sums up those of d."""

    def __init__(self, table_HRn: torch.Tensor):
        self.table, self.conjugate = table_HRn, table_HRn.conj_physical()
        times = torch.arange(1, table_HRn.shape[1], device=table_HRn.device, dtype=table_HRn.real.dtype)
        # the derivative of d^r, conjugate, from r = 1
        self.rate = self.conjugate[:, :-1] * times[:, None]
        self.grad = torch.zeros_like(table_HRn[:, 0])

    def columns(self, grad_HRN: torch.Tensor, start_HN: torch.Tensor) -> torch.Tensor:
        """Of d^r start: returns the gradient of ``start``."""
        grad, start = as_complex(grad_HRN), as_complex(start_HN)
        self.grad += start.conj() * (self.rate * grad[:, 1:]).sum(1)
        return as_real((self.conjugate * grad).sum(1))

    def rows(self, grad_HRN: torch.Tensor, start_HN: torch.Tensor) -> torch.Tensor:
        """Of conj(d)^r start."""
        grad, start = as_complex(grad_HRN.contiguous()).conj_physical(), as_complex(start_HN)
        self.grad += start * (self.rate * grad[:, 1:]).sum(1)
        return as_real((self.conjugate * grad).sum(1).conj_physical())

    def probes(self, grad_HRK: torch.Tensor, probes_HKn: torch.Tensor) -> torch.Tensor:
        """Of the real products of all d^r with ``probes``: returns theirs, (H, K, n)."""
        grad_HKR = grad_HRK.transpose(1, 2)
        self.grad += (as_complex(torch.bmm(grad_HKR[:, :, 1:], as_real(self.rate))) * probes_HKn).sum(1)
        return as_complex(torch.bmm(grad_HKR, as_real(self.table)))

    def last(self, grad_Hn: torch.Tensor) -> None:
        """Of d^R."""
        self.grad += self.table.shape[1] * self.conjugate[:, -1] * grad_Hn


def step_powers(
    system: DiscreteSystem, count: int, dtype: torch.dtype, rows_KHN: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
    """M^r drive and row M^r for r = 0 ... count - 1, and M^count, of the step M of a model.

    Args:
        system: discretised model; in float64, powers are exact to the rounding of ``dtype``.
        count: R.
        dtype: of the result.
        rows_KHN: rows, side by side.

    Returns:
        Columns (H, R, N), rows (H, K, R, N) or None, and the transition, all side by side: dense (H, N, N), acting on
        rows from the right, or for a diagonal model (H, N), d^count.
    """
    _, out_HN, in_HN, drive_HN = (None if part is None else as_real(part) for part in system.cast(dtype))
    rows_HKN = None if rows_KHN is None else rows_KHN.transpose(0, 1).contiguous()
    return _Powers.apply(system.diagonal_Hn, out_HN, in_HN, drive_HN, rows_HKN, count)


class _RepeatedTaps(torch.autograd.Function):
    """(rows P^q) columns for q = 0 ... count - 1, (H, count, D, R), P dense. Very many q go in blocks."""

    @staticmethod
    def forward(ctx, rows_HDN, power_HNN, columns_HRN, count):
        # blocks need P^BLOCK, by squaring, which pays for itself late
        ctx.block, powers = (count, []) if count <= 8 * BLOCK else (BLOCK, squares(power_HNN, BLOCK))
        scale = _largest(rows_HDN)
        x = _repeat(rows_HDN / scale, power_HNN, ctx.block)
        blocks = _repeat(torch.cat(x, dim=1), powers[-1], -(-count // BLOCK)) if powers else x
        x = torch.cat(blocks, dim=1)[:, : count * rows_HDN.shape[1]]
        ctx.save_for_backward(x, scale, power_HNN, columns_HRN, *powers)
        return torch.bmm(x, columns_HRN.mT).mul_(scale).unflatten(1, (count, -1))

    @staticmethod
    @without_autocast
    def backward(ctx, grad_HQDR):
        x, scale, power, columns, *powers = ctx.saved_tensors
        rows, largest = grad_HQDR.shape[2], _largest(grad_HQDR)
        width = rows * ctx.block
        grad_HKR = (grad_HQDR / largest).flatten(1, 2)
        grad_columns = torch.bmm(grad_HKR.mT, x)
        grad = torch.bmm(grad_HKR, columns)
        if powers:
            grad = _pull_back(grad.split(width, dim=1), powers[-1])
        first = _pull_back(grad[:, :width].split(rows, dim=1), power)
        grad_power = torch.bmm(x[:, : width - rows].mT, first[:, rows:])
        if powers:
            last = torch.bmm(x[:, :-width].mT, grad[:, width:])
            for root in (*powers[-2::-1], power):
                last = torch.bmm(last, root.mT).baddbmm_(root.mT, last)
            grad_power += last
        # the rows were scaled by 1 / scale, the gradient by 1 / largest
        return first[:, :rows] * largest, grad_power * (scale * largest), grad_columns * (scale * largest), None


def _repeat(x_HKN: torch.Tensor, power_HNN: torch.Tensor, count: int) -> list[torch.Tensor]:
    """x P^q for q = 0 ... count - 1."""
    found = [x_HKN]
    for _ in range(count - 1):
        found.append(F.hardshrink(torch.bmm(found[-1], power_HNN), FLOOR))
    return found


def _pull_back(grads_HKN: tuple[torch.Tensor, ...], power_HNN: torch.Tensor) -> torch.Tensor:
    """Gradients of x, x P, x P^2, ... with what each passes back to the one before; the last may have fewer rows."""
    *grads, last = grads_HKN
    found, transposed, missing = [last], power_HNN.mT, grads_HKN[0].shape[1] - last.shape[1]
    if missing:
        last = F.pad(last, (0, 0, 0, missing))
    for grad in reversed(grads):
        last = F.hardshrink(torch.baddbmm(grad, last, transposed), FLOOR)
        found.append(last)
    return torch.cat(found[::-1], dim=1)


def _largest(x: torch.Tensor) -> torch.Tensor:
    """Its largest magnitude, and not 0: a tensor without axes."""
    low, high = torch.aminmax(x)
    return torch.maximum(high, -low).clamp(min=FLOOR)


def squares(power_HNN: torch.Tensor, exponent: int) -> list[torch.Tensor]:
    """P^2, P^4, ... P^exponent of a dense transition."""
    found = [power_HNN]
    for _ in range(exponent.bit_length() - 1):
        found.append(F.hardshrink(torch.bmm(found[-1], found[-1]), FLOOR))
    return found[1:]


def two_level_kernel(system: DiscreteSystem, readout_DHN: torch.Tensor, length: int) -> torch.Tensor:
    """The taps k[t] = readout M^t drive for t = 0 ... length - 1, as (readout M^(qR)) (M^r drive) with t = qR + r.

    About 2 sqrt(length) vectors are made, and one product of them gives all taps.

    Args:
        system: from `discretise`, in the dtype of ``readout_DHN`` or a wider one.
        readout_DHN: from `real_readout`.
        length: L.

    Returns:
        (D, H, L).
    """
    if length == 0:
        raise ValueError("A kernel of length 0 was asked for: pass a sequence of at least one position.")
    directions, channels, _ = readout_DHN.shape
    inner = 16 if length <= 512 else 32 if length <= 8192 else 64
    inner = min(inner, 1 << (length - 1).bit_length())
    outer = -(-length // inner)
    columns_HRN, _, transition = step_powers(system, inner, readout_DHN.dtype)
    if system.low_rank_out_Hn is None:
        step_Hn = system.diagonal_Hn
        for _ in range(inner.bit_length() - 1):
            step_Hn = step_Hn.square()
        step_Hn = step_Hn.conj_physical().repeat(directions, 1)
        rows = _Powers.apply(step_Hn, None, None, side_by_side(readout_DHN).flatten(0, 1), None, outer)[0]
        rows_DHQN = rows.unflatten(0, (directions, channels))
        return (rows_DHQN @ columns_HRN.mT).flatten(-2)[..., :length]
    rows_HDN = side_by_side(readout_DHN).transpose(0, 1)
    taps_HQDR = _RepeatedTaps.apply(rows_HDN, transition, columns_HRN, outer)
    return taps_HQDR.permute(2, 0, 1, 3).flatten(-2)[..., :length]
