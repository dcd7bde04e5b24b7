# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""MEGA: single-head gated attention whose queries, keys and gates come from a moving average.

- Attention runs over everything or inside chunks; the moving average always runs over everything.
- A causal model carries the averages and the keys and values that can still be seen: those of the open chunk.

Axes: B batch, L length, D channels, C chunks, T positions of a chunk, K keys, z width of queries and keys, v of
values.
"""

import torch
import torch.nn.functional as F
from torch import nn
from transformers import initialization as init
from transformers.cache_utils import Cache
from transformers.integrations import use_kernel_forward_from_hub
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .configuration_mega import MegaConfig
from .longseq_attention import eager_attention
from .longseq_heads import (
    LongSeqForCausalLM,
    LongSeqForMaskedLM,
    LongSeqForPreTraining,
    LongSeqForSequenceClassification,
    LongSeqForTokenClassification,
)
from .longseq_layers import LongSeqDropout, take_positions
from .mega_layers import (
    MegaCache,
    MegaEMA,
    MegaLayer,
    MegaLayout,
    MegaPositionBias,
    open_columns,
    plan_continuation,
    plan_whole,
)
from .modeling_longseq import LongSeqBlock, LongSeqModel, LongSeqPreTrainedModel, full_auto_map
from .ssm_cache import recurrent_layer
from .ssm_precision import widened


def laplace(scores: torch.Tensor) -> torch.Tensor:
    """Attention weights whose rows do not sum to 1: a Gaussian's distribution function (Ma et al., 2023, eq. 16)."""
    return 0.5 * (1.0 + torch.erf((scores - 0.707107) / (0.282095 * 2**0.5)))


