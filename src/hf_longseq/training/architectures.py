# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Names of architectures, their configuration classes, and the fields that a recipe's `model` section may set.

    s4, dlr, transformer, lru, s5, mega, cnn  the architectures of this package
    hf:TYPE, hf:REPOSITORY, hf:FOLDER         those of transformers, see `hf_architectures.py`
    mine                                      those of your own, see `own_architectures.py`

The names are known without torch; everything about a configuration class imports it.
"""

import dataclasses
from typing import TYPE_CHECKING, Any

from hf_longseq import ARCHITECTURES
from hf_longseq.errors import HfLongSeqError, did_you_mean, explained
from hf_longseq.training.arguments import convert

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

# Set from the task, or from the objective: naming them in a recipe could only contradict the data.
TASK_FIELDS = frozenset(
    "input_type vocab_size num_channels num_levels pretraining_objective pair_classification pad_token_id "
    "bos_token_id eos_token_id mask_token_id use_cache".split()
)

# Toy sizes of the architectures of this package.
TINY = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "state_size": 8,
    "num_ssm": None,
    "num_blocks": 1,
    "num_attention_heads": 2,
    "attention_window": None,
    "chunk_size": 64,
    "value_size": None,
    "shared_representation_size": 8,
    "intermediate_size": None,
    "classifier_hidden_size": None,
}
# Those of transformers; they fit each other in the families they occur in (Mamba2: num_heads x head_dim =
# expand x hidden_size).
TINY_HF = {
    "pretrained": False,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "intermediate_size": 32,
    "hidden_dim": 32,
    "embedding_size": 16,
    "embedding_dim": 16,
    "state_size": 8,
    "mamba_d_state": 8,
    "mamba_n_heads": 4,
    "rotary_dim": 4,
    "d_head": 8,
    "time_step_rank": 4,
    "num_heads": 4,
    "head_dim": 8,
    "n_groups": 1,
    "expand": 2,
    "chunk_size": 16,
    "attention_window": 8,
    "block_size": 4,
    "num_random_blocks": 1,
    "attention_hidden_size": 16,
    "num_experts": 2,
    "num_local_experts": 2,
    "num_experts_per_tok": 1,
    "moe_intermediate_size": 16,
}


def is_hf(arch: str) -> bool:
    return arch.startswith("hf:")


def check_name(arch: str) -> None:
    """Raise for a name that is neither known nor begins with `hf:`."""
    if ".py:" in arch:
        raise HfLongSeqError(
            f"model.arch is {arch!r}, but a recipe runs no code: name the file on the command line, --arch {arch}, or "
            "call hf_longseq.register_architecture."
        )
    if arch not in ARCHITECTURES and not is_hf(arch):
        raise HfLongSeqError(
            f"model.arch is {arch!r}{did_you_mean(arch, ARCHITECTURES)}: known architectures are "
            f"{', '.join(ARCHITECTURES)}, those of transformers as hf:TYPE, and your own as --arch FILE.py:NAME."
        )


def config_class_of(arch: str) -> "type[PreTrainedConfig]":
    from hf_longseq import models

    return models.ARCHITECTURES[arch][0]


def model_field_types(arch: str) -> dict[str, Any]:
    """Fields that the model section may set, with their types: those of the configuration class, and for an
    architecture of transformers its usual other names, the source of weights and the head of the adapter."""
    from transformers import PreTrainedConfig

    from hf_longseq.training.hf_architectures import ADAPTER_FIELDS, HEAD_FIELDS, SOURCE_FIELDS, base_config

    config_class = type(base_config(arch)) if is_hf(arch) else config_class_of(arch)
    base = {field.name for field in dataclasses.fields(PreTrainedConfig)}
    own = {field.name: field.type for field in dataclasses.fields(config_class) if field.name not in base}
    if is_hf(arch):
        own |= {alias: own[name] for alias, name in config_class.attribute_map.items() if name in own}
        own |= {**HEAD_FIELDS, **ADAPTER_FIELDS, **SOURCE_FIELDS}
    return {name: kind for name, kind in own.items() if name not in TASK_FIELDS}


def checked_fields(arch: str, fields: dict[str, Any]) -> dict[str, Any]:
    """The model's fields in the types of its configuration; those of this package are tried together, before data are
    loaded for them."""
    known = model_field_types(arch)
    for name in fields:
        if name in TASK_FIELDS:
            raise HfLongSeqError(
                f"model.{name} is set from the task and the objective: remove it from the model section."
            )
        if name not in known:
            same = None if is_hf(arch) else config_class_of(arch).attribute_map.get(name)
            close = f" (did you mean {same!r}?)" if same else did_you_mean(name, known)
            raise HfLongSeqError(
                f"model.{name} is not a field of architecture {arch!r}{close}: its fields are {', '.join(known)}."
            )
    fields = {name: convert(value, known[name], f"model.{name}") for name, value in fields.items()}
    if is_hf(arch):
        return fields
    from huggingface_hub.errors import StrictDataclassError

    with explained("the model section does not work", StrictDataclassError, ValueError, TypeError, OverflowError):
        config = config_class_of(arch)(**fields)
        if hasattr(config, "check_heads"):
            config.check_heads()
    return fields


def tiny_fields(arch: str) -> dict[str, Any]:
    """Toy sizes, of those that the configuration has."""
    known, sizes = model_field_types(arch), TINY_HF if is_hf(arch) else TINY
    return {name: value for name, value in sizes.items() if name in known}


def looking_back(arch: str, fields: dict[str, Any]) -> dict[str, Any]:
    """The model fields of the same architecture in one direction; MEGA's truncation is for two."""
    if is_hf(arch):
        return {name: value for name, value in fields.items() if name not in ("bidirectional", "direction_join")}
    return {**fields, "bidirectional": False, **({"ema_truncation": None} if "ema_truncation" in fields else {})}
