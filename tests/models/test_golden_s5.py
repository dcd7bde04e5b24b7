"""S5 against numbers from its authors' implementation: outputs, gradients, steps; and its initial values."""

import math

import pytest
import torch

from golden_files import golden_leaves, load_golden, relative_error
from hf_longseq import S5Config
from hf_longseq.models.modeling_longseq import LongSeqBlock
from hf_longseq.models.modeling_s5 import S5ForMaskedLM, S5Mixer
from hf_longseq.models.ssm_cache import RecurrentCache
from hf_longseq.models.ssm_init import hippo_legs, legs_normal_part
from hf_longseq.models.ssm_mimo import mimo_scan

# dtype of the module, largest relative error allowed
precisions = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-6)], ids=["float32", "float64"]
)
LAYERS = ["s5_uni_zoh", "s5_uni_bilinear", "s5_uni_noconj", "s5_bi_zoh", "s5_bi_zoh_clip", "s5_bi_complexC"]
BLOCKS = ["s5_block_gelu_ln_pre", "s5_block_half1_bn_pre", "s5_block_half2_ln_post", "s5_block_full_ln_pre"]


def config_of(meta):
    norm = meta.get("norm", "layer")
    return S5Config(
        hidden_size=meta["H"],
        state_size=meta["ssm_size"],
        num_blocks=meta["blocks"],
        num_hidden_layers=1,
        conjugate_symmetry=meta["conj_sym"],
        discretization=meta["discretization"],
        bidirectional=meta["bidirectional"],
        clip_eigenvalues=meta.get("clip_eigs", False),
        step_rescale=meta.get("step_rescale", 1.0),
        output_activation=meta.get("activation", "gelu"),
        norm=norm,
        norm_position="pre" if meta.get("prenorm", True) else "post",
        norm_eps=1e-6 if norm == "layer" else 1e-5,
    )


def mixer_parameters(leaves, prefix=""):
    """The reference's parameters under our names; gradients flow back to the reference's."""
    states = leaves[prefix + "Lambda_re"].shape[0]
    if prefix + "C" in leaves:
        readouts = leaves[prefix + "C"].split(states, dim=1)
    else:
        readouts = [leaves[prefix + "C1"], leaves[prefix + "C2"]]
    return {
        "eigenvalue_real": leaves[prefix + "Lambda_re"],
        "eigenvalue_imag": leaves[prefix + "Lambda_im"],
        "log_dt": leaves[prefix + "log_step"][:, 0],
        "input_B": leaves[prefix + "B"],
        "output_C": torch.stack(tuple(readouts)),
        "skip_D": leaves[prefix + "D"],
    }


def layer(leaves, config, u_BLH, cache=None):
    """The state space alone, without the activation after it, and its discrete system."""
    mixer = S5Mixer(config, 0)
    mixer.forward = lambda u: mixer.discrete_system(u.dtype)
    system = torch.func.functional_call(mixer, mixer_parameters(leaves), (u_BLH,))
    return mimo_scan(u_BLH, system, cache and cache.layers[0]).permute(1, 2, 0), system


@precisions
@pytest.mark.parametrize("name", LAYERS)
def test_layer_matches_reference(name, dtype, tolerance):
    golden, meta = load_golden(f"mixers/{name}")
    leaves = golden_leaves(golden, dtype)
    u = golden["input"].to(dtype).requires_grad_()
    y, system = layer(leaves, config_of(meta), u)
    assert relative_error(system.lam_P2, golden["lambda_bar"]) < tolerance
    assert relative_error(system.input_PH2, golden["B_bar"]) < tolerance
    assert relative_error(y, golden["output"]) < tolerance
    y.backward(golden["grad_output"].to(dtype))
    assert relative_error(u.grad, golden["grad.input"]) < tolerance
    for key, leaf in leaves.items():
        assert relative_error(leaf.grad, golden["grad." + key]) < tolerance, key
    if meta["clip_eigs"]:
        assert leaves["Lambda_re"].grad[[1, 4]].tolist() == [0, 0]


