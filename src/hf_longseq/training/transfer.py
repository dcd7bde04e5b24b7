# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""From a checkpoint to a classifier, with a report of what was loaded, what is new and what was dropped.

The rule: everything of the trunk is loaded, and the classifier is new. Anything else is an error: a silent mismatch
would turn "pretrained" into "partly from scratch". Of an architecture of transformers the trunk is the base model
without its pooler.

The embedding of inputs is new, and reported so, where ids mean something else or series have other channels. A
classifier for classes of the same names keeps its head.

A causally pretrained trunk may become a bidirectional classifier. Attention loads every tensor and opens its mask.
State-space parameters that exist once per direction (S4, DLR, LRU, S5, MEGA) are loaded into the forward one. New
parameters equal those of a model from scratch at the same seed.
"""

import contextlib
import copy
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, StrictDataclassError
from safetensors import SafetensorError, safe_open
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.models.auto.auto_factory import _BaseAutoModelClass
from transformers.utils import logging as hf_logging

from hf_longseq import ARCHITECTURES
from hf_longseq.data.byte_text import BYTE_ID
from hf_longseq.data.processors import task_tokenizer
from hf_longseq.data.task import TaskSpec
from hf_longseq.errors import HfLongSeqError, explained
from hf_longseq.training.architectures import model_field_types
from hf_longseq.training.arguments import ModelSection
from hf_longseq.training.hf_architectures import base_config, commit_of, starts_from
from hf_longseq.training.run_folder import read_resolved
from hf_longseq.training.untrusted import SAFELY, check_safetensors, read_config

AutoClass = type[_BaseAutoModelClass]
OURS, ADAPTER = "longseq_", "longseq_adapter"
CLASSIFIER, POOLER = "classifier.", "pooler."
HEADS = ("lm_head.", "reconstruction_head.", CLASSIFIER)
# Fields in which a classifier may differ from the checkpoint it starts from: its head, regularisation, bookkeeping.
HEAD_FIELDS = frozenset(
    "pooling classifier_hidden_size classifier_act pair_classification problem_type id2label label2id num_levels "
    "label_mean label_scale "
    "pretraining_objective dropout tied_dropout attention_dropout initializer_range use_cache tie_word_embeddings "
    "architectures auto_map transformers_version dtype _name_or_path max_position_embeddings".split()
)
# Fields that the data determine: the embedding of inputs is new where they differ.
INPUT_FIELDS = frozenset("vocab_size num_channels pad_token_id mask_token_id eos_token_id bos_token_id".split())
# Parameters with a part per direction, the forward one first along axis 0.
PER_DIRECTION = frozenset(
    "output_C mode_weight_W damping_delta decay_alpha input_beta output_gamma tap_weight".split()
)
# Fields that say how far a model looks ahead: a causal checkpoint may be opened.
DIRECTION_FIELDS = ("bidirectional", "direction_join", "ema_truncation")


@dataclass(frozen=True)
class TransferReport:
    """Names of the tensors that a classifier took over, started afresh (as from scratch), and left behind.

    `forward` names those taken over into the forward direction. `commit` is that of their repository, `pretrained_on`
    the task of the checkpoint if it is another.
    """

    loaded: tuple[str, ...]
    new: tuple[str, ...]
    dropped: tuple[str, ...]
    forward: tuple[str, ...] = ()
    commit: str | None = None
    pretrained_on: str | None = None

    def summary(self) -> dict[str, Any]:
        said = {"loaded": len(self.loaded), "forward": self.forward, "new": self.new, "dropped": self.dropped}
        said["pretrained_on"] = self.pretrained_on
        return {name: value for name, value in said.items() if value or name not in ("forward", "pretrained_on")}


def load_pretrained(
    checkpoint: str | os.PathLike,
    config: PreTrainedConfig,
    auto_class: AutoClass = AutoModelForSequenceClassification,
    task: str | None = None,
    what: str | None = None,
) -> tuple[PreTrainedModel, TransferReport]:
    """Build a classifier of `config`, under an Auto class, whose trunk comes from a folder or a repository on the Hub.

    `task` is the one to be fine-tuned on, compared with the one recorded in the checkpoint's folder, and `what` the
    name of the checkpoint in messages.

    Raises:
        HfLongSeqError: If the checkpoint is of another architecture, size or kind of input, or its tensors do not fit.
    """
    where = what or f"init_from {checkpoint}"
    checkpoint, commit = local_checkpoint(checkpoint)
    recorded = ((read_resolved(checkpoint) or {}).get("data") or {}).get("task")
    pretrained = config_of(checkpoint, where)
    inside = config.model_type == ADAPTER and not pretrained.model_type.startswith(OURS)
    compare_configs(where, pretrained, config.backbone_config if inside else config)
    check_safetensors(checkpoint)
    # built as from scratch: new parameters equal those of scratch
    model = auto_class.from_config(config)
    with torch.random.fork_rng(devices=[]):
        _, report = take_trunk(model, checkpoint, pretrained, where)
    return model, replace(report, commit=commit, pretrained_on=recorded if task and recorded != task else None)


def local_checkpoint(source: str | os.PathLike, option: str = "init_from") -> tuple[Path, str | None]:
    """The folder of a checkpoint, and its commit if it was fetched from the Hub: configuration, records, safetensors.

    `option` is how messages name the source.
    """
    folder, name, commit = Path(source), str(source), None
    if not folder.exists() and name.count("/") == 1 and not name.startswith((".", "/", "~")):
        patterns = ["*.json", "resolved.yaml", "vocab.txt", "merges.txt", "*.safetensors"]
        what = f"{option} {name} is not a folder here, and the Hub did not give it"
        with explained(what, OSError, ValueError, HfHubHTTPError):
            folder = Path(snapshot_download(name, allow_patterns=patterns))
        commit = folder.name
    if not (folder / "config.json").is_file():
        lacks = "holds no config.json" if folder.exists() else "does not exist"
        raise HfLongSeqError(
            f"{option} {source} {lacks}: give the folder of a saved model, or a repository (ORGANISATION/NAME)."
        )
    return folder, commit


def config_of(checkpoint: str | os.PathLike, where: str) -> PreTrainedConfig:
    """The configuration of a checkpoint, read without its code."""
    with explained(f"{where} has a configuration that cannot be read", OSError, ValueError, StrictDataclassError):
        return read_config(checkpoint)


def model_section(checkpoint: Path) -> dict[str, Any]:
    """The model section of a recipe that has the trunk of a checkpoint: as its run recorded it, else by its config.

    A model of transformers gives only `arch`, by which a recipe starts from it. The recipe sets direction and pooling
    of a causal model.
    """
    recorded = (read_resolved(checkpoint) or {}).get("model")
    if recorded:
        return recorded
    config = config_of(checkpoint, f"init_from {checkpoint}")
    arch = config.model_type.removeprefix(OURS)
    if config.model_type == ADAPTER:
        raise HfLongSeqError(
            f"init_from {checkpoint} is a {config.backbone_config.model_type} trunk without the settings it was "
            "trained with (resolved.yaml): give --recipe and --arch too."
        )
    if arch not in ARCHITECTURES:
        return {"arch": f"hf:{checkpoint}"}
    left = () if config.bidirectional else DIRECTION_FIELDS
    return {"arch": arch, **{name: getattr(config, name) for name in model_field_types(arch) if name not in left}}


def take_trunk(
    model: PreTrainedModel,
    source: str | os.PathLike,
    config: PreTrainedConfig,
    where: str,
    *,
    revision: str | None = None,
    whole: bool = True,
) -> tuple[PreTrainedModel, TransferReport]:
    """Copy the trunk of a checkpoint into `model`, from safetensors alone, and a classifier of the same classes.

    The embedding of other inputs stays as it is in `model`. `config` is the checkpoint's, and `where` its name in
    messages. A `whole` checkpoint has no further tensor of its trunk; others may hold old buffers.

    Returns:
        The base model of the checkpoint, and what was copied.
    """
    ours = config.model_type.startswith(OURS)
    with _quiet(f"{where} cannot be loaded"):
        base, found = AutoModel.from_pretrained(
            source,
            config=copy.deepcopy(config),
            revision=revision or "main",
            dtype="float32",
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **SAFELY,
        )
        heads = _heads(Path(source)) if ours else {}
    inside = model.config.model_type == ADAPTER != config.model_type
    place = "model.backbone" if inside else model.base_model_prefix
    own = model.get_submodule(place).state_dict().keys()
    tensors, unexpected = base.state_dict(), found["unexpected_keys"]
    table = tuple(f"{name}." for name, module in base.named_modules() if module is base.get_input_embeddings())
    replaced = table if _other_inputs(config, model.config.backbone_config if inside else model.config) else ()
    stored = tensors.keys() - found["missing_keys"] - {key for key, *_ in found["mismatched_keys"]}
    left = {key for key in stored if key not in own or key.startswith(replaced)}
    given = {f"{place}.{key}": tensors[key] for key in stored - left}
    if config.id2label == model.config.id2label and model.config.problem_type != "regression":
        given |= {name: tensor for name, tensor in heads.items() if name.startswith(CLASSIFIER)}
    loaded, forward, new = _copy(model, given)

    opened = ours and model.config.bidirectional and not config.bidirectional
    needed = [key for key in own if not key.startswith((POOLER, *replaced)) and not (opened and key not in tensors)]
    holds = [key for key in left if not key.startswith((POOLER, *table))]
    if whole:
        holds += [key for key in unexpected if ours or key.startswith(f"{base.base_model_prefix}.")]
    lacks = [key for key in needed if f"{place}.{key}" in new]
    if lacks or holds:
        what = f"lacks {min(lacks)} in the shape of its model" if lacks else f"also holds {min(holds)}"
        raise HfLongSeqError(f"{where} {what}, so it does not fit this model: use the same model section.")
    dropped = {*unexpected, *heads, *(f"{base.base_model_prefix}.{key}" for key in left)} - {*loaded}
    report = TransferReport(tuple(sorted(loaded)), tuple(sorted(new)), tuple(sorted(dropped)), tuple(sorted(forward)))
    return base, report


def _heads(checkpoint: Path) -> dict[str, torch.Tensor]:
    """The tensors of heads in the files of a checkpoint."""
    found: dict[str, torch.Tensor] = {}
    for path in checkpoint.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            found |= {name: file.get_tensor(name) for name in file.keys() if name.startswith(HEADS)}
    return found


def _copy(model: PreTrainedModel, given: dict[str, torch.Tensor]) -> tuple[list[str], list[str], set[str]]:
    """Copy tensors into those of a model; names of those copied, of those copied forward, and of the rest."""
    own = model.state_dict()
    loaded, forward = [], []
    for name, tensor in own.items():
        # a reverse trunk of its own starts from the weights of the forward one
        source = given.get(name, given.get(name.replace("model.backbone_reverse.", "model.backbone.", 1)))
        if source is None:
            continue
        if tensor.shape == source.shape:
            tensor.copy_(source)
            loaded.append(name)
        elif name.rsplit(".", 1)[-1] in PER_DIRECTION:
            tensor[: len(source)].copy_(source)
            forward.append(name)
    return loaded, forward, own.keys() - {*loaded, *forward}


def _other_inputs(old: PreTrainedConfig, new: PreTrainedConfig) -> bool:
    """Whether two configurations of one input type embed different inputs: other channels, or ids of another sense."""
    if getattr(new, "input_type", "tokens") == "values":
        return old.num_channels != new.num_channels
    if new.model_type == ADAPTER:
        old, new = old.backbone_config, new.backbone_config
    if not new.model_type.startswith(OURS):
        return old.vocab_size != new.vocab_size
    fields = INPUT_FIELDS - {"num_channels"}
    known = [name for name in fields if getattr(old, name, None) is not None]  # ids may not be recorded
    return any(getattr(old, name) != getattr(new, name, None) for name in known)


@contextlib.contextmanager
def _quiet(failure: str):
    """Silence transformers' own report of new and dropped tensors."""
    verbosity = hf_logging.get_verbosity()
    hf_logging.set_verbosity_error()
    try:
        with explained(failure, OSError, RuntimeError, ValueError, SafetensorError):
            yield
    finally:
        hf_logging.set_verbosity(verbosity)


