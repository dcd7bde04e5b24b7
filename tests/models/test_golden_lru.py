"""LRU against numbers from the community's implementation: outputs, gradients, steps; and its initial values."""

import math

import pytest
import torch

from golden_files import golden_leaves, load_golden, relative_error
from hf_longseq import LRUConfig
from hf_longseq.models.modeling_longseq import LongSeqBlock
from hf_longseq.models.modeling_lru import LRUMixer
from hf_longseq.models.ssm_cache import RecurrentCache
from hf_longseq.models.ssm_mimo import MimoSystem, mimo_scan

# dtype of the module, largest relative error allowed
precisions = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-6)], ids=["float32", "float64"]
)


def config_of(meta, **options):
    return LRUConfig(
        hidden_size=meta["d_model"],
        state_size=meta["d_hidden"],
        num_hidden_layers=1,
        bidirectional=meta.get("bidirectional", False),
        norm_eps=1e-6,
        **options,
    )


def mixer_parameters(leaves, prefix=""):
    """The reference's parameters under our names; gradients flow back to the reference's."""

    def pair(stem):
        return torch.stack((leaves[f"{prefix}{stem}_re"], leaves[f"{prefix}{stem}_im"]), dim=-1)

    readouts = [pair(stem) for stem in ("C", "C2") if f"{prefix}{stem}_re" in leaves]
    return {
        **{name: leaves[prefix + name] for name in ("nu_log", "theta_log", "gamma_log")},
        "input_B": pair("B"),
        "output_C": torch.stack(readouts),
        "skip_D": leaves[f"{prefix}D"],
    }


def layer(leaves, config, u_BLH, cache=None):
    """The recurrence alone, without the activation and the output map around it."""
    mixer = LRUMixer(config, 0).to(u_BLH.dtype)
    mixer.dropout, mixer.output_projection = torch.nn.Identity(), torch.nn.Identity()
    parameters = mixer_parameters(leaves)
    mixer.forward = lambda u: mimo_scan(u, mixer.discrete_system(u.dtype), cache and cache.layers[0])
    return torch.func.functional_call(mixer, parameters, (u_BLH,)).permute(1, 2, 0)


@precisions
@pytest.mark.parametrize("name", ["mixers/lru_uni", "mixers/lru_bi"])
def test_layer_matches_reference(name, dtype, tolerance):
    golden, meta = load_golden(name)
    leaves = golden_leaves(golden, dtype)
    u = golden["input"].to(dtype).requires_grad_()
    y = layer(leaves, config_of(meta), u)
    assert relative_error(y, golden["output"]) < tolerance
    y.backward(golden["grad_output"].to(dtype))
    assert relative_error(u.grad, golden["grad.input"]) < tolerance
    for key, leaf in leaves.items():
        assert relative_error(leaf.grad, golden["grad." + key]) < tolerance, key


@precisions
def test_block_matches_reference(dtype, tolerance):
    golden, meta = load_golden("mixers/lru_block_ln_pre")
    leaves = golden_leaves(golden, dtype)
    parameters = {"mixer." + name: value for name, value in mixer_parameters(leaves, "seq.").items()}
    parameters["mixer.output_projection.weight"] = torch.cat((leaves["out1.kernel"].T, leaves["out2.kernel"].T))
    parameters["mixer.output_projection.bias"] = torch.cat((leaves["out1.bias"], leaves["out2.bias"]))
    parameters["mixer_norm.weight"] = leaves["normalization.scale"]
    parameters["mixer_norm.bias"] = leaves["normalization.bias"]
    block = LongSeqBlock(config_of(meta), 0, LRUMixer)
    u = golden["input"].to(dtype).requires_grad_()
    y = torch.func.functional_call(block, parameters, (u,))
    assert relative_error(y, golden["output"]) < tolerance
    y.backward(golden["grad_output"].to(dtype))
    assert relative_error(u.grad, golden["grad.input"]) < tolerance
    for key, leaf in leaves.items():
        assert relative_error(leaf.grad, golden["grad." + key]) < tolerance, key


@pytest.mark.parametrize("pieces", [[1] * 37, [5, 1, 1, 30], [36, 1]])
def test_steps_match_reference(pieces):
    golden, meta = load_golden("mixers/lru_uni")
    config = config_of(meta)
    cache = RecurrentCache(config)
    with torch.no_grad():
        parts = [
            layer(golden_leaves(golden, torch.float32), config, u, cache) for u in golden["input"].split(pieces, dim=1)
        ]
    assert relative_error(torch.cat(parts, 1), golden["output"]) < 1e-5


