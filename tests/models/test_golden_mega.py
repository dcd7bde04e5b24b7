"""MEGA against numbers from its authors' implementation: averages, attention, blocks, gradients, steps."""

import pytest
import torch

from golden_files import golden_leaves, load_golden, relative_error
from hf_longseq import MegaConfig, MegaModel
from hf_longseq.models.mega_layers import MegaEMA, MegaLayer
from hf_longseq.models.modeling_longseq import LongSeqBlock
from hf_longseq.models.modeling_mega import MegaMixer, laplace

# dtype of the module, largest relative error allowed
precisions = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-6)], ids=["float32", "float64"]
)
AVERAGES = ["mega_ema_uni", "mega_ema_bi", "mega_ema_uni_trunc", "mega_ema_bi_trunc", "mega_ema_bi_pad"]
LAYERS = [
    "mega_gated_softmax_bi",
    "mega_gated_laplace_bi",
    "mega_gated_relu2_bi",
    "mega_gated_softmax_causal",
    "mega_gated_laplace_causal",
    "mega_gated_softmax_chunk_rotary",
    "mega_gated_laplace_chunk",
    "mega_gated_softmax_pad",
    "mega_gated_laplace_pad",
]
BLOCKS = ["mega_block_scalenorm_post", "mega_block_batchnorm_pre"]
NORMS = {"layernorm": "layer", "rmsnorm": "rms", "scalenorm": "scale", "batchnorm": "batch"}
implementations = pytest.mark.parametrize("implementation", ["eager", "sdpa"])


def config_of(meta, implementation="eager"):
    config = MegaConfig(
        hidden_size=meta["d_model"],
        value_size=meta.get("v_dim"),
        shared_representation_size=meta.get("z_dim", 8),
        state_size=meta["n_dim"],
        num_hidden_layers=1,
        bidirectional=meta["bidirectional"],
        attention_function=meta.get("attention", "softmax"),
        chunk_size=meta["chunk_size"] if meta.get("chunk_size", -1) > 0 else None,
        position_bias=meta.get("rel_pos_bias", "simple"),
        max_position_embeddings=meta.get("max_positions", 64),
        norm=NORMS[meta.get("norm", "layernorm")],
        norm_position="pre" if meta.get("prenorm", True) else "post",
        norm_eps=1e-5,
    )
    config._attn_implementation = implementation
    return config


def ema_parameters(leaves, prefix=""):
    return {
        "damping_delta": leaves[prefix + "delta"].squeeze(-1),
        "decay_alpha": leaves[prefix + "alpha"].squeeze(-1),
        "input_beta": leaves[prefix + "beta"].squeeze(-1),
        "output_gamma": leaves[prefix + "gamma"],
        "skip_omega": leaves[prefix + "omega"],
    }


def mixer_parameters(leaves, prefix=""):
    """The reference's parameters under our names; gradients flow back to the reference's."""
    parameters = {"ema." + name: value for name, value in ema_parameters(leaves, prefix + "move.").items()}
    for theirs, ours in (("v_proj", "value_proj"), ("mx_proj", "average_proj"), ("h_proj", "output_proj")):
        for part in ("weight", "bias"):
            parameters[f"{ours}.{part}"] = leaves[f"{prefix}{theirs}.{part}"]
    parameters["affine_scale"], parameters["affine_shift"] = leaves[prefix + "gamma"], leaves[prefix + "beta"]
    for theirs, ours in (("rel_pos_bias", "table"), ("alpha", "query_vector"), ("beta", "key_vector")):
        if f"{prefix}rel_pos_bias.{theirs}" in leaves:
            parameters[f"position_bias.{ours}"] = leaves[f"{prefix}rel_pos_bias.{theirs}"].flatten()
    return parameters


def norm_parameters(leaves, prefix):
    names = {"weight": "weight", "scalar": "weight", "bias": "bias"}
    return {ours: leaves[prefix + theirs] for theirs, ours in names.items() if prefix + theirs in leaves}


