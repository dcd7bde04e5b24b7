# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Architectures of transformers under the names `hf:TYPE`, `hf:REPOSITORY` and `hf:FOLDER`.

    hf:modernbert                        a model type: random weights, `model.*` are fields of its configuration
    hf:EleutherAI/pythia-70m-deduped     a repository or a folder: its configuration, and its weights to start from
    hf:gpt_neox + model.pretrained: ...  a type, and a repository or folder whose weights it starts from

Tokens go through the architecture's own classes; what these have no class for (real values, pairs of documents,
regression, classification where transformers has no such head, and a causal trunk that reads both ways with
`model.bidirectional`) through `models/modeling_adapter.py`.
"""

import copy
import dataclasses
import functools
import inspect
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import try_to_load_from_cache
from huggingface_hub.errors import StrictDataclassError
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

from hf_longseq.data.task import TaskSpec
from hf_longseq.errors import HfLongSeqError, did_you_mean, explained
from hf_longseq.models import AdapterConfig
from hf_longseq.models.configuration_adapter import looks_back_only
from hf_longseq.models.modeling_adapter import build_backbone
from hf_longseq.training.arguments import ModelSection
from hf_longseq.training.untrusted import read_config

CAUSAL = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
MASKED = modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
CLASSIFIERS = modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES
TOKEN_CLASSIFIERS = modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES

# Fields of the model section that are ours: where weights come from, and the head that the adapter adds.
SOURCE_FIELDS = {"pretrained": bool | str | None, "revision": str | None}
HEAD_FIELDS = {"pooling": str, "classifier_hidden_size": int | None, "classifier_act": str}
# Fields of the adapter that change the trunk: a causal one may read both ways, or begin with other weights.
ADAPTER_FIELDS = {"bidirectional": bool | str | None, "direction_join": str, "init": str | None}

POSITIONS = ("max_position_embeddings", "max_seq_len")
# Values that a saved configuration derived from others; they follow when the others are changed.
DERIVED = ("layer_types", "head_dim")


def hf_configuration(
    section: ModelSection, spec: TaskSpec, objective: str | None, num_levels: int | None
) -> PreTrainedConfig:
    """The configuration of a phase: the architecture's own, or an `AdapterConfig` that holds it.

    `objective` is that of pretraining, None for a classifier; `num_levels` are those that pretraining on values
    predicts, None for the values.
    """
    arch, fields, classifier = section.arch, section.fields, objective is None
    redrawn = "init_normal" if section.init_normal is not None else "init" if fields.get("init") else None
    if redrawn and starts_from(section):
        raise HfLongSeqError(
            f"model.{redrawn} and the weights of {starts_from(section)!r} exclude each other: leave it out, or set "
            "model.pretrained to false."
        )
    config = trunk_config(section, spec)
    both_ways = bool(fields.get("bidirectional"))
    _check_trunk(arch, config, spec, both_ways)
    if objective is not None and not both_ways:  # else the adapter's configuration says what is wrong
        _check_objective(arch, config, objective)
    labels = label_fields(spec)
    own_class = spec.modality == "tokens" and not both_ways
    if own_class and fields.get("init") is not None:
        raise HfLongSeqError(
            f"model.init is {fields['init']!r}, but {arch} on tokens is transformers' own class: set "
            "model.bidirectional to true."
        )
    if own_class and (not classifier or _has_own_classifier(config, fields, spec)):
        if classifier and hasattr(config, "use_cache"):
            labels["use_cache"] = False
        for name, value in labels.items():
            setattr(config, name, value)
        return config
    own = {name: value for name, value in fields.items() if name in {**HEAD_FIELDS, **ADAPTER_FIELDS}}
    own |= {"input_type": spec.modality, "pad_token_id": spec.pad_token_id, "pair_classification": spec.pair}
    if spec.modality == "values":
        own |= {"num_channels": spec.num_channels, "num_levels": num_levels}
    own["pretraining_objective"] = "masked" if both_ways else objective or "masked"
    with explained("the model section does not work", StrictDataclassError):
        return AdapterConfig(backbone_config=config, **own, **labels)


def label_fields(spec: TaskSpec) -> dict[str, Any]:
    """What the configuration of a classifier says of the task's labels."""
    names = spec.labels or ("value",)
    return {
        "problem_type": spec.problem_type,
        "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)},
    }


def class_names(config: PreTrainedConfig) -> tuple[str, ...]:
    """Names of a classifier's classes, in the order of their numbers."""
    names: dict[Any, str] = config.id2label or {}
    return tuple(names[number] for number in sorted(names))


