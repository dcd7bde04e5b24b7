"""DLR's kernels and convolutions against sums written out in float64."""

import pytest
import torch

from golden_files import relative_error
from hf_longseq.models import ssm_convolution
from hf_longseq.models.ssm_convolution import (
    ColumnsLinear,
    final_mode_state,
    long_convolution,
    mode_kernel,
    mode_multiplier,
    mode_powers,
    mode_readout,
    mode_step,
    propagate_modes,
)
from hf_longseq.models.ssm_init import dlr_modes
from hf_longseq.models.ssm_powers import good_fft_size
from plain_kernels import vandermonde_kernel

LENGTHS = [1, 2, 127, 128, 129, 300, 1023, 1024, 1025, 2500]


def modes(count=6, dtype=torch.float64):
    root, omega = dlr_modes(count, 1e-3, 0.1)
    return root.to(dtype).square(), omega.to(dtype)


def direct_convolution(u_HBL, kernel_DHL):
    length = u_HBL.shape[-1]
    lag = torch.arange(length)[:, None] - torch.arange(length)[None, :]
    matrix = kernel_DHL[0][:, lag.clamp(min=0)] * (lag >= 0)
    if kernel_DHL.shape[0] == 2:
        matrix = matrix + kernel_DHL[1][:, (-lag - 1).clamp(min=0)] * (lag < 0)
    return torch.einsum("hts,hbs->hbt", matrix, u_HBL)


@pytest.mark.parametrize("length", LENGTHS)
def test_kernel_and_gradients_match_the_sum(length):
    decay, omega = (x.requires_grad_() for x in modes())
    weights = torch.randn(4, 6, 2, dtype=torch.float64, requires_grad=True)
    taps = mode_kernel(weights, decay, omega, length)
    expected = vandermonde_kernel(torch.view_as_complex(weights)[None], torch.complex(-decay, omega), length)[0]
    assert relative_error(taps, expected) < 1e-12
    g = torch.randn_like(taps)
    ours = torch.autograd.grad(taps, (weights, decay, omega), g)
    theirs = torch.autograd.grad(expected, (weights, decay, omega), g)
    for mine, reference in zip(ours, theirs, strict=True):
        assert torch.allclose(mine, reference, rtol=1e-9, atol=1e-9)


def test_kernel_in_float32_at_length_16384():
    decay, omega = modes(64, torch.float32)
    weights = torch.randn(2, 64, 2)
    expected = vandermonde_kernel(
        torch.view_as_complex(weights.double())[None], torch.complex(-decay.double(), omega.double()), 16384
    )[0]
    assert relative_error(mode_kernel(weights, decay, omega, 16384), expected) < 1e-6


def test_powers_may_start_anywhere():
    decay, omega = modes()
    assert torch.allclose(mode_powers(decay, omega, 17, 300), mode_powers(decay, omega, 0, 317)[17:])


@pytest.mark.parametrize("count", [1, 2], ids=["causal", "bidirectional"])
@pytest.mark.parametrize("batch", [2, 16], ids=["transforms", "products"])
@pytest.mark.parametrize("length", [1, 2, 3, 17, 64, 100])
def test_convolution_and_gradients_match_the_matrix(count, length, batch):
    u = torch.randn(3, batch, length, dtype=torch.float64, requires_grad=True)
    taps = torch.randn(count, 3, length, dtype=torch.float64, requires_grad=True)
    skip = torch.randn(3, dtype=torch.float64, requires_grad=True)
    y, expected = long_convolution(u, taps, skip), direct_convolution(u, taps) + skip[:, None, None] * u
    assert torch.allclose(y, expected, atol=1e-12)
    g = torch.randn_like(y)
    ours, theirs = (torch.autograd.grad(found, (u, taps, skip), g) for found in (y, expected))
    assert all(torch.allclose(a, b, atol=1e-11) for a, b in zip(ours, theirs, strict=True))


def test_gradcheck(monkeypatch):
    monkeypatch.setattr(ssm_convolution, "SLAB", 4)
    decay, omega = (x.requires_grad_() for x in modes(3))
    weights = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)
    u = torch.randn(2, 2, 11, dtype=torch.float64, requires_grad=True)

    def run(u, weights, decay, omega):
        return long_convolution(u, mode_kernel(weights, decay, omega, 11)[None])

    assert torch.autograd.gradcheck(run, (u, weights, decay, omega))


@pytest.mark.parametrize("slab", [512, 4])
def test_steps_and_propagation_continue_the_convolution(slab, monkeypatch):
    monkeypatch.setattr(ssm_convolution, "SLAB", slab)
    decay, omega = modes()
    weights, u = torch.randn(3, 6, 2, dtype=torch.float64), torch.randn(3, 2, 30, dtype=torch.float64)
    whole = long_convolution(u, mode_kernel(weights, decay, omega, 30)[None])
    state = final_mode_state(u[..., :20], decay, omega)
    rest = long_convolution(u[..., 20:], mode_kernel(weights, decay, omega, 10)[None])
    after, left = propagate_modes(state, weights, decay, omega, 10)
    assert torch.allclose(rest + after, whole[..., 20:], atol=1e-11)
    assert torch.allclose(left + final_mode_state(u[..., 20:], decay, omega), final_mode_state(u, decay, omega))
    for t in range(20, 30):
        y, state = mode_step(state, mode_multiplier(decay, omega), mode_readout(weights), u[..., t].t())
        assert torch.allclose(y.t(), whole[..., t], atol=1e-11)
    assert torch.allclose(state, final_mode_state(u, decay, omega), atol=1e-11)


def test_thousands_of_steps_keep_their_digits():
    decay, omega = torch.tensor([1e-4, 1e-3]), torch.tensor([3.1, 0.7])
    state, exact = torch.zeros(1, 1, 2, dtype=torch.complex64), torch.zeros(1, 1, 2, dtype=torch.complex128)
    multiplier, wide = mode_multiplier(decay, omega), mode_multiplier(decay.double(), omega.double())
    for u in torch.randn(10_000, 1, 1):
        _, state = mode_step(state, multiplier, torch.ones(1, 4), u)
        _, exact = mode_step(exact, wide, torch.ones(1, 4, dtype=torch.float64), u.double())
    assert (state - exact).abs().max() < 1e-5 * exact.abs().max()


@pytest.mark.parametrize("minimum", [1, 2, 3, 5, 100, 4096, 4097, 5000, 33000])
def test_fft_sizes_are_even_long_enough_and_not_much_longer(minimum):
    size = good_fft_size(minimum)
    assert size % 2 == 0 and minimum <= size <= max(2, 1.34 * minimum)


@pytest.mark.parametrize("positions", [1, 400])
def test_linear_layer_for_columns_is_a_linear_layer(positions):
    columns_HT, layer = torch.randn(5, positions, requires_grad=True), ColumnsLinear(5, 10)
    leaves = (columns_HT, *layer.parameters())
    found, expected = layer(columns_HT.t()), torch.nn.functional.linear(columns_HT.t(), layer.weight, layer.bias)
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(found)
    ours, theirs = (torch.autograd.grad((y * weights).sum(), leaves) for y in (found, expected))
    torch.testing.assert_close(ours, theirs)
