"""Generation through transformers' own `generate`: caches change the speed, never the tokens."""

import pytest
import torch

from hf_longseq.models.mega_layers import MegaCache
from hf_longseq.models.ssm_cache import RecurrentCache, RecurrentLayer
from toy_models import CACHED, SMALL, VARIANTS, make_model

ARCHITECTURES = ("s4", "dlr", "transformer")
architectures = pytest.mark.parametrize("variant", ARCHITECTURES)
cached = pytest.mark.parametrize("variant", CACHED)


def make_generator(variant, **options):
    # large weights, so that what comes next depends on what came before
    return make_model(variant, "ForCausalLM", bidirectional=False, initializer_range=0.5, **options)


def prompts(batch=3, length=9):
    return torch.randint(5, 30, (batch, length), generator=torch.Generator().manual_seed(4))


def generate(model, input_ids, new=6, **options):
    options = {"max_new_tokens": new, "do_sample": False, "pad_token_id": 0, **options}
    if "attention_mask" not in options:
        options["attention_mask"] = torch.ones_like(input_ids)
    return model.generate(input_ids, **options)


@pytest.fixture(scope="module")
def generators():
    """A model by variant, and what it makes of `prompts()`; the tests leave both as they are."""
    made = {}

    def give(variant):
        if variant not in made:
            model = make_generator(variant)
            made[variant] = model, generate(model, prompts())
        return made[variant]

    return give


@architectures
@torch.no_grad()
def test_150_greedy_tokens_are_those_of_the_full_forward(variant):
    model = make_generator(variant)
    whole = generate(model, prompts(batch=2), new=150)
    expected = model(whole).logits[:, 8:-1].argmax(-1)
    assert whole.shape == (2, 159) and torch.equal(whole[:, 9:], expected)
    assert len(whole[0, 9:].unique()) > 3


@cached
def test_left_padded_rows_generate_as_if_alone(generators, variant):
    (model, whole), tokens = generators(variant), prompts()
    padded = torch.cat((torch.zeros(3, 6, dtype=torch.long), tokens), dim=1)
    mask = (padded != 0).long()
    padded[1, 6:10] = mask[1, 6:10] = 0  # rows of different lengths
    generated = generate(model, padded, attention_mask=mask)[:, -6:]
    assert torch.equal(generated[0], whole[0, -6:])
    assert torch.equal(generated[1], generate(model, tokens[1:2, 4:])[0, -6:])


@cached
def test_without_a_cache(generators, variant):
    model, whole = generators(variant)
    assert torch.equal(generate(model, prompts(), use_cache=False), whole)


@pytest.mark.parametrize("variant", SMALL)
def test_beams_with_and_without_a_cache(generators, variant):
    model, beams = generators(variant)[0], {"num_beams": 3, "num_return_sequences": 2}
    with_cache, without = (generate(model, prompts(), use_cache=flag, **beams) for flag in (True, False))
    assert torch.equal(with_cache, without)


@architectures
def test_a_seed_gives_the_same_sample(generators, variant):
    model, samples = generators(variant)[0], []
    for seed, use_cache in ((7, True), (7, True), (7, False), (8, True)):
        torch.manual_seed(seed)
        samples.append(generate(model, prompts(), do_sample=True, top_k=20, use_cache=use_cache))
    assert torch.equal(samples[0], samples[1]) and torch.equal(samples[0], samples[2])
    assert not torch.equal(samples[0], samples[3])