@precisions
@pytest.mark.parametrize("name", BLOCKS)
def test_block_matches_reference(name, dtype, tolerance):
    golden, meta = load_golden(f"mixers/{name}")
    leaves = golden_leaves(golden, dtype)
    parameters = {"mixer." + key: value for key, value in mixer_parameters(leaves, "seq.").items()}
    parameters["mixer_norm.weight"], parameters["mixer_norm.bias"] = leaves["norm.scale"], leaves["norm.bias"]
    for theirs, ours in (("out1", "value_projection"), ("out2", "gate_projection")):
        if f"{theirs}.kernel" in leaves:
            parameters[f"mixer.{ours}.weight"] = leaves[f"{theirs}.kernel"].T
            parameters[f"mixer.{ours}.bias"] = leaves[f"{theirs}.bias"]
    block = LongSeqBlock(config_of(meta), 0, S5Mixer).to(dtype)
    if meta["norm"] == "batch":
        block.mixer_norm.momentum = 1 - meta["bn_momentum"]
        block.mixer_norm.running_mean.copy_(golden["stats_before.norm.mean"])
        block.mixer_norm.running_var.copy_(golden["stats_before.norm.var"])
    u = golden["input"].to(dtype).requires_grad_()
    y = torch.func.functional_call(block, parameters, (u,))
    assert relative_error(y, golden["output"]) < tolerance
    y.backward(golden["grad_output"].to(dtype))
    assert relative_error(u.grad, golden["grad.input"]) < tolerance
    for key, leaf in leaves.items():
        assert relative_error(leaf.grad, golden["grad." + key]) < tolerance, key
    if meta["norm"] == "batch":
        # the reference keeps the biased variance; ours is torch's unbiased one
        count = golden["input"][..., 0].numel()
        before, after = golden["stats_before.norm.var"], golden["stats_after.norm.var"]
        keep = meta["bn_momentum"]
        expected = keep * before + (after - keep * before) * count / (count - 1)
        torch.testing.assert_close(block.mixer_norm.running_mean.float(), golden["stats_after.norm.mean"])
        torch.testing.assert_close(block.mixer_norm.running_var.float(), expected)
        block.mixer_norm.running_var.copy_(after)
        again = torch.func.functional_call(block.eval(), parameters, (u,))
        assert relative_error(again, golden["output_eval_after"]) < tolerance


@pytest.mark.parametrize("pieces", [[1] * 37, [5, 1, 1, 30], [36, 1]])
@pytest.mark.parametrize("name", ["s5_uni_zoh", "s5_uni_bilinear", "s5_uni_noconj"])
def test_steps_match_reference(name, pieces):
    golden, meta = load_golden(f"mixers/{name}")
    config = config_of(meta)
    cache, leaves = RecurrentCache(config), golden_leaves(golden, torch.float32)
    with torch.no_grad():
        parts = [layer(leaves, config, u, cache)[0] for u in golden["input"].split(pieces, dim=1)]
    assert relative_error(torch.cat(parts, 1), golden["output"]) < 1e-5


@pytest.mark.parametrize("size", [4, 8, 16, 24])
def test_hippo_normal_part_matches_reference(size):
    golden, _ = load_golden("mixers/s5_init")
    assert torch.allclose(hippo_legs(size)[0].float(), golden[f"hippo_A.{size}"])
    lam, v = legs_normal_part(size)
    assert relative_error(lam, torch.view_as_complex(golden[f"Lambda.{size}"].double())) < 1e-6
    rotated = v.conj().T @ hippo_legs(size)[1].to(v.dtype)
    assert relative_error(rotated.abs(), golden[f"abs_VhB.{size}"]) < 1e-5
    assert relative_error(v.conj().T @ v, torch.eye(size)) < 1e-10


