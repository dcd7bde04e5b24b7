"""A causal trunk of transformers read forwards and backwards: what it sees, padding, saving, every head."""

import itertools

import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from hf_longseq.models import (
    AdapterConfig,
    AdapterForMaskedLM,
    AdapterForPreTraining,
    AdapterForSequenceClassification,
    AdapterForTokenClassification,
    AdapterModel,
)
from hf_longseq.models.modeling_adapter import ReadingOrder

SIZES = dict(hidden_size=16, num_hidden_layers=2, vocab_size=20, pad_token_id=0, bos_token_id=1, eos_token_id=2)
ATTENTION = dict(SIZES, num_attention_heads=2, intermediate_size=32)
STATE_SPACE = dict(state_size=8, num_heads=4, head_dim=8, n_groups=1, chunk_size=8)
BACKBONES = {
    "mamba": SIZES,
    "mamba2": dict(SIZES, **STATE_SPACE),
    "falcon_mamba": SIZES,
    "rwkv": dict(SIZES, attention_hidden_size=16, intermediate_size=32),
    "xlstm": dict(SIZES, num_heads=4, chunk_size=16),
    "recurrent_gemma": dict(ATTENTION, num_key_value_heads=2, head_dim=8, attention_window_size=8),
    "llama": dict(ATTENTION, num_key_value_heads=2),
    "gpt_neox": ATTENTION,
    "gpt2": ATTENTION,
}
# their implementations in transformers ignore attention_mask, or do not take one
WITHOUT_MASK = ("rwkv", "xlstm")
backbones = pytest.mark.parametrize("backbone", BACKBONES)
variants = pytest.mark.parametrize(
    "directions, join", itertools.product(("shared", "separate"), ("sum", "concat")), ids="-".join
)


def make(backbone, model_class=AdapterModel, directions="shared", join="sum", **options):
    torch.manual_seed(0)
    trunk = AutoConfig.for_model(backbone, **BACKBONES[backbone])
    fields = dict(bidirectional=directions, direction_join=join, num_channels=2)
    return model_class(AdapterConfig(backbone_config=trunk, **{**fields, **options})).eval()


def values(length=13, seed=3):
    return torch.randn(2, length, 2, generator=torch.Generator().manual_seed(seed))


def padded(x, left, right):
    """`x` (B, L, ...) between huge values or other tokens, and the mask that hides them."""
    fill = 7 if x.dtype == torch.long else 1e4
    sides = [x.new_full((x.shape[0], count, *x.shape[2:]), fill) for count in (left, right)]
    mask = torch.zeros(x.shape[0], left + x.shape[1] + right, dtype=torch.long)
    mask[:, left : left + x.shape[1]] = 1
    return torch.cat([sides[0], x, sides[1]], dim=1), mask


