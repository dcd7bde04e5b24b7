# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Configuration of a transformers architecture that is given our inputs and heads."""

from typing import Any

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from .configuration_longseq import require_inputs_and_heads


@strict
class AdapterConfig(PreTrainedConfig):
    """An architecture of transformers as the trunk of our heads: reads real values, classifies pairs, regresses.

    Args:
        backbone_config: configuration of the trunk, as a mapping with its `model_type`, or as an object.
        input_type: "values" (real-valued `input_values` with a mask flag, by a dense layer into the trunk's
            `inputs_embeds`) or "tokens" (`input_ids`, by the trunk's own embedding).
        num_channels: real channels per position ("values" only).
        num_levels: what `...ForPreTraining` predicts of each channel: None for the value itself (L1 loss), or the
            number of grey levels it was quantised to (cross-entropy).
        pooling: "mean", "max", "first" or "last", over valid positions.
        pair_classification: the classifier reads two documents, joined as [a, b, a - b, a * b].
        classifier_hidden_size: width of a hidden layer in the classifier; None for a linear classifier.
        classifier_act: activation of that hidden layer.
        label_mean, label_scale: mean and deviation of a regression's targets, see `LongSeqConfig`.
        pretraining_objective: "masked" scores position t against `labels[t]`, "causal" against `labels[t + 1]`.
    """

    model_type = "longseq_adapter"
    sub_configs = {"backbone_config": AutoConfig}
    has_no_defaults_at_init = True

    backbone_config: dict[str, Any] | PreTrainedConfig | None = None
    input_type: str = "values"
    num_channels: int = 1
    num_levels: int | None = None
    pooling: str = "mean"
    pair_classification: bool = False
    classifier_hidden_size: int | None = None
    classifier_act: str = "gelu"
    label_mean: list[float] | None = None
    label_scale: list[float] | None = None
    pretraining_objective: str = "masked"
    pad_token_id: int | None = None

    def __post_init__(self, **kwargs):
        if isinstance(self.backbone_config, dict):
            fields = dict(self.backbone_config)
            self.backbone_config = CONFIG_MAPPING[fields.pop("model_type")](**fields)
        if self.backbone_config is not None:
            self.backbone_config.use_cache = False  # every position is read at once
        super().__post_init__(**kwargs)

    @property
    def hidden_size(self) -> int:
        return self.backbone_config.hidden_size

    @property
    def num_hidden_layers(self) -> int:
        return self.backbone_config.num_hidden_layers

    @property
    def vocab_size(self) -> int:
        return self.backbone_config.vocab_size

    def validate_architecture(self) -> None:
        super().validate_architecture()
        if self.backbone_config is None:
            raise ValueError("AdapterConfig.backbone_config is None; give the configuration of the trunk.")
        require_inputs_and_heads(self)


__all__ = ["AdapterConfig"]