def _check_trunk(arch: str, config: PreTrainedConfig, spec: TaskSpec, both_ways: bool) -> None:
    """Raise for a trunk that would read padding as data, or has no way in for what the adapter feeds it."""
    arguments = base_arguments(config)
    fed, problem = spec.modality == "values" or both_ways, None
    if not both_ways and "attention_mask" not in arguments:
        problem = (
            f"{config.model_type} takes no attention_mask and would read padding as data: set model.bidirectional to "
            "true, which keeps padding out of its sight, or choose hf:mamba2"
        )
    elif fed and getattr(config, "hidden_size_per_layer_input", None):
        problem = (
            f"every layer of {config.model_type} embeds token ids, which real values and a reversed input have not: "
            "set model.hidden_size_per_layer_input to 0"
        )
    elif fed and "inputs_embeds" not in arguments:
        what = "read real values: use it on a task of tokens"
        if spec.modality == "tokens":
            what = "be fed in reverse: leave model.bidirectional out"
        problem = f"{config.model_type} takes no inputs_embeds and cannot {what}"
    if problem:
        raise HfLongSeqError(f"model.arch is {arch!r}, but {problem}.")


def _check_objective(arch: str, config: PreTrainedConfig, objective: str) -> None:
    if objective == "masked" and looks_back_only(config):
        raise HfLongSeqError(
            f"pretrain.objective is 'masked', but {arch} ({config.model_type}) only looks back and can do causal "
            "pretraining: set model.bidirectional to true, set pretrain.objective to causal (in a comparison, leave "
            "spt-masked out), or choose an encoder such as hf:modernbert."
        )
    if objective == "causal" and not looks_back_only(config):
        raise HfLongSeqError(
            f"pretrain.objective is 'causal', but {arch} ({config.model_type}) sees what it would predict and can do "
            "masked pretraining: set pretrain.objective to masked (in a comparison, leave spt-causal out), or choose "
            "a decoder such as hf:gpt_neox."
        )


def _has_own_classifier(config: PreTrainedConfig, fields: dict, spec: TaskSpec) -> bool:
    """Whether transformers' own class classifies these inputs, and nothing is asked that it does not have."""
    first_token_sees_itself_only = config.model_type in MASKED and looks_back_only(config)
    return (
        config.model_type in (TOKEN_CLASSIFIERS if spec.per_position else CLASSIFIERS)
        and spec.problem_type != "regression"  # ours learns standardised targets
        and not spec.pair
        and spec.pad_token_id is not None  # decoders find the last token by it
        and not first_token_sees_itself_only
        and not any(fields.get(name) is not None for name in HEAD_FIELDS)
    )


def trunk_config(section: ModelSection, spec: TaskSpec) -> PreTrainedConfig:
    """The architecture's own configuration with the section's fields, the task's ids and room for its length."""
    arch, fields = section.arch, section.fields
    base = base_config(arch, fields.get("pretrained"), fields.get("revision"))
    source = starts_from(section)
    ours = {*HEAD_FIELDS, *ADAPTER_FIELDS, *SOURCE_FIELDS}
    own = {name: value for name, value in fields.items() if name not in ours}
    saved = {} if type(base)().to_dict() == base.to_dict() else copy.deepcopy(base.to_dict())
    if own:
        saved = {name: value for name, value in saved.items() if name not in DERIVED}
    ids = _token_ids(base, spec, keep_pad=source is not None)
    # the constructors of some two hundred architectures raise errors of all kinds
    with explained(f"the model section does not work for {arch}", Exception):
        config = type(base).from_dict({**saved, **own, **ids})
        make_room(config, spec.max_length, fixed_by=source)
        on_meta(config)
    return config


def _token_ids(base: PreTrainedConfig, spec: TaskSpec, keep_pad: bool) -> dict[str, Any]:
    """Size of the vocabulary and special ids: the task's; for values, no token is left but padding."""
    if spec.modality == "tokens":
        pad, vocab_size = spec.pad_token_id, spec.vocab_size
    else:
        # positions may be counted from the id of padding, as pretrained weights learned them
        pad = base.pad_token_id if keep_pad and hasattr(base, "pad_token_id") else 0
        vocab_size = max(pad or 0, 1) + 1
    known = {"pad_token_id": pad, "mask_token_id": spec.mask_token_id, "eos_token_id": spec.eos_token_id}
    ids: dict[str, Any] = {"vocab_size": vocab_size}
    for field in dataclasses.fields(type(base)):
        if field.name.endswith("_token_id"):
            value = known.get(field.name)
            ids[field.name] = (pad or 0) if value is None and field.type is int else value
    return ids


def make_room(config: PreTrainedConfig, length: int, fixed_by: str | None) -> None:
    """Raise the longest input that the configuration allows to `length` steps, in place.

    `fixed_by` names the weights that are to be loaded; they may hold a table of positions that cannot grow.
    """
    name = next((name for name in POSITIONS if isinstance(getattr(config, name, None), int)), None)
    if name is None:
        return
    limit = getattr(config, name)
    before = on_meta(copy.deepcopy(config))
    tables = [module for module in before.modules() if isinstance(module, nn.Embedding)]
    # some count positions from the id of padding, and need as many rows more
    pads = [table.padding_idx for table in tables if table.num_embeddings == limit]
    needed = length + next((pad + 1 for pad in pads if pad is not None), 0)
    if limit >= needed:
        return
    setattr(config, name, needed)
    if fixed_by is not None:
        shapes = {key: tensor.shape for key, tensor in before.state_dict().items()}
        if any(shapes.get(key) != tensor.shape for key, tensor in on_meta(copy.deepcopy(config)).state_dict().items()):
            raise HfLongSeqError(
                f"{fixed_by!r} has learned {limit} positions, but the sequences of the task have up to {length} "
                "steps: shorten the data, or set model.pretrained to false for random weights."
            )