def check(golden, leaves, run, dtype, tolerance):
    """Output and all gradients; the reference puts the length first."""
    u = golden["input"].to(dtype).requires_grad_()
    y = run(u.transpose(0, 1)).transpose(0, 1)
    assert relative_error(y, golden["output"]) < tolerance
    y.backward(golden["grad_output"].to(dtype))
    assert relative_error(u.grad, golden["grad.input"]) < tolerance
    for key, leaf in leaves.items():
        expected = golden["grad." + key]
        if expected.abs().max() > 0:
            assert relative_error(leaf.grad, expected) < tolerance, key


@precisions
@pytest.mark.parametrize("name", AVERAGES)
def test_moving_average_matches_reference(name, dtype, tolerance):
    golden, meta = load_golden(f"mixers/{name}")
    leaves = golden_leaves(golden, dtype)
    ema = MegaEMA(config_of(meta))
    ema.truncation = meta["truncation"]
    valid = 1 - golden["padding_mask"] if meta["padding"] else None

    def run(u):
        return torch.func.functional_call(ema, ema_parameters(leaves), (u, valid))

    check(golden, leaves, run, dtype, tolerance)
    ema = ema.to(dtype)
    ema.load_state_dict({name: value.detach() for name, value in ema_parameters(leaves).items()})
    assert relative_error(ema.kernel(golden["kernel"].shape[1], dtype), golden["kernel"]) < tolerance


@precisions
@pytest.mark.parametrize("pieces", [[1] * 20, [20], [13, 7]])
def test_moving_average_carries_its_state(pieces, dtype, tolerance):
    golden, meta = load_golden("mixers/mega_ema_uni")
    ema = MegaEMA(config_of(meta)).to(dtype)
    ema.load_state_dict({n: x.detach() for n, x in ema_parameters(golden_leaves(golden, dtype)).items()})
    memory, x = MegaLayer(), golden["input"].transpose(0, 1).to(dtype)
    with torch.no_grad():
        parts = [ema(piece, memory=memory) for piece in x[:, :20].split(pieces, dim=1)]
        assert relative_error(memory.state, golden["state_at_20"]) < tolerance
        parts.append(ema(x[:, 20:], memory=memory))
    assert relative_error(torch.cat(parts, 1).transpose(0, 1), golden["output"]) < tolerance
    assert relative_error(memory.state, golden["state_final"]) < tolerance


@precisions
@implementations
@pytest.mark.parametrize("name", LAYERS)
def test_gated_attention_matches_reference(name, implementation, dtype, tolerance):
    golden, meta = load_golden(f"mixers/{name}")
    leaves = golden_leaves(golden, dtype)
    config = config_of(meta, implementation)
    block = LongSeqBlock(config, 0, MegaMixer)
    block.feed_forward = None
    parameters = {"mixer." + key: value for key, value in mixer_parameters(leaves).items()}
    parameters.update({"mixer_norm." + key: value for key, value in norm_parameters(leaves, "norm.norm.").items()})
    mask = 1 - golden["padding_mask"] if meta["mask"] == "pad" else None
    kept = []
    block.mixer.register_forward_hook(lambda module, args, out: kept.append(out[1]))

    def run(u):
        return torch.func.functional_call(block, parameters, (u,), dict(attention_mask=mask))

    check(golden, leaves, run, dtype, tolerance)
    if kept[0] is not None:
        assert relative_error(kept[0].reshape(golden["attention"].shape), golden["attention"]) < tolerance


@precisions
@implementations
@pytest.mark.parametrize("name", BLOCKS)
def test_block_matches_reference(name, implementation, dtype, tolerance):
    golden, meta = load_golden(f"mixers/{name}")
    leaves = golden_leaves(golden, dtype)
    config = config_of(meta, implementation)
    block = LongSeqBlock(config, 0, MegaMixer).to(dtype)
    parameters = {"mixer." + key: value for key, value in mixer_parameters(leaves, "mega_layer.").items()}
    parameters.update({"mixer_norm." + k: x for k, x in norm_parameters(leaves, "mega_layer.norm.norm.").items()})
    parameters.update({"feed_forward_norm." + k: x for k, x in norm_parameters(leaves, "nffn.norm.norm.").items()})
    for theirs, ours in (("fc1", "up_proj"), ("fc2", "down_proj")):
        for part in ("weight", "bias"):
            parameters[f"feed_forward.{ours}.{part}"] = leaves[f"nffn.{theirs}.{part}"]
    norms = {"mega_layer": block.mixer_norm, "nffn": block.feed_forward_norm}
    if meta["norm"] == "batchnorm":
        for stem, norm in norms.items():
            norm.running_mean.copy_(golden[f"stats_before.{stem}.norm.norm.running_mean"])
            norm.running_var.copy_(golden[f"stats_before.{stem}.norm.norm.running_var"])

    check(golden, leaves, lambda u: torch.func.functional_call(block, parameters, (u,)), dtype, tolerance)
    if meta["norm"] == "batchnorm":
        for stem, norm in norms.items():
            for part in ("running_mean", "running_var"):
                expected = golden[f"stats_after.{stem}.norm.norm.{part}"]
                assert relative_error(getattr(norm, part), expected) < 1e-5


