# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Our inputs and heads around an architecture of transformers: real values, pairs, labels of positions.

The trunk is the architecture's own base model, without pooler; real values come in by a dense layer in place of its
token embedding. Losses, pooling and classifier are those of our own architectures, so that a comparison compares
trunks.

With `bidirectional` a causal trunk (Mamba-2, RWKV, Llama, ...) reads every sequence and its reverse. Position t of the
output joins what the first run holds at t with what the second holds at t + 1 (the shift of Hydra, Hwang et al. 2024),
so that every position is read once. Each run gets the real positions first and padding behind them, where a causal
trunk cannot see it: padding on either side changes nothing, even in a trunk that ignores `attention_mask`.

Axes: B batch, L length, C channels, H hidden size.
"""

import inspect
from dataclasses import dataclass

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.auto.modeling_auto import MODEL_MAPPING
from transformers.utils.generic import can_return_tuple

from .configuration_adapter import AdapterConfig
from .longseq_heads import (
    LongSeqForMaskedLM,
    LongSeqForPreTraining,
    LongSeqForSequenceClassification,
    LongSeqForTokenClassification,
)
from .longseq_layers import packing, take_positions
from .longseq_losses import check_lengths, check_token_ids, real_positions, without_padding
from .mimetic_init import mimetic_selective_ssm_, selective_ssm_mixers
from .modeling_longseq import LongSeqPreTrainedModel, flagged_values, full_auto_map


class NoTokenEmbedding(nn.Module):
    """Stands where a trunk of real values has its token embedding: gives zeros, holds nothing.

    Some trunks embed padding of their own; what it holds is masked.
    """

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return torch.zeros(*input_ids.shape, self.width, device=input_ids.device)


@dataclass
class ReadingOrder:
    """The order in which the two runs read a batch, and the way back.

    Attributes:
        valid_BL: true at real positions.
        forward_BL: index that packs the real positions to the front, and padding behind them.
        backward_BL: the same with the real positions reversed.
        rank_BL: index that undoes `forward_BL`.
        following_BL: where the second run has just read the position after this one; 0 where there is none.
        last_BL: true where no real position follows.
    """

    valid_BL: torch.Tensor
    forward_BL: torch.Tensor
    backward_BL: torch.Tensor
    rank_BL: torch.Tensor
    following_BL: torch.Tensor
    last_BL: torch.Tensor

    @classmethod
    def of(cls, attention_mask: torch.Tensor | None, batch: int, length: int, device) -> "ReadingOrder":
        """The order of a batch whose real positions a mask (B, L) names; None for all."""
        position_L = torch.arange(length, device=device)
        if attention_mask is None:
            valid_BL = torch.ones(batch, length, dtype=torch.bool, device=device)
        else:
            valid_BL = attention_mask.to(device) != 0
        count_B1 = valid_BL.sum(dim=1, keepdim=True)
        forward_BL, rank_BL = packing(valid_BL)
        turned_BL = torch.where(position_L < count_B1, count_B1 - 1 - position_L, position_L)
        return cls(
            valid_BL=valid_BL,
            forward_BL=forward_BL,
            backward_BL=forward_BL.gather(1, turned_BL),
            rank_BL=rank_BL,
            following_BL=(count_B1 - 2 - rank_BL).clamp(min=0),
            last_BL=rank_BL >= count_B1 - 1,
        )

    def unpack(self, forward_BLH: torch.Tensor, backward_BLH: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Outputs of the two runs at their positions in the batch, the second shifted by one; zeros at the end."""
        following_BLH = take_positions(backward_BLH, self.following_BL)
        return take_positions(forward_BLH, self.rank_BL), following_BLH.masked_fill(self.last_BL[..., None], 0.0)


