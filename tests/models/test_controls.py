"""Controls of self-pretraining, against their papers: mimetic initialisation and the local attention bias."""

import pytest
import torch
from torch.nn import functional as F
from transformers import AutoConfig, AutoModel

from hf_longseq.models import AdapterConfig, AdapterForMaskedLM, LongTransformerConfig, LongTransformerModel
from hf_longseq.models.longseq_attention import local_bias
from hf_longseq.models.mimetic_init import mimetic_attention_, near_identity
from toy_models import make_inputs, make_model


def transformer(**fields):
    torch.manual_seed(0)
    sizes = dict(vocab_size=30, hidden_size=64, num_hidden_layers=2, num_attention_heads=4)
    return LongTransformerModel(LongTransformerConfig(**{**sizes, **fields})).eval()


def maps(layer):
    return layer.q_proj, layer.k_proj, layer.v_proj, layer.o_proj


# The local bias


def test_slopes_are_a_geometric_sequence_that_starts_and_falls_at_its_ratio():
    positions = torch.arange(6)[None]
    bias = local_bias(positions, positions, 8)
    assert bias.shape == (1, 8, 6, 6)
    assert -bias[0, :, 0, 1] == pytest.approx([1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256])
    assert torch.equal(bias, bias.transpose(-1, -2)) and not bias.diagonal(dim1=-2, dim2=-1).any()
    assert torch.allclose(bias[..., 0, :], bias[..., 0, 1:2] * torch.arange(6))  # linear in the distance


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_attention_adds_the_bias_to_its_scores(bidirectional, implementation):
    model = transformer(
        attention_bias="local", position_embedding="none", bidirectional=bidirectional, num_hidden_layers=1
    )
    model.set_attn_implementation(implementation)
    layer = model.layers[0].mixer
    x_BLH = torch.randn(1, 7, 64)
    with torch.no_grad():
        heads = [proj(x_BLH).view(7, 4, 16).transpose(0, 1) for proj in (layer.q_proj, layer.k_proj, layer.v_proj)]
        query, key, value = heads
        row, column = torch.arange(7)[:, None], torch.arange(7)[None]
        slopes = torch.tensor([2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8])[:, None, None]
        scores = query @ key.transpose(-1, -2) / 4 - slopes * (row - column).abs()
        if not bidirectional:
            scores = scores.masked_fill(column > row, float("-inf"))
        expected = layer.o_proj((scores.softmax(-1) @ value).transpose(0, 1).reshape(1, 7, 64))
        hidden, inputs = model.mixer_inputs(x_BLH, None, None, None)
        torch.testing.assert_close(layer(hidden, **inputs)[0], expected)


def test_a_window_as_wide_as_the_sequence_is_full_attention_with_the_same_bias():
    inputs = {"input_ids": torch.randint(0, 30, (2, 12))}
    full, window = transformer(attention_bias="local"), transformer(attention_bias="local", attention_window=6)
    with torch.no_grad():
        torch.testing.assert_close(window(**inputs).last_hidden_state[:, :6], full(**inputs).last_hidden_state[:, :6])


def test_the_bias_has_no_parameters_and_works_in_half_precision():
    assert transformer(attention_bias="local").num_parameters() == transformer().num_parameters()
    for model in (transformer(attention_bias="local"), transformer(attention_bias="local", attention_window=4)):
        ids = torch.randint(0, 30, (2, 12))
        mask = torch.ones_like(ids)
        mask[0, :3] = 0
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.isfinite(model(input_ids=ids, attention_mask=mask).last_hidden_state).all()
        assert torch.isfinite(model.to(torch.bfloat16)(input_ids=ids, attention_mask=mask).last_hidden_state).all()


# Mimetic initialisation of attention


def test_queries_and_keys_are_the_best_factors_of_a_noisy_identity():
    model = transformer(init="mimetic", num_hidden_layers=1)
    torch.manual_seed(5)
    mimetic_attention_(*maps(layer := model.layers[0].mixer), num_heads=4)
    torch.manual_seed(5)
    for head in range(4):
        left, singular, right = torch.linalg.svd(near_identity(64, 0.7, 0.7))
        expected = left[:, :16] * singular[:16] @ right[:16]
        rows = slice(16 * head, 16 * head + 16)
        torch.testing.assert_close(
            layer.q_proj.weight[rows].T @ layer.k_proj.weight[rows], expected, atol=1e-5, rtol=0
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_in_half_precision_begins_mimetic(dtype):
    config = transformer(init="mimetic", num_hidden_layers=1).config
    assert AutoModel.from_config(config, dtype=dtype).layers[0].mixer.q_proj.weight.dtype == dtype


def test_values_and_outputs_multiply_to_a_noisy_negative_identity():
    layer = transformer(init="mimetic", hidden_size=256).layers[0].mixer
    product = (layer.v_proj.weight.T @ layer.o_proj.weight.T).detach()
    noise = product + 0.4 * torch.eye(256)
    assert product.diagonal().mean() == pytest.approx(-0.4, abs=0.01)
    assert noise.std() == pytest.approx(0.4 / 16, rel=0.05) and abs(noise.mean()) < 1e-3
    assert all(not proj.bias.any() for proj in maps(layer))


def test_positions_begin_by_attending_to_their_neighbours():
    sizes = dict(hidden_size=256, num_attention_heads=4, num_hidden_layers=1, position_embedding="sinusoidal")
    near = {}
    for name in (None, "mimetic"):
        model = transformer(init=name, **sizes)
        model.set_attn_implementation("eager")
        weights = model(inputs_embeds=torch.zeros(1, 40, 256), output_attentions=True).attentions[0][0]
        distance = (torch.arange(40)[:, None] - torch.arange(40)).abs()
        near[name] = (weights * (distance <= 2)).sum(-1).mean().item()
    assert near["mimetic"] > 2 * near[None]


def test_a_seed_gives_the_same_weights_and_loading_keeps_the_trained_ones(tmp_path):
    first, second = transformer(init="mimetic"), transformer(init="mimetic")
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.add_(1.0)
    first.save_pretrained(tmp_path)
    again = AutoModel.from_pretrained(tmp_path)
    assert again.config.init == "mimetic"
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))