@pytest.mark.parametrize("name", [name for name in LAYERS if "rotary" in name or name == "mega_gated_softmax_pad"])
def test_position_bias_matches_reference(name):
    golden, meta = load_golden(f"mixers/{name}")
    mixer = MegaMixer(config_of(meta), 0)
    mixer.load_state_dict(
        {key: x.detach() for key, x in mixer_parameters(golden_leaves(golden, torch.float32)).items()}
    )
    expected = golden["rel_pos_bias_matrix"]
    size = expected.shape[0]
    bias = mixer.position_bias.of_offsets(size).unfold(0, size, 1).flip(0)
    assert relative_error(bias, expected) < 1e-5


def test_laplace_runs_from_zero_to_one():
    scores = torch.linspace(-3, 4, 50)
    weights = laplace(scores)
    assert 0 <= weights.min() and weights.max() <= 1 and (weights.diff() >= 0).all()
    assert abs(laplace(torch.tensor(0.707107)) - 0.5) < 1e-6


def test_initial_values():
    torch.manual_seed(0)
    model = MegaModel(MegaConfig(hidden_size=128, num_hidden_layers=1, bidirectional=True))
    mixer = model.layers[0].mixer
    ema = mixer.ema
    for parameter, std in (
        (ema.damping_delta, 0.2),
        (ema.decay_alpha, 0.2),
        (ema.output_gamma, 1.0),
        (mixer.value_proj.weight, 0.02),
        (mixer.average_proj.weight, 0.02),
        (mixer.output_proj.weight, 0.02),
        (mixer.position_bias.table, 0.02),
        (model.embed_tokens.weight, 128**-0.5),
    ):
        assert abs(parameter.std() / std - 1) < 0.05
    signs = torch.tensor([1.0, -1.0]).repeat(8)
    assert abs((ema.input_beta - signs).std() / 0.02 - 1) < 0.05
    assert mixer.average_proj.bias.abs().max() == 0 and mixer.affine_shift.abs().max() == 0


@pytest.mark.parametrize("chunk", [None, 3])
def test_the_cache_keeps_only_what_can_be_seen(chunk):
    config = MegaConfig(hidden_size=16, num_hidden_layers=1, chunk_size=chunk, vocab_size=30)
    model = MegaModel(config).eval()
    ids = torch.randint(0, 30, (2, 8))
    mask = torch.ones(2, 8).long()
    mask[0, :2] = 0
    with torch.no_grad():
        cache = model(ids[:, :6], attention_mask=mask[:, :6]).past_key_values
        sizes = [cache.layers[0].keys.shape[1]]
        for t in (6, 7):
            cache = model(ids[:, t : t + 1], attention_mask=mask[:, : t + 1], past_key_values=cache).past_key_values
            sizes.append(cache.layers[0].keys.shape[1])
    # with 2 padded: 4, 5 and 6 positions in one row against 6, 7 and 8 in the other
    assert sizes == ([6, 7, 8] if chunk is None else [1, 2, 2])


