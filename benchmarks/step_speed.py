# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Time and peak memory of whole training steps: forward, loss, backward and AdamW of a classifier of tokens.

Axes: B batch, L length, H channels.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from hf_longseq.models import (
    DLRConfig,
    DLRForSequenceClassification,
    LongTransformerConfig,
    LongTransformerForSequenceClassification,
    LRUForSequenceClassification,
    MegaForSequenceClassification,
    S4Config,
    S4ForSequenceClassification,
    S5ForSequenceClassification,
)
from layer_speed import RIVALS, PlainDLR, PlainS4, estimate_bytes
from side_by_side import Settings, check_names

LENGTHS = (1024, 2048, 4096, 8192, 16384, 32768, 65536)
NAMES = ("s4", "s4_cauchy_fft", "dlr", "dlr_einsum_fft", "lru", "s5", "mega", "attention_sdpa", "mamba2")
RIVAL_MODELS = {
    "lru": LRUForSequenceClassification,
    "s5": S5ForSequenceClassification,
    "mega": MegaForSequenceClassification,
}
VOCABULARY, LABELS = 256, 10


class PlainMixer(nn.Module):
    """Puts a plain path where a model expects a mixer."""

    def __init__(self, plain: nn.Module):
        super().__init__()
        self.plain = plain

    def forward(self, hidden_states: torch.Tensor, **kwargs) -> tuple[torch.Tensor, None]:
        return self.plain(hidden_states), None


class Mamba2Classifier(nn.Module):
    """transformers' Mamba-2 trunk, mean pooling and a linear classifier."""

    def __init__(self, hidden_size: int, layers: int, state_size: int):
        super().__init__()
        from transformers import Mamba2Model

        self.model = Mamba2Model(mamba2_config(hidden_size, layers, state_size))
        self.classifier = nn.Linear(hidden_size, LABELS)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.model(input_ids, use_cache=False).last_hidden_state.mean(1))


def mamba2_config(hidden_size: int, layers: int, state_size: int):
    """A Mamba-2 of the same width, depth and state as the S4 it is compared with."""
    from transformers import Mamba2Config

    return Mamba2Config(
        vocab_size=VOCABULARY,
        hidden_size=hidden_size,
        num_hidden_layers=layers,
        state_size=state_size,
        expand=2,
        head_dim=16,
        num_heads=hidden_size // 8,
        n_groups=1,
        chunk_size=64,
    )


def build_model(
    name: str, hidden_size: int = 128, layers: int = 8, s4_state: int = 64, dlr_state: int = 1024
) -> nn.Module:
    """The classifier of that name, of :data:`NAMES`; the recurrent ones read both directions."""
    shared = {
        "vocab_size": VOCABULARY,
        "hidden_size": hidden_size,
        "num_hidden_layers": layers,
        "num_labels": LABELS,
        "bidirectional": True,
    }
    if name == "mamba2":
        return Mamba2Classifier(hidden_size, layers, s4_state)
    if name == "attention_sdpa":
        return LongTransformerForSequenceClassification(LongTransformerConfig(num_attention_heads=4, **shared))
    if name in RIVAL_MODELS:
        _, config_class, options = RIVALS[name]
        return RIVAL_MODELS[name](config_class(**shared, **options))
    if name.startswith("s4"):
        model = S4ForSequenceClassification(S4Config(state_size=s4_state, **shared))
    else:
        model = DLRForSequenceClassification(DLRConfig(state_size=dlr_state, **shared))
    plain = {"s4_cauchy_fft": PlainS4, "dlr_einsum_fft": PlainDLR}.get(name)
    if plain is not None:
        for layer in model.model.layers:
            layer.mixer = PlainMixer(plain(layer.mixer))
    return model


def training_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, input_ids: torch.Tensor, labels: torch.Tensor
) -> None:
    """One update."""
    output = model(input_ids)
    loss = F.cross_entropy(output if isinstance(output, torch.Tensor) else output.logits, labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def benchmark_train(**options) -> list[dict]:
    """Measures one training step of every model at every length; the options are those of `Settings`, batch 4.

    Returns:
        Rows as of `benchmark_ops`, with "layers" and "parameters" besides.
    """
    settings = Settings(**{"lengths": LENGTHS, "names": NAMES, "batch": 4, **options})
    contest, batch = settings.contest(), settings.batch
    sizes = {"hidden_size": settings.hidden_size, "layers": settings.layers}
    names = check_names(settings.names, NAMES)
    models = {name: build_model(name, **sizes, **settings.states) for name in names}
    models = {name: model.to(contest.device).train() for name, model in models.items()}
    optimizers = {name: torch.optim.AdamW(model.parameters(), lr=1e-4) for name, model in models.items()}
    rows = []
    for length in settings.lengths:
        input_ids = torch.randint(VOCABULARY, (batch, length), device=contest.device)
        labels = torch.randint(LABELS, (batch,), device=contest.device)
        runs = {name: partial(training_step, models[name], optimizers[name], input_ids, labels) for name in names}
        one = partial(estimate_bytes, batch=batch, length=length, hidden_size=settings.hidden_size, **settings.states)
        needs = {name: settings.layers * one(name) for name in names}
        for name, measured in contest.measure(runs, needs).items():
            parameters = sum(parameter.numel() for parameter in models[name].parameters())
            rows.append({"op": name, "batch": batch, "length": length, **sizes, "parameters": parameters, **measured})
    return rows
