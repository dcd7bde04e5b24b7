"""A `window` makes mixers read blocks of so many positions, each as a sequence of its own; heads pool over all."""

import functools

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError

from hf_longseq.training import check_mixer
from hf_longseq.training.check_mixer import pad
from toy_models import VARIANTS, make_config, make_inputs, make_model

variants = pytest.mark.parametrize("variant", VARIANTS)
directions = pytest.mark.parametrize("bidirectional", [False, True], ids=["causal", "bidirectional"])
architectures = pytest.mark.parametrize("variant", ["s4", "dlr", "transformer", "lru", "s5", "mega", "cnn"])


def cut(variant: str, window: int = 4):
    """What a check of `hf_longseq.training.check_mixer` takes: `make(head, **fields)`."""
    return functools.partial(make_model, variant, window=window)


@variants
@directions
@torch.no_grad()
def test_a_window_as_long_as_the_sequence_changes_nothing(variant, bidirectional):
    whole, windowed = (make_model(variant, "Model", bidirectional=bidirectional, window=w) for w in (None, 99))
    batch = pad(make_inputs(whole), "left")
    batch["attention_mask"][0, 7:9] = 0  # a hole
    real = batch["attention_mask"] == 1
    found, expected = (model(**batch, use_cache=False).last_hidden_state[real] for model in (windowed, whole))
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)


@variants
@directions
@torch.no_grad()
def test_nothing_in_a_block_depends_on_what_lies_outside_it(variant, bidirectional):
    model = cut(variant)("Model", bidirectional=bidirectional)
    ids = make_inputs(model)["input_ids"]
    before = model(ids).last_hidden_state
    ids[:, 4:8] = (ids[:, 4:8] + 1) % 30
    changed = (model(ids).last_hidden_state != before).any(dim=(0, 2))
    assert changed.tolist() == [False] * 4 + [True] * 4 + [False] * (ids.shape[1] - 8)


@architectures
@torch.no_grad()
def test_blocks_are_read_as_sequences_of_their_own(variant):
    model = cut(variant)("Model", bidirectional=True)
    ids = make_inputs(model)["input_ids"][:, :8]
    alone = model(ids.reshape(-1, 4)).last_hidden_state.reshape(3, 8, -1)
    torch.testing.assert_close(model(ids).last_hidden_state, alone, atol=2e-5, rtol=1e-4)


@architectures
@directions
@torch.no_grad()
def test_with_a_window_of_one_every_position_stands_alone(variant, bidirectional):
    model = make_model(variant, "Model", bidirectional=bidirectional, window=1)
    batch = pad(make_inputs(model), "left")
    alone = model(batch["input_ids"].reshape(-1, 1)).last_hidden_state.reshape(3, -1, 16)
    real = batch["attention_mask"] == 1
    torch.testing.assert_close(model(**batch).last_hidden_state[real], alone[real], atol=2e-5, rtol=1e-4)


@torch.no_grad()
def test_absolute_positions_are_those_of_the_whole_sequence():
    model = cut("transformer-sinusoidal")("Model", bidirectional=True)
    ids = torch.full((1, 8), 5)
    first, second = model(ids).last_hidden_state.split(4, dim=1)
    assert not torch.allclose(first, second, atol=1e-3)


@variants
@directions
def test_padding_changes_no_real_position(variant, bidirectional):
    check_mixer.padding(cut(variant), bidirectional)


@architectures
def test_padding_changes_no_gradient_and_every_parameter_has_one(variant):
    check_mixer.padded_gradient(cut(variant))


@architectures
@torch.no_grad()
def test_a_classifier_pools_over_all_blocks(variant):
    model = cut(variant)("ForSequenceClassification", bidirectional=True)
    ids = make_inputs(model)["input_ids"]
    before = model(ids).logits
    for place in range(0, ids.shape[1], 4):
        other = ids.clone()
        other[:, place] = (other[:, place] + 1) % 30
        assert not torch.allclose(model(other).logits, before, atol=1e-6)


@architectures
@torch.no_grad()
def test_hidden_states_are_those_of_the_batch(variant):
    model = cut(variant)("Model", bidirectional=True)
    ids = make_inputs(model)["input_ids"]
    states = model(ids, output_hidden_states=True).hidden_states
    assert [state.shape for state in states] == [(*ids.shape, 16)] * 3


@architectures
def test_a_causal_model_generates_without_a_cache(variant):
    model = cut(variant)("ForCausalLM")
    ids = make_inputs(model)["input_ids"]
    assert model(ids).past_key_values is None
    assert model.generate(ids, max_new_tokens=3, do_sample=False, pad_token_id=0).shape == (3, ids.shape[1] + 3)


def test_what_a_window_cannot_do_is_refused():
    with pytest.raises(StrictDataclassError, match="pooling is 'last' with window=4"):
        make_config("s4", window=4, pooling="last")
    with pytest.raises(StrictDataclassError, match="window is 0; give a number of at least 1"):
        make_config("s4", window=0)
    model = cut("s4")("ForCausalLM")
    with pytest.raises(ValueError, match="window=4: only models without one read streams"):
        model.stream()
    ids = make_inputs(model)["input_ids"]
    with pytest.raises(ValueError, match="generate with use_cache=False"):
        model(ids, past_key_values=model.model.make_cache())
    with pytest.raises(ValueError, match=r"takes a mask \(batch, length\)"):
        cut("transformer")("Model")(ids, attention_mask=torch.ones(3, 1, 11, 11, dtype=torch.bool))
