# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The first powers of a model's step, applied to its columns and rows: what scan and convolution are built from.

The step is M x = d x - a <b, x>: a rotation of complex pairs, and a rank-1 feedback. Without the feedback, powers are
elementwise. With it, the numbers <b, M^t x> that are fed back obey a triangular Toeplitz system, which is solved; then
every power is the open one minus a Toeplitz product,

    M^r x = d^r x - sum over j < r of s_j d^(r - 1 - j) a
    s = (1 + z g)^-1 s0        g_t = <b, d^t a>        s0_t = <b, d^t x>

so that nothing is formed that is larger than what is asked for. The same holds for rows, row M^r, with <row, d^t a> in
the place of s0 and b in that of a.

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

SHORT = 256
"""Positions up to which a kernel is made from one table of powers."""

SOLVED = 64
"""Numbers of the reciprocal of a series that come from a triangular system; Newton's method doubles them."""

CHANNELS = 64
"""Channels whose transitions stay in a cache while they are multiplied with again and again."""

FFT_SHARES = (32, 30, 27, 25, 24, 20)
"""Good sizes of a transform, in 32nds of the next power of two."""

FLOOR = 1e-18
"""Numbers of decayed powers below this, where the first are about 1, count as 0: products of two such would be
denormal, and a CPU multiplies those a hundred times more slowly."""


NEARLY_0 = 2.0**-60
"""Stands for the step d = 0 of a mode that forgets everything at once."""


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


