# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""What turns raw text, pictures or sounds into a task's inputs, saved beside every checkpoint."""

from typing import Any

from hf_longseq.data.task import TaskSpec
from hf_longseq.data.tokenizers import task_tokenizer
from hf_longseq.models.feature_extraction_longseq import LongSeqFeatureExtractor
from hf_longseq.models.image_processing_longseq import LongSeqImageProcessor


def task_processor(spec: TaskSpec, add_eos: bool = True) -> Any | None:
    """The tokenizer, image processor or feature extractor of a task.

    Args:
        spec: The task.
        add_eos: Whether a tokenizer closes texts; False for models that continue them.

    Returns:
        An object with `save_pretrained`, or None for token ids that stand for nothing we could read.
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
        return task_tokenizer(spec, add_eos)
    mean, std = spec.normalization or (None, None)
    return LongSeqFeatureExtractor(
        feature_size=spec.num_channels,
        sampling_rate=spec.sampling_rate,
        mean=mean,
        std=std,
        peak=spec.peak,
        max_length=spec.max_length,
    )