def test_blocks_match_reference():
    golden, _ = load_golden("mixers/s5_init")
    mixer = S5Mixer(S5Config(hidden_size=4, state_size=24, num_blocks=3), 0)
    mixer.reset_parameters()
    ours = torch.stack((mixer.eigenvalue_real, mixer.eigenvalue_imag), -1)
    assert relative_error(ours, golden["Lambda_blocks_24_3"]) < 1e-6
    _, v = legs_normal_part(8)
    theirs = torch.view_as_complex(golden["Vblk_24_3"].double())[:8, :4]
    overlap = (theirs.conj() * v[:, :4]).sum(0)  # a unit phase per column
    assert torch.allclose(overlap.abs(), torch.ones(4).double(), atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "scale"),
    [
        ("trunc_standard_normal", 256**-0.5),
        ("lecun_normal", (48 * 256) ** -0.5),
        ("complex_normal", 0.5**0.5),
    ],
)
def test_initial_values(kind, scale):
    torch.manual_seed(0)
    config = S5Config(hidden_size=48, state_size=256, num_blocks=4, readout_init=kind, bidirectional=True)
    mixer = S5Mixer(config, 0)
    mixer.reset_parameters()
    assert (mixer.eigenvalue_imag < 0).all() and torch.allclose(mixer.eigenvalue_real, torch.tensor(-0.5))
    dt = mixer.log_dt
    assert math.log(1e-3) <= dt.min() and dt.max() <= math.log(0.1)
    # V keeps the variance of what it turns; a real B is spread over two parts, C is complex before it is turned
    assert abs(mixer.input_B.std() * math.sqrt(2 * 256) - 1) < 0.05
    assert abs(mixer.output_C.std() / scale - 1) < 0.05
    assert abs(mixer.gate_projection.weight.std() * math.sqrt(48) - 1) < 0.05
    assert not torch.equal(mixer.output_C[0], mixer.output_C[1])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(state_size=64, num_blocks=3), ["state_size is 64", "num_blocks=3"]),
        (dict(state_size=24, num_blocks=8), ["odd size 3", "conjugate_symmetry=False"]),
        (dict(discretization="euler"), ["discretization", "euler", "zoh"]),
        (dict(readout_init="zeros"), ["readout_init", "zeros"]),
        (dict(output_activation="relu"), ["output_activation", "relu", "half_glu1"]),
        (dict(step_rescale=0), ["step_rescale is 0"]),
        (dict(parameter_grouping="Bfast"), ["parameter_grouping", "Bfast", "noBCdecay"]),
        (dict(dt_min=0.2), ["dt_min=0.2"]),
    ],
)
def test_a_wrong_configuration_is_named(options, words):
    with pytest.raises(Exception) as error:
        S5Config(**options)
    assert all(word in str(error.value) for word in words), error.value


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"input_B": (1e-3, 0.0), "output_C": (4e-3, 0.1), "log_dt": (1e-3, 0.0)}),
        ({"parameter_grouping": "BandCdecay"}, {"input_B": (1e-3, 0.1), "output_C": (4e-3, 0.1)}),
        ({"parameter_grouping": "BfastandCdecay"}, {"input_B": (4e-3, 0.1), "eigenvalue_real": (1e-3, 0.0)}),
        (
            {"parameter_grouping": "noBCdecay"},
            {"input_B": (1e-3, 0.0), "output_C": (1e-3, 0.0), "skip_D": (1e-3, 0.0)},
        ),
        ({"dt_global": True}, {"log_dt": (4e-3, 0.1), "eigenvalue_imag": (1e-3, 0.0)}),
    ],
)
def test_the_authors_options_of_the_optimizer(options, expected):
    config = S5Config(hidden_size=8, num_hidden_layers=2, state_size=8, vocab_size=30, bidirectional=True, **options)
    model = S5ForMaskedLM(config)
    groups = model.parameter_groups(learning_rate=4e-3, weight_decay=0.1, ssm_learning_rate=1e-3)
    found = {id(p): (group["lr"], group["weight_decay"]) for group in groups for p in group["params"]}
    assert len(found) == len(list(model.parameters())) == sum(len(group["params"]) for group in groups)
    for name, parameter in model.named_parameters():
        leaf = name.rsplit(".", 1)[-1]
        if leaf in expected:
            assert found[id(parameter)] == expected[leaf], name