def good_fft_size(minimum: int) -> int:
    """The smallest even size with no prime factor above 5, and few of 3 and 5, that is at least ``minimum``."""
    power = 2
    while power < minimum:
        power *= 2
    sizes = (power * share // 32 for share in FFT_SHARES if power * share % 64 == 0)
    return min(size for size in sizes if size >= minimum)


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
    factors = d_Hn.new_ones(len(d_Hn), count + 1, d_Hn.shape[1])
    factors[:, 1:] = d_Hn[:, None]
    return factors.cumprod(dim=1)


def toeplitz(series: torch.Tensor) -> torch.Tensor:
    """The lower triangle (..., R, R) that convolves with a series one position later: [r, j] is series[r - 1 - j]."""
    length = series.shape[-1]
    return F.pad(series[..., :-1].flip(-1), (0, length)).unfold(-1, length, 1).flip(-2)


def _toeplitz_sums(matrix: torch.Tensor) -> torch.Tensor:
    """What :func:`toeplitz` passes back to its series: sums along diagonals. Overwrites the matrix."""
    length = matrix.shape[-1]
    below = matrix.mul_(matrix.new_ones(length, length).tril(-1)).flatten(-2)
    # R x R numbers read as rows of R + 1: diagonals become columns, and the upper half of each has been set to 0
    sums = below[..., :-1].unflatten(-1, (length - 1, length + 1)).sum(-2)
    return F.pad(sums[..., 2:].flip(-1), (0, 1))


def _probes(a_HN, b_HN, column_HN, starts_HKN) -> torch.Tensor:
    """What d^r is multiplied with to give <b, d^r column> and <row, d^r a>: (H, 1 + K, n)."""
    column = as_complex(b_HN) * as_complex(column_HN).conj()
    return torch.cat((column[:, None], as_complex(starts_HKN) * as_complex(a_HN).conj()[:, None]), dim=1)


def _solve(table_HRn: torch.Tensor, probes_HJn: torch.Tensor) -> torch.Tensor:
    """Signals with feedback, (H, J, R), from those without; the second of these is g itself."""
    open_HJR = torch.bmm(as_real(probes_HJn), as_real(table_HRn).mT)
    loop = toeplitz(open_HJR[:, 1])  # its unit diagonal is left to the solver
    return torch.linalg.solve_triangular(loop.mT, open_HJR, upper=True, left=False, unitriangular=True)


def _solve_backward(table_HRn, probes_HJn, signals_HJR, grad_HJR) -> torch.Tensor:
    """Gradient of the signals without feedback."""
    loop = toeplitz(torch.bmm(as_real(probes_HJn[:, 1:2]), as_real(table_HRn).mT)[:, 0])
    grad = torch.linalg.solve_triangular(loop, grad_HJR, upper=False, left=False, unitriangular=True).contiguous()
    grad[:, 1] -= _toeplitz_sums(torch.bmm(grad.mT, signals_HJR))
    return grad


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
    """See :func:`step_powers`. b is one more row, for M^R x = d^R x - sum over j of <M*^j b, x> d^(R - 1 - j) a."""

    @staticmethod
    def forward(ctx, diagonal_Hn, a_HN, b_HN, column_HN, rows_HKN, count):
        # gradients go through log d, which 0 has not; this is as good as 0 beside d^0 = 1
        diagonal_Hn = torch.where(diagonal_Hn == 0, NEARLY_0, diagonal_Hn)
        table, last_Hn = power_table(diagonal_Hn, count, column_HN.dtype)
        last_Hn = last_Hn.to(table.dtype)
        columns, starts = as_real(table * as_complex(column_HN)[:, None]), _starts(b_HN, rows_HKN)
        rows = None if starts is None else as_real(table.conj_physical()[:, None] * as_complex(starts)[:, :, None])
        signals = None
        if a_HN is None:
            transition = as_real(last_Hn)
        else:
            injected = as_real(table * as_complex(a_HN)[:, None])
            signals = _solve(table, _probes(a_HN, b_HN, column_HN, starts))
            fed_back = toeplitz(signals)
            columns.baddbmm_(fed_back[:, 0], injected, alpha=-1)
            shape, rows, returned = rows.shape, rows.flatten(1, 2), rows[:, 0]
            rows = torch.baddbmm(rows, fed_back[:, 1:].flatten(1, 2), returned, alpha=-1).view(shape)
            transition = _rotation(last_Hn.conj()).baddbmm_(injected.flip(1).mT, rows[:, 0], alpha=-1)
        ctx.save_for_backward(diagonal_Hn, a_HN, b_HN, column_HN, rows_HKN, table, signals, rows)
        return columns, None if rows_HKN is None else rows[:, -rows_HKN.shape[1] :], transition

    @staticmethod
    @without_autocast
    def backward(ctx, grad_columns, grad_rows, grad_transition):
        diagonal_Hn, a_HN, b_HN, column_HN, rows_HKN, table, signals, rows = ctx.saved_tensors
        pull, grad_columns, starts = _Pull(table), grad_columns.contiguous(), _starts(b_HN, rows_HKN)
        if a_HN is None:
            grad_column = pull.columns(grad_columns, column_HN)
            grad_starts = None if starts is None else pull.rows(grad_rows.contiguous(), starts)
            return pull.total(diagonal_Hn, as_complex(grad_transition)), None, None, grad_column, grad_starts, None

        injected = as_real(table * as_complex(a_HN)[:, None])
        returned = as_real(pull.conjugate * as_complex(b_HN)[:, None])
        fed_back = toeplitz(signals)
        grad_injected = torch.bmm(rows[:, 0], grad_transition.mT).flip(1)
        grad_injected.baddbmm_(fed_back[:, 0].mT, grad_columns).neg_()
        grad_closed = torch.bmm(injected.flip(1), grad_transition).neg_()[:, None]
        if rows_HKN is not None:
            grad_closed = torch.cat((grad_closed, grad_rows), dim=1)
        flat = grad_closed.flatten(1, 2)
        of_columns = _toeplitz_sums(torch.bmm(grad_columns, injected.mT))
        of_rows = _toeplitz_sums(torch.bmm(flat, returned.mT).view(*grad_closed.shape[:3], -1))
        probes = _probes(a_HN, b_HN, column_HN, starts)
        grad_signals = torch.cat((of_columns[:, None], of_rows), dim=1).neg_()
        grad_probes = pull.probes(_solve_backward(table, probes, signals, grad_signals), probes)
        grad_closed[:, 0] -= torch.bmm(fed_back[:, 1:].flatten(1, 2).mT, flat)

        grad_column = pull.columns(grad_columns, column_HN)
        grad_a = pull.columns(grad_injected, a_HN)
        grad_starts = pull.rows(grad_closed, starts)
        a, b, column = as_complex(a_HN), as_complex(b_HN), as_complex(column_HN)
        grad_column += as_real(grad_probes[:, 0].conj() * b)
        grad_a += as_real((grad_probes[:, 1:].conj() * as_complex(starts)).sum(1))
        grad_starts += as_real(grad_probes[:, 1:] * a[:, None])
        grad_b = grad_starts[:, 0] + as_real(grad_probes[:, 0] * column)
        grad_rows = None if rows_HKN is None else grad_starts[:, 1:]
        grad_diagonal = pull.total(diagonal_Hn, _rotation_sums(grad_transition).conj())
        return grad_diagonal, grad_a, grad_b, grad_column, grad_rows, None


def _starts(b_HN: torch.Tensor | None, rows_HKN: torch.Tensor | None) -> torch.Tensor | None:
    """b and the rows, those of them that there are: (H, K, N)."""
    if b_HN is None:
        return rows_HKN
    return b_HN[:, None] if rows_HKN is None else torch.cat((b_HN[:, None], rows_HKN), dim=1)


class _Pull:
    """Passes gradients of powers d^r times something back to that something, and sums up those of log d."""

    def __init__(self, table_HRn: torch.Tensor):
        self.table, self.conjugate = table_HRn, table_HRn.conj_physical()
        self.times = torch.arange(table_HRn.shape[1], device=table_HRn.device, dtype=table_HRn.real.dtype)
        self.sums = torch.stack((torch.ones_like(self.times), self.times))
        self.grad = torch.zeros_like(table_HRn[:, 0])

    def columns(self, grad_HRN: torch.Tensor, start_HN: torch.Tensor) -> torch.Tensor:
        """Of d^r start: returns the gradient of ``start``."""
        plain, weighted = self._sums(as_real(self.conjugate * as_complex(grad_HRN)))
        self.grad += as_complex(start_HN).conj() * weighted
        return as_real(plain)

    def rows(self, grad_HKRN: torch.Tensor, starts_HKN: torch.Tensor) -> torch.Tensor:
        """Of conj(d)^r starts."""
        plain, weighted = self._sums(as_real(self.table[:, None] * as_complex(grad_HKRN)))
        self.grad += (as_complex(starts_HKN) * weighted.conj()).sum(1)
        return as_real(plain)

    def _sums(self, terms: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Over r, plain and with the weights r."""
        return as_complex(self.sums @ terms).unbind(-2)

    def probes(self, grad_HJR: torch.Tensor, probes_HJn: torch.Tensor) -> torch.Tensor:
        """Of the real products of all d^r with ``probes``: returns theirs, (H, J, n)."""
        both = torch.cat((grad_HJR, grad_HJR * self.times), dim=1)
        plain, weighted = as_complex(torch.bmm(both, as_real(self.table))).chunk(2, dim=1)
        self.grad += (weighted.conj() * probes_HJn).sum(1)
        return plain

    def total(self, diagonal_Hn: torch.Tensor, grad_last_Hn: torch.Tensor) -> torch.Tensor:
        """The gradient of d, with that of d^R."""
        last = self.table.shape[1] * self.conjugate[:, -1] * grad_last_Hn
        return (self.grad / diagonal_Hn.to(self.grad.dtype).conj() + last).to(diagonal_Hn.dtype)


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


def _reciprocal(series: torch.Tensor) -> torch.Tensor:
    """The first numbers of 1 / (1 + z g(z)), as many as there are of g, (H, R)."""
    length = series.shape[-1]
    found = F.pad(series.new_ones(len(series), 1), (0, min(length, SOLVED) - 1))[..., None]
    loop = toeplitz(series[:, :SOLVED])
    found = torch.linalg.solve_triangular(loop, found, upper=False, unitriangular=True)[..., 0]
    while (count := found.shape[1]) < length:
        spectrum = torch.fft.rfft(found, n=4 * count)
        error = F.pad(series[:, : 2 * count - 1], (1, 0), value=1.0)
        error = torch.fft.irfft(torch.fft.rfft(error, n=4 * count) * spectrum)[:, count : 2 * count]
        more = torch.fft.irfft(torch.fft.rfft(error, n=4 * count) * spectrum)[:, : min(count, length - count)]
        found = torch.cat((found, -more), dim=1)
    return found


class _ShortKernel(torch.autograd.Function):
    """Taps (H, D, L) from one table of powers. Signals <row, d^t column> without feedback are one product; the taps
    are those of the drive less f s, one position later, with s = s0 / (1 + z g) and f = <readout, d^t a>. Series are
    multiplied as spectra."""

    @staticmethod
    def forward(ctx, diagonal_Hn, a_Hn, b_Hn, drive_Hn, rows_DHN, length):
        diagonal_Hn = torch.where(diagonal_Hn == 0, NEARLY_0, diagonal_Hn)
        table, _ = power_table(diagonal_Hn, length, rows_DHN.dtype)
        left, right = as_complex(rows_DHN.transpose(0, 1)), drive_Hn[:, None].to(table.dtype)
        if a_Hn is not None:
            left = torch.cat((b_Hn[:, None].to(table.dtype), left), dim=1)
            right = torch.cat((right, a_Hn[:, None].to(table.dtype)), dim=1)
        probes = left[:, :, None] * right.conj()[:, None]
        signals = torch.bmm(as_real(probes.flatten(1, 2)), as_real(table).mT).unflatten(1, probes.shape[1:3])
        taps, ctx.size, spectra, fed_back = signals[:, :, 0], good_fft_size(2 * length), None, None
        if a_Hn is not None:
            # of f, s0 and the reciprocal
            series = torch.cat((signals[:, 1:, 1], taps[:, :1], _reciprocal(signals[:, 0, 1])[:, None]), dim=1)
            spectra = torch.fft.rfft(series, n=ctx.size)
            fed_back = torch.fft.irfft(spectra[:, -2] * spectra[:, -1], n=ctx.size)[:, :length]
            fed_back = torch.fft.rfft(fed_back, n=ctx.size)[:, None]
            taps = taps[:, 1:]
            taps[..., 1:] -= torch.fft.irfft(spectra[:, :-2] * fed_back, n=ctx.size)[..., : length - 1]
        ctx.save_for_backward(diagonal_Hn, table, left, right, probes, spectra, fed_back)
        return taps

    @staticmethod
    @without_autocast
    def backward(ctx, grad_HDL):
        diagonal_Hn, table, left, right, probes, spectra, fed_back = ctx.saved_tensors
        length, (_, directions, _), grad = table.shape[1], grad_HDL.shape, grad_HDL[:, :, None]
        if spectra is not None:
            turned = spectra.conj()
            grad_s = (torch.fft.rfft(grad_HDL[..., 1:], n=ctx.size) * turned[:, :-2]).sum(1, keepdim=True)
            grad_s = torch.fft.irfft(grad_s, n=ctx.size)[..., :length]
            grad_s0 = torch.fft.irfft(torch.fft.rfft(grad_s, n=ctx.size) * turned[:, -1:], n=ctx.size)
            of_drive = torch.cat((-grad_s0[..., :length], grad_HDL), dim=1)
            of_a = torch.fft.rfft(of_drive[..., 1:], n=ctx.size) * fed_back.conj()
            grad = torch.stack((of_drive, -torch.fft.irfft(of_a, n=ctx.size)[..., :length]), dim=2)
        times = torch.arange(length, device=grad.device, dtype=grad.dtype)
        both = torch.stack((grad, grad * times), dim=1).flatten(1, 3)
        plain, weighted = as_complex(torch.bmm(both, as_real(table))).view(len(both), 2, *probes.shape[1:]).unbind(1)
        grad_log = (weighted.conj() * probes).sum((1, 2))
        grad_left, grad_right = (plain * right[:, None]).sum(2), (plain.conj() * left[:, :, None]).sum(1)
        grad_a, grad_b = (None, None) if spectra is None else (grad_right[:, 1], grad_left[:, 0])
        grad_rows = as_real(grad_left[:, -directions:]).transpose(0, 1)
        return grad_log / diagonal_Hn.conj(), grad_a, grad_b, grad_right[:, 0], grad_rows, None


class _RepeatedTaps(torch.autograd.Function):
    """(rows P^q) columns for q = 0 ... count - 1, (H, count, D, R), P dense. Very many q go in blocks."""

    @staticmethod
    def forward(ctx, rows_HDN, power_HNN, columns_HRN, count):
        # blocks need P^BLOCK, by squaring, which pays for itself late
        ctx.block, powers = (count, []) if count <= 8 * BLOCK else (BLOCK, squares(power_HNN, BLOCK))
        scale = _largest(rows_HDN)
        x = _repeat(rows_HDN / scale, power_HNN, ctx.block)
        if powers:
            x = _repeat(x, powers[-1], -(-count // BLOCK))[:, : count * rows_HDN.shape[1]]
        ctx.save_for_backward(x, scale, power_HNN, columns_HRN, *powers)
        return torch.bmm(x, columns_HRN.mT).mul_(scale).unflatten(1, (count, -1))

    @staticmethod
    @without_autocast
    def backward(ctx, grad_HQDR):
        x, scale, power, columns, *powers = ctx.saved_tensors
        rows, grad_HKR = grad_HQDR.shape[2], grad_HQDR.flatten(1, 2)
        width, largest = rows * ctx.block, _largest(grad_HKR)
        grad_HKR = grad_HKR / largest
        grad_columns = torch.bmm(grad_HKR.mT, x)
        grad = torch.bmm(grad_HKR, columns)
        if powers:
            grad = _pull_back(grad, width, powers[-1])
        first = _pull_back(grad[:, :width], rows, power)
        grad_power = torch.bmm(x[:, : width - rows].mT, first[:, rows:])
        if powers:
            last = torch.bmm(x[:, :-width].mT, grad[:, width:])
            for root in (*powers[-2::-1], power):
                last = torch.bmm(last, root.mT).baddbmm_(root.mT, last)
            grad_power += last
        # the rows were scaled by 1 / scale, the gradient by 1 / largest
        both = scale * largest
        return first[:, :rows] * largest, grad_power.mul_(both), grad_columns.mul_(both), None


def _repeat(x_HKN: torch.Tensor, power_HNN: torch.Tensor, count: int) -> torch.Tensor:
    """x P^q for q = 0 ... count - 1, one below the other."""
    width = x_HKN.shape[1]
    made = x_HKN.new_empty(len(x_HKN), count * width, x_HKN.shape[2])
    for group in _channel_groups(x_HKN):
        x, power, target = x_HKN[group], power_HNN[group], made[group]
        target[:, :width] = x
        for step in range(1, count):
            x = _without_remains(torch.bmm(x, power), step)
            target[:, step * width : (step + 1) * width] = x
    return made


def _pull_back(grad_HKN: torch.Tensor, width: int, power_HNN: torch.Tensor) -> torch.Tensor:
    """Gradients of x, x P, x P^2, ..., each of ``width`` rows, with what each passes back to the one before; the last
    may have fewer rows."""
    pulled = torch.empty_like(grad_HKN, memory_format=torch.contiguous_format)
    starts = range(0, grad_HKN.shape[1], width)
    for group in _channel_groups(grad_HKN):
        grad, transposed, target = grad_HKN[group], power_HNN[group].mT, pulled[group]
        last = grad[:, starts[-1] :]
        target[:, starts[-1] :] = last
        if last.shape[1] < width and len(starts) > 1:
            last = F.pad(last, (0, 0, 0, width - last.shape[1]))
        for step, start in enumerate(reversed(starts[:-1]), 1):
            last = _without_remains(torch.baddbmm(grad[:, start : start + width], last, transposed), step)
            target[:, start : start + width] = last
    return pulled


def _channel_groups(x_HKN: torch.Tensor) -> list[slice]:
    """Channels, as many as stay in a CPU's cache together."""
    channels = len(x_HKN)
    at_once = CHANNELS if x_HKN.device.type == "cpu" else channels
    return [slice(start, start + at_once) for start in range(0, channels, at_once)]


def _without_remains(x: torch.Tensor, step: int) -> torch.Tensor:
    """Sets what has decayed to 0 at every fourth step: no number stays denormal for longer."""
    return x if step % 4 else F.hardshrink(x, FLOOR)


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
    if length <= SHORT:
        return _ShortKernel.apply(*system, readout_DHN, length).transpose(0, 1)
    inner = 16 if length <= 512 else 32 if length <= 8192 else 64
    outer, (directions, channels, _) = -(-length // inner), readout_DHN.shape
    columns_HRN, _, transition = step_powers(system, inner, readout_DHN.dtype)
    if system.low_rank_out_Hn is None:
        step_Hn = system.diagonal_Hn
        for _ in range(inner.bit_length() - 1):
            step_Hn = step_Hn.square()
        step_Hn = step_Hn.conj_physical().repeat(directions, 1)
        rows = _Powers.apply(step_Hn, None, None, readout_DHN.flatten(0, 1), None, outer)[0]
        taps = rows.unflatten(0, (directions, channels)) @ columns_HRN.mT
        return taps.flatten(-2)[..., :length]
    taps = _RepeatedTaps.apply(readout_DHN.transpose(0, 1), transition, columns_HRN, outer)
    return taps.permute(2, 0, 1, 3).flatten(-2)[..., :length]