class AdapterPreTrainedModel(LongSeqPreTrainedModel):
    """Initialisation and saving. The trunk, a model of transformers, initialises itself."""

    config: AdapterConfig
    _no_split_modules = None  # those of the trunk
    _tied_weights_keys = None  # where the token embedding is depends on the trunk
    _can_record_outputs = {}
    _is_stateful = False
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    # what the recurrent architectures of transformers call the parameters that are not to be decayed
    ssm_parameter_names = frozenset({"A_log", "D", "dt_bias"})
    auto_map = {
        auto: path for auto, path in full_auto_map("adapter", "Adapter").items() if auto != "AutoModelForCausalLM"
    }

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Of what is ours, the dense layers: PyTorch's default, as in our own architectures."""
        if isinstance(module, nn.Linear):
            bound = module.in_features**-0.5
            init.uniform_(module.weight, -bound, bound)
            init.uniform_(module.bias, -bound, bound)

    @torch.no_grad()
    def initialize_weights(self) -> None:
        """As in transformers, then what a mimetic initialisation changes; loaded weights stay."""
        super().initialize_weights()
        if self.config.init == "mimetic":
            for mixer in selective_ssm_mixers(self):
                mimetic_selective_ssm_(mixer)


class AdapterModel(AdapterPreTrainedModel):
    """The trunk behind our inputs, in one direction or in both."""

    def __init__(self, config: AdapterConfig):
        super().__init__(config)
        self.backbone = build_backbone(config.backbone_config)
        self.backbone_arguments = set(inspect.signature(self.backbone.forward).parameters)
        width = self.backbone.get_input_embeddings().weight.shape[1]
        if config.input_type == "values":
            self.backbone.set_input_embeddings(NoTokenEmbedding(width))
            self.embed_values = nn.Linear(config.num_channels + 1, width)
        self.backbone_reverse = self.join = None
        if config.bidirectional == "separate":
            self.backbone_reverse = build_backbone(config.backbone_config)
            self.backbone_reverse.set_input_embeddings(NoTokenEmbedding(width))
        if config.bidirectional is not None and config.direction_join == "concat":
            self.join = nn.Linear(2 * config.hidden_size, config.hidden_size)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embed_values if self.config.input_type == "values" else self.backbone.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module) -> None:
        if self.config.input_type == "values":
            self.embed_values = value
        else:
            self.backbone.set_input_embeddings(value)

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        input_values: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        **kwargs,
    ) -> BaseModelOutput:
        """Encode a batch.

        Args:
            input_ids: (B, L) int64, for models of tokens.
            attention_mask: (B, L), 1 at real positions.
            input_values: (B, L, C) or, with one channel, (B, L), for models of real values.
            inputs_embeds: (B, L, width of the trunk's embedding) instead of either.
            position_ids: (B, L), for trunks that take them.
            kwargs: `bool_masked_pos` (B, L), true where a value is masked; the rest goes to the trunk.
        """
        bool_masked_pos = kwargs.pop("bool_masked_pos", None)
        kwargs.pop("use_cache", None)
        given = next((x for x in (inputs_embeds, input_ids, input_values) if x is not None), None)
        valid_mask = real_positions(attention_mask, given, cached=False)
        if inputs_embeds is not None:
            inputs_embeds = without_padding(inputs_embeds, valid_mask)
        elif self.config.input_type == "values":
            dtype, channels = self.embed_values.weight.dtype, self.config.num_channels
            inputs_embeds = self.embed_values(
                flagged_values(input_values, bool_masked_pos, channels, dtype, valid_mask)
            )
        if inputs_embeds is None:
            check_token_ids(input_ids, self.config.vocab_size)
            kwargs["input_ids"] = input_ids
        else:
            kwargs["inputs_embeds"] = inputs_embeds
        check_lengths((input_ids if inputs_embeds is None else inputs_embeds).shape[1], attention_mask)
        if len(given) == 0:  # most trunks cannot reshape a batch of no sequence
            dtype = self.get_input_embeddings().weight.dtype
            return BaseModelOutput(
                torch.zeros(0, given.shape[1], self.config.hidden_size, dtype=dtype).to(given.device)
            )
        for name in ("output_hidden_states", "output_attentions"):
            kwargs.setdefault(name, getattr(self.config, name))
        if self.config.bidirectional is not None:
            if inputs_embeds is None:
                inputs_embeds = self.backbone.get_input_embeddings()(kwargs.pop("input_ids"))
            kwargs |= {"inputs_embeds": inputs_embeds, "output_attentions": False, "return_dict": True}
            return self._both_directions(attention_mask, **kwargs)
        kwargs |= {"attention_mask": attention_mask, "position_ids": position_ids, "return_dict": True}
        outputs = self.backbone(**self._accepted(kwargs))
        return BaseModelOutput(
            last_hidden_state=self._in_our_dtype(outputs.last_hidden_state),
            hidden_states=outputs.get("hidden_states"),
            attentions=outputs.get("attentions"),
        )

    def _both_directions(
        self, attention_mask: torch.Tensor | None, inputs_embeds: torch.Tensor, **kwargs
    ) -> BaseModelOutput:
        """Run the trunk over a batch and over its reverse. Attention weights are not returned: each run has its own,
        in its own order of positions."""
        batch, length, _ = inputs_embeds.shape
        order = ReadingOrder.of(attention_mask, batch, length, inputs_embeds.device)
        embeds_BLH = inputs_embeds.masked_fill(~order.valid_BL[..., None], 0.0)
        packed = [take_positions(embeds_BLH, index) for index in (order.forward_BL, order.backward_BL)]
        if self.backbone_reverse is None:
            both = self._run(self.backbone, torch.cat(packed), kwargs)
            pairs = [(None, None) if states is None else states.chunk(2) for states in both]
        else:
            trunks = (self.backbone, self.backbone_reverse)
            runs = [self._run(trunk, embeds, kwargs) for trunk, embeds in zip(trunks, packed, strict=True)]
            pairs = list(zip(*runs, strict=True))
        last = order.unpack(*pairs[0])
        joined = sum(last) if self.join is None else self.join(torch.cat(last, dim=-1))
        # the first hidden state is the input of both runs, the last the output of the model; None was not asked for
        inner = [None if pair[0] is None else sum(order.unpack(*pair)) for pair in pairs[2:-1]]
        hidden = zip((inputs_embeds, *inner, joined), pairs[1:], strict=True) if len(pairs) > 1 else ()
        hidden_states = tuple(None if pair[0] is None else state for state, pair in hidden)
        return BaseModelOutput(last_hidden_state=joined, hidden_states=hidden_states or None)

    def _run(self, trunk: PreTrainedModel, embeds_BLH: torch.Tensor, arguments: dict) -> tuple[torch.Tensor, ...]:
        """The last hidden state of a trunk, and all hidden states where they are asked for."""
        outputs = trunk(**self._accepted({**arguments, "inputs_embeds": embeds_BLH}))
        return self._in_our_dtype(outputs.last_hidden_state), *(outputs.get("hidden_states") or ())

    def _in_our_dtype(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Some trunks (Mamba-2) end in float32 whatever their weights are; our heads have the dtype of the weights."""
        return hidden_states.to(self.get_input_embeddings().weight.dtype)

    def _accepted(self, arguments: dict) -> dict:
        """What the trunk has a name for, or takes by **kwargs, as most do for options."""
        free = {"output_hidden_states", "output_attentions"} if "kwargs" in self.backbone_arguments else set()
        return {
            name: value
            for name, value in arguments.items()
            if value is not None and name in self.backbone_arguments | free
        }


def build_backbone(config: PreTrainedConfig) -> PreTrainedModel:
    """The base model of an architecture of transformers, without the pooler that our heads would leave unused."""
    model_class = MODEL_MAPPING[type(config)]
    if isinstance(model_class, (tuple, list)):
        model_class = model_class[0]
    options = {}
    if "add_pooling_layer" in inspect.signature(model_class.__init__).parameters:
        options["add_pooling_layer"] = False
    return model_class._from_config(config, **options)


class AdapterForMaskedLM(AdapterPreTrainedModel, LongSeqForMaskedLM):
    """Masked token prediction by a trunk that transformers has for causal models alone."""

    _tied_weights_keys = None  # where the token embedding is depends on the trunk
    backbone_class = AdapterModel


class AdapterForPreTraining(AdapterPreTrainedModel, LongSeqForPreTraining):
    """Reconstruction of masked real values, or prediction of the next one."""

    backbone_class = AdapterModel


class AdapterForSequenceClassification(AdapterPreTrainedModel, LongSeqForSequenceClassification):
    """Classification of whole sequences or of pairs, and regression."""

    backbone_class = AdapterModel


class AdapterForTokenClassification(AdapterPreTrainedModel, LongSeqForTokenClassification):
    """A label for every position: classes, several labels at once, or numbers."""

    backbone_class = AdapterModel


__all__ = [
    "AdapterForMaskedLM",
    "AdapterForPreTraining",
    "AdapterForSequenceClassification",
    "AdapterForTokenClassification",
    "AdapterModel",
]