@pytest.mark.parametrize("position_bias", ["simple", "rotary"])
@pytest.mark.parametrize("function", ["softmax", "laplace"])
@pytest.mark.parametrize("chunk", [None, 3, 4])
def test_padded_rows_continue_as_if_alone(chunk, function, position_bias):
    torch.manual_seed(0)
    model = MegaModel(
        MegaConfig(
            hidden_size=16, num_hidden_layers=2, chunk_size=chunk, vocab_size=30, attention_function=function,
            position_bias=position_bias,
        )
    ).eval()  # fmt: skip
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    ids = torch.randint(0, 30, (1, 12))
    padded, mask = torch.nn.functional.pad(ids, (5, 0)), torch.tensor([[0] * 5 + [1] * 12])
    batch_ids, batch_mask = torch.cat((padded, padded)), torch.cat((mask, torch.ones_like(mask)))
    with torch.no_grad():
        alone = model(ids).last_hidden_state
        cache, parts, start = None, [], 0
        for length in (8, 1, 1, 4, 1, 2):
            out = model(
                batch_ids[:, start : start + length],
                attention_mask=batch_mask[:, : start + length],
                past_key_values=cache,
                use_cache=True,
            )
            start, cache = start + length, out.past_key_values
            parts.append(out.last_hidden_state)
    torch.testing.assert_close(torch.cat(parts, 1)[:1, 5:], alone, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(torch.cat(parts, 1)[1:], model(padded).last_hidden_state, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("bidirectional", [False, True])
@torch.no_grad()
def test_attention_weights_stand_where_the_positions_stand_whatever_is_padding(bidirectional):
    torch.manual_seed(0)
    config = MegaConfig(hidden_size=16, num_hidden_layers=1, vocab_size=30, bidirectional=bidirectional)
    model = MegaModel._from_config(config, attn_implementation="eager").eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    mask = torch.tensor([[0, 0, 1, 1, 1, 0, 1, 1, 1, 1]])
    weights_LL = model(torch.randint(0, 30, (1, 10)), attention_mask=mask, output_attentions=True).attentions[0][0, 0]
    real = mask[0].bool()
    assert not weights_LL[real][:, ~real].any()
    seen = torch.ones(10, 10).bool() if bidirectional else torch.ones(10, 10).tril().bool()
    assert (weights_LL > 0)[real][:, real].equal(seen[real][:, real])


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: MegaConfig(attention_function="linear"), ["attention_function", "linear", "laplace"]),
        (lambda: MegaConfig(chunk_size=0), ["chunk_size is 0"]),
        (
            lambda: MegaConfig(position_bias="rotary", shared_representation_size=7),
            ["shared_representation_size is 7"],
        ),
        (lambda: MegaConfig(ema_truncation=9), ["ema_truncation is 9", "bidirectional=True"]),
        (
            lambda: MegaModel._from_config(MegaConfig(attention_function="laplace"), attn_implementation="sdpa"),
            ["'laplace'", "eager"],
        ),
        (
            lambda: MegaModel(MegaConfig(max_position_embeddings=8))(torch.zeros(1, 9, dtype=torch.long)),
            ["9 positions", "max_position_embeddings 8"],
        ),
    ],
)
def test_what_cannot_work_is_named(build, words):
    with pytest.raises(Exception) as error:
        build()
    assert all(word in str(error.value) for word in words), error.value


@pytest.mark.parametrize("function", ["softmax", "laplace", "relu2"])
@pytest.mark.parametrize("bidirectional", [False, True])
@torch.no_grad()
def test_a_chunk_that_does_not_divide_the_length_is_filled_with_padding(function, bidirectional):
    config = MegaConfig(
        hidden_size=16, num_hidden_layers=2, chunk_size=4, vocab_size=30, attention_function=function,
        bidirectional=bidirectional,
    )  # fmt: skip
    model = MegaModel(config).eval()
    tokens = torch.randint(30, (2, 10))
    filled, mask = torch.nn.functional.pad(tokens, (0, 2)), torch.ones(2, 12, dtype=torch.long)
    mask[:, 10:] = 0
    expected = model(filled, attention_mask=mask).last_hidden_state[:, :10]
    torch.testing.assert_close(model(tokens).last_hidden_state, expected, atol=1e-5, rtol=1e-4)


def test_laplace_is_refused_by_sdpa_after_loading_too():
    model = MegaModel(MegaConfig(hidden_size=16, num_hidden_layers=1, attention_function="laplace"))
    with pytest.raises(ValueError, match="'laplace'.*eager"):
        model.set_attn_implementation("sdpa")


def test_other_attention_functions_choose_eager_by_themselves():
    assert MegaModel(MegaConfig(attention_function="laplace")).config._attn_implementation == "eager"
    assert MegaModel(MegaConfig()).config._attn_implementation == "sdpa"
