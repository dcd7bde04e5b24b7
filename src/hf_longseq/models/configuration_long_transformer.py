# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Configuration of the long Transformer: attention over everything, or over blocks of a window."""

from huggingface_hub.dataclasses import strict

from .configuration_longseq import LongSeqConfig, require_at_least, require_choice, require_probability


@strict
class LongTransformerConfig(LongSeqConfig):
    """A pre-norm Transformer for long inputs ("Never Train from Scratch", section 3; block-local attention as in its
    PathX runs). Shared fields are described in `LongSeqConfig`.

    Args:
        num_attention_heads: must divide `hidden_size`.
        intermediate_size: width of the feed-forward sub-block; four times `hidden_size` when not given.
        position_embedding: "rotary" (on queries and keys), "sinusoidal" (added to the embeddings) or "none".
        rope_theta: base of the rotary frequencies.
        attention_bias: None, or "local": scores fall linearly with the distance, by a slope per head from 2^(-8/N) to
            2^-8 that is not trained (ALiBi, Press et al. 2022; in both directions where the model sees both).
        init: None for PyTorch's defaults, or "mimetic": queries and keys begin near the identity, values and outputs
            near minus the identity (Trockman and Kolter, ICML 2023, who use sinusoidal positions with it).
        attention_window: None attends to every position; a number w cuts the sequence into blocks of w positions,
            each of which attends to itself and to its neighbours.
        window_blocks_back: how many blocks before its own a position sees.
        window_blocks_ahead: how many blocks after its own a position sees (none in a causal model).
        max_position_embeddings: longest input accepted; None accepts any length.
        attention_dropout: probability, applied to attention weights.
    """

    model_type = "longseq_transformer"
    attribute_map = {**LongSeqConfig.attribute_map, "n_heads": "num_attention_heads", "n_head": "num_attention_heads"}
    base_model_tp_plan = {
        "layers.*.mixer.q_proj": "colwise",
        "layers.*.mixer.k_proj": "colwise",
        "layers.*.mixer.v_proj": "colwise",
        "layers.*.mixer.o_proj": "rowwise",
        "layers.*.feed_forward.up_proj": "colwise",
        "layers.*.feed_forward.down_proj": "rowwise",
    }

    num_attention_heads: int = 4
    position_embedding: str = "rotary"
    rope_theta: float | int = 10000.0
    attention_bias: str | None = None
    init: str | None = None
    attention_window: int | None = None
    window_blocks_back: int = 1
    window_blocks_ahead: int = 1
    max_position_embeddings: int | None = None
    attention_dropout: float | int = 0.0

    def __post_init__(self, **kwargs):
        if self.intermediate_size is None:
            self.intermediate_size = 4 * self.hidden_size
        super().__post_init__(**kwargs)

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_attention_heads

    @property
    def layer_types(self) -> list[str]:
        return ["full_attention"] * self.num_hidden_layers

    def validate_architecture(self) -> None:
        super().validate_architecture()
        require_choice(self, "position_embedding", ("sinusoidal", "rotary", "none"))
        require_choice(self, "attention_bias", (None, "local"))
        require_choice(self, "init", (None, "mimetic"))
        require_at_least(self, "num_attention_heads", 1)
        require_at_least(self, "attention_window", 1)
        require_at_least(self, "max_position_embeddings", 1)
        for field in ("window_blocks_back", "window_blocks_ahead"):
            require_at_least(self, field, 0)
        limit = self.max_position_embeddings
        if self.attention_window is not None and limit is not None and self.attention_window > limit:
            raise ValueError(
                f"LongTransformerConfig.attention_window is {self.attention_window}, longer than "
                f"max_position_embeddings {limit}; shorten the window or set it to None for full attention."
            )
        require_probability(self, "attention_dropout")

    def check_heads(self) -> None:
        """Raise ValueError for sizes that no model can be built of; called when one is (transformers' own tools set
        sizes one at a time, so the configuration may pass through such states)."""
        if self.hidden_size % self.num_attention_heads != 0:
            raise ValueError(
                f"LongTransformerConfig.num_attention_heads is {self.num_attention_heads}, which does not divide "
                f"hidden_size {self.hidden_size}; choose a divisor."
            )
        if self.position_embedding == "rotary" and self.head_dim % 2 != 0:
            raise ValueError(
                f"LongTransformerConfig gives heads of {self.head_dim} numbers (hidden_size {self.hidden_size} / "
                f"num_attention_heads {self.num_attention_heads}), but rotary positions turn pairs; make it even or "
                "set position_embedding='none' or 'sinusoidal'."
            )
        if self.position_embedding == "sinusoidal" and self.hidden_size % 2 != 0:
            raise ValueError(
                f"LongTransformerConfig.hidden_size is {self.hidden_size}, but sinusoidal positions need an even one."
            )


__all__ = ["LongTransformerConfig"]
