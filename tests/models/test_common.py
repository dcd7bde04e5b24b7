"""What holds for every architecture: padding changes nothing, saving loses nothing, gradients are exact."""

import functools

import pytest
import torch
from transformers import (
    AutoModel,
    AutoModelForPreTraining,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from hf_longseq.models.ssm_plan import forced
from hf_longseq.training import check_mixer
from hf_longseq.training.check_mixer import pad, pad_both, real_part
from toy_models import HEADS, SMALL, VARIANTS, head_class, make_config, make_inputs, make_model

variants = pytest.mark.parametrize("variant", VARIANTS)
directions = pytest.mark.parametrize("bidirectional", [False, True], ids=["causal", "bidirectional"])


def maker(variant: str):
    """What a check of `hf_longseq.training.check_mixer` takes: `make(head, **fields)`."""
    return functools.partial(make_model, variant)


@variants
@directions
def test_padding_changes_no_real_position_whatever_stands_in_it(variant, bidirectional):
    check_mixer.padding(maker(variant), bidirectional)


@pytest.mark.parametrize("kind", ["input_ids", "inputs_embeds"])
@pytest.mark.parametrize("variant", ["s4", "transformer"])
@torch.no_grad()
def test_padding_of_tokens_and_of_embeddings_changes_no_real_position(variant, kind):
    model = make_model(variant, "Model", bidirectional=True)
    batch = make_inputs(model) if kind == "input_ids" else {kind: torch.randn(3, 11, 16)}
    alone, padded = model(**batch).last_hidden_state, pad_both(batch)
    if kind == "inputs_embeds":
        padded[kind][padded["attention_mask"] == 0] = float("nan")
    found = real_part(model(**padded).last_hidden_state, 11)
    torch.testing.assert_close(found, alone.expand_as(found), atol=2e-5, rtol=1e-4)


@variants
@directions
def test_holes_are_removed_for_attention_and_time_for_states(variant, bidirectional):
    model = make_model(variant, "Model", bidirectional=bidirectional).double()
    ids = make_inputs(model)["input_ids"]
    mask = torch.ones_like(ids)
    mask[:, 4:6] = 0
    real = mask[0] == 1
    with torch.no_grad():
        holes = model(input_ids=ids, attention_mask=mask).last_hidden_state[:, real]
        other = model(input_ids=torch.where(mask == 1, ids, 7), attention_mask=mask).last_hidden_state[:, real]
        removed = model(input_ids=ids[:, real]).last_hidden_state
    torch.testing.assert_close(other, holes)
    if variant.startswith("transformer"):
        torch.testing.assert_close(holes, removed, atol=1e-12, rtol=0)
    else:
        assert not torch.allclose(holes, removed, atol=1e-5)


@pytest.mark.parametrize("variant", [name for name in VARIANTS if not name.startswith("transformer")])
@directions
@torch.no_grad()
def test_a_hole_is_a_zero_over_which_time_passes(variant, bidirectional):
    mixer = make_model(variant, "Model", bidirectional=bidirectional).double().layers[0].mixer
    u, mask = torch.randn(2, 11, 16, dtype=torch.float64), torch.ones(2, 11)
    mask[:, [2, 5, 6]] = 0
    real = mask[0] == 1
    zeroed = u * mask[..., None]
    found = mixer(u, attention_mask=mask)[0][:, real]
    if variant.startswith("mega"):  # the averages of all positions, then attention among the real ones
        average = mixer.ema(zeroed)
        mixer.ema.forward = lambda *inputs: average[:, real]
        expected = mixer(u[:, real])[0]
    else:
        expected = mixer(zeroed)[0][:, real]
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    ("variant", "head"),
    [(name, "ForTokenClassification") for name in SMALL]
    + [("s4", head) for head in ("Model", *HEADS) if head != "ForTokenClassification"],
)
def test_no_sequences_give_no_results(variant, head):
    values = {"input_type": "values", "num_channels": 2} if head == "ForPreTraining" else {}
    model = make_model(variant, head, bidirectional=head == "ForMaskedLM", num_labels=3, **values)
    batch = {name: x[:0] for name, x in make_inputs(model).items()}
    one = model(**make_inputs(model))[0]
    mask = torch.ones(0, 11, dtype=torch.long)
    for inputs in (batch, batch | {"attention_mask": mask}):
        assert model(**inputs)[0].shape == (0, *one.shape[1:])
    if head != "Model":
        labels = {"ForPreTraining": torch.zeros(0, 11, 2), "ForSequenceClassification": mask[:, 0]}.get(head, mask)
        assert model.train()(**batch, labels=labels).loss == 0


