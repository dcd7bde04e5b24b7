"""Checkpoints of every make in the official layout compute what an independent reference computes."""

import pytest
import torch
from torch.nn import functional as F

from golden_files import relative_error
from hf_longseq.hub.convert import ConversionOptions, build, convert_tensors
from official_reference import LENGTH, VOCABULARY, WIDTH, Drawn, backbone, run_backbone, sinusoids

SSM = {
    "s4": lambda draw: draw.s4(2, WIDTH, LENGTH),
    "s4-causal-shared": lambda draw: draw.s4(1, 2, 64),
    "s4-one-copy-unset-length": lambda draw: draw.s4(2, 1, 0),
    "s4d": lambda draw: draw.s4d(2, WIDTH),
    "s4d-causal-shared": lambda draw: draw.s4d(1, 4),
    "dlr": lambda draw: draw.dlr(2),
    "dlr-causal": lambda draw: draw.dlr(1),
}
ATTENTION = ("rotary", "sinusoidal", "none")


@pytest.mark.parametrize("task", ["tokens", "values", "classes"])
@pytest.mark.parametrize("norm, position", [("layer", "pre"), ("batch", "post")])
@pytest.mark.parametrize("make", [*SSM, *ATTENTION])
def test_outputs_are_those_of_the_reference(make, norm, position, task):
    draw, causal = Drawn(seed=3), norm == "batch"
    layers = []
    for _ in range(2):
        layers += [SSM[make](draw)] if make in SSM else [draw.attention(2, make == "rotary"), draw.feed_forward()]
    norms, final = [draw.norm(norm) for _ in layers], draw.norm(norm) if position == "pre" else None
    told = {} if make in SSM else {"causal": causal, "num_attention_heads": 2, "activation": "relu"}

    tensors = backbone(layers, norms, final)
    if task == "values":
        inputs = {"input_values": draw.normal(2, LENGTH, 3)}
        tensors |= draw.dense("encoder.0", WIDTH, 4)  # the fourth column is the mask flag
        x = F.linear(inputs["input_values"], tensors["encoder.0.weight"][:, :3], tensors["encoder.0.bias"]).double()
    else:
        inputs = {"input_ids": torch.randint(VOCABULARY, (2, LENGTH), generator=draw.generator)}
        tensors["encoder.0.weight"] = draw.normal(VOCABULARY, WIDTH)
        x = tensors["encoder.0.weight"][inputs["input_ids"]].double()
    if make == "sinusoidal":
        tensors["encoder.1.pe"] = sinusoids(100)
        x = x + sinusoids(LENGTH).double()
    hidden = run_backbone(x, layers, norms, final, heads=2, causal=causal, activation=F.relu)
    if task == "classes":
        told["pooling"] = "max"
        hidden = hidden.amax(1)
    tensors |= draw.dense("decoder.0.output_transform", {"tokens": VOCABULARY, "values": 3, "classes": 5}[task])
    expected = F.linear(hidden, *(tensors[f"decoder.0.output_transform.{x}"].double() for x in ("weight", "bias")))

    conversion = convert_tensors({f"model.{name}": x for name, x in tensors.items()}, ConversionOptions(**told))
    assert conversion.config.norm == norm and conversion.config.norm_position == position
    with torch.no_grad():
        assert relative_error(build(conversion)(**inputs)[0].double(), expected) < 1e-5
