# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Configuration of a transformers architecture that is given our inputs and heads."""

from typing import Any

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from .configuration_longseq import require_choice, require_inputs_and_heads


def looks_back_only(config: PreTrainedConfig) -> bool:
    """Whether an architecture of transformers is causal: its positions see only what comes before them."""
    model_type = config.model_type
    if model_type == "bert-generation":
        return config.is_decoder
    if model_type == "xlnet":
        return config.attn_type == "uni"
    decoder = getattr(config, "is_decoder", False) and model_type in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    return decoder or model_type not in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES


@strict
class AdapterConfig(PreTrainedConfig):
    """An architecture of transformers as the trunk of our heads: reads real values, classifies pairs, regresses.
    Fields of inputs and heads are described in `LongSeqConfig`.

    Args:
        backbone_config: configuration of the trunk, as a mapping with its `model_type`, or as an object.
        input_type: "values" (real-valued `input_values` with a mask flag, by a dense layer into the trunk's
            `inputs_embeds`) or "tokens" (`input_ids`, by the trunk's own embedding).
        bidirectional: None runs the trunk as it is. "shared" (or True) runs a causal trunk over every sequence and
            over its reverse, with the same weights; "separate" gives the reverse a second set. See `AdapterModel`.
        direction_join: "sum" of the two runs, or "concat", which projects both to the hidden size.
        init: None for the trunk's own initialisation, or "mimetic", which makes the mixers of Mamba and Mamba-2 begin
            as linear attention (arXiv 2410.11135).
    """

    model_type = "longseq_adapter"
    sub_configs = {"backbone_config": AutoConfig}
    has_no_defaults_at_init = True

    backbone_config: dict[str, Any] | PreTrainedConfig | None = None
    input_type: str = "values"
    bidirectional: bool | str | None = None
    direction_join: str = "sum"
    init: str | None = None
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
            trunk = fields.pop("model_type", None)
            if str(trunk) not in CONFIG_MAPPING:
                raise ValueError(
                    f"AdapterConfig.backbone_config has the model_type {trunk!r}, which transformers does not know; "
                    "name one that it knows."
                )
            self.backbone_config = CONFIG_MAPPING[trunk](**fields)
        if self.backbone_config is not None:
            self.backbone_config.use_cache = False  # every position is read at once
            if hasattr(self.backbone_config, "rescale_every"):
                # RWKV divides its weights in place when it evaluates, and a checkpoint would hold the quotients
                self.backbone_config.rescale_every = 0
        self.bidirectional = {True: "shared", False: None}.get(self.bidirectional, self.bidirectional)
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

    @vocab_size.setter
    def vocab_size(self, value: int) -> None:
        self.backbone_config.vocab_size = value

    def validate_architecture(self) -> None:
        super().validate_architecture()
        if self.backbone_config is None:
            raise ValueError("AdapterConfig.backbone_config is None; give the configuration of the trunk.")
        require_inputs_and_heads(self)
        require_choice(self, "bidirectional", (None, "shared", "separate"))
        require_choice(self, "direction_join", ("sum", "concat"))
        require_choice(self, "init", (None, "mimetic"))
        if self.init is not None and self.backbone_config.model_type not in ("mamba", "mamba2"):
            raise ValueError(
                f"AdapterConfig.init is {self.init!r}, which is for trunks of mamba and mamba2, but the trunk is "
                f"{self.backbone_config.model_type}; leave it out."
            )
        if self.bidirectional is None:
            return
        if not looks_back_only(self.backbone_config):
            raise ValueError(
                f"AdapterConfig.bidirectional is {self.bidirectional!r}, but {self.backbone_config.model_type} sees "
                "both sides already; leave it out."
            )
        if self.pretraining_objective == "causal":
            raise ValueError(
                f"AdapterConfig.pretraining_objective is 'causal' but bidirectional is {self.bidirectional!r}, so the "
                "model would see what it predicts; set pretraining_objective='masked' or bidirectional=None."
            )


__all__ = ["AdapterConfig"]
