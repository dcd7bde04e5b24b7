"""The powers of a step and the kernel made of them, against the recurrence in float64, values and gradients."""

import pytest
import torch
from test_ssm_mixers import make_mixer
from test_ssm_scan import directions, kinds, make_model

from golden_files import relative_error
from hf_longseq.models import ssm_powers
from hf_longseq.models.modeling_s4 import S4Mixer
from hf_longseq.models.ssm_plan import METHODS, choose_method, forced
from hf_longseq.models.ssm_powers import power_table, step_powers, two_level_kernel
from hf_longseq.models.ssm_reference import dense_system
from hf_longseq.models.ssm_step import discretise, real_readout

LENGTHS = [1, 2, 3, 16, 17, 64, 65, 200, 300, 600]  # up to 256 from one table, beyond from two


def plain_kernel(model, length):
    """Taps by one dense product per position, complex128."""
    log_dt, w, b, p, c = (None if x is None else x.double() for x in model)
    w, b, p, c = (None if x is None else torch.view_as_complex(x.contiguous()) for x in (w, b, p, c))
    step_HNN, powered = dense_system(log_dt, w, b, p)
    readout, taps = torch.cat((c, c.conj()), -1), []
    for _ in range(length):
        taps.append((readout * powered).sum(-1).real)
        powered = (step_HNN @ powered[..., None])[..., 0]
    return torch.stack(taps, -1)


def our_kernel(model, length):
    log_dt, w, b, p, c = model
    return two_level_kernel(discretise(log_dt, w, b, p), real_readout(c), length)


@kinds
@directions
@pytest.mark.parametrize("length", LENGTHS)
def test_kernel_and_gradients_match_the_recurrence(kind, count, length, monkeypatch):
    monkeypatch.setattr(ssm_powers, "BLOCK", 4)  # so that the longest is made in blocks
    model = make_model(kind, count)
    leaves = [x.requires_grad_() for x in model if x is not None]
    taps, expected = our_kernel(model, length), plain_kernel(model, length)
    assert taps.shape == (count, 3, length)
    assert relative_error(taps, expected) < 1e-11
    weights = torch.randn_like(taps)
    ours, theirs = (torch.autograd.grad((x * weights).sum(), leaves) for x in (taps, expected))
    for mine, reference in zip(ours, theirs, strict=True):
        assert relative_error(mine, reference) < 1e-9 or reference.abs().max() < 1e-12


@kinds
@pytest.mark.parametrize("dt", [(1e-6, 2e-6), (1e-3, 0.1), (0.5, 1.0), (50.0, 100.0)], ids=str)
def test_float32_kernel_at_any_step(kind, dt):
    model = make_model(kind, 2, state_size=64, dtype=torch.float32, dt=dt)
    system = discretise(*(None if x is None else x.double() for x in model[:4]))
    for length in (200, 3000):
        taps = two_level_kernel(system, real_readout(model[4]), length)
        exact = two_level_kernel(system, real_readout(model[4]).double(), length)
        assert taps.dtype == torch.float32 and relative_error(taps.double(), exact) < 3e-6


@kinds
@pytest.mark.parametrize("length", [1, 2, 40, 300])
def test_gradients_of_a_mode_that_forgets_everything_in_one_step(kind, length):
    log_dt, w, *rest = make_model(kind, 2)
    log_dt = torch.zeros_like(log_dt)
    w[:, 0] = torch.tensor([-2.0, 0.0])  # with a step of 1, (1 + w / 2) / (1 - w / 2) is 0
    model = (log_dt, w, *rest)
    assert (discretise(*model[:4]).diagonal_Hn[:, 0] == 0).all()
    leaves = [x.requires_grad_() for x in model if x is not None]
    taps, expected = our_kernel(model, length), plain_kernel(model, length)
    assert relative_error(taps, expected) < 1e-11
    weights = torch.randn_like(taps)
    ours, theirs = (torch.autograd.grad((x * weights).sum(), leaves) for x in (taps, expected))
    for mine, reference in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, reference)


@kinds
def test_gradcheck_of_columns_rows_and_transition(kind):
    model = make_model(kind, 1, channels=2, state_size=4)
    system = [None if x is None else x.requires_grad_() for x in discretise(*model[:4])]
    rows = torch.randn(2, 2, 4, dtype=torch.float64, requires_grad=True)

    def run(*parts):
        parts = list(parts)
        found = type(discretise(*model[:4]))(*(None if x is None else parts.pop(0) for x in system))
        return step_powers(found, 4, torch.float64, parts[0])

    assert torch.autograd.gradcheck(run, [x.detach().requires_grad_() for x in (*system, rows) if x is not None])


def test_power_table_is_the_powers():
    pole = torch.polar(torch.rand(2, 3, dtype=torch.float64), torch.randn(2, 3, dtype=torch.float64))
    for count in (1, 2, 4, 8, 32):
        table, last = power_table(pole, count, torch.float64)
        torch.testing.assert_close(table, pole[:, None] ** torch.arange(count)[:, None])
        torch.testing.assert_close(last, pole**count)


@pytest.mark.parametrize("length", [256, 4096])
def test_kernels_that_die_out_hold_no_denormal_numbers(length):
    model = make_model("dplr", 2, state_size=64, dtype=torch.float32, dt=(0.05, 0.1))
    leaves = [x.requires_grad_() for x in model]
    taps = our_kernel(model, length)
    taps.backward(torch.randn_like(taps))
    tiny = torch.finfo(torch.float32).tiny
    for x in (taps, *(leaf.grad for leaf in leaves)):
        assert ((x == 0) | (x.abs() >= tiny)).all()


@directions
@pytest.mark.parametrize("kind", ["dplr", "shared", "lin"])
@pytest.mark.parametrize("length", [1, 5, 196, 1000])
def test_both_methods_give_the_same_outputs_and_gradients(kind, count, length):
    mixer, _ = make_mixer(kind, bidirectional=count == 2)
    u, found = torch.randn(2, length, 8), []
    for method in METHODS:
        mixer.zero_grad()
        x = u.clone().requires_grad_()
        with forced(method):
            y = mixer(x)[0]
        y.square().sum().backward()
        found.append((y.detach(), x.grad, *(p.grad for p in mixer.parameters() if p.grad is not None)))
    for fourier, scan in zip(*found, strict=True):
        assert relative_error(fourier, scan) < 1e-5


def test_plan_does_not_depend_on_the_machine_and_can_be_forced():
    assert choose_method(32, 196) == choose_method(64, 4096) == "fourier"
    assert choose_method(1, 65536) == "scan"
    with forced("scan"):
        assert choose_method(32, 196) == "scan"
    assert choose_method(32, 196) == "fourier"
    with pytest.raises(ValueError, match="'cauchy'.*fourier, scan"), forced("cauchy"):
        pass


def test_mixer_outputs_do_not_depend_on_the_layout_of_its_input():
    mixer, _ = make_mixer("dplr", bidirectional=True)
    assert isinstance(mixer, S4Mixer)
    u_BLH = torch.randn(2, 300, 8)
    strided = u_BLH.transpose(1, 2).contiguous().transpose(1, 2)
    assert torch.equal(mixer(u_BLH)[0], mixer(strided)[0])
