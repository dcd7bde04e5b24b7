# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""What turns raw text, pictures or sounds into a task's inputs, saved beside every checkpoint."""

from typing import Any

from transformers import PreTrainedConfig

from hf_longseq.data.task_spec import TaskSpec
from hf_longseq.data.tokenizers import NO_LIMIT, task_tokenizer
from hf_longseq.models.feature_extraction_longseq import LongSeqFeatureExtractor
from hf_longseq.models.image_processing_longseq import LongSeqImageProcessor


def task_processor(spec: TaskSpec, add_eos: bool = True, config: PreTrainedConfig | None = None) -> Any | None:
    """The tokenizer, image processor or feature extractor of a task; None for ids that stand for nothing we could
    read.

    Args:
        add_eos: Whether a tokenizer closes texts; False for models that continue them.
        config: Of the model beside which a tokenizer is saved. It then warns of, and cuts at, the positions that the
            model has, if there is such a limit; where the task cuts its texts stands in `task_max_length`.
    """
    if spec.image_shape is not None:
        height, width = spec.image_shape
        return LongSeqImageProcessor(
            height=height,
            width=width,
            num_channels=spec.num_channels or 1,
            value_range=spec.value_range or (-1.0, 1.0),
            fit=spec.image_fit,
            return_tokens=spec.modality == "tokens",
        )
    if spec.modality == "tokens":
        tokenizer = task_tokenizer(spec, add_eos)
        if tokenizer is not None and config is not None:
            tokenizer.init_kwargs["task_max_length"] = spec.max_length
            tokenizer.model_max_length = longest_input(config) or NO_LIMIT
        return tokenizer
    mean, std = spec.normalization or (None, None)
    return LongSeqFeatureExtractor(
        feature_size=spec.num_channels,
        sampling_rate=spec.sampling_rate,
        mean=mean,
        std=std,
        peak=spec.peak,
        max_length=spec.max_length,
    )


def longest_input(config: PreTrainedConfig) -> int | None:
    """Positions that a model has; None: it takes inputs of any length."""
    limit = getattr(getattr(config, "backbone_config", None) or config, "max_position_embeddings", None)
    if config.model_type == "longseq_mega" and (config.position_bias != "simple" or config.chunk_size is not None):
        return None
    return limit
