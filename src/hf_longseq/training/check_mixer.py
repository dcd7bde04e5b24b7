# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""What a mixer has to keep to, as checks on toy models: `hf-longseq check-mixer` runs these `CHECKS`.

A check takes `make(head, **fields)`, a maker of seeded models of the architecture in evaluation mode, and raises
`AssertionError`. `causal_streams` raises `DoesNotStream` for a mixer that keeps no state.
"""

import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import torch
from transformers import PreTrainedModel
from transformers.modeling_utils import PreTrainedConfig

Make = Callable[..., Any]  # the name of a head says of which class the model is
# What may stand in padding.
RUBBISH = (1e20, -1e30, float("nan"), float("inf"))
VALUES = {"input_type": "values", "num_channels": 2}
LENGTH = 11


class DoesNotStream(Exception):
    """The mixer leaves the cache as it is, so that its models cannot generate."""


def toy_models(config_class: type[PreTrainedConfig], **sizes) -> Make:
    """`make` of an architecture whose heads are registered: 16 channels, 2 layers, 30 tokens."""

    def make(head: str, **fields) -> PreTrainedModel:
        import transformers

        torch.manual_seed(0)
        named = dict(vocab_size=30, hidden_size=16, num_hidden_layers=2)
        auto = getattr(transformers, f"AutoModel{head.removeprefix('Model')}")
        return auto.from_config(config_class(**{**named, **sizes, **fields})).eval()

    return make


def make_inputs(model: PreTrainedModel, batch: int = 3, length: int = LENGTH) -> dict[str, torch.Tensor]:
    """Random input of the kind the model reads."""
    generator = torch.Generator().manual_seed(1)
    if model.config.input_type == "values":
        return {"input_values": torch.randn(batch, length, model.config.num_channels, generator=generator)}
    return {"input_ids": torch.randint(5, 30, (batch, length), generator=generator)}


def pad(batch: dict, side: str, amount: int = 4) -> dict:
    """The batch with rubbish added on one side and an attention mask that says so."""
    padded = {}
    for name, x in batch.items():
        rubbish = torch.full_like(x[:, :1], 3).repeat_interleave(amount, dim=1)
        padded[name] = torch.cat([rubbish, x] if side == "left" else [x, rubbish], dim=1)
        real, filler = torch.ones(x.shape[:2]), torch.zeros(x.shape[0], amount)
        padded["attention_mask"] = torch.cat([filler, real] if side == "left" else [real, filler], dim=1).long()
    return padded


def pad_both(batch: dict) -> dict:
    """Every row twice in one batch: padded on the left, and padded on the right."""
    left, right = pad(batch, "left"), pad(batch, "right")
    return {name: torch.cat([left[name], right[name]]) for name in left}


def real_part(hidden: torch.Tensor, length: int) -> torch.Tensor:
    """What a batch of `pad_both` gave at its real positions: (2, rows, length, ...)."""
    left, right = hidden.chunk(2)
    return torch.stack([left[:, -length:], right[:, :length]])


@torch.no_grad()
def padding(make: Make, bidirectional: bool) -> None:
    """Padding of any content, on either side, changes no real position."""
    model = make("Model", bidirectional=bidirectional, **VALUES)
    batch = make_inputs(model)
    alone = model(**batch).last_hidden_state
    padded = pad_both({name: x.repeat(4, 1, 1) for name, x in batch.items()})
    for row, rubbish in zip(padded["input_values"].unflatten(0, (2, 4, 3)).transpose(0, 1), RUBBISH, strict=True):
        row[0, :, :4] = row[1, :, LENGTH:] = rubbish
    found = real_part(model(**padded).last_hidden_state, LENGTH)
    torch.testing.assert_close(found, alone.repeat(4, 1, 1).expand_as(found), atol=2e-5, rtol=1e-4)


def padded_gradient(make: Make) -> None:
    """Padding changes no gradient."""
    model = make("ForMaskedLM", bidirectional=True).train()
    batch = make_inputs(model)
    labels = torch.where(torch.rand(3, LENGTH) < 0.5, batch["input_ids"], -100)
    gradients = []
    for extra in (0, 4):
        model.zero_grad()
        padded = pad(batch, "right", extra) if extra else batch
        model(**padded, labels=torch.nn.functional.pad(labels, (0, extra), value=-100)).loss.backward()
        unreached = [name for name, p in model.named_parameters() if p.grad is None]
        assert not unreached, f"no gradient reaches {unreached[0]}"
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert torch.isfinite(gradients[0]).all(), "a gradient is not finite"
    torch.testing.assert_close(gradients[1], gradients[0], atol=1e-5, rtol=1e-3)


@torch.no_grad()
def causality(make: Make) -> None:
    """A causal model does not look ahead, and what follows does depend on a position."""
    model = make("Model", bidirectional=False)
    ids = make_inputs(model)["input_ids"]
    changed = ids.clone()
    changed[:, 6:] = 5
    before, after = model(ids).last_hidden_state, model(changed).last_hidden_state
    torch.testing.assert_close(before[:, :6], after[:, :6])
    assert not torch.allclose(before[:, 6:], after[:, 6:]), "outputs do not depend on the inputs"


def directions(make: Make) -> None:
    """A bidirectional model asked for one direction sees the present and that side alone (`direction`)."""
    model = make("Model", bidirectional=True)
    at = LENGTH // 2
    for direction, hidden_side in (("forward", slice(at + 1, None)), ("backward", slice(0, at))):
        embedded = model.embed(**make_inputs(model)).detach().requires_grad_()
        hidden = model(inputs_embeds=embedded, direction=direction).last_hidden_state
        (gradient,) = torch.autograd.grad(hidden[:, at].square().sum(), embedded)
        size = gradient.abs().amax((0, 2))
        assert size[hidden_side].max() <= 1e-5 * size.max(), f"direction={direction!r} sees the other side"


@torch.no_grad()
def causal_streams(make: Make) -> None:
    """Pieces of any size, with the state of the cache between them, give what the whole sequence gives."""
    model = make("Model", bidirectional=False)
    ids = make_inputs(model, length=10)["input_ids"]
    whole = model(ids).last_hidden_state
    cache, pieces = None, []
    for piece in ids.split([4, 1, 1, 3, 1], dim=1):
        out = model(piece, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        if not cache.get_seq_length():
            raise DoesNotStream("the mixer advances no state in past_key_values: its models cannot generate")
        pieces.append(out.last_hidden_state)
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-5, rtol=1e-4)


def saving(make: Make, head: str = "ForSequenceClassification", **fields) -> None:
    """Saving and loading change no tensor and no output."""
    model = make(head, **fields)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again, report = type(model).from_pretrained(folder, output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
    kept, batch = again.state_dict(), make_inputs(model)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, kept.pop(name)), f"{name} is another after loading"
    assert not kept, f"{next(iter(kept))} is new after loading"
    with torch.no_grad():  # what lies elsewhere in memory is summed in another order
        torch.testing.assert_close(again.eval()(**batch).logits, model(**batch).logits, atol=1e-6, rtol=1e-5)
    assert all(p.requires_grad for p in again.parameters()), "loading froze a parameter"


def half_precision(make: Make, delicate: frozenset[str] | None = None) -> None:
    """A model in bfloat16 is close, and keeps `delicate` parameters (by default the mixer's state-space parameters)
    in float32."""
    model = make("ForSequenceClassification", bidirectional=True)
    own: frozenset[str] = getattr(model.mixer_class, "ssm_parameter_names", frozenset())
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        half = type(model).from_pretrained(folder, dtype=torch.bfloat16).eval()
    for name, parameter in half.named_parameters():
        leaf = name.rsplit(".", 1)[-1]
        if delicate is not None or leaf in own:
            wanted = torch.float32 if leaf in (own if delicate is None else delicate) else torch.bfloat16
            assert parameter.dtype == wanted, f"{name} is {parameter.dtype}; make it with dtype={wanted}"
    batch = make_inputs(model)
    with torch.no_grad():
        torch.testing.assert_close(half(**batch).logits.float(), model(**batch).logits, atol=0.1, rtol=0.1)


def parameter_groups(make: Make) -> None:
    """Every parameter is in one optimizer group, state-space parameters in theirs."""
    model = make("ForMaskedLM", bidirectional=True)
    groups = model.parameter_groups(learning_rate=1e-3, weight_decay=0.1, ssm_learning_rate=1e-4)
    grouped = [id(p) for group in groups for p in group["params"]]
    assert sorted(grouped) == sorted(id(p) for p in model.parameters()), "a parameter is in no group, or in two"
    by_name = {group["name"]: group for group in groups}
    assert by_name["decay"]["weight_decay"] == 0.1 and by_name["no_decay"]["weight_decay"] == 0.0
    names = getattr(model.mixer_class, "ssm_parameter_names", None)
    if names:
        assert "ssm" in by_name, f"ssm_parameter_names is {sorted(names)}, but no parameter has such a name"
        assert by_name["ssm"]["lr"] == 1e-4 and by_name["ssm"]["weight_decay"] == 0.0
        mixer = dict(model.model.layers[0].mixer.named_parameters())
        assert len(by_name["ssm"]["params"]) == 2 * len(names & mixer.keys())


def initialisation(make: Make) -> None:
    """A seed gives the same weights and outputs, and every parameter of the mixer is drawn."""
    model, again = make("Model", bidirectional=True), make("Model", bidirectional=True)
    batch = make_inputs(model)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), f"{name} is another with the same seed"
    with torch.no_grad():
        assert torch.equal(model(**batch).last_hidden_state, again(**batch).last_hidden_state)
        mixer = model.layers[0].mixer
        for parameter in mixer.parameters():
            parameter.fill_(float("nan"))
            parameter._is_hf_initialized = False
        for module in (*mixer.modules(),)[::-1]:
            model._init_weights(module)
    undrawn = [name for name, parameter in mixer.named_parameters() if not torch.isfinite(parameter).all()]
    assert not undrawn, f"reset_parameters leaves {undrawn[0]} as it finds it"


CHECKS: dict[str, Callable[[Make], None]] = {
    "padding on both sides, causal": lambda make: padding(make, False),
    "padding on both sides, bidirectional": lambda make: padding(make, True),
    "gradients, with and without padding": padded_gradient,
    "causal models do not look ahead": causality,
    "one direction of a bidirectional model": directions,
    "step by step = all at once": causal_streams,
    "saving and loading": saving,
    "bfloat16": half_precision,
    "parameter groups": parameter_groups,
    "seed and initialisation": initialisation,
}


def check_mixer(make: Make) -> Iterator[tuple[str, str, str]]:
    """Run every check: its name, "ok", "failed" or "skipped", and the reason."""
    for name, check in CHECKS.items():
        try:
            check(make)
        except DoesNotStream as reason:
            yield name, "skipped", str(reason)
        except Exception as error:  # a mixer under test may raise anything
            yield name, "failed", f"{'' if isinstance(error, AssertionError) else type(error).__name__ + ': '}{error}"
        else:
            yield name, "ok", ""