def compare_configs(where: str, pretrained: PreTrainedConfig, config: PreTrainedConfig) -> None:
    """Raise for the first field, other than those of the head, in which the two configurations differ."""
    if pretrained.model_type != config.model_type:
        raise HfLongSeqError(
            f"{where} is a {pretrained.model_type} model, but model.arch asks for {config.model_type}: "
            "pretrain this architecture, or fine-tune that one."
        )
    if config.model_type == ADAPTER:
        compare_configs(where, pretrained.backbone_config, config.backbone_config)
    kinds = [getattr(one, "input_type", "tokens") for one in (pretrained, config)]
    if kinds[0] != kinds[1]:
        raise HfLongSeqError(
            f"{where} reads {kinds[0]}, but the data hold {kinds[1]}: give data of {kinds[0]}, or another checkpoint."
        )
    old, new = (json.loads(json.dumps(one.to_dict())) for one in (pretrained, config))  # tuples are saved as lists
    opened = new.get("bidirectional") and not old.get("bidirectional")
    for name in new:
        free = name in HEAD_FIELDS | INPUT_FIELDS or name.startswith(("classifier_", "summary_"))
        if free or "drop" in name or name == "backbone_config" or (opened and name in DIRECTION_FIELDS):
            continue
        if old.get(name) != new[name]:
            raise HfLongSeqError(
                f"{where} has {name}={old.get(name)}, but this run has {name}={new[name]}: leave model.{name} out, or "
                "pretrain with it."
            )


