# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Configurations and weights that may be anybody's: read without code, and refused where they make transformers fetch
some."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig

from hf_longseq.errors import HfLongSeqError, explained

# How weights that may be anybody's are opened: no pickles, and no code that lies beside them.
SAFELY = {"use_safetensors": True, "trust_remote_code": False}
# What transformers holds itself. Others may be fetched from the Hub: "organisation/kernel", "flash_attention_2".
BUILT_IN = {
    "_attn_implementation": (None, "eager", "sdpa", "flex_attention"),
    "_experts_implementation": (None, "eager", "batched_mm", "grouped_mm"),
    "quantization_config": (None,),
}


def read_config(source: str | os.PathLike, revision: str | None = None) -> PreTrainedConfig:
    """The configuration of a folder or a repository; code and other weights that it names are forgotten.

    Raises:
        ValueError: If it is damaged.
        HfLongSeqError: If it asks for kernels or quantised layers, for transformers fetches these from the Hub, or if
            an adapter of peft lies beside it, for that may stand for another model.
    """
    if Path(source, "adapter_config.json").is_file():
        raise HfLongSeqError(
            f"{source} holds an adapter_config.json: merge the adapter (merge_and_unload of peft) and save the model."
        )
    try:
        config = AutoConfig.from_pretrained(source, revision=revision or "main", trust_remote_code=False)
    except ValueError as error:
        content = PreTrainedConfig.get_config_dict(source, revision=revision)[0]
        if not isinstance(content, dict):
            raise ValueError(f"the configuration of {source} is damaged: it is not a mapping") from error
        kind = str(content.get("model_type"))
        if not kind.startswith("longseq_") or kind in CONFIG_MAPPING:
            raise
        raise HfLongSeqError(
            f"{source} is a model of type {kind!r}, an architecture of somebody's own: name its file with --arch "
            "FILE.py:NAME, or call hf_longseq.register_architecture."
        ) from error
    except (TypeError, AttributeError, LookupError) as error:
        raise ValueError(f"the configuration of {source} is damaged ({' '.join(str(error).split())})") from error
    for part in _parts(config):
        for name in ("auto_map", "transformers_weights"):
            part.__dict__.pop(name, None)
        for name, known in BUILT_IN.items():
            if (asked := getattr(part, name, None)) not in known:
                raise HfLongSeqError(
                    f"the configuration of {source} has {name.removeprefix('_')} {asked!r}, for which transformers "
                    "may fetch code from the Hub: remove it there, or open the model with transformers."
                )
    return config


def _parts(config: PreTrainedConfig) -> Iterator[PreTrainedConfig]:
    yield config
    for name in config.sub_configs:
        if isinstance(inner := getattr(config, name, None), PreTrainedConfig):
            yield from _parts(inner)


def check_safetensors(folder: str | os.PathLike) -> None:
    """Raise unless a folder holds weights as safetensors: other files of weights are pickles, and stay closed."""
    if not any(Path(folder, f"model.safetensors{part}").is_file() for part in ("", ".index.json")):
        others = sorted(path.name for path in Path(folder).glob("*.*") if path.suffix in (".bin", ".pt", ".ckpt"))
        held = "no model.safetensors" + (f", only {others[0]}" if others else "")
        raise HfLongSeqError(
            f"model {folder} holds {held}: save it again with save_pretrained, which writes safetensors, the one kind "
            "of weights that is opened here."
        )


def open_model(auto_class: Any, folder: str | os.PathLike, **options: Any) -> Any:
    """A model of a folder, whose files may be damaged or a stranger's: safetensors alone, and no code."""
    check_safetensors(folder)
    what = f"{folder} holds no model that this package can open"
    with explained(what, Exception):  # a damaged or hostile configuration may lead to anything
        options |= {**SAFELY, "ignore_mismatched_sizes": True, "output_loading_info": True}
        model, found = auto_class.from_pretrained(folder, config=read_config(folder), **options)
    if found["mismatched_keys"]:
        raise HfLongSeqError(f"{what}: its tensors have other shapes than config.json says.")
    names, count = model.config.id2label, model.config.num_labels
    if not all(isinstance(names.get(index), str) for index in range(count)):
        raise HfLongSeqError(f"model {folder} does not name its {count} classes in id2label: restore its config.json.")
    return model.eval()
