"""DLR against numbers from the paper's own implementation: kernels, outputs, gradients."""

from types import SimpleNamespace

import pytest
import torch

from golden_files import load_golden, relative_error
from hf_longseq.models.modeling_dlr import DLRMixer
from hf_longseq.models.ssm_cache import RecurrentCache
from hf_longseq.models.ssm_convolution import mode_kernel
from plain_kernels import vandermonde_kernel

OURS = {
    "D": "skip_D",
    "kernel.Lambda_im": "mode_frequency",
    "kernel.Lambda_log_neg_re": "mode_decay_root",
    "kernel.W": "mode_weight_W",
    "output_linear.0.weight": "output_projection.weight",
    "output_linear.0.bias": "output_projection.bias",
}


def build(name):
    golden, meta = load_golden(name)
    config = SimpleNamespace(
        hidden_size=meta["d_model"],
        state_size=meta["d_state"],
        num_hidden_layers=1,
        bidirectional=meta["bidirectional"],
        dt_min=1e-4,
        dt_max=0.1,
    )
    mixer = DLRMixer(config, 0)
    mixer.load_state_dict(
        {
            ours: golden[f"param.{theirs}"].squeeze(0) if theirs == "D" else golden[f"param.{theirs}"]
            for theirs, ours in OURS.items()
        }
    )
    return mixer, golden, config


@pytest.mark.parametrize("name", ["dlr_bidirectional", "dlr_causal"])
def test_kernel_matches_reference(name):
    mixer, golden, _ = build(name)
    with torch.no_grad():
        weights = mixer.mode_weight_W.flatten(0, 1)
        taps = mode_kernel(weights, mixer.mode_decay_root.square(), mixer.mode_frequency, golden["kernel"].shape[-1])
    assert relative_error(taps.view_as(golden["kernel"]), golden["kernel"]) < 1e-5


@pytest.mark.parametrize("name", ["dlr_bidirectional", "dlr_causal"])
def test_kernel_is_closer_to_float64_than_the_reference(name):
    # the reference rounds omega * t to float32; most of what separates us from it is its own rounding
    mixer, golden, _ = build(name)
    with torch.no_grad():
        decay, omega, length = mixer.mode_decay_root.square(), mixer.mode_frequency, golden["kernel"].shape[-1]
        taps = mode_kernel(mixer.mode_weight_W.flatten(0, 1), decay, omega, length).view_as(golden["kernel"])
        exact = torch.view_as_complex(mixer.mode_weight_W.double())
        modes = torch.complex(-mixer.mode_decay_root.double().square(), omega.double())
        expected = vandermonde_kernel(exact, modes, length)
    assert relative_error(taps, expected) < 1e-6
    assert relative_error(taps, expected) < relative_error(golden["kernel"], expected)


@pytest.mark.parametrize("name", ["dlr_bidirectional", "dlr_causal"])
def test_output_and_gradients_match_reference(name):
    mixer, golden, _ = build(name)
    u = golden["input"].clone().requires_grad_()
    y, _ = mixer(u)
    assert relative_error(y, golden["output"]) < 1e-5
    y.backward(golden["grad_output"])
    assert relative_error(u.grad, golden["grad_input"]) < 1e-4
    gradients = {name: parameter.grad for name, parameter in mixer.named_parameters()}
    for theirs, ours in OURS.items():
        assert relative_error(gradients[ours], golden[f"grad.{theirs}"].view_as(gradients[ours])) < 1e-4, ours


def test_steps_match_reference_output():
    mixer, golden, config = build("dlr_causal")
    cache = RecurrentCache(config)
    with torch.no_grad():
        steps = [mixer(u_BH[:, None], past_key_values=cache)[0] for u_BH in golden["input"].unbind(1)]
    assert relative_error(torch.cat(steps, 1), golden["output"]) < 1e-5