def start_from_weights(model: PreTrainedModel, section: ModelSection, spec: TaskSpec) -> TransferReport | None:
    """Fill a fresh model with the weights that its section names (`arch`, `pretrained`), in place.

    Where the task's vocabulary is another, every symbol of the task starts as the embedding of its spelling under the
    pretrained tokenizer ("[MAX", "7", or "0".."255" for grey levels, as the paper fed them to Pythia), the mean of the
    pieces where it takes several.

    Returns what was loaded, is new and was dropped, or None where the model starts from random weights.
    """
    source = starts_from(section)
    if source is None:
        return None
    fields = section.fields
    config = base_config(section.arch, fields.get("pretrained"), fields.get("revision"))
    commit = commit_of(source, fields.get("revision"))
    revision = commit or fields.get("revision")
    where = f"model.pretrained {source!r}"
    base, report = take_trunk(model, source, config, where, revision=revision, whole=False)
    if spec.modality == "tokens" and config.vocab_size != spec.vocab_size:
        what = f"{where} has no tokenizer to spell the symbols of the task"
        with explained(what, OSError, ValueError, remedy="add its files, or set model.pretrained to false"):
            tokenizer = AutoTokenizer.from_pretrained(source, revision=revision or "main", trust_remote_code=False)
        rows, own = (one.get_input_embeddings().get_parameter("weight") for one in (base, model))
        with torch.no_grad():
            for index, ids in enumerate(spelled(spec, tokenizer)):
                if ids:
                    own[index] = rows[ids].mean(0)
    return replace(report, commit=commit)


def spelled(spec: TaskSpec, tokenizer) -> list[list[int]]:
    """The pretrained tokens that spell each id of the task; an empty list for padding and the like."""
    special = {
        spec.mask_token_id: tokenizer.mask_token_id,
        spec.eos_token_id: tokenizer.eos_token_id,
        spec.pad_token_id: tokenizer.pad_token_id,
    }
    numbers, answers = task_tokenizer(spec) is None, []
    for index in range(spec.vocab_size or 0):
        if index in special:
            answers.append([] if special[index] is None else [special[index]])
            continue
        if spec.vocabulary:
            text = spec.vocabulary[index]
        elif numbers:
            text = str(index)
        else:  # bytes beyond ASCII are parts of characters and spell nothing by themselves
            text = chr(index - BYTE_ID) if BYTE_ID <= index < BYTE_ID + 128 else ""
        answers.append(tokenizer.encode(text, add_special_tokens=False) if text else [])
    return answers
