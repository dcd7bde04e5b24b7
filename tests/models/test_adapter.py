"""The adapter: a base model of transformers behind our inputs and heads."""

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModel, AutoModelForPreTraining, AutoModelForSequenceClassification

from hf_longseq.models import (
    AdapterConfig,
    AdapterForPreTraining,
    AdapterForSequenceClassification,
    AdapterForTokenClassification,
    AdapterModel,
    S4Config,
)

SIZES = dict(hidden_size=16, num_hidden_layers=2, vocab_size=20, pad_token_id=0)
ATTENTION = dict(SIZES, num_attention_heads=2, intermediate_size=32)
BACKBONES = {
    "bert": ATTENTION,
    "roberta": ATTENTION,
    "modernbert": ATTENTION,
    "longformer": dict(ATTENTION, attention_window=8),
    "electra": dict(ATTENTION, embedding_size=12),
    "gpt_neox": ATTENTION,
    "llama": dict(ATTENTION, num_key_value_heads=2),
    "gpt2": ATTENTION,
    "mamba": SIZES,
    "mamba2": dict(SIZES, state_size=8, num_heads=4, head_dim=8, n_groups=1, chunk_size=8),
}
CAUSAL = ("gpt_neox", "llama", "gpt2", "mamba", "mamba2")
backbones = pytest.mark.parametrize("backbone", BACKBONES)


def make(backbone, model_class=AdapterForPreTraining, **options):
    torch.manual_seed(0)
    config = AutoConfig.for_model(backbone, **BACKBONES[backbone])
    return model_class(AdapterConfig(backbone_config=config, **{"num_channels": 2, **options})).eval()


def batch(length=13, padded=0):
    """Two rows of two channels, the second padded on the right."""
    values = torch.randn(2, length + padded, 2, generator=torch.Generator().manual_seed(3))
    mask = torch.ones(2, length + padded, dtype=torch.long)
    mask[1, length:] = 0
    return values, mask


@backbones
def test_right_padding_changes_no_reconstruction_and_no_class(backbone):
    values, mask = batch(padded=5)
    for model in (
        make(backbone),
        make(backbone, AdapterForSequenceClassification),
        make(backbone, AdapterForTokenClassification),
    ):
        with torch.no_grad():
            padded = model(input_values=values, attention_mask=mask).logits[1:]
            alone = model(input_values=values[1:, :13]).logits
        torch.testing.assert_close(padded[:, :13] if padded.ndim == 3 else padded, alone)


@backbones
def test_saving_and_loading_gives_the_same_output_and_holds_no_token_embedding(backbone, tmp_path):
    model = make(backbone)
    model.save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    assert not any(20 in tensor.shape for tensor in stored.values())  # the vocabulary
    values, mask = batch()
    again, found = AutoModelForPreTraining.from_pretrained(tmp_path, output_loading_info=True)
    assert not found["missing_keys"] and not found["unexpected_keys"]
    with torch.no_grad():
        expected = model(input_values=values, attention_mask=mask).logits
        torch.testing.assert_close(again.eval()(input_values=values, attention_mask=mask).logits, expected)
    assert type(again.config.backbone_config) is type(model.config.backbone_config)


@backbones
def test_every_parameter_of_the_trunk_learns(backbone):
    values, mask = batch()
    model = make(backbone).train()
    model(input_values=values, attention_mask=mask, labels=values.clone()).loss.backward()
    idle = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert all("_global." in name for name in idle)  # Longformer's global attention, which nothing asks for


@pytest.mark.parametrize("backbone", CAUSAL)
def test_a_decoder_looks_back_only(backbone):
    values, _ = batch()
    changed = values.clone()
    changed[:, 8:] += 1
    model = make(backbone, pretraining_objective="causal")
    with torch.no_grad():
        before, after = model(input_values=values).logits, model(input_values=changed).logits
    torch.testing.assert_close(before[:, :8], after[:, :8])
    assert not torch.allclose(before[:, 8:], after[:, 8:])


def test_a_masked_value_leaks_nothing_and_its_flag_counts():
    values, _ = batch()
    masked = torch.zeros(2, 13, dtype=torch.bool)
    masked[:, 4] = True
    other = values.clone()
    other[:, 4] = 9.0
    model = make("bert")
    with torch.no_grad():
        hidden = model(input_values=values, bool_masked_pos=masked).logits
        torch.testing.assert_close(hidden, model(input_values=other, bool_masked_pos=masked).logits)
        zeroed = torch.where(masked[..., None], 0.0, values)
        assert not torch.allclose(hidden, model(input_values=zeroed).logits)