def on_meta(config: PreTrainedConfig) -> PreTrainedModel:
    """The base model without memory. Some constructors complete the configuration that they are given."""
    with torch.device("meta"):
        return build_backbone(config)


@functools.cache
def base_config(arch: str, pretrained: str | bool | None = None, revision: str | None = None) -> PreTrainedConfig:
    """The configuration that an architecture has before a recipe changes it. Not to be changed by the caller."""
    name = arch.removeprefix("hf:")
    source = pretrained if isinstance(pretrained, str) else name
    if source in CONFIG_MAPPING_NAMES:
        config = CONFIG_MAPPING[source]()
    elif not Path(source).is_dir() and ("/" not in source or source.startswith((".", "/", "~"))):
        if isinstance(pretrained, str):
            raise HfLongSeqError(
                f"model.pretrained is {source!r}, which is not a folder here: name a repository (ORGANISATION/NAME), "
                "or a folder with a model."
            )
        types = [name for name in CONFIG_MAPPING_NAMES if name in MASKED or name in CAUSAL]
        raise HfLongSeqError(
            f"model.arch is {arch!r}{did_you_mean(name, types)}: after hf: name a model type of transformers such as "
            "modernbert, gpt_neox or mamba2, a repository (ORGANISATION/NAME), or a folder that exists."
        )
    else:
        with explained(f"the configuration of {source!r} cannot be read", OSError, ValueError, StrictDataclassError):
            config = read_config(source, revision)
    if name in CONFIG_MAPPING_NAMES and config.model_type != name:
        raise HfLongSeqError(
            f"model.pretrained {source!r} holds a {config.model_type} model, but model.arch is {arch!r}: name weights "
            f"of that architecture, or choose hf:{config.model_type}."
        )
    _refuse_other_kinds(arch, config)
    return config


def starts_from(section: ModelSection) -> str | None:
    """The repository or folder whose weights a model starts from; None for random weights."""
    pretrained, name = section.fields.get("pretrained"), section.arch.removeprefix("hf:")
    if not section.arch.startswith("hf:") or pretrained is False:
        return None
    if isinstance(pretrained, str):
        return pretrained
    if pretrained and name in CONFIG_MAPPING_NAMES:
        raise HfLongSeqError(
            f"model.pretrained is true, but {section.arch!r} is a type without weights: name a repository or a folder."
        )
    return None if name in CONFIG_MAPPING_NAMES else name


@functools.cache
def commit_of(source: str, revision: str | None) -> str | None:
    """The commit of a repository whose configuration `base_config` has read; None for a folder.

    It stays the same as long as the process lives, so that weights and tokenizer are of that commit too.
    """
    found = None if Path(source).is_dir() else try_to_load_from_cache(source, "config.json", revision=revision)
    return Path(found).parent.name if isinstance(found, str) else None


def _refuse_other_kinds(arch: str, config: PreTrainedConfig) -> None:
    """Raise for a model that has no language-model head, is made of several models, or would read padding as data."""
    name = config.model_type
    if name.startswith("longseq_"):
        raise HfLongSeqError(
            f"model.arch is {arch!r}, a model of this package: name its architecture instead, and fine-tune with "
            "--init_from."
        )
    what = None
    if name not in MASKED and name not in CAUSAL:
        what = "has neither a masked nor a causal language-model head in transformers"
    elif config.is_encoder_decoder:
        what = "is an encoder-decoder, which writes another sequence"
    elif any(part.startswith(("vision", "audio", "text")) for part in config.sub_configs):
        what = "is composed of several models"
    elif not base_arguments(config):
        what = "has no base model in transformers"
    elif name not in MASKED and not looks_back_only(config):
        what = "sees both sides, and has no masked language-model head in transformers"
    elif not looks_back_only(config) and "attention_mask" not in base_arguments(config):
        what = "takes no attention_mask and would read padding as data"
    if what:
        raise HfLongSeqError(
            f"model.arch is {arch!r}, but {name} {what}: choose a sequence model such as hf:modernbert, hf:gpt_neox "
            "or hf:mamba2."
        )


def base_arguments(config: PreTrainedConfig) -> Collection[str]:
    """What transformers' base model of a configuration takes; nothing where it has none."""
    found = modeling_auto.MODEL_MAPPING.get(type(config), None)
    model_class = found[0] if isinstance(found, tuple | list) else found
    return inspect.signature(model_class.forward).parameters if model_class else ()