def direct(u_BLH, system):
    """The recurrence, position by position."""
    lam = torch.view_as_complex(system.lam_P2)
    drive = torch.einsum("ph,blh->blp", torch.view_as_complex(system.input_PH2), u_BLH.to(lam.dtype))
    y = system.skip_H * u_BLH
    for direction, readout in enumerate(torch.view_as_complex(system.readout_DHP2)):
        inputs = drive.flip(1) if direction else drive
        state, states = torch.zeros_like(inputs[:, 0]), []
        for t in range(inputs.shape[1]):
            state = lam * state + inputs[:, t]
            states.append(state)
        states = torch.stack(states, 1)
        y = y + torch.einsum("hp,blp->blh", readout, states.flip(1) if direction else states).real
    return y


@pytest.mark.parametrize("length", [1, 2, 31, 32, 33, 64, 65, 1000, 2100])
@pytest.mark.parametrize("directions", [1, 2])
def test_scan_equals_the_recurrence_at_every_length(length, directions):
    torch.manual_seed(length)
    radius, phase = torch.tensor([0.0, 0.5, 0.9, 0.9999, 1.0]).double(), torch.rand(5).double() * 6
    leaves = [
        torch.stack((radius * phase.cos(), radius * phase.sin()), -1),
        torch.randn(5, 3, 2).double(),
        torch.randn(directions, 3, 5, 2).double(),
        torch.randn(3).double(),
        torch.randn(2, length, 3).double(),
    ]
    results = []
    for run in (lambda u, system: mimo_scan(u, system).permute(1, 2, 0), direct):
        inputs = [leaf.clone().requires_grad_() for leaf in leaves]
        y = run(inputs[4], MimoSystem(*inputs[:4]))
        y.backward(torch.cos(torch.arange(y.numel()).double()).view_as(y))
        results.append([y, *(leaf.grad for leaf in inputs)])
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-9)


def test_float32_keeps_its_digits_over_long_sequences():
    torch.manual_seed(0)
    radius, phase = torch.tensor([0.99, 0.9999, 0.99999]).double(), torch.tensor([6.0, 1.0, 0.01]).double()
    system = MimoSystem(
        torch.stack((radius * phase.cos(), radius * phase.sin()), -1).float(),
        torch.randn(3, 2, 2),
        torch.randn(2, 2, 3, 2),
        torch.randn(2),
    )
    u = torch.randn(1, 16384, 2)
    expected = mimo_scan(u.double(), MimoSystem(*(part.double() for part in system)))
    assert relative_error(mimo_scan(u, system), expected) < 1e-5


def test_initial_values():
    torch.manual_seed(0)
    mixer = LRUMixer(LRUConfig(hidden_size=64, state_size=2048, r_min=0.5, r_max=0.9, max_phase=1.0), 0)
    mixer.reset_parameters()
    radius, phase = torch.exp(-mixer.nu_log.exp()), mixer.theta_log.exp()
    assert 0.5 <= radius.min() and radius.max() < 0.9
    area = (radius.square() - 0.25) / (0.81 - 0.25)  # uniform on the ring
    assert abs(area.mean() - 0.5) < 0.03 and abs(area.std() - 12**-0.5) < 0.02
    assert phase.max() <= 1.0 and abs(phase.mean() - 0.5) < 0.03
    torch.testing.assert_close(mixer.gamma_log.exp(), (1 - radius.square()).sqrt())
    assert abs(mixer.input_B.std() * math.sqrt(2 * 64) - 1) < 0.01
    assert abs(mixer.output_C.std() * math.sqrt(2048) - 1) < 0.01
    assert abs(mixer.output_projection.weight.std() * math.sqrt(64) - 1) < 0.03


@pytest.mark.parametrize("ring", [(0.0, 1.0), (1.0, 1.0), (0.0, 0.0), (0.999, 0.9999)])
def test_initial_values_are_finite_on_every_ring(ring):
    mixer = LRUMixer(LRUConfig(hidden_size=4, state_size=512, r_min=ring[0], r_max=ring[1]), 0)
    mixer.reset_parameters()
    assert all(torch.isfinite(parameter).all() for parameter in mixer.parameters())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(r_min=-0.1), ["r_min=-0.1", "0 <= r_min"]),
        (dict(r_max=1.5), ["r_max=1.5", "<= 1"]),
        (dict(r_min=0.9, r_max=0.5), ["r_min=0.9"]),
        (dict(max_phase=0), ["max_phase is 0"]),
        (dict(state_size=0), ["state_size is 0"]),
    ],
)
def test_a_wrong_ring_is_named(options, words):
    with pytest.raises(Exception) as error:
        LRUConfig(**options)
    assert all(word in str(error.value) for word in words), error.value
