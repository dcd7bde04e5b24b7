# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Constant-size memory of recurrent mixers, in the shape that transformers' generation expects of a cache."""

from collections.abc import Callable
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache, LinearAttentionLayer, StaticCache


class RecurrentLayer(LinearAttentionLayer, CacheLayerMixin):
    """One layer's state (B, H, N), the number of positions it has seen, and what every further step needs besides."""

    supports_early_init = False

    def __init__(self, static: bool = False):
        LinearAttentionLayer.__init__(self)
        # a compiled step counts in a tensor, for a Python number would be part of its graph and change every time
        self.is_compileable = static
        self.seen_tokens = torch.zeros((), dtype=torch.long) if static else 0
        self.keys = self.values = None
        self._prepared: tuple[tuple, Any] | None = None

    @property
    def is_initialized(self) -> bool:
        return self.is_recurrent_states_initialized[0]

    @property
    def state(self) -> torch.Tensor | None:
        """The state after the last position seen, or None before the first."""
        return self.recurrent_states[0] if self.has_previous_state[0] else None

    def advance(self, state: torch.Tensor, new_positions: int) -> None:
        """Replaces the state by the one after ``new_positions`` more."""
        self.device = state.device
        if self.is_compileable and not self.is_initialized:
            self.seen_tokens = self.seen_tokens.to(state.device)
            if not torch.compiler.is_compiling():
                torch._dynamo.mark_static_address(self.seen_tokens)  # as transformers marks the state
        self.update_recurrent_state(state)
        self.has_previous_state[0] = True
        self.seen_tokens += new_positions

    def prepared(self, make: Callable[[], Any], parameters: tuple[torch.Tensor, ...]) -> Any:
        """What ``make()`` computes from ``parameters`` alone, kept from step to step.

        It lives here and not on the module, and is made anew when a parameter was changed or replaced, so that it
        cannot outlive the weights. Nothing is kept where gradients may flow or a graph is traced.
        """
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or torch.jit.is_tracing():
            return make()
        key = tuple((x.data_ptr(), None if x.is_inference() else x._version) for x in parameters)
        if self._prepared is None or self._prepared[0] != key:
            self._prepared = key, make()
        return self._prepared[1]

    def update(self, *args, **kwargs):
        raise ValueError(
            "past_key_values holds recurrent states, but an attention layer needs keys and values: pass a cache that "
            "this model's make_cache() returned, or None."
        )

    def get_seq_length(self) -> int | torch.Tensor:
        return self.seen_tokens

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.seen_tokens + query_length, 0

    def reset(self) -> None:
        LinearAttentionLayer.reset(self)
        self.seen_tokens *= 0  # in place where it is a tensor
        self._prepared = None

    def batch_repeat_interleave(self, repeats: int) -> None:
        self.recurrent_states[0] = self.recurrent_states[0].repeat_interleave(repeats, dim=0)

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        self.recurrent_states[0] = self.recurrent_states[0][indices, ...]


class RecurrentCache(DynamicCache):
    """A :class:`RecurrentLayer` for every layer of the model. Its size does not depend on the length seen."""

    def __init__(self, config):
        Cache.__init__(self, layers=[RecurrentLayer() for _ in range(config.num_hidden_layers)])


class StaticRecurrentCache(StaticCache):
    """The same with tensors that stay in place and a counter that is one of them, for a compiled step."""

    def __init__(self, config):
        Cache.__init__(self, layers=[RecurrentLayer(static=True) for _ in range(config.num_hidden_layers)])


def recurrent_layer(
    cache: Cache, layer_idx: int, bidirectional: bool, kind: type[RecurrentLayer] = RecurrentLayer
) -> RecurrentLayer:
    """The layer's place in ``cache``; ValueError for another kind of cache or a bidirectional layer."""
    if bidirectional:
        raise ValueError(
            "past_key_values was given to a bidirectional layer, which reads the whole sequence at once: build the "
            "model with bidirectional=False to stream or generate."
        )
    layers = cache.layers
    if layer_idx >= len(layers) or type(layers[layer_idx]) is not kind:
        raise ValueError(
            f"past_key_values is a {type(cache).__name__} without a {kind.__name__} for layer {layer_idx}: pass a "
            "cache that this model's make_cache() returned, or None."
        )
    return layers[layer_idx]
