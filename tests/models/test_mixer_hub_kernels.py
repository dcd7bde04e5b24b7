"""Mixers ask for kernels: a faster forward, of the Hub or of a folder, takes the place of ours."""

import importlib.util
import inspect

import pytest
import torch
from transformers import integrations
from transformers.utils import is_kernels_available

from toy_models import SMALL, make_inputs, make_model

MIXERS = {
    "S4Mixer": "modeling_s4",
    "DLRMixer": "modeling_dlr",
    "LRUMixer": "modeling_lru",
    "S5Mixer": "modeling_s5",
    "MegaMixer": "modeling_mega",
    "CNNMixer": "modeling_cnn",
    "LongAttention": "longseq_attention",
}


@pytest.mark.parametrize("name", MIXERS)
def test_a_mixer_asks_for_a_kernel_under_its_own_name(name, monkeypatch):
    asked = {}
    monkeypatch.setattr(
        integrations, "use_kernel_forward_from_hub", lambda name: lambda cls: asked.setdefault(name, cls)
    )
    source = importlib.util.find_spec(f"hf_longseq.models.{MIXERS[name]}").origin
    spec = importlib.util.spec_from_file_location(f"hf_longseq.models.again_{MIXERS[name]}", source)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert {asked_for: cls.__name__ for asked_for, cls in asked.items()} == {name: name}


@pytest.mark.skipif(not is_kernels_available(), reason="needs the package kernels in the version of transformers")
@pytest.mark.parametrize("arch", SMALL)
def test_a_kernel_takes_the_place_of_the_mixers_forward(arch):
    from kernels import Mode, kernelize, use_kernel_mapping

    model = make_model(arch, "Model", bidirectional=True)
    inputs, mixer_class = make_inputs(model), type(model.layers[0].mixer)
    with use_kernel_mapping({mixer_class.__name__: {"cpu": BlankKernel(mixer_class)}}), torch.no_grad():
        before = model(**inputs)[0]
        kernelize(model, mode=Mode.INFERENCE, device="cpu")
        after = model(**inputs)[0]
        blank = model.norm(model.get_input_embeddings()(inputs["input_ids"]))
    assert not torch.allclose(after, before)
    if model.layers[0].feed_forward is None and not model.layers[0].mixer_adds_residual:
        torch.testing.assert_close(after, blank)  # the kernel mixes nothing, so the input alone is left


class BlankKernel:
    """Stands for a repository of the Hub: its layer takes what the mixer takes, and gives zeros."""

    def __init__(self, mixer_class):
        self.signature = inspect.signature(mixer_class.forward)

    def load(self):
        class Blank(torch.nn.Module):
            has_backward = True

            def forward(self, hidden_states, *args, **kwargs):
                return torch.zeros_like(hidden_states), None

        Blank.forward.__signature__ = self.signature
        return Blank
