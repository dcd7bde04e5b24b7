# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Configuration of MEGA, gated attention over a moving average."""

from huggingface_hub.dataclasses import strict

from .configuration_longseq import LongSeqConfig, require_at_least, require_choice, require_probability


@strict
class MegaConfig(LongSeqConfig):
    """Moving-average equipped gated attention (Ma et al., "Mega", 2023). Shared fields are described in
    `LongSeqConfig`.

    Args:
        value_size: width of the values and of the reset gate; twice `hidden_size` when not given.
        shared_representation_size: width of the queries and keys.
        state_size: moving averages per channel.
        attention_function: "softmax", "laplace" or "relu2" (squared ReLU).
        chunk_size: attention stays inside chunks of so many positions; None attends to everything. Inputs of any
            length are taken: a last chunk that is short is filled with padding that is neither seen nor counted.
        position_bias: "simple" (a table of offsets, which limits the length, or the chunk) or "rotary".
        max_position_embeddings: longest input of a simple bias without chunks.
        ema_truncation: positions after which the moving average of a bidirectional model forgets; None for never.
        attention_dropout: probability, applied to attention weights.
        intermediate_size: width of the feed-forward sub-block; `value_size` when not given.
    """

    model_type = "longseq_mega"

    value_size: int | None = None
    shared_representation_size: int = 64
    state_size: int = 16
    attention_function: str = "softmax"
    chunk_size: int | None = None
    position_bias: str = "simple"
    max_position_embeddings: int = 2048
    ema_truncation: int | None = None
    attention_dropout: float | int = 0.0
    hidden_act: str = "silu"

    def __post_init__(self, **kwargs):
        if self.value_size is None:
            self.value_size = 2 * self.hidden_size
        if self.intermediate_size is None:
            self.intermediate_size = self.value_size
        super().__post_init__(**kwargs)

    @property
    def num_attention_heads(self) -> int:
        """One, in the weights that `output_attentions=True` returns."""
        return 1

    def validate_architecture(self) -> None:
        super().validate_architecture()
        require_choice(self, "attention_function", ("softmax", "laplace", "relu2"))
        require_choice(self, "position_bias", ("simple", "rotary"))
        for field in ("value_size", "shared_representation_size", "state_size", "chunk_size", "ema_truncation"):
            require_at_least(self, field, 1)
        require_at_least(self, "max_position_embeddings", 1)
        if self.position_bias == "rotary" and self.shared_representation_size % 2:
            raise ValueError(
                f"MegaConfig.shared_representation_size is {self.shared_representation_size}, but a rotary bias turns "
                "pairs; make it even or set position_bias='simple'."
            )
        if self.ema_truncation is not None and not self.bidirectional:
            raise ValueError(
                f"MegaConfig.ema_truncation is {self.ema_truncation} in a causal model, whose recurrent state never "
                "forgets; set ema_truncation=None or bidirectional=True."
            )
        require_probability(self, "attention_dropout")


__all__ = ["MegaConfig"]