@cached
@torch.no_grad()
def test_padding_amid_a_sequence_is_the_same_in_one_pass_and_in_two(variant):
    model, tokens = make_generator(variant).double(), prompts(batch=2)
    for name, parameter in model.named_parameters():
        if "position_bias" in name:  # small at first, so that a wrong offset would hardly show
            parameter.normal_(generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(tokens)
    mask[0, 2] = mask[1, 5:7] = 0  # before the cut, and behind it
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    whole = model(tokens, attention_mask=mask, position_ids=positions).logits
    first = model(tokens[:, :5], attention_mask=mask[:, :5], position_ids=positions[:, :5], use_cache=True)
    options = {"past_key_values": first.past_key_values, "position_ids": positions[:, 5:]}
    second = model(tokens[:, 5:], attention_mask=mask, **options)
    pieces, real = torch.cat((first.logits, second.logits), dim=1), mask.bool()
    torch.testing.assert_close(pieces[real], whole[real], atol=1e-10, rtol=1e-10)


@cached
def test_a_prompt_may_be_read_in_pieces(generators, variant):
    model, tokens = generators(variant)[0], prompts()
    mask = torch.ones_like(tokens)
    tokens[1, :5] = mask[1, :5] = 0
    whole = generate(model, tokens, attention_mask=mask)
    # the last piece of nine is a single position
    assert torch.equal(generate(model, tokens, attention_mask=mask, prefill_chunk_size=4), whole)


@cached
@torch.no_grad()
def test_generation_goes_on_from_a_cache(generators, variant):
    (model, whole), tokens = generators(variant), prompts()
    cache = model(tokens[:, :5], use_cache=True).past_key_values
    assert torch.equal(generate(model, tokens, past_key_values=cache), whole)


@pytest.mark.parametrize("variant", ["s4", "s4-diagonal-shared", "dlr"])
@torch.no_grad()
def test_what_steps_keep_does_not_outlive_the_weights(variant):
    model, tokens = make_generator(variant), prompts(length=6)
    cache = model(tokens[:, :3], use_cache=True).past_key_values
    model(tokens[:, 3:4], past_key_values=cache, use_cache=True)
    parameters = [
        p for name, p in model.named_parameters() if name.split(".")[-1] in model.mixer_class.ssm_parameter_names
    ]
    before = model(tokens[:, 4:5], past_key_values=cache, use_cache=True).logits
    states = [layer.state.clone() for layer in cache.layers]
    for parameter in parameters:
        parameter.mul_(1.5)
    kept = model(tokens[:, 5:6], past_key_values=cache, use_cache=True).logits
    fresh = RecurrentCache(model.config)
    for layer, state in zip(fresh.layers, states, strict=True):
        layer.advance(state, 5)
    assert torch.equal(kept, model(tokens[:, 5:6], past_key_values=fresh, use_cache=True).logits)
    assert not torch.equal(kept, before)


def test_nothing_is_kept_where_gradients_flow():
    model, tokens = make_generator("s4"), prompts()
    cache = RecurrentCache(model.config)
    for part in tokens.split(1, dim=1):
        logits = model(part, past_key_values=cache).logits
    assert logits.requires_grad and cache.layers[0]._prepared is None


def test_a_step_prepares_once():
    model, made = make_generator("s4"), []
    mixer = model.model.layers[0].mixer
    prepare = mixer._step_system
    mixer._step_system = lambda dtype: made.append(1) or prepare(dtype)
    generate(model, prompts(), new=10)
    assert len(made) == 1


BAD_CACHES = [
    ("s4", lambda tokens: RecurrentCache(make_generator("s4", num_hidden_layers=1).config), "for layer 1"),
    ("s4", lambda tokens: after("s4", tokens, hidden_size=32), r"\(3, 32, 8\).*\(3, 16, 8\)"),
    ("s4", lambda tokens: after("s4", tokens[:2]), r"\(2, 16, 8\).*\(3, 16, 8\)"),
    ("s4", lambda tokens: after("dlr", tokens, state_size=8), "is complex.*need real"),
    ("dlr", lambda tokens: after("s4", tokens, state_size=16), "is real.*need complex"),
    ("s4", lambda tokens: after("lru", tokens), "need real"),
    ("lru", lambda tokens: after("s4", tokens), "need real"),
    ("s5", lambda tokens: after("dlr", tokens), "need real"),
    ("s4", lambda tokens: after("transformer", tokens), "DynamicCache"),
    ("cnn", lambda tokens: after("s4", tokens), r"need real \(3, 1, 16\)"),
    ("cnn", lambda tokens: after("dlr", tokens), "is complex.*need real"),
    ("s4", lambda tokens: after("mega", tokens), "MegaCache without a RecurrentLayer"),
    ("mega", lambda tokens: after("s4", tokens), "RecurrentCache without a MegaLayer"),
    ("mega", lambda tokens: RecurrentCache(make_generator("mega").config), "RecurrentCache without a MegaLayer"),
    ("mega", lambda tokens: after("transformer", tokens), "DynamicCache without a MegaLayer"),
    ("transformer", lambda tokens: after("s4", tokens), "needs keys and values"),
    ("transformer", lambda tokens: after("mega", tokens), "needs keys and values"),
]


def after(variant, tokens, **options):
    """The cache of another model."""
    return make_generator(variant, **options)(tokens, use_cache=True).past_key_values


@pytest.mark.parametrize("length", [1, 4])
@pytest.mark.parametrize(("variant", "make_cache", "words"), BAD_CACHES)
@torch.no_grad()
def test_a_cache_that_does_not_fit_is_named(variant, make_cache, words, length):
    tokens = prompts()
    with pytest.raises(ValueError, match=words):
        make_generator(variant)(tokens[:, :length], past_key_values=make_cache(tokens))


def test_caches_of_the_right_kind():
    for variant in VARIANTS:
        cache = make_generator(variant).model.make_cache()
        assert type(cache) is MegaCache or variant.split("-")[0] != "mega"
        assert all(isinstance(layer, RecurrentLayer) for layer in cache.layers) or variant.startswith("transformer")