@use_kernel_forward_from_hub("MegaMixer")
class MegaMixer(nn.Module):
    """x + u (h - x), h = SiLU(W m + U (r * A v)), with m the moving average of x (Ma et al., "Mega", 2023, section 3).

    u, r, queries and keys come from m, values from x itself. Masked inputs enter no average, over which time passes,
    and attention sees the other positions as if they stood side by side.
    """

    adds_residual = True

    def __init__(self, config: MegaConfig, layer_idx: int):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.is_causal = False  # the mask says so, together with the bias
        width, shared, value = config.hidden_size, config.shared_representation_size, config.value_size
        self.ema = MegaEMA(config)
        self.value_proj = nn.Linear(width, value)
        self.average_proj = nn.Linear(width, 2 * width + shared + value)
        self.output_proj = nn.Linear(value, width)
        self.affine_scale = nn.Parameter(torch.empty(2, shared))
        self.affine_shift = nn.Parameter(torch.empty(2, shared))
        self.position_bias = MegaPositionBias(config)
        self.dropout = LongSeqDropout(config.dropout, config.tied_dropout)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        self.ema.reset_parameters()
        self.position_bias.reset_parameters()
        for projection in (self.value_proj, self.average_proj, self.output_proj):
            init.normal_(projection.weight, std=0.02)
            init.zeros_(projection.bias)
        init.normal_(self.affine_scale, std=0.02)
        init.zeros_(self.affine_shift)

    def kernel(self, length: int) -> torch.Tensor:
        """Weights of the moving average j positions after an input (row 0) and before it (row 1), without omega:
        (D, H, L) for j = 0 ... L - 1. The present is in both rows."""
        taps = min(length, self.ema.truncation or length)
        return F.pad(self.ema.kernel(taps), (0, length - taps)).unflatten(0, (-1, self.config.hidden_size))

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        past_key_values: Cache | None = None,
        residual: torch.Tensor | None = None,
        layout: MegaLayout | None = None,
        keep: int = 0,
        direction: str | None = None,
        **kwargs,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """(B, L, D) to (B, L, D), the residual included, and attention weights (B, 1, L, K), None unless eager.

        ``attention_mask`` (B, L) is 1 at real positions; ``residual`` is the block's input before its norm; ``layout``
        says who sees whom; ``keep`` is how many of the newest keys and values ``past_key_values`` keeps.
        """
        config, memory = self.config, None
        if past_key_values is not None:
            memory = recurrent_layer(past_key_values, self.layer_idx, config.bidirectional, MegaLayer)
        if residual is None:
            residual = hidden_states
        if layout is None:
            batch, length, _ = hidden_states.shape
            way, device = direction if config.bidirectional else "forward", hidden_states.device
            layout = plan_whole(batch, length, config.chunk_size, way, attention_mask, device)

        value = F.silu(self.value_proj(hidden_states))
        average = self.dropout(self.ema(hidden_states, attention_mask, memory, direction))
        width, shared = config.hidden_size, config.shared_representation_size
        update, inner, skip = self.average_proj(average).split((width, shared + config.value_size, width), dim=-1)
        update, (mixed, reset) = torch.sigmoid(update), F.silu(inner).split((shared, config.value_size), dim=-1)
        query, key = (mixed[..., None, :] * self.affine_scale + self.affine_shift).unbind(-2)
        if memory is not None:
            key, value = memory.extend(key, value, keep)

        attended, weights = self._attend(query, key, value, layout)
        new = self.dropout(F.silu(skip + self.output_proj(attended * reset)))
        return residual + update * (new - residual), weights

    def _attend(
        self, query_BLz: torch.Tensor, key_BKz: torch.Tensor, value_BKv: torch.Tensor, layout: MegaLayout
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Attention inside chunks: (B, L, v), and the weights (B, 1, L, T)."""
        batch, length, _ = query_BLz.shape
        size = layout.chunk
        chunks = -(-length // size)
        parts = query_BLz, key_BKz, value_BKv
        if layout.offsets_BLK is None:
            if layout.order_BL is not None:
                parts = tuple(take_positions(x, layout.order_BL) for x in parts)
            padding = chunks * size - length
            parts = tuple(F.pad(x, (0, 0, 0, padding)).reshape(batch * chunks, 1, size, -1) for x in parts)
        else:
            parts = tuple(x[:, None] for x in parts)
        bias, visible = self.position_bias(layout), layout.visible
        attend = self._softmax_attention if self.config.attention_function == "softmax" else self._free_attention
        out, weights = attend(*parts, bias, visible)
        out = out.reshape(batch, chunks * size, -1)[:, :length]
        if layout.inverse_BL is not None:
            out = take_positions(out, layout.inverse_BL)
        return out, weights if weights is None else self._in_input_order(weights, layout, batch, length)

    def _in_input_order(self, weights: torch.Tensor, layout: MegaLayout, batch: int, length: int) -> torch.Tensor:
        """Attention weights (B, 1, L, T) in the order of the input; keys of several chunks count in their chunk."""
        inverse_BL, one_chunk = layout.inverse_BL, layout.chunk >= length
        if one_chunk and inverse_BL is None:
            return weights  # the very tensor that the output depends on, so that its gradient can be kept
        weights = weights.reshape(batch, -1, weights.shape[-1])[:, :length]
        if inverse_BL is not None:
            weights = take_positions(weights, inverse_BL)
        if one_chunk and inverse_BL is not None:
            weights = take_positions(weights.mT, inverse_BL).mT
        return weights[:, None]

    def _softmax_attention(self, query, key, value, bias, visible):
        bias = bias.to(query.dtype)
        if visible is not None:
            # a row of nothing but padding sees everything, its output is not used
            visible = visible | ~visible.any(dim=-1, keepdim=True)
            bias = torch.where(visible, bias, torch.finfo(query.dtype).min)
        bias = bias.expand(query.shape[0], 1, -1, -1)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention)
        dropout = self.config.attention_dropout if self.training else 0.0
        return attend(self, query, key, value, bias, dropout=dropout, scaling=query.shape[-1] ** -0.5)

    def _free_attention(self, query, key, value, bias, visible):
        """Weights that are functions of single scores; scores are divided by the number of keys seen."""
        seen = key.shape[2] if visible is None else visible.sum(dim=-1, keepdim=True).clamp(min=1)
        scores = torch.matmul(query, key.transpose(2, 3)) / seen + bias
        scores = widened(scores)
        weights = laplace(scores) if self.config.attention_function == "laplace" else F.relu(scores).square()
        if visible is not None:
            weights = weights * visible
        weights = F.dropout(weights.to(value.dtype), p=self.config.attention_dropout, training=self.training)
        return torch.matmul(weights, value), weights


class MegaPreTrainedModel(LongSeqPreTrainedModel):
    """What transformers needs to know of MEGA."""

    config: MegaConfig
    mixer_class = MegaMixer
    _can_compile_fullgraph = False  # the cache holds the keys of the open chunk
    auto_map = full_auto_map("mega", "Mega")
    _supports_sdpa = True
    _can_record_outputs = {"hidden_states": LongSeqBlock, "attentions": MegaMixer}

    def _sdpa_can_dispatch(self, is_init_check: bool = False) -> bool:
        if self.config.attention_function != "softmax":
            raise ValueError(
                f"MegaConfig.attention_function is {self.config.attention_function!r}, which scaled-dot-product "
                "attention cannot compute; set attn_implementation='eager' or leave it out."
            )
        return super()._sdpa_can_dispatch(is_init_check)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if self.config.initializer_range is None and isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=module.embedding_dim**-0.5)


class MegaModel(MegaPreTrainedModel, LongSeqModel):
    """Trunk with MEGA mixers."""

    def make_cache(self, max_length: int | None = None) -> Cache:
        """An empty cache. Its open chunk grows and is emptied, so that it has no fixed size for a compiled step."""
        return MegaCache(self.config)

    def mixer_inputs(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None,
        position_ids: torch.Tensor | None,
        past_key_values: Cache | None,
        direction: str | None = None,
    ) -> tuple[torch.Tensor, dict]:
        config, (batch, length, _), device = self.config, hidden_states.shape, hidden_states.device
        hidden_states, kwargs = super().mixer_inputs(
            hidden_states, attention_mask, position_ids, past_key_values, direction
        )
        seen = 0 if past_key_values is None else past_key_values.get_seq_length()
        limit = config.max_position_embeddings
        if config.position_bias == "simple" and config.chunk_size is None and seen + length > limit:
            raise ValueError(
                f"the input has {seen + length} positions but the table of MegaConfig.position_bias='simple' ends at "
                f"max_position_embeddings {limit}; raise it, set chunk_size, or use position_bias='rotary'."
            )
        # a single new position is never padding, but positions before it may be
        valid = attention_mask if attention_mask is not None and attention_mask.ndim == 2 else None
        if past_key_values is not None:
            kwargs["keep"] = open_columns(seen + length, config.chunk_size, valid)
        memory = past_key_values.layers[0] if seen else None
        if isinstance(memory, MegaLayer):
            cached = memory.keys.shape[1]
            kwargs["layout"] = plan_continuation(length, seen, cached, config.chunk_size, valid, device)
        else:
            mask, way = kwargs["attention_mask"], direction if config.bidirectional else "forward"
            kwargs["layout"] = plan_whole(batch, length, config.chunk_size, way, mask, device)
        return hidden_states, kwargs


class MegaForMaskedLM(MegaPreTrainedModel, LongSeqForMaskedLM):
    """Masked token prediction."""

    backbone_class = MegaModel


class MegaForCausalLM(MegaPreTrainedModel, LongSeqForCausalLM):
    """Next-token prediction and generation with averages and the keys of the open chunk."""

    backbone_class = MegaModel


class MegaForPreTraining(MegaPreTrainedModel, LongSeqForPreTraining):
    """Denoising or prediction of real values."""

    backbone_class = MegaModel


class MegaForSequenceClassification(MegaPreTrainedModel, LongSeqForSequenceClassification):
    """Classification and regression of sequences and pairs."""

    backbone_class = MegaModel


class MegaForTokenClassification(MegaPreTrainedModel, LongSeqForTokenClassification):
    """A label for every position: classes, several labels at once, or numbers."""

    backbone_class = MegaModel


__all__ = [
    "MegaForCausalLM",
    "MegaForMaskedLM",
    "MegaForPreTraining",
    "MegaForSequenceClassification",
    "MegaForTokenClassification",
    "MegaModel",
    "MegaPreTrainedModel",
]
