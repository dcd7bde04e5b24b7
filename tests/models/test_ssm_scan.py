"""The chunked scan says what a plain recurrence in float64 says, values and gradients, at any length."""

import pytest
import torch

from golden_files import relative_error
from hf_longseq.models import ssm_scan
from hf_longseq.models.ssm_init import complex_normal, diagonal_poles, hippo_legs_dplr, log_uniform
from hf_longseq.models.ssm_reference import dense_system
from hf_longseq.models.ssm_scan import chunked_scan, kernel
from hf_longseq.models.ssm_step import discretise, real_readout, step
from plain_kernels import fft_convolution
from plain_recurrence import bidirectional_recurrence, recurrence

CHUNK = 8
LENGTHS = [1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 5 * CHUNK + 3, 37 * CHUNK + 1]
kinds = pytest.mark.parametrize("kind", ["dplr", "diagonal"])
directions = pytest.mark.parametrize("count", [1, 2], ids=["causal", "bidirectional"])


def make_model(kind, count, channels=3, state_size=8, dtype=torch.float64, dt=(1e-3, 0.1)):
    """Continuous parameters as (log_dt, w, b, p or None, c), pairs on the last axis."""
    if kind == "dplr":
        w, p, b = hippo_legs_dplr(state_size)
    else:
        w, p, b = diagonal_poles(state_size, "lin"), None, torch.ones(state_size // 2, dtype=torch.complex128)
    # not all channels alike
    spread = 1 + 0.1 * torch.rand(channels, 1, dtype=torch.float64)
    pairs = [None if z is None else torch.view_as_real(spread * z).to(dtype) for z in (w, b, p)]
    return log_uniform(channels, *dt).to(dtype), *pairs, complex_normal(count, channels, state_size // 2).to(dtype)


def scan(model, u, skip=None, **options):
    log_dt, w, b, p, c = model
    return chunked_scan(u, discretise(log_dt, w, b, p), real_readout(c), skip, **options)


def plain(model, u):
    """The same by a dense solve and a loop over positions, complex128."""
    log_dt, w, b, p, c = (None if x is None else x.double() for x in model)
    w, b, p, c = (None if x is None else torch.view_as_complex(x.contiguous()) for x in (w, b, p, c))
    return bidirectional_recurrence(*dense_system(log_dt, w, b, p), torch.cat((c, c.conj()), -1), u.double())


@kinds
@directions
@pytest.mark.parametrize("length", LENGTHS)
def test_values_and_gradients_match_the_recurrence(kind, count, length, monkeypatch):
    monkeypatch.setattr(ssm_scan, "LOOP", 16)  # so that the chunks of the longest are chained in groups
    model, u = make_model(kind, count), torch.randn(3, 2, length, dtype=torch.float64)
    leaves = [x.requires_grad_() for x in (*model, u) if x is not None]
    weights = torch.randn_like(u)
    y, expected = scan(model, u, chunk_length=CHUNK)[0], plain(model, u)
    assert relative_error(y, expected) < 1e-10
    ours = torch.autograd.grad((y * weights).sum(), leaves)
    theirs = torch.autograd.grad((expected * weights).sum(), leaves)
    for mine, reference in zip(ours, theirs, strict=True):
        assert relative_error(mine, reference) < 1e-9 or reference.abs().max() < 1e-12


@kinds
@directions
def test_gradcheck(kind, count):
    model, u = make_model(kind, count, channels=2, state_size=4), torch.randn(2, 2, 11, dtype=torch.float64)
    present = [x.requires_grad_() for x in model if x is not None]

    def run(u, skip, *parameters):
        parts = list(parameters) if kind == "dplr" else [*parameters[:3], None, parameters[3]]
        return scan(parts, u, skip, chunk_length=4)[0]

    skip = torch.randn(2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(run, (u.requires_grad_(), skip, *present))


@kinds
@pytest.mark.parametrize("length", LENGTHS)
def test_states_join_pieces(kind, length):
    model = make_model(kind, 1)
    u = torch.randn(3, 2, 2 * length + 5, dtype=torch.float64)
    whole, last = scan(model, u, return_state=True, chunk_length=CHUNK)
    first, state = scan(model, u[..., :length], return_state=True, chunk_length=CHUNK)
    second, state = scan(model, u[..., length:], initial_state_BHN=state, return_state=True, chunk_length=CHUNK)
    assert relative_error(torch.cat((first, second), -1), whole) < 1e-11
    assert relative_error(state, last) < 1e-11


@kinds
def test_gradient_flows_through_states(kind):
    model = [x if x is None else x.requires_grad_() for x in make_model(kind, 1, channels=2, state_size=4)]
    u, state = torch.randn(2, 1, 7, dtype=torch.float64), torch.randn(1, 2, 4, dtype=torch.float64)

    def run(u, state):
        return scan(model, u, initial_state_BHN=state, return_state=True, chunk_length=4)

    assert torch.autograd.gradcheck(run, (u.requires_grad_(), state.requires_grad_()))


@kinds
def test_step_continues_the_scan(kind):
    model, u = make_model(kind, 1), torch.randn(3, 2, 20, dtype=torch.float64)
    whole, last = scan(model, u, return_state=True)
    log_dt, w, b, p, c = model
    system, readout = discretise(log_dt, w, b, p), real_readout(c)
    _, state = scan(model, u[..., :13], return_state=True)
    for t in range(13, 20):
        y, state = step(system, readout[0], state, u[..., t].t())
        assert relative_error(y.t(), whole[..., t]) < 1e-11
    assert relative_error(state, last) < 1e-11


@kinds
def test_final_state_is_the_recurrence_state(kind):
    log_dt, w, b, p, c = model = make_model(kind, 1)
    u = torch.randn(3, 2, 50, dtype=torch.float64)
    _, state = scan(model, u, return_state=True, chunk_length=CHUNK)
    w, b, p, c = (None if x is None else torch.view_as_complex(x) for x in (w, b, p, c))
    _, expected = recurrence(*dense_system(log_dt, w, b, p), torch.cat((c[0], c[0].conj()), -1), u)
    half = expected.transpose(0, 1)[..., : w.shape[-1]]
    assert relative_error(state, torch.cat((half.real, half.imag), -1)) < 1e-11


@kinds
@directions
@pytest.mark.parametrize("dt", [(1e-6, 2e-6), (1e-4, 1e-3), (0.5, 1.0), (50.0, 100.0)], ids=str)
def test_extreme_steps_stay_finite_and_exact(kind, count, dt):
    model = [x if x is None else x.requires_grad_() for x in make_model(kind, count, dtype=torch.float32, dt=dt)]
    u = torch.randn(3, 2, 400)
    y, _ = scan(model, u)
    assert relative_error(y.double(), plain(model, u)) < 2e-5
    y.square().sum().backward()
    assert all(x.grad.isfinite().all() for x in model if x is not None)


@kinds
def test_decays_at_both_ends_stay_bounded(kind):
    log_dt, w, b, p, c = make_model(kind, 2, dtype=torch.float32)
    for decay in (1e-6, 1e4):  # |lambda| -> 1 and modes that die at once
        w = torch.stack((torch.full_like(w[..., 0], -decay), w[..., 1]), -1)
        y, _ = scan((log_dt, w, b, p, c), torch.randn(3, 1, 4096))
        assert y.isfinite().all() and y.abs().max() < 1e4


@directions
def test_float32_error_at_length_16384(count):
    # against the float64 recurrence of the same float32 parameters, at the paper's sizes
    model = make_model("dplr", count, channels=4, state_size=64, dtype=torch.float32)
    u = torch.randn(4, 1, 16384)
    doubles = [x.double() for x in model]
    system, readout = discretise(*doubles[:4]), real_readout(doubles[4])
    taps = kernel(system, readout, 16384)
    exact = fft_convolution(u.double().transpose(0, 1), taps).transpose(0, 1)
    assert relative_error(scan(model, u)[0].double(), exact) < 1e-5
    # the small matrices in float64, all that grows with the length in float32
    assert relative_error(chunked_scan(u, system, real_readout(model[4]))[0].double(), exact) < 1e-6


def test_float64_kernel_is_the_recurrence_kernel():
    log_dt, w, b, p, c = make_model("dplr", 2, state_size=64)
    taps = kernel(discretise(log_dt, w, b, p), real_readout(c), 700)
    complex_parts = (torch.view_as_complex(x) for x in (w, b, p))
    step_HNN, drive_HN = dense_system(log_dt, *complex_parts)
    c = torch.view_as_complex(c)
    readout, powered = torch.cat((c, c.conj()), -1), drive_HN
    for t in range(700):
        assert torch.allclose((readout * powered).sum(-1).real, taps[..., t], atol=1e-10)
        powered = (step_HNN @ powered[..., None])[..., 0]


def test_memory_grows_with_the_length_only(monkeypatch):
    # what backward keeps, counted in numbers: linear in the length, so no power or kernel as long as the sequence
    def kept(length):
        model = make_model("dplr", 2, dtype=torch.float32)
        u, total = torch.randn(3, 1, length, requires_grad=True), []
        with torch.autograd.graph.saved_tensors_hooks(lambda x: total.append(x.numel()) or x, lambda x: x):
            scan(model, u)
        return sum(total)

    short, long = kept(4096), kept(16384)
    assert long < 4.2 * short


def test_python_work_does_not_grow_with_the_length(monkeypatch):
    calls = []
    original = ssm_scan._chain_loop
    monkeypatch.setattr(ssm_scan, "_chain_loop", lambda x, *rest: calls.append(x.shape[2]) or original(x, *rest))
    counts = []
    for length in (16_384, 1 << 20):
        calls.clear()
        scan(make_model("diagonal", 1, channels=1, state_size=2, dtype=torch.float32), torch.randn(1, 1, length))
        counts.append(sum(calls))
    assert counts[1] < 4 * counts[0]


def test_state_of_another_shape_is_an_error():
    wrong = torch.zeros(2, 3, 6, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"\(2, 3, 6\).*\(1, 3, 8\)"):
        scan(make_model("dplr", 1), torch.zeros(3, 1, 5, dtype=torch.float64), initial_state_BHN=wrong)
