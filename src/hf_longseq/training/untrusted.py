# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Configurations that may be anybody's: read without code, and refused where they make transformers fetch some."""

import os
from collections.abc import Iterator
from pathlib import Path

from transformers import AutoConfig, PreTrainedConfig

from hf_longseq.errors import HfLongSeqError

# What transformers holds itself. Others may be fetched from the Hub: "organisation/kernel", "flash_attention_2".
BUILT_IN = {
    "_attn_implementation": (None, "eager", "sdpa", "flex_attention"),
    "_experts_implementation": (None, "eager", "batched_mm", "grouped_mm"),
    "quantization_config": (None,),
}


def read_config(source: str | os.PathLike, revision: str | None = None) -> PreTrainedConfig:
    """The configuration of a folder or a repository; code that it names is forgotten.

    Raises:
        ValueError: If it is damaged.
        HfLongSeqError: If it asks for kernels or quantised layers, which transformers fetches from the Hub, or if an
            adapter of peft lies beside it, which may stand for another model.
    """
    if Path(source, "adapter_config.json").is_file():
        raise HfLongSeqError(
            f"{source} holds an adapter_config.json: merge the adapter (merge_and_unload of peft) and save the model."
        )
    try:
        config = AutoConfig.from_pretrained(source, revision=revision or "main", trust_remote_code=False)
    except (TypeError, AttributeError, LookupError) as error:
        raise ValueError(f"the configuration of {source} is damaged ({' '.join(str(error).split())})") from error
    for part in _parts(config):
        part.__dict__.pop("auto_map", None)
        for name, known in BUILT_IN.items():
            if (asked := getattr(part, name, None)) not in known:
                raise HfLongSeqError(
                    f"the configuration of {source} has {name.removeprefix('_')} {asked!r}, for which transformers "
                    "may fetch code from the Hub: remove it there, or open the model with transformers."
                )
    return config


def _parts(config: PreTrainedConfig) -> Iterator[PreTrainedConfig]:
    """A configuration and those within it."""
    yield config
    for name in config.sub_configs:
        if isinstance(inner := getattr(config, name, None), PreTrainedConfig):
            yield from _parts(inner)
