"""Caches of fixed size and compiled steps: generation gives the tokens that it gives without them."""

import pytest
import torch
from transformers import CompileConfig, DynamicCache, StaticCache

from toy_models import CACHED, VARIANTS, make_model

# what differs in the cache or in the mask of a step; MEGA's cache has no fixed size
COMPILED = ["s4", "dlr", "transformer-window"]
COMPILED += [
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("lru", "s5", "cnn", "transformer", "transformer-local-bias")
]


def make_generator(variant, **options):
    # large weights, so that what comes next depends on what came before
    return make_model(variant, "ForCausalLM", bidirectional=False, initializer_range=0.5, **options)


def prompts(seed=4):
    """Three rows of 7, one of which begins with padding."""
    tokens = torch.randint(5, 30, (3, 7), generator=torch.Generator().manual_seed(seed))
    mask = torch.ones_like(tokens)
    mask[0, :3] = 0
    return {"inputs": tokens, "attention_mask": mask}


def generate(model, seed=4, **options):
    return model.generate(
        **prompts(seed), max_new_tokens=9, min_new_tokens=9, do_sample=False, pad_token_id=0, **options
    )


@pytest.mark.parametrize(
    ("variant", "options"),
    [(name, {}) for name in CACHED]
    + [
        (name, more) for name in ("s4", "dlr", "transformer") for more in ({"num_beams": 3}, {"prefill_chunk_size": 4})
    ],
    ids=str,
)
def test_a_static_cache_gives_the_same_tokens(variant, options):
    model = make_generator(variant)
    options = {**options, "disable_compile": True}
    static = generate(model, cache_implementation="static", return_dict_in_generate=True, **options)
    assert torch.equal(static.sequences, generate(model, **options))
    assert isinstance(static.past_key_values, StaticCache) != variant.startswith("mega")


@pytest.mark.parametrize("variant", COMPILED)
def test_a_compiled_step_gives_the_same_tokens_from_one_graph(variant):
    model, settings = make_generator(variant), CompileConfig(backend="eager", fullgraph=True, mode=None)
    settings._compile_all_devices = True  # generation compiles on accelerators alone
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    for seed in (4, 5):
        compiled = generate(model, seed, cache_implementation="static", compile_config=settings)
        assert torch.equal(compiled, generate(model, seed))
    assert hasattr(model, "_compiled_call")
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize("variant", ["s4", "transformer"])
def test_a_shorter_text_takes_the_compiled_step_of_a_longer_one(variant):
    model, settings = make_generator(variant), CompileConfig(backend="eager", fullgraph=True, mode=None)
    settings._compile_all_devices = True
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    for new in (9, 4):
        length = {"max_new_tokens": new, "min_new_tokens": new, "do_sample": False, "pad_token_id": 0}
        compiled = model.generate(**prompts(), **length, cache_implementation="static", compile_config=settings)
        assert torch.equal(compiled, model.generate(**prompts(), **length))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_cache_is_dynamic_unless_a_static_one_is_asked_for(variant):
    made = [make_generator(variant).model.make_cache(length) for length in (None, 8)]
    assert isinstance(made[0], DynamicCache) and not made[0].is_compileable
    assert isinstance(made[1], StaticCache) == (not variant.startswith("mega"))
    assert isinstance(made[1], DynamicCache) != isinstance(made[1], StaticCache)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["s4"])
def test_reduce_overhead_gives_the_same_tokens(variant):
    model, settings = make_generator(variant), CompileConfig(mode="reduce-overhead", fullgraph=True)
    settings._compile_all_devices = True
    compiled = generate(model, cache_implementation="static", compile_config=settings)
    assert torch.equal(compiled, generate(model)) and hasattr(model, "_compiled_call")


@pytest.mark.parametrize("variant", ["s4", "dlr", "lru", "cnn", "transformer"])
@torch.no_grad()
def test_a_static_cache_stays_where_it_is_and_is_emptied_in_place(variant):
    model, tokens = make_generator(variant), prompts()["inputs"]
    cache = model.model.make_cache(16)
    first = model(tokens, past_key_values=cache, use_cache=True).logits
    layer = cache.layers[0]
    kept = [layer.keys, layer.cumulative_length] if variant == "transformer" else [layer.state, layer.seen_tokens]
    addresses = [tensor.data_ptr() for tensor in kept]
    model(tokens[:, :1], past_key_values=cache, use_cache=True)
    assert cache.get_seq_length() == 8 and [tensor.data_ptr() for tensor in kept] == addresses
    cache.reset()
    assert cache.get_seq_length() == 0
    torch.testing.assert_close(model(tokens, past_key_values=cache, use_cache=True).logits, first)
    assert [tensor.data_ptr() for tensor in kept] == addresses


def test_a_static_cache_beyond_the_last_position_is_refused():
    model = make_generator("transformer", max_position_embeddings=12)
    with pytest.raises(ValueError, match="the input has 15 positions but max_position_embeddings is 12"):
        generate(model, cache_implementation="static")


@pytest.mark.parametrize("variant", ["s4", "transformer"])
def test_embedded_prompts_and_all_outputs_of_a_compiled_step(variant):
    model, settings = make_generator(variant), CompileConfig(backend="eager", fullgraph=True, mode=None)
    settings._compile_all_devices = True
    batch = prompts()
    batch["inputs_embeds"] = model.get_input_embeddings()(batch.pop("inputs")).detach()
    options = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0, "return_dict_in_generate": True}
    options |= {"output_hidden_states": True, "output_scores": True, "output_logits": True}
    plain = model.generate(**batch, **options)
    compiled = model.generate(**batch, **options, cache_implementation="static", compile_config=settings)
    assert hasattr(model, "_compiled_call") and torch.equal(compiled.sequences, plain.sequences)
    for name in ("scores", "logits", "hidden_states"):
        for got, expected in zip(getattr(compiled, name), getattr(plain, name), strict=True):
            torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-4)
