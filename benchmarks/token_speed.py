# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Time and memory of one generated token after a prompt of some length.

Everything goes through `forward` with a cache, as transformers' `generate` does. Prompts are read in pieces where the
model can, so that the memory of a prompt is that of a piece.
"""

from functools import partial

import torch
from torch import nn

from hf_longseq.models import (
    DLRConfig,
    DLRForCausalLM,
    LongTransformerConfig,
    LongTransformerForCausalLM,
    S4Config,
    S4ForCausalLM,
)
from layer_speed import VOCABULARY, estimate_bytes, mamba2_config
from side_by_side import Settings, check_names, seconds

LENGTHS = (1000, 4000, 16000, 60000)
NAMES = ("s4", "s4_without_cache", "dlr", "attention_kv_cache", "mamba2")
PIECE = 4096
"""Positions of a prompt that are read at once."""


def build_model(
    name: str, hidden_size: int = 128, layers: int = 8, s4_state: int = 64, dlr_state: int = 1024
) -> nn.Module:
    """The causal language model of that name, of :data:`NAMES`."""
    shared = {"vocab_size": VOCABULARY, "hidden_size": hidden_size, "num_hidden_layers": layers}
    if name == "mamba2":
        from transformers import Mamba2ForCausalLM

        return Mamba2ForCausalLM(mamba2_config(hidden_size, layers, s4_state))
    if name == "attention_kv_cache":
        return LongTransformerForCausalLM(LongTransformerConfig(num_attention_heads=4, **shared))
    if name == "dlr":
        return DLRForCausalLM(DLRConfig(state_size=dlr_state, **shared))
    return S4ForCausalLM(S4Config(state_size=s4_state, **shared))


class Reader:
    """Reads a prompt, then one token after the other."""

    def __init__(self, name: str, model: nn.Module):
        self.model = model
        self.keyword = "cache_params" if name == "mamba2" else "past_key_values"
        self.pieces = name != "mamba2"  # transformers reads its prompt in one piece
        self.cached = name != "s4_without_cache"
        self.cache, self.seen_BL, self.next_B1 = None, None, None

    def prompt(self, input_ids_BL: torch.Tensor) -> None:
        """Reads the prompt."""
        self.cache, self.seen_BL = None, input_ids_BL
        if not self.cached:
            self.next_B1 = input_ids_BL[:, -1:]
            return
        for piece in input_ids_BL.split(PIECE, dim=1) if self.pieces else [input_ids_BL]:
            self._read(piece)

    def token(self) -> None:
        """Reads the token that the model just chose, and so chooses the next."""
        if self.cached:
            self._read(self.next_B1)
        else:
            self.seen_BL = torch.cat((self.seen_BL, self.next_B1), dim=1)
            logits = self.model(self.seen_BL, use_cache=False, logits_to_keep=1).logits
            self.next_B1 = logits[:, -1].argmax(-1, keepdim=True)

    def _read(self, input_ids_BL: torch.Tensor) -> None:
        output = self.model(input_ids_BL, use_cache=True, logits_to_keep=1, **{self.keyword: self.cache})
        self.cache = output[self.keyword]
        self.next_B1 = output.logits[:, -1].argmax(-1, keepdim=True)

    def cache_bytes(self) -> int:
        """Size of everything the cache holds."""
        return sum(tensor.numel() * tensor.element_size() for tensor in _tensors(self.cache, set()))


def _tensors(value, seen: set[int]) -> list[torch.Tensor]:
    """Every tensor inside an object, once."""
    if id(value) in seen:
        return []
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        inside = list(value.values())
    elif isinstance(value, (list, tuple)):
        inside = list(value)
    else:
        inside = list(getattr(value, "__dict__", {}).values())
    return [tensor for item in inside for tensor in _tensors(item, seen)]


@torch.no_grad()
def benchmark_generate(**options) -> list[dict]:
    """Measures one generated token of every model after prompts of every length; the options are those of
    `Settings`, 32 repeats.

    Returns:
        Rows as of `benchmark_ops` ("seconds" is the median of a token, "peak_mib" what a token needs besides the
        cache), with "layers", "cache_mib" and "prompt_seconds" (one run) besides.
    """
    settings = Settings(**{"lengths": LENGTHS, "names": NAMES, "repeats": 32, **options})
    contest, batch = settings.contest(), settings.batch
    sizes = {"hidden_size": settings.hidden_size, "layers": settings.layers}
    names = check_names(settings.names, NAMES)
    models = {name: build_model(name, **sizes, **settings.states) for name in names}
    readers = {name: Reader(name, model.to(contest.device).eval()) for name, model in models.items()}
    rows = []
    for length in settings.lengths:
        prompt_BL = torch.randint(VOCABULARY, (batch, length), device=contest.device)
        runs, prompts = {}, {}
        one = partial(estimate_bytes, batch=batch, length=length, hidden_size=settings.hidden_size, **settings.states)
        needs = {name: one(name) for name in names}
        for name, reader in readers.items():
            runs[name] = reader.token
            if not contest.reason_to_skip(name, needs[name]):
                contest.listener(f"{name}: prompt of {length}")
                prompts[name] = seconds(partial(reader.prompt, prompt_BL), contest.device)
        measured = contest.measure(runs, needs)
        for name, row in measured.items():
            known = name in prompts and readers[name].cached
            extra = {"cache_mib": round(readers[name].cache_bytes() / 2**20, 3) if known else None}
            extra["prompt_seconds"] = prompts[name] if known else None
            rows.append({"op": name, "batch": batch, "length": length, **sizes, **row, **extra})
            contest.note_time(name, prompts.get(name, 0.0))
    return rows
