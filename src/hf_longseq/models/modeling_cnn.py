# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The CNN: gated convolutions with few taps, whose distance grows from layer to layer.

Axes: B batch, L length, H channels, T taps, R positions that a layer reaches back.
"""

import torch
import torch.nn.functional as F
from torch import nn
from transformers import initialization as init
from transformers.cache_utils import Cache
from transformers.integrations import use_kernel_forward_from_hub

from .configuration_cnn import CNNConfig
from .longseq_heads import (
    LongSeqForCausalLM,
    LongSeqForMaskedLM,
    LongSeqForPreTraining,
    LongSeqForSequenceClassification,
    LongSeqForTokenClassification,
)
from .modeling_longseq import LongSeqModel, LongSeqPreTrainedModel, full_auto_map
from .ssm_cache import RecurrentLayer, recurrent_layer
from .ssm_step import check_state


@use_kernel_forward_from_hub("CNNMixer")
class CNNMixer(nn.Module):
    """Linear(GELU(a) * sigmoid(b)) with a, b = convolutions of the input, the same taps for both.

    Taps stand at multiples of the layer's dilation: the present, then lags, then leads of a bidirectional model. A
    causal layer has the first of these, so that it is the forward half of a bidirectional one. Masked inputs are
    zeroed, as is what lies outside the sequence; over holes time passes.
    """

    def __init__(self, config: CNNConfig, layer_idx: int):
        super().__init__()
        self.layer_idx = layer_idx
        self.bidirectional = config.bidirectional
        self.dilation, self.lags = config.dilation(layer_idx), config.kernel_size // 2
        channels = config.hidden_size
        taps = 1 + self.lags * (2 if config.bidirectional else 1)
        self.tap_weight = nn.Parameter(torch.empty(taps, 2 * channels, channels))
        self.tap_bias = nn.Parameter(torch.empty(2 * channels))
        self.output_projection = nn.Linear(channels, channels)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Taps are drawn for two directions always."""
        _, width, channels = self.tap_weight.shape
        kernel_size, device = 1 + 2 * self.lags, self.tap_weight.device
        bound = (kernel_size * channels) ** -0.5  # that of PyTorch for the bidirectional layer
        drawn = torch.empty(kernel_size, width, channels, device=device).uniform_(-bound, bound)
        init.copy_(self.tap_weight, drawn[: len(self.tap_weight)])
        init.uniform_(self.tap_bias, -bound, bound)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        past_key_values: Cache | None = None,
        direction: str | None = None,
        **kwargs,
    ) -> tuple[torch.Tensor, None]:
        """(B, L, H) to (B, L, H). ``attention_mask`` (B, L) is 1 at real positions; causal models carry the last R
        inputs (B, R, H) in ``past_key_values``, after which any number of further positions may follow."""
        u_BLH = hidden_states
        if attention_mask is not None:
            u_BLH = u_BLH * attention_mask[..., None].to(u_BLH.dtype)
        reach = self.lags * self.dilation
        if past_key_values is None:
            around = F.pad(u_BLH, (0, 0, reach, reach if self.bidirectional else 0))
        else:
            memory = recurrent_layer(past_key_values, self.layer_idx, self.bidirectional)
            around = self._continue(u_BLH, memory, reach)
        lags = [-self.dilation * step for step in range(self.lags + 1)]
        leads = [self.dilation * step for step in range(1, len(self.tap_weight) - self.lags)]
        seen = {None: lags + leads, "forward": lags, "backward": lags[:1] + leads}[direction]
        used = [tap for tap, offset in enumerate(lags + leads) if offset in seen]
        length = u_BLH.shape[1]
        columns = torch.cat([around[:, reach + offset : reach + offset + length] for offset in seen], dim=-1)
        weight = torch.cat([self.tap_weight[tap] for tap in used], dim=-1)  # one product for all taps
        value, gate = F.linear(columns, weight, self.tap_bias).chunk(2, dim=-1)
        return self.output_projection(F.gelu(value) * torch.sigmoid(gate)), None

    def _continue(self, u_BLH: torch.Tensor, memory: RecurrentLayer, reach: int) -> torch.Tensor:
        """The inputs with those before them; the last ones stay in ``memory``."""
        batch, length, channels = u_BLH.shape
        before = u_BLH.new_zeros(batch, reach, channels) if memory.state is None else memory.state
        check_state(before, (batch, reach, channels))
        around = torch.cat((before.to(u_BLH.dtype), u_BLH), dim=1)
        memory.advance(around[:, length:], length)
        return around


class CNNPreTrainedModel(LongSeqPreTrainedModel):
    """What transformers needs to know of the CNN."""

    config: CNNConfig
    mixer_class = CNNMixer
    auto_map = full_auto_map("cnn", "CNN")


class CNNModel(CNNPreTrainedModel, LongSeqModel):
    """Trunk with gated convolutions."""


class CNNForMaskedLM(CNNPreTrainedModel, LongSeqForMaskedLM):
    """Masked token prediction."""

    backbone_class = CNNModel


class CNNForCausalLM(CNNPreTrainedModel, LongSeqForCausalLM):
    """Next-token prediction and generation with a buffer of the inputs that are still seen."""

    backbone_class = CNNModel


class CNNForPreTraining(CNNPreTrainedModel, LongSeqForPreTraining):
    """Denoising or prediction of real values."""

    backbone_class = CNNModel


class CNNForSequenceClassification(CNNPreTrainedModel, LongSeqForSequenceClassification):
    """Classification and regression of sequences and pairs."""

    backbone_class = CNNModel


class CNNForTokenClassification(CNNPreTrainedModel, LongSeqForTokenClassification):
    """A label for every position: classes, several labels at once, or numbers."""

    backbone_class = CNNModel


__all__ = [
    "CNNForCausalLM",
    "CNNForMaskedLM",
    "CNNForPreTraining",
    "CNNForSequenceClassification",
    "CNNForTokenClassification",
    "CNNModel",
    "CNNPreTrainedModel",
]
