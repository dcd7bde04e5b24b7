# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""From the `model` argument of a trainer (a name, configuration, folder or model) to a model with the right head.

"s4", "hf:modernbert"       an architecture by name: default sizes, fresh weights
S4Config(...)               a configuration: fresh weights
"runs/pretrained"           a folder, or a repository on the Hub: its weights, under the head that is needed
S4Model(...), S4For...(...) a model: itself if it has the head, else its trunk under a new one
"""

import copy
import os
from dataclasses import replace
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.utils import logging

from hf_longseq.data.task import TaskSpec
from hf_longseq.errors import HfLongSeqError, did_you_mean, explained
from hf_longseq.training.architectures import KNOWN, is_hf
from hf_longseq.training.build import build_config, build_model
from hf_longseq.training.recipe import Recipe
from hf_longseq.training.run_folder import SAFELY
from hf_longseq.training.transfer import config_of

logger = logging.get_logger(__name__)

Source = str | os.PathLike | PreTrainedConfig | PreTrainedModel


def with_head(
    model: Source, head: type, spec: TaskSpec, fields: dict[str, Any], as_saved: bool = False
) -> tuple[PreTrainedModel, TaskSpec]:
    """A model with the head of an Auto class, and the task with the token ids that this model uses.

    `fields` of the configuration are those that the task or the objective determines; `as_saved` leaves those of a
    checkpoint that has this head.
    """
    if isinstance(model, PreTrainedModel):
        _ids_of(model.config, spec)  # raises before a head is built for other inputs
        wanted = head._model_mapping.get(type(model.config), None)
        found = model if wanted and isinstance(model, wanted) else _around_trunk(model, head, fields)
    elif isinstance(model, PreTrainedConfig):
        found = build_model(head, _fitted(model, spec, fields))
    elif isinstance(model, str) and (model in KNOWN or is_hf(model)):
        objective = fields.get("pretraining_objective", "masked")
        settings = {"model": {"arch": model}, "data": {"task": "own-data"}, "pretrain": {"objective": objective}}
        config = build_config(Recipe.load(settings), spec, classifier="problem_type" in fields)
        _set(config, fields)
        found = build_model(head, config)
    elif isinstance(model, (str, os.PathLike)):
        found = _from_checkpoint(model, head, fields, as_saved)
    else:
        raise HfLongSeqError(
            f"model is {type(model).__name__}: give a model, a configuration, the name of an architecture "
            f"({', '.join(KNOWN)}, hf:TYPE), a folder, or a repository on the Hub."
        )
    return found, _ids_of(found.config, spec)


def _from_checkpoint(model: str | os.PathLike, head: type, fields: dict[str, Any], as_saved: bool) -> PreTrainedModel:
    if "/" not in str(model) and not os.path.isdir(model):
        raise HfLongSeqError(
            f"model is {str(model)!r}{did_you_mean(str(model), KNOWN)}: give an architecture ({', '.join(KNOWN)}, "
            "hf:TYPE), a folder that exists, or a repository (ORGANISATION/NAME)."
        )
    config = config_of(model, f"model {model}")
    wanted = head._model_mapping.get(type(config), None)
    if not (as_saved and wanted and config.architectures == [wanted.__name__]):
        _set(config, fields)
    found, report = head.from_pretrained(
        model, config=config, dtype="float32", ignore_mismatched_sizes=True, output_loading_info=True, **SAFELY
    )
    new = [*report["missing_keys"], *(entry[0] for entry in report["mismatched_keys"])]
    trunk = [name for name in new if name.startswith(f"{found.base_model_prefix}.")]
    if trunk:
        raise HfLongSeqError(
            f"model {model} lacks {trunk[0]} in the shape that its configuration gives it: name a whole checkpoint."
        )
    logger.info(f"model {model}: new head {', '.join(sorted(new)) or 'none'}")
    return found


def _around_trunk(model: PreTrainedModel, head: type, fields: dict[str, Any]) -> PreTrainedModel:
    """A new head around the trunk of a model, which both then share."""
    config = copy.deepcopy(model.config)
    _set(config, fields)
    whole = build_model(head, config)
    setattr(whole, whole.base_model_prefix, model.base_model)
    return whole


def _fitted(config: PreTrainedConfig, spec: TaskSpec, fields: dict[str, Any]) -> PreTrainedConfig:
    """A copy of a configuration with the inputs of the task: their kind, channels, room for its token ids."""
    config = copy.deepcopy(config)
    if spec.modality == "tokens":
        _set(config, {"input_type": "tokens", "vocab_size": max(config.vocab_size, spec.vocab_size)})
        for name in ("mask_token_id", "pad_token_id", "eos_token_id"):
            if getattr(config, name, None) is None:
                _set(config, {name: getattr(spec, name)})
    else:
        _set(config, {"input_type": "values", "num_channels": spec.num_channels})
    _set(config, fields)
    with explained("the configuration does not work", StrictDataclassError):
        config.validate()
    return config


def _set(config: PreTrainedConfig, fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        if hasattr(config, name):
            setattr(config, name, value)


def _ids_of(config: PreTrainedConfig, spec: TaskSpec) -> TaskSpec:
    """The task with the vocabulary and the special ids of the model that reads it."""
    kind = getattr(config, "input_type", "tokens")
    if kind != spec.modality:
        raise HfLongSeqError(f"the model reads {kind}, but the rows hold {spec.modality}: take another model.")
    if spec.modality == "values":
        if config.num_channels != spec.num_channels:
            raise HfLongSeqError(
                f"the model reads {config.num_channels} channels, but the rows have {spec.num_channels}: take another "
                "model, or lay the rows out as (length, channels)."
            )
        return spec
    own = getattr(config, "backbone_config", None) or config
    ids = {name: getattr(config, name, None) for name in ("mask_token_id", "pad_token_id", "eos_token_id")}
    ids = {name: value for name, value in ids.items() if isinstance(value, int)}
    return replace(spec, **ids, vocab_size=own.vocab_size)