@backbones
def test_padding_on_either_side_changes_nothing(backbone):
    x, model = values(), make(backbone)
    with torch.no_grad():
        alone = model(input_values=x).last_hidden_state
        for left, right in ((0, 5), (4, 0), (3, 30)):
            inputs, mask = padded(x, left, right)
            hidden = model(input_values=inputs, attention_mask=mask).last_hidden_state
            torch.testing.assert_close(hidden[:, left : left + 13], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("backbone", "head"),
    [(backbone, AdapterForMaskedLM) for backbone in BACKBONES]
    + [("mamba2", head) for head in (AdapterForSequenceClassification, AdapterForTokenClassification)],
)
def test_a_row_in_a_batch_of_other_lengths_is_as_alone(backbone, head):
    model = make(backbone, head, input_type="tokens")
    ids = torch.randint(3, 20, (2, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[0, :4] = 0
    mask[1, 6:] = 0
    with torch.no_grad():
        batch = model(input_ids=ids, attention_mask=mask).logits
        rows = [model(input_ids=ids[:1, 4:]).logits, model(input_ids=ids[1:, :6]).logits]
    if batch.ndim == 3:
        batch = [batch[:1, 4:], batch[1:, :6]]
    for got, alone in zip(batch, rows, strict=True):
        torch.testing.assert_close(got.reshape(alone.shape), alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("backbone", "directions"), [*((backbone, "shared") for backbone in BACKBONES), ("mamba2", "separate")]
)
def test_every_position_is_seen_from_every_other(backbone, directions):
    x, model = values(length=4), make(backbone, directions=directions)
    with torch.no_grad():
        before = model(input_values=x).last_hidden_state
        for position in range(4):
            changed = x.clone()
            changed[:, position] += 3
            moved = (model(input_values=changed).last_hidden_state - before).abs().amax(dim=(0, 2))
            assert (moved > 0).all()


@variants
def test_a_position_joins_the_past_with_what_strictly_follows(directions, join):
    x = values(length=6)
    model = make("llama", directions=directions, join=join)
    reverse = model.backbone_reverse or model.backbone
    with torch.no_grad():
        embeds = model.embed_values(torch.cat([x, torch.zeros_like(x[..., :1])], dim=-1))
        past = model.backbone(inputs_embeds=embeds).last_hidden_state
        future = reverse(inputs_embeds=embeds.flip(1)).last_hidden_state.flip(1)
        future = torch.cat([future[:, 1:], torch.zeros_like(future[:, :1])], dim=1)
        expected = past + future if join == "sum" else model.join(torch.cat([past, future], dim=-1))
        torch.testing.assert_close(model(input_values=x).last_hidden_state, expected)


def test_positions_outside_the_mask_are_removed_wherever_they_are():
    mask = torch.tensor([[0, 1, 1, 0, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 1]])
    order = ReadingOrder.of(mask, 3, 5, "cpu")
    assert [row[: sum(m)].tolist() for row, m in zip(order.forward_BL, mask, strict=True)] == [
        [1, 2, 4],
        [0, 1, 2],
        [4],
    ]
    assert [row[: sum(m)].tolist() for row, m in zip(order.backward_BL, mask, strict=True)] == [
        [4, 2, 1],
        [2, 1, 0],
        [4],
    ]
    names = mask * torch.arange(1, 6)  # every position named after itself, as both runs would pass it on
    runs = [names.gather(1, index)[..., None].float() for index in (order.forward_BL, order.backward_BL)]
    past, future = (part[..., 0] for part in order.unpack(*runs))
    assert past.tolist() == names.tolist()
    assert future[0, [1, 2, 4]].tolist() == [3, 5, 0] and future[1, :3].tolist() == [2, 3, 0] and future[2, 4] == 0


@pytest.mark.parametrize("backbone", ["mamba2", "rwkv", "xlstm", "recurrent_gemma", "llama"])
def test_saved_and_opened_by_auto_classes(backbone, tmp_path):
    model = make(backbone, AdapterForMaskedLM, "separate", "concat", input_type="tokens")
    model.save_pretrained(tmp_path)
    again, found = AutoModelForMaskedLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not found["missing_keys"] and not found["unexpected_keys"]
    ids = torch.randint(3, 20, (2, 9))
    with torch.no_grad():
        torch.testing.assert_close(again.eval()(input_ids=ids).logits, model(input_ids=ids).logits)
    classifier, found = AutoModelForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert all(key.startswith("classifier.") for key in found["missing_keys"])
    assert classifier(input_ids=ids).logits.shape == (2, 2)
    embeddings = [key for key, tensor in load_file(tmp_path / "model.safetensors").items() if 20 in tensor.shape]
    assert len(embeddings) == 3  # one token embedding for both directions, weight and bias of the head


@pytest.mark.parametrize("directions", ["shared", "separate"])
def test_mamba2_labels_every_position_from_both_sides(directions, tmp_path):
    model = make("mamba2", AdapterForTokenClassification, directions, input_type="tokens", num_labels=3)
    ids = torch.randint(3, 20, (2, 9), generator=torch.Generator().manual_seed(1))
    labels = torch.randint(3, (2, 9), generator=torch.Generator().manual_seed(2))
    mask = torch.ones_like(ids)
    mask[0, 6:] = 0
    labels[1, 0] = -100
    out = model(input_ids=ids, attention_mask=mask, labels=labels)
    kept = (mask == 1) & (labels != -100)
    expected = torch.nn.functional.cross_entropy(out.logits[kept], labels[kept])
    torch.testing.assert_close(out.loss, expected)
    out.loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    model.save_pretrained(tmp_path)
    again = AutoModelForTokenClassification.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(again(input_ids=ids, attention_mask=mask).logits, out.logits)


@backbones
def test_every_parameter_learns(backbone):
    x = values()
    model = make(backbone, AdapterForPreTraining, "separate", "concat").train()
    model(input_values=x, labels=x.clone()).loss.backward()
    assert not [name for name, parameter in model.named_parameters() if parameter.grad is None]


def test_levels_pairs_and_regression():
    x = values()
    assert make("mamba2", AdapterForPreTraining, num_levels=7)(input_values=x).logits.shape == (2, 13, 2, 7)
    pairs = make("rwkv", AdapterForSequenceClassification, input_type="tokens", pair_classification=True)
    ids = torch.randint(3, 20, (2, 9))
    assert pairs(input_ids=ids, input_ids_2=ids.flip(1)).logits.shape == (2, 2)
    units = dict(problem_type="regression", label_mean=[80.0], label_scale=[10.0], id2label={0: "value"})
    out = make("llama", AdapterForSequenceClassification, **units)(input_values=x, labels=torch.tensor([70.0, 90.0]))
    assert out.logits.shape == (2, 1) and 0 < out.loss < 10


@pytest.mark.parametrize("directions", ["shared", "separate"])
def test_hidden_states_are_those_of_both_runs(directions):
    x, model = values(), make("llama", directions=directions)
    out = model(input_values=x, output_hidden_states=True)
    assert len(out.hidden_states) == 3 and all(state.shape == (2, 13, 16) for state in out.hidden_states)
    assert torch.equal(out.hidden_states[-1], out.last_hidden_state)


def test_true_and_false_are_words_for_shared_and_none():
    trunk = AutoConfig.for_model("mamba2", **BACKBONES["mamba2"])
    fields = [AdapterConfig(backbone_config=trunk, bidirectional=value).bidirectional for value in (True, False, None)]
    assert fields == ["shared", None, None]


def test_rwkv_keeps_its_weights_when_it_evaluates():
    BACKBONES["deep"] = dict(BACKBONES["rwkv"], num_hidden_layers=8)
    trunk = AutoConfig.for_model("rwkv", **BACKBONES.pop("deep"))
    model = AdapterModel(AdapterConfig(backbone_config=trunk, num_channels=2, bidirectional=True)).train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.eval()(input_values=values())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize(
    "fields, message",
    [
        (dict(bidirectional="both"), "bidirectional is 'both'; choose one of None, 'shared', 'separate'"),
        (dict(direction_join="mean"), "direction_join is 'mean'; choose one of 'sum', 'concat'"),
        (dict(bidirectional=True, pretraining_objective="causal"), "would see what it predicts"),
    ],
)
def test_wrong_fields_are_refused(fields, message):
    trunk = AutoConfig.for_model("mamba2", **BACKBONES["mamba2"])
    with pytest.raises(Exception, match=message):
        AdapterConfig(backbone_config=trunk, **fields)


def test_an_encoder_reads_both_ways_already():
    trunk = AutoConfig.for_model("bert", **ATTENTION)
    with pytest.raises(Exception, match="bert sees both sides already; leave it out"):
        AdapterConfig(backbone_config=trunk, bidirectional=True)
