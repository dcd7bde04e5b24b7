"""A bidirectional model asked for one direction: what it sees of its inputs, and what it refuses."""

import pytest
import torch

from toy_models import VARIANTS, make_inputs, make_model

LENGTH, AT = 11, 5
ATTENTIONS = ("sdpa", "eager", "flex_attention")
variants = pytest.mark.parametrize("variant", VARIANTS)


def seen(model, direction, inputs, attention_mask=None):
    """Which inputs (L,) the last hidden state at `AT` depends on, by its gradient in float64."""
    embedded = model.embed(**inputs).detach().requires_grad_()
    hidden = model(inputs_embeds=embedded, attention_mask=attention_mask, direction=direction).last_hidden_state
    (gradient,) = torch.autograd.grad(hidden[:, AT].square().sum(), embedded)
    size = gradient.abs().amax((0, 2))
    return size > 1e-5 * size.max()


@variants
def test_no_target_reaches_its_own_prediction(variant):
    model = make_model(variant, "Model", bidirectional=True, input_type="values")
    inputs = make_inputs(model, length=LENGTH)
    position = torch.arange(LENGTH)
    backward, forward = seen(model, "backward", inputs), seen(model, "forward", inputs)
    assert not backward[:AT].any() and backward[AT]
    assert not forward[AT + 1 :].any() and forward[AT]
    both = seen(model, None, inputs)
    assert torch.equal(forward, both & (position <= AT)) and torch.equal(backward, both & (position >= AT))


@pytest.mark.parametrize("direction", ["forward", "backward"])
@variants
def test_padding_changes_no_position_in_one_direction(variant, direction):
    model = make_model(variant, "Model", bidirectional=True)
    ids = make_inputs(model, length=LENGTH)["input_ids"]
    filled = torch.full((len(ids), 4), 3)
    mask = torch.cat([torch.zeros_like(filled), torch.ones_like(ids)], 1)
    padded = torch.cat([filled, ids], 1)
    with torch.no_grad():
        alone = model(ids, attention_mask=torch.ones_like(ids), direction=direction).last_hidden_state
        both_sides = {"attention_mask": torch.cat([mask, mask.roll(-4, 1)]), "direction": direction}
        left, right = model(torch.cat([padded, padded.roll(-4, 1)]), **both_sides).last_hidden_state.chunk(2)
    torch.testing.assert_close(left[:, 4:], alone, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(right[:, :LENGTH], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_every_attention_implementation_keeps_the_direction(attention):
    model = make_model("transformer", "Model", bidirectional=True)
    inputs = make_inputs(model, length=LENGTH)
    with torch.no_grad():
        expected = model(**inputs, direction="backward").last_hidden_state
        model.set_attn_implementation(attention)
        found = model(**inputs, direction="backward").last_hidden_state
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("variant", ["s4", "dlr", "lru", "s5", "mega"])
def test_two_directions_train_every_parameter_and_one_leaves_the_other_alone(variant):
    model = make_model(variant, "ForMaskedLM", bidirectional=True)
    ids = make_inputs(model, length=LENGTH)["input_ids"]
    readout = {"dlr": "mode_weight_W", "mega": "output_gamma"}.get(variant, "output_C")
    tensors = [tensor for name, tensor in model.named_parameters() if name.endswith(readout)]
    for row, direction in enumerate(("forward", "backward")):
        model.zero_grad()
        model(ids, labels=ids, direction=direction).loss.backward()
        for tensor in tensors:
            trained = [bool(half.any()) for half in tensor.grad.chunk(2)]
            assert trained == [row == 0, row == 1]


def test_gradient_checkpointing_keeps_the_direction():
    model = make_model("s4", "ForMaskedLM", bidirectional=True).train()
    ids = make_inputs(model, length=LENGTH)["input_ids"]
    losses = [model(ids, labels=ids, direction="backward").loss.item()]
    model.gradient_checkpointing_enable()
    losses.append(model(ids, labels=ids, direction="backward").loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


@pytest.mark.parametrize(
    "bidirectional, direction, words",
    [(True, "back", ["'back'", "forward, backward"]), (False, "backward", ["'backward'", "bidirectional=False"])],
)
def test_directions_that_a_model_has_not_got_are_named(bidirectional, direction, words):
    model = make_model("s4", "Model", bidirectional=bidirectional)
    with pytest.raises(ValueError) as caught:
        model(**make_inputs(model), direction=direction)
    assert all(word in str(caught.value) for word in words)