@pytest.mark.parametrize("variant", SMALL)
def test_a_mask_of_another_shape_is_one_sentence(variant):
    model = make_model(variant, "Model", bidirectional=False)
    batch = make_inputs(model)
    for shape in ((3, 10), (3, 12), (2, 11), (1, 11)):
        with pytest.raises(
            ValueError, match=rf"attention_mask has shape \({shape[0]}, {shape[1]}\) but the inputs have"
        ):
            model(**batch, attention_mask=torch.ones(shape))
    cache = model(**batch, use_cache=True).past_key_values
    with pytest.raises(ValueError, match="those in the cache included"):
        model(**batch, past_key_values=cache, attention_mask=torch.ones(3, 5))


@pytest.mark.parametrize("pooling", ["mean", "max", "first", "last"])
@torch.no_grad()
def test_padding_changes_no_prediction(pooling):
    model = make_model("s4", "ForSequenceClassification", bidirectional=True, pooling=pooling, num_labels=3)
    batch = make_inputs(model)
    alone = model(**batch).logits.repeat(2, 1)
    torch.testing.assert_close(model(**pad_both(batch)).logits, alone, atol=2e-5, rtol=1e-4)


VALUES = {"input_type": "values", "num_channels": 2}
SCORED_POSITIONS = {
    "masked tokens": ("ForMaskedLM", {"bidirectional": True}),
    "next token": ("ForCausalLM", {}),
    "values": ("ForPreTraining", {"bidirectional": True, **VALUES}),
    "levels": ("ForPreTraining", {"bidirectional": True, "num_levels": 7, **VALUES}),
    "next value": ("ForPreTraining", {"pretraining_objective": "causal", **VALUES}),
    "classes": ("ForTokenClassification", {"bidirectional": True, "num_labels": 3}),
    "several labels": ("ForTokenClassification", {"problem_type": "multi_label_classification", "num_labels": 2}),
    "numbers": ("ForTokenClassification", {"problem_type": "regression", "num_labels": 1}),
}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("variant", ["s4", "transformer"])
@pytest.mark.parametrize("what", SCORED_POSITIONS)
def test_padding_is_never_scored_and_changes_no_prediction_of_a_position(what, variant, side):
    head, options = SCORED_POSITIONS[what]
    model = make_model(variant, head, **options)
    draw, batch = torch.Generator().manual_seed(4), make_inputs(model)
    if what in ("values", "next value", "several labels", "numbers"):
        labels = torch.rand(3, 11, 1 if what == "numbers" else 2, generator=draw)
    else:
        labels = torch.randint(0, 3, (3, 11, 2) if what == "levels" else (3, 11), generator=draw)
    alone = model(**batch, labels=labels)
    added = torch.full_like(labels[:, :4], 999)  # no class at all, and nobody minds
    padded_labels = torch.cat((added, labels) if side == "left" else (labels, added), dim=1)
    padded = model(**pad(batch, side), labels=padded_labels)
    kept = padded.logits[:, -11:] if side == "left" else padded.logits[:, :11]
    torch.testing.assert_close(kept, alone.logits, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(padded.loss, alone.loss, atol=1e-5, rtol=1e-4)
    gradients = [torch.autograd.grad(out.loss, model.get_input_embeddings().weight)[0] for out in (padded, alone)]
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("side", ["left", "right"])
def test_labels_that_were_shifted_before_are_not_scored_at_padding(side):
    model = make_model("s4", "ForCausalLM")
    ids = make_inputs(model)["input_ids"]
    padded = pad({"input_ids": ids}, side)
    shifted = {"shift_labels": torch.nn.functional.pad(padded["input_ids"][:, 1:], (0, 1), value=-100)}
    if side == "right":
        shifted["shift_labels"][:, 10] = -100  # what follows the last real token is known to the caller alone
    torch.testing.assert_close(model(**padded, **shifted).loss, model(ids, labels=ids).loss)


@variants
def test_padding_changes_no_gradient(variant):
    check_mixer.padded_gradient(maker(variant))


@variants
def test_causal_models_do_not_look_ahead(variant):
    check_mixer.causality(maker(variant))


@variants
def test_one_position_at_a_time_equals_all_at_once(variant):
    check_mixer.causal_streams(maker(variant))


@variants
def test_a_seed_gives_the_weights_and_draws_all_of_a_mixer(variant):
    check_mixer.initialisation(maker(variant))


@pytest.mark.parametrize(
    ("variant", "head"),
    [(name, HEADS[0]) for name in VARIANTS] + [(name, head) for name in ("s4", "transformer") for head in HEADS[1:]],
)
def test_saving_and_loading_changes_nothing(variant, head):
    options = dict(input_type="values", num_levels=7) if head == "ForPreTraining" else {}
    check_mixer.saving(maker(variant), head, **options)


@pytest.mark.parametrize("variant", SMALL)
def test_every_auto_class_opens_a_pretrained_checkpoint(variant, tmp_path):
    model = make_model(variant, "ForPreTraining", input_type="values", bidirectional=True)
    model.save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").stat().st_mode == (tmp_path / "config.json").stat().st_mode
    assert set(model.auto_map) == set(make_model(variant, "Model").auto_map)
    batch = make_inputs(model)
    base = AutoModel.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        hidden = model.model(**batch).last_hidden_state
        assert torch.equal(base(**batch).last_hidden_state, hidden)
    for auto_class in (AutoModelForSequenceClassification, AutoModelForTokenClassification):
        classifier, report = auto_class.from_pretrained(tmp_path, num_labels=5, output_loading_info=True)
        assert {key.split(".")[0] for key in report["missing_keys"]} == {"classifier"}
        assert torch.equal(classifier.eval().model(**batch).last_hidden_state, hidden)
    assert type(AutoModelForPreTraining.from_pretrained(tmp_path)) is type(model)


@pytest.mark.parametrize("variant", SMALL)
def test_new_heads_and_bodies_are_initialised_alike(variant, tmp_path):
    """A checkpoint without a head gets one drawn as a fresh model's would be, not left-over memory."""
    make_model(variant, "Model").save_pretrained(tmp_path)
    loaded = head_class(make_config(variant), "ForSequenceClassification").from_pretrained(tmp_path)
    weight = loaded.classifier.out_proj.weight
    bound = weight.shape[1] ** -0.5
    assert weight.abs().max() <= bound
    assert 0.3 * bound < weight.std() < 0.9 * bound


SINGLE_PRECISION = {
    "S4Config": {"A_imag", "input_B", "log_dt", "log_neg_A_real", "low_rank_P", "output_C", "skip_D"},
    "DLRConfig": {"mode_decay_root", "mode_frequency", "mode_weight_W", "skip_D"},
    "LongTransformerConfig": set(),
    "CNNConfig": set(),
    "LRUConfig": {"gamma_log", "input_B", "nu_log", "output_C", "skip_D", "theta_log"},
    "S5Config": {"eigenvalue_imag", "eigenvalue_real", "input_B", "log_dt", "output_C", "skip_D"},
    "MegaConfig": {"damping_delta", "decay_alpha", "input_beta", "output_gamma", "skip_omega"},
}


@variants
def test_half_precision_keeps_state_space_parameters_in_float32(variant):
    model = make_model(variant, "Model")
    delicate = SINGLE_PRECISION[type(model.config).__name__]
    assert getattr(model.mixer_class, "ssm_parameter_names", frozenset()) <= delicate
    check_mixer.half_precision(maker(variant), frozenset(delicate))


@directions
@variants
def test_a_float64_model_computes_in_float64_from_the_input_to_the_loss(variant, bidirectional):
    model = make_model(variant, "ForSequenceClassification", bidirectional=bidirectional, num_labels=3).double()
    x, way = torch.randn(2, 3, 11, 16, dtype=torch.float64)

    def loss(step):
        return model(inputs_embeds=x + step * way, labels=torch.arange(3)).loss

    step = torch.zeros((), dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(loss(step), step)
    with torch.no_grad():  # a float32 number anywhere on the way would leave two digits of this difference
        difference = (loss(1e-5) - loss(-1e-5)) / 2e-5
    torch.testing.assert_close(difference, slope, rtol=1e-6, atol=1e-9)


@variants
def test_autocast_is_close_to_full_precision(variant):
    model = make_model(variant, "ForMaskedLM", bidirectional=True)
    batch = make_inputs(model)
    full = model(**batch, labels=batch["input_ids"])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = model(**batch, labels=batch["input_ids"])
        mixed.loss.backward()
    torch.testing.assert_close(mixed.loss.float(), full.loss, atol=0.05, rtol=0.05)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("variant", SMALL)
def test_gradient_checkpointing_gives_the_same_gradients(variant):
    model = make_model(variant, "ForMaskedLM", bidirectional=True).train()
    batch = make_inputs(model)
    gradients = []
    for checkpointing in (False, True):
        if checkpointing:
            model.gradient_checkpointing_enable()
        model.zero_grad()
        model(**batch, labels=batch["input_ids"]).loss.backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    torch.testing.assert_close(gradients[1], gradients[0], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("variant", SMALL)
def test_hidden_states_embeddings_and_tuples(variant):
    model = make_model(variant, "ForSequenceClassification", bidirectional=True)
    batch = make_inputs(model)
    with torch.no_grad():
        out = model(**batch, output_hidden_states=True)
        assert len(out.hidden_states) == 3
        embeds = model.get_input_embeddings()(batch["input_ids"])
        torch.testing.assert_close(model(inputs_embeds=embeds).logits, out.logits)
        assert torch.equal(model(**batch, return_dict=False)[0], out.logits)


@variants
def test_every_parameter_is_in_one_group(variant):
    check_mixer.parameter_groups(maker(variant))


FOURIER = ("s4", "dlr", "mega")


@pytest.mark.slow
@pytest.mark.parametrize("variant", SMALL)
def test_models_are_exported(variant):
    model = make_model(variant, "ForSequenceClassification", bidirectional=True)
    batch = make_inputs(model, length=40)  # more than one chunk of a scan
    batch["attention_mask"] = torch.ones(3, 40, dtype=torch.long)
    batch["attention_mask"][0, 30:] = 0
    program = torch.export.export(model, (), batch, strict=False)
    torch.testing.assert_close(program.module()(**batch).logits, model(**batch).logits, atol=1e-5, rtol=1e-4)


@pytest.mark.slow
def test_the_transformer_is_exported_with_a_length_that_varies():
    model = make_model("transformer", "ForSequenceClassification", bidirectional=True)
    batch, longer = make_inputs(model, length=12), make_inputs(model, length=70)
    shapes = {"input_ids": {1: torch.export.Dim("length", min=2, max=4096)}}
    program = torch.export.export(model, (), batch, strict=False, dynamic_shapes=shapes)
    torch.testing.assert_close(program.module()(**longer).logits, model(**longer).logits, atol=1e-5, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("variant", [name for name in SMALL if name not in FOURIER])
def test_mixers_compile_without_graph_breaks(variant):
    mixer = make_model(variant, "Model", bidirectional=True).layers[0].mixer
    x = torch.randn(2, 20, 16)
    compiled = torch.compile(mixer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x)[0], mixer(x)[0], atol=1e-5, rtol=1e-4)


WRONG = pytest.mark.xfail(strict=True, reason="inductor of torch 2.13 gives wrong gradients of S4's dt and poles")


@pytest.mark.parametrize(
    ("variant", "backend"),
    [(name, "aot_eager") for name in FOURIER]
    + [pytest.param("dlr", "inductor", marks=pytest.mark.slow)]
    + [pytest.param("s4", "inductor", marks=[pytest.mark.slow, WRONG])],
)
def test_mixers_with_a_fourier_transform_compile_for_inputs_that_are_not_contiguous(variant, backend):
    mixer = make_model(variant, "Model", bidirectional=True).layers[0].mixer
    x = torch.randn(16, 20, 2).permute(2, 1, 0).requires_grad_()
    compiled = torch.compile(mixer, fullgraph=True, backend=backend)
    with forced("fourier"):
        y, expected = compiled(x)[0], mixer(x)[0]
        gradients = [torch.autograd.grad(out.square().sum(), (x, *mixer.parameters())) for out in (y, expected)]
    assert not x.is_contiguous()
    torch.testing.assert_close(y, expected, atol=1e-5, rtol=1e-4)
    for found, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-3)
