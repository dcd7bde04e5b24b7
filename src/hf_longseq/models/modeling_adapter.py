# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Our inputs and heads around an architecture of transformers, which has no idea of real values or of pairs.

The trunk is the architecture's own base model, without pooler; real values come in by a dense layer in place of its
token embedding. Losses, pooling and classifier are those of our own architectures, so that a comparison compares
trunks. Axes: B batch, L length, C channels, H hidden size.
"""

import inspect

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.auto.modeling_auto import MODEL_MAPPING

from .configuration_adapter import AdapterConfig
from .longseq_heads import LongSeqForPreTraining, LongSeqForSequenceClassification
from .longseq_losses import check_lengths, check_token_ids
from .modeling_longseq import LongSeqPreTrainedModel, flagged_values


class NoTokenEmbedding(nn.Module):
    """Stands where a trunk of real values has its token embedding: gives zeros, holds nothing.

    Some trunks embed padding of their own; what it holds is masked.
    """

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return torch.zeros(*input_ids.shape, self.width, device=input_ids.device)


class AdapterPreTrainedModel(LongSeqPreTrainedModel):
    """Initialisation and saving. The trunk, a model of transformers, initialises itself."""

    config: AdapterConfig
    _no_split_modules = None  # those of the trunk
    _can_record_outputs = {}
    _is_stateful = False
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    # what the recurrent architectures of transformers call the parameters that are not to be decayed
    ssm_parameter_names = frozenset({"A_log", "D", "dt_bias"})
    auto_map = {
        "AutoConfig": "configuration_adapter.AdapterConfig",
        "AutoModel": "modeling_adapter.AdapterModel",
        "AutoModelForPreTraining": "modeling_adapter.AdapterForPreTraining",
        "AutoModelForSequenceClassification": "modeling_adapter.AdapterForSequenceClassification",
        "AutoModelForImageClassification": "modeling_adapter.AdapterForSequenceClassification",
        "AutoModelForAudioClassification": "modeling_adapter.AdapterForSequenceClassification",
    }

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Of what is ours, the dense layers: PyTorch's default, as in our own architectures."""
        if isinstance(module, nn.Linear):
            bound = module.in_features**-0.5
            init.uniform_(module.weight, -bound, bound)
            init.uniform_(module.bias, -bound, bound)


class AdapterModel(AdapterPreTrainedModel):
    """The trunk behind our inputs."""

    def __init__(self, config: AdapterConfig):
        super().__init__(config)
        self.backbone = build_backbone(config.backbone_config)
        self.backbone_arguments = set(inspect.signature(self.backbone.forward).parameters)
        if config.input_type == "values":
            width = self.backbone.get_input_embeddings().weight.shape[1]
            self.backbone.set_input_embeddings(NoTokenEmbedding(width))
            self.embed_values = nn.Linear(config.num_channels + 1, width)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embed_values if self.config.input_type == "values" else self.backbone.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module) -> None:
        if self.config.input_type == "values":
            self.embed_values = value
        else:
            self.backbone.set_input_embeddings(value)

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
        if inputs_embeds is None and self.config.input_type == "values":
            dtype = self.embed_values.weight.dtype
            inputs_embeds = self.embed_values(
                flagged_values(input_values, bool_masked_pos, self.config.num_channels, dtype)
            )
        if inputs_embeds is None:
            check_token_ids(input_ids, self.config.vocab_size)
            kwargs["input_ids"] = input_ids
        else:
            kwargs["inputs_embeds"] = inputs_embeds
        check_lengths((input_ids if inputs_embeds is None else inputs_embeds).shape[1], attention_mask)
        for name in ("output_hidden_states", "output_attentions"):
            kwargs.setdefault(name, getattr(self.config, name))
        kwargs |= {"attention_mask": attention_mask, "position_ids": position_ids, "return_dict": True}
        outputs = self.backbone(**self._accepted(kwargs))
        return BaseModelOutput(
            last_hidden_state=outputs.last_hidden_state,
            hidden_states=outputs.get("hidden_states"),
            attentions=outputs.get("attentions"),
        )

    def _accepted(self, arguments: dict) -> dict:
        """What the trunk has a name for, or takes by **kwargs, as most do for options."""
        free = {"output_hidden_states", "output_attentions"} if "kwargs" in self.backbone_arguments else set()
        return {
            name: value
            for name, value in arguments.items()
            if value is not None and name in self.backbone_arguments | free
        }


class AdapterForPreTraining(AdapterPreTrainedModel, LongSeqForPreTraining):
    """Reconstruction of masked real values, or prediction of the next one."""

    backbone_class = AdapterModel


class AdapterForSequenceClassification(AdapterPreTrainedModel, LongSeqForSequenceClassification):
    """Classification of whole sequences or of pairs, and regression."""

    backbone_class = AdapterModel


def build_backbone(config: PreTrainedConfig) -> PreTrainedModel:
    """The base model of an architecture of transformers, without the pooler that our heads would leave unused."""
    model_class = MODEL_MAPPING[type(config)]
    if isinstance(model_class, (tuple, list)):
        model_class = model_class[0]
    options = {}
    if "add_pooling_layer" in inspect.signature(model_class.__init__).parameters:
        options["add_pooling_layer"] = False
    return model_class._from_config(config, **options)


__all__ = ["AdapterForPreTraining", "AdapterForSequenceClassification", "AdapterModel"]