def test_gradients_do_not_depend_on_accumulation():
    values, mask = batch(padded=4)
    labels = torch.where(mask[..., None].bool(), values, -100.0)
    count = (labels != -100).sum()
    model = make("modernbert")
    model(input_values=values, attention_mask=mask, labels=labels, num_items_in_batch=count).loss.backward()
    whole = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    for row in range(2):
        part = slice(row, row + 1)
        inputs = dict(input_values=values[part], attention_mask=mask[part], labels=labels[part])
        model(**inputs, num_items_in_batch=count).loss.backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, whole[name])


def test_levels_pairs_and_regression():
    values, mask = batch()
    levels = make("bert", num_levels=7)
    assert levels(input_values=values).logits.shape == (2, 13, 2, 7)
    pairs = make("mamba2", AdapterForSequenceClassification, input_type="tokens", pair_classification=True)
    ids = torch.randint(1, 20, (2, 9))
    both = dict(input_ids=ids, input_ids_2=ids.flip(1), attention_mask=mask[:, :9], attention_mask_2=mask[:, :9])
    assert pairs(**both).logits.shape == (2, 2)
    units = dict(problem_type="regression", label_mean=[80.0], label_scale=[10.0], id2label={0: "value"})
    regressor = make("bert", AdapterForSequenceClassification, **units)
    out = regressor(input_values=values, labels=torch.tensor([70.0, 90.0]))
    assert out.logits.shape == (2, 1) and 0 < out.loss < 10 and (out.logits - 80).abs().max() < 30


def test_state_space_parameters_are_not_decayed():
    groups = make("mamba").parameter_groups(1e-3, weight_decay=0.1, ssm_learning_rate=1e-4)
    sizes = {group["name"]: (group["lr"], group["weight_decay"], len(group["params"])) for group in groups}
    assert sizes["ssm"] == (1e-4, 0.0, 4)  # A_log and D of two layers
    assert sizes["decay"][1] == 0.1 and sizes["no_decay"][1] == 0.0


@pytest.mark.parametrize(
    "inputs, message",
    [
        (dict(input_ids=torch.ones(1, 4, dtype=torch.long)), "reads real values"),
        (dict(input_values=torch.ones(1, 4, 3)), "the model reads"),
        (dict(input_values=torch.full((1, 4, 2), float("nan"))), "NaN or infinity in row 0"),
        (dict(input_values=torch.ones(1, 0, 2)), "length 0"),
    ],
)
def test_wrong_inputs_are_refused(inputs, message):
    with pytest.raises(ValueError, match=message):
        make("bert", AdapterModel)(**inputs)


def test_a_configuration_without_a_trunk_is_refused():
    with pytest.raises(Exception, match="backbone_config is None"):
        AdapterConfig()
    for trunk in ({"model_type": "foo"}, {"hidden_size": 8}):
        with pytest.raises(ValueError, match=f"has the model_type {trunk.get('model_type')!r}, which transformers"):
            AdapterConfig(backbone_config=trunk)


@pytest.mark.parametrize(
    "field, value",
    [
        ("input_type", "text"),
        ("pooling", "best"),
        ("problem_type", "rank"),
        ("num_levels", 1),
        ("label_mean", [0.5]),
    ],
)
def test_fields_of_inputs_and_heads_are_checked_as_in_our_own_architectures(field, value):
    for build in (S4Config, lambda **fields: make("bert", AdapterModel, **fields)):
        with pytest.raises(Exception, match=f"Config.{field} is"):
            build(**{field: value})


def test_attentions_and_hidden_states_of_the_trunk_are_returned(tmp_path):
    make("bert").save_pretrained(tmp_path)
    values, _ = batch()
    model = AutoModel.from_pretrained(tmp_path, attn_implementation="eager").eval()
    out = model(input_values=values, output_attentions=True, output_hidden_states=True)
    assert len(out.attentions) == 2 and len(out.hidden_states) == 3
    classifier = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert classifier(input_values=values).logits.shape == (2, 2)


@backbones
def test_no_sequences_give_no_results(backbone):
    values = batch()[0][:0]
    assert make(backbone, AdapterForSequenceClassification)(input_values=values).logits.shape == (0, 2)
    assert make(backbone, AdapterForTokenClassification)(input_values=values).logits.shape == (0, 13, 2)