def test_the_two_controls_leave_everything_else_as_it_is():
    plain, mimetic = make_model("transformer", "Model"), make_model("transformer", "Model", init="mimetic")
    inputs = make_inputs(plain)
    changed = {name for name, tensor in mimetic.state_dict().items() if tensor.shape != plain.state_dict()[name].shape}
    assert not changed and not torch.allclose(plain(**inputs)[0], mimetic(**inputs)[0])


# Mimetic initialisation of selective state spaces


def mamba(model_type, **fields):
    torch.manual_seed(0)
    sizes = dict(vocab_size=20, hidden_size=16, num_hidden_layers=2, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    if model_type == "mamba2":
        sizes |= dict(state_size=8, num_heads=4, head_dim=8, n_groups=1, chunk_size=8)
    trunk = AutoConfig.for_model(model_type, **sizes)
    config = AdapterConfig(backbone_config=trunk, input_type="tokens", bidirectional="separate", **fields)
    return AdapterForMaskedLM(config).eval()


def test_mamba2_begins_as_linear_attention():
    mixer = mamba("mamba2", init="mimetic").model.backbone.layers[1].mixer
    x_LH = torch.randn(12, 16)
    with torch.no_grad():
        gate, parts, _ = mixer.in_proj(x_LH).split([32, 48, 4], dim=-1)
        inputs, keys, queries = F.silu(parts).split([32, 8, 8], dim=-1)
        scores = (queries @ keys.T).tril()
        read = scores @ inputs + inputs * mixer.D.repeat_interleave(8)
        expected = mixer.out_proj(mixer.norm(read, gate))
        torch.testing.assert_close(mixer(x_LH[None])[0], expected, atol=1e-2, rtol=1e-2)  # it keeps 0.9997 of a state


def test_reading_is_halfway_between_its_own_draw_and_writing():
    def rows(**fields):
        return mamba("mamba2", **fields).model.backbone.layers[0].mixer.in_proj.weight[64:80].detach().chunk(2)

    (write, read), (drawn_write, drawn_read) = rows(init="mimetic"), rows()
    assert torch.equal(write, drawn_write)
    torch.testing.assert_close(read, (drawn_read + write) / 2)


def test_mamba_begins_with_unit_steps_a_lasting_state_and_related_reading_and_writing():
    mixer = mamba("mamba", init="mimetic").model.backbone.layers[0].mixer
    assert (F.softplus(mixer.dt_proj.bias) - 1).abs().max() < 1e-6 and not mixer.dt_proj.weight.any()
    assert torch.exp(-torch.exp(mixer.A_log)).min() > 0.999
    _, write, read = mixer.x_proj.weight.detach().split([mixer.time_step_rank, 16, 16])
    assert F.cosine_similarity(write.flatten(), read.flatten(), dim=0) == pytest.approx(0.5**0.5, abs=0.1)
    x_BHL = torch.randn(1, 32, 9)
    torch.testing.assert_close(mixer.conv1d(x_BHL)[..., :9], x_BHL)


def test_both_directions_are_changed_and_a_checkpoint_keeps_its_weights(tmp_path):
    model = mamba("mamba2", init="mimetic")
    for trunk in (model.model.backbone, model.model.backbone_reverse):
        assert all((layer.mixer.A_log == -8).all() for layer in trunk.layers)
    assert not (mamba("mamba2").model.backbone.layers[0].mixer.A_log == -8).any()
    with torch.no_grad():
        model.model.backbone.layers[0].mixer.A_log.fill_(0.5)
    model.save_pretrained(tmp_path)
    again = AdapterForMaskedLM.from_pretrained(tmp_path)
    assert (again.model.backbone.layers[0].mixer.A_log == 0.5).all()


def test_guarded_functions_are_used_throughout():
    layer = transformer(init="mimetic").layers[0].mixer
    before = layer.q_proj.weight.clone()
    layer.q_proj.weight._is_hf_initialized = True  # what transformers sets on a loaded parameter
    mimetic_attention_(*maps(layer), num_heads=4)
    assert torch.equal(layer.q_proj.weight, before)


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: transformer(init="xavier"), "LongTransformerConfig.init is 'xavier'; choose one of None, 'mimetic'"),
        (lambda: transformer(attention_bias="alibi"), "attention_bias is 'alibi'; choose one of None, 'local'"),
        (lambda: mamba("rwkv", init="mimetic"), "init is 'mimetic', which is for trunks of mamba and mamba2"),
    ],
)
def test_wrong_words_are_refused(build, message):
    with pytest.raises(Exception, match=message):
        build()
