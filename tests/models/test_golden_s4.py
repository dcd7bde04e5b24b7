"""S4 against numbers from the paper's own implementation: kernels, outputs, gradients, recurrence."""

from types import SimpleNamespace

import pytest
import torch

from golden_files import load_golden, relative_error
from hf_longseq.models.modeling_s4 import S4Mixer
from hf_longseq.models.ssm_cache import RecurrentCache
from hf_longseq.models.ssm_init import diagonal_poles, hippo_legs, hippo_legs_dplr
from hf_longseq.models.ssm_reference import dense_system
from hf_longseq.models.ssm_scan import kernel

DPLR = [
    "s4_dplr_bidirectional",
    "s4_dplr_causal",
    "s4_dplr_causal_shared_ssm",
    "s4_dplr_shorter_than_lmax",
]
DIAGONAL = ["s4d_inv_bidirectional", "s4d_lin_causal"]


def build(name):
    """The mixer of a golden file, and the file's own parameters as leaves of the graph that makes ours."""
    golden, meta = load_golden(name)
    diagonal = meta["mode"] == "diag"
    config = SimpleNamespace(
        hidden_size=meta["d_model"],
        state_size=meta["d_state"],
        num_hidden_layers=1,
        bidirectional=meta["bidirectional"],
        kernel="diagonal" if diagonal else "dplr",
        diagonal_init="lin",
        num_ssm=meta["n_ssm"],
        dt_min=1e-3,
        dt_max=0.1,
    )
    mixer = S4Mixer(config, 0)
    mixer.reset_parameters()
    leaves = {
        key[len("param.") :]: value.double().requires_grad_() for key, value in golden.items() if "param." in key
    }
    inner = "kernel.kernel."
    parameters = {
        "log_dt": leaves[inner + "log_dt"],
        "log_neg_A_real": leaves[inner + ("inv_A_real" if diagonal else "inv_w_real")],
        "A_imag": leaves[inner + ("A_imag" if diagonal else "w_imag")],
        "input_B": leaves[inner + "B"] if diagonal else leaves[inner + "B"][0],
        "output_C": leaves[inner + "C"],
        "skip_D": leaves["D"][0],
        "output_projection.weight": leaves["output_linear.0.weight"],
        "output_projection.bias": leaves["output_linear.0.bias"],
    }
    if not diagonal:
        parameters["low_rank_P"] = leaves[inner + "P"][0]
        length = int(golden["buffer.kernel.kernel.L"])
        parameters["output_C"] = true_readout(parameters, length)
    return mixer, {name: value.float() for name, value in parameters.items()}, leaves, golden, config


def true_readout(parameters, length):
    """The reference keeps C (I - dA^L); solve for C."""
    repeats = parameters["log_dt"].shape[0] // parameters["A_imag"].shape[0]
    w = torch.complex(-parameters["log_neg_A_real"].exp(), parameters["A_imag"]).repeat(repeats, 1)
    b, p = (torch.view_as_complex(parameters[n]).repeat(repeats, 1) for n in ("input_B", "low_rank_P"))
    step_HNN, _ = dense_system(parameters["log_dt"], w, b, p)
    c = torch.view_as_complex(parameters["output_C"])
    full = torch.cat((c, c.conj()), -1)
    remainder = torch.eye(full.shape[-1]) - torch.linalg.matrix_power(step_HNN, length)
    solved = torch.linalg.solve(remainder.transpose(-1, -2), full[..., None])[..., 0]
    return torch.view_as_real(solved[..., : c.shape[-1]].resolve_conj().contiguous())


@pytest.mark.parametrize("name", DPLR + DIAGONAL)
def test_kernel_matches_reference(name):
    mixer, parameters, _, golden, _ = build(name)
    mixer.load_state_dict(parameters)
    with torch.no_grad():
        kernel_DHL = kernel(*mixer.discrete_system(), golden["kernel"].shape[-1])
    assert relative_error(kernel_DHL, golden["kernel"]) < 1e-5


@pytest.mark.parametrize("name", DPLR + DIAGONAL)
def test_output_and_gradients_match_reference(name):
    mixer, parameters, leaves, golden, _ = build(name)
    u = golden["input"].clone().requires_grad_()
    y, _ = torch.func.functional_call(mixer, parameters, (u,))
    assert relative_error(y, golden["output"]) < 1e-5
    y.backward(golden["grad_output"])
    assert relative_error(u.grad, golden["grad_input"]) < 1e-4
    for key, leaf in leaves.items():
        assert relative_error(leaf.grad, golden["grad." + key]) < 1e-4, key


@pytest.mark.parametrize("name", ["s4_dplr_causal", "s4_dplr_causal_shared_ssm", "s4d_lin_causal"])
def test_steps_match_reference_recurrence(name):
    mixer, parameters, _, golden, config = build(name)
    mixer.load_state_dict(parameters)
    cache = RecurrentCache(config)
    with torch.no_grad():
        steps = [mixer(u_BH[:, None], past_key_values=cache)[0] for u_BH in golden["input"].unbind(1)]
    assert relative_error(torch.cat(steps, 1), golden["output_recurrent"]) < 1e-5


@pytest.mark.parametrize("size", [16, 64])
def test_hippo_legs_matches_reference(size):
    golden, _ = load_golden(f"hippo_legs_{size}")
    a, b = hippo_legs(size)
    assert torch.allclose(a, golden["A"]) and torch.allclose(b[:, None], golden["B_dense"])
    w, p, b = hippo_legs_dplr(size)
    w_ref, p_ref, b_ref = (torch.view_as_complex(golden[key].double()).flatten() for key in ("w", "P", "B"))
    if w_ref.imag.mean() < 0:  # the other half of the conjugate pairs says the same
        w_ref, p_ref, b_ref = w_ref.conj(), p_ref.conj(), b_ref.conj()
    order = w_ref.imag.argsort()
    w_ref, p_ref, b_ref = w_ref[order], p_ref[order], b_ref[order]
    phase = p_ref.abs() / p_ref
    for ours, theirs in ((w, w_ref), (p, p_ref * phase), (b, b_ref * phase)):
        assert relative_error(ours, theirs) < 1e-6


def test_hippo_legs_dplr_is_hippo_legs():
    # the dense matrix and its normal-plus-low-rank form have the same transfer function B* (s - A)^-1 B
    a, b = (x.to(torch.complex128) for x in hippo_legs(32))
    w, p, b_n = hippo_legs_dplr(32)
    w, p, b_n = (torch.cat((x, x.conj())) for x in (w, p, b_n))
    for s in (0.3 + 2j, 4.0 + 0j, 1 - 30j):
        dense = b @ torch.linalg.solve(s * torch.eye(32) - a, b)
        low_rank = b_n.conj() @ torch.linalg.solve(s * torch.eye(32) - torch.diag(w) + torch.outer(p, p.conj()), b_n)
        assert torch.allclose(dense, low_rank, rtol=1e-9)


@pytest.mark.parametrize(("kind", "name"), [("inv", "s4d_inv_bidirectional"), ("lin", "s4d_lin_causal")])
def test_diagonal_poles_match_reference(kind, name):
    golden, meta = load_golden(name)
    w = diagonal_poles(meta["d_state"], kind)
    assert relative_error(w.imag.float(), golden["param.kernel.kernel.A_imag"][0]) < 1e-5
    assert relative_error((-w.real).log().float(), golden["param.kernel.kernel.inv_A_real"][0]) < 1e-5
