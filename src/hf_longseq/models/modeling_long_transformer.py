# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The long Transformer: attention as the mixer of the shared trunk.

- Full attention goes through transformers' attention interface; block-local attention never builds a length x length
  mask, except between a few new positions and a cache.
- Positions are counted from the first real position, so that padding on the left changes nothing.
"""

import torch
import torch.nn.functional as F
from transformers.cache_utils import Cache, DynamicCache, StaticCache
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask

from .configuration_long_transformer import LongTransformerConfig
from .longseq_attention import (
    LongAttention,
    WindowLayout,
    additive,
    local_bias,
    rotary_angles,
    sinusoidal_positions,
    window_layout,
)
from .longseq_heads import (
    LongSeqForCausalLM,
    LongSeqForMaskedLM,
    LongSeqForPreTraining,
    LongSeqForSequenceClassification,
    LongSeqForTokenClassification,
)
from .mimetic_init import mimetic_attention_
from .modeling_longseq import LongSeqBlock, LongSeqModel, LongSeqPreTrainedModel, full_auto_map
from .ssm_precision import wide_dtype


class LongTransformerPreTrainedModel(LongSeqPreTrainedModel):
    """What transformers needs to know of the long Transformer."""

    config: LongTransformerConfig
    mixer_class = LongAttention
    auto_map = full_auto_map("long_transformer", "LongTransformer")
    _is_stateful = False
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    _can_record_outputs = {"hidden_states": LongSeqBlock, "attentions": LongAttention}

    @torch.no_grad()
    def initialize_weights(self) -> None:
        """As in transformers, then attention anew where the configuration says "mimetic"; loaded weights stay."""
        super().initialize_weights()
        if self.config.init != "mimetic":
            return
        for module in self.modules():
            if isinstance(module, LongAttention):
                maps = (module.q_proj, module.k_proj, module.v_proj, module.o_proj)
                mimetic_attention_(*maps, num_heads=self.config.num_attention_heads)


class LongTransformerModel(LongTransformerPreTrainedModel, LongSeqModel):
    """Trunk with attention."""

    def __init__(self, config: LongTransformerConfig):
        config.check_heads()
        super().__init__(config)

    def make_cache(self, max_length: int | None = None) -> Cache:
        if max_length is None:
            return DynamicCache(config=self.config)
        self._check_positions(max_length)
        return StaticCache(config=self.config, max_cache_len=max_length)

    def mixer_inputs(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None,
        position_ids: torch.Tensor | None,
        past_key_values: Cache | None,
        direction: str | None = None,
    ) -> tuple[torch.Tensor, dict]:
        config, length = self.config, hidden_states.shape[1]
        prepared = attention_mask is not None and attention_mask.ndim == 4 and position_ids is not None
        # a compiled step gets its mask and positions, and looks at no counter
        seen = 0 if past_key_values is None or prepared else int(past_key_values.get_seq_length())
        self._check_positions(seen + length)
        padding = attention_mask if attention_mask is not None and attention_mask.ndim == 2 else None
        if position_ids is None:
            position_ids = self._positions(padding, seen, length, hidden_states.device)
        dtype = wide_dtype(hidden_states.dtype)
        kwargs: dict = {} if direction is None else {"direction": direction}
        if config.position_embedding == "rotary":
            kwargs["rotary"] = rotary_angles(position_ids, config.head_dim, config.rope_theta, dtype)
        elif config.position_embedding == "sinusoidal":
            positions = sinusoidal_positions(position_ids, config.hidden_size, dtype)
            hidden_states = hidden_states + positions.to(hidden_states)

        dense = config.attention_window is not None or config.attention_bias is not None or direction is not None
        if attention_mask is padding and dense:
            if config.attention_window is not None and seen == 0:
                kwargs["window"] = self._window_layout(length, padding, hidden_states.device, direction)
                return hidden_states, {"attention_mask": None, **kwargs}
            kwargs["attention_mask"] = self.dense_mask(hidden_states, padding, past_key_values, direction)
        elif config.bidirectional:
            kwargs["attention_mask"] = create_bidirectional_mask(config, hidden_states, attention_mask)
        else:
            # positions that start again without a mask mean packed sequences, which transformers' mask keeps apart
            kwargs["attention_mask"] = create_causal_mask(
                config, hidden_states, attention_mask, past_key_values, position_ids=position_ids
            )
        return hidden_states, kwargs

    def _check_positions(self, count: int) -> None:
        limit = self.config.max_position_embeddings
        if limit is not None and count > limit:
            raise ValueError(
                f"the input has {count} positions but max_position_embeddings is {limit}; shorten it or raise the "
                "limit in the configuration."
            )

    def _positions(self, padding: torch.Tensor | None, seen: int, length: int, device: torch.device) -> torch.Tensor:
        if padding is None:
            return torch.arange(seen, seen + length, device=device)[None]
        return (padding.long().cumsum(-1) - 1).clamp(min=0)[:, -length:]

    def _window_layout(
        self, length: int, padding: torch.Tensor | None, device: torch.device, direction: str | None
    ) -> WindowLayout:
        config = self.config
        direction = direction if config.bidirectional else "forward"
        return window_layout(
            length,
            config.attention_window,
            0 if direction == "backward" else config.window_blocks_back,
            0 if direction == "forward" else config.window_blocks_ahead,
            direction,
            padding,
            device,
            config.num_attention_heads if config.attention_bias == "local" else None,
        )

    def dense_mask(
        self,
        hidden_states: torch.Tensor,
        padding: torch.Tensor | None,
        past_key_values: Cache | None,
        direction: str | None = None,
    ) -> torch.Tensor:
        """What may be seen, and the local bias: (B, 1 or N, L, keys), boolean or to be added to the scores.

        With a window it is for new positions that follow a cache: few rows, so it may be dense. `padding` (B, seen +
        L) covers what the cache has seen; room that a cache of fixed size still has is not visible.
        """
        config, length = self.config, hidden_states.shape[1]
        seen = 0 if past_key_values is None else int(past_key_values.get_seq_length())
        room = 0 if past_key_values is None else past_key_values.get_mask_sizes(length, 0)[0] - seen - length
        keys = self._positions(padding, 0, seen + length, hidden_states.device)
        visible = torch.ones_like(keys, dtype=torch.bool) if padding is None else padding.bool()
        queries = keys[:, -length:]
        keys, visible = F.pad(keys, (0, room)), F.pad(visible, (0, room))
        allowed = visible[:, None, :].expand(-1, length, -1)
        if direction == "backward":
            allowed = allowed & (keys[:, None, :] >= queries[:, :, None])
        elif direction == "forward" or not config.bidirectional:
            allowed = allowed & (keys[:, None, :] <= queries[:, :, None])
        if config.attention_window is not None:
            first_block = queries // config.attention_window - config.window_blocks_back
            allowed = allowed & (keys[:, None, :] // config.attention_window >= first_block[:, :, None])
        allowed = (allowed | ~allowed.any(dim=-1, keepdim=True))[:, None]
        bias = local_bias(queries, keys, config.num_attention_heads) if config.attention_bias == "local" else None
        if bias is None and config._attn_implementation != "eager":
            return allowed
        return additive(allowed, bias, hidden_states.dtype)


class LongTransformerForMaskedLM(LongTransformerPreTrainedModel, LongSeqForMaskedLM):
    """Masked self-pretraining on tokens."""

    backbone_class = LongTransformerModel


class LongTransformerForCausalLM(LongTransformerPreTrainedModel, LongSeqForCausalLM):
    """Causal self-pretraining on tokens, and generation with a key-value cache."""

    backbone_class = LongTransformerModel

    def create_masks_for_generate(
        self, config, inputs_embeds, attention_mask, past_key_values, position_ids=None, **kwargs
    ) -> torch.Tensor | None:
        """The mask of one new position behind a cache of fixed size; a prompt is read as without one."""
        if inputs_embeds.shape[1] > 1:
            return attention_mask
        if config.attention_window is not None or config.attention_bias is not None:
            return self.model.dense_mask(inputs_embeds, attention_mask, past_key_values)
        return create_causal_mask(config, inputs_embeds, attention_mask, past_key_values, position_ids=position_ids)


class LongTransformerForPreTraining(LongTransformerPreTrainedModel, LongSeqForPreTraining):
    """Self-pretraining on real values."""

    backbone_class = LongTransformerModel


class LongTransformerForSequenceClassification(LongTransformerPreTrainedModel, LongSeqForSequenceClassification):
    """Classification and regression of whole sequences or pairs."""

    backbone_class = LongTransformerModel


class LongTransformerForTokenClassification(LongTransformerPreTrainedModel, LongSeqForTokenClassification):
    """A label for every position: classes, several labels at once, or numbers."""

    backbone_class = LongTransformerModel


__all__ = [
    "LongTransformerPreTrainedModel",
    "LongTransformerModel",
    "LongTransformerForMaskedLM",
    "LongTransformerForCausalLM",
    "LongTransformerForPreTraining",
    "LongTransformerForSequenceClassification",
    "LongTransformerForTokenClassification",
]
