# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""From a pretrained checkpoint to a classifier, with a report of what was loaded, what is new and what was dropped.

The rule: everything of the trunk is loaded, only the classifier is new, only the head of pretraining is dropped.
Anything else is an error, for a silent mismatch would turn "pretrained" into "partly from scratch". It holds for
architectures of transformers as well: their trunk is the base model, and the head what stands around it. Their pooler
belongs to the head, for pretraining does not have it.

A causally pretrained trunk may become a bidirectional classifier. Of attention the mask opens and every tensor is
loaded. State-space parameters that exist once per direction (S4, DLR, LRU, S5, MEGA) are loaded into the forward
direction. Whatever is new starts with the numbers that a model from scratch has at the same seed.
"""

import contextlib
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, PreTrainedConfig, PreTrainedModel
from transformers.utils import logging as hf_logging

from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.run_folder import SAFELY, read_resolved

NEW_PREFIXES = ("classifier.",)
DROPPED_PREFIXES = ("lm_head.", "reconstruction_head.")
# Fields in which a classifier may differ from the checkpoint it starts from: its head, regularisation, bookkeeping.
HEAD_FIELDS = frozenset(
    "pooling classifier_hidden_size classifier_act pair_classification problem_type id2label label2id num_levels "
    "label_mean label_scale "
    "pretraining_objective dropout tied_dropout attention_dropout initializer_range use_cache tie_word_embeddings "
    "architectures auto_map transformers_version dtype _name_or_path max_position_embeddings".split()
)
# Parameters with a part per direction, the forward one first along axis 0.
PER_DIRECTION = frozenset("output_C mode_weight_W damping_delta decay_alpha input_beta output_gamma".split())
# Fields that say how far a model looks ahead: a causal checkpoint may be opened.
DIRECTION_FIELDS = ("bidirectional", "direction_join", "ema_truncation")
ADAPTER = "longseq_adapter"


@dataclass(frozen=True)
class TransferReport:
    """Names of the tensors that a classifier took over, started afresh, and left behind.

    Attributes:
        loaded: Taken over whole.
        new: As in a model from scratch.
        dropped: In the checkpoint only.
        forward: Taken over in the forward direction; the backward one is as in a model from scratch.
        commit: That of the repository they came from, if it was one.
    """

    loaded: tuple[str, ...]
    new: tuple[str, ...]
    dropped: tuple[str, ...]
    forward: tuple[str, ...] = ()
    commit: str | None = None

    def __str__(self) -> str:
        forward = f"; loaded in the forward direction: {', '.join(self.forward)}" if self.forward else ""
        return (
            f"loaded {len(self.loaded)} tensors{forward}; new: {', '.join(self.new) or 'none'}; "
            f"dropped: {', '.join(self.dropped) or 'none'}"
        )


def load_pretrained_classifier(
    checkpoint: str | os.PathLike,
    config: PreTrainedConfig,
    task: str | None = None,
    auto_class: type = AutoModelForSequenceClassification,
) -> tuple[PreTrainedModel, TransferReport]:
    """Build a classifier of `config` whose trunk comes from `checkpoint`.

    Args:
        checkpoint: Folder of a pretrained model (`...ForMaskedLM`, `...ForCausalLM`, `...ForPreTraining`).
        config: Configuration of the classifier.
        task: The task to be fine-tuned on, compared with the one recorded in the checkpoint's folder.
        auto_class: The Auto class of the classifier's head.

    Raises:
        HfLongSeqError: If the checkpoint is of another architecture, size or task, or its tensors do not fit.
    """
    checkpoint = Path(checkpoint)
    if not (checkpoint / "config.json").is_file():
        raise HfLongSeqError(f"init_from {checkpoint} holds no config.json: give the folder of a pretrained model.")
    recorded = ((read_resolved(checkpoint) or {}).get("data") or {}).get("task")
    if task and recorded and recorded != task:
        raise HfLongSeqError(
            f"init_from {checkpoint} was pretrained on task {recorded!r}, but data.task is {task!r}: "
            f"pretrain on {task!r}, or fine-tune on {recorded!r}."
        )
    pretrained = AutoConfig.from_pretrained(checkpoint, trust_remote_code=False)
    of_transformers = not pretrained.model_type.startswith("longseq_")
    if of_transformers and config.model_type == ADAPTER:
        compare_configs(checkpoint, pretrained, config.backbone_config)
    else:
        compare_configs(checkpoint, pretrained, config)
    stored = tensor_names(checkpoint)
    # built as from scratch, so that what is not loaded is what scratch begins with
    model = auto_class.from_config(config)
    with torch.random.fork_rng(devices=[]):
        if of_transformers:
            return model, take_trunk(model, LoadedTrunk.load(checkpoint, f"init_from {checkpoint}"))
        directed = {name: getattr(pretrained, name) for name in DIRECTION_FIELDS if hasattr(pretrained, name)}
        as_pretrained = type(config).from_dict({**config.to_dict(), **directed})
        with _quiet(f"init_from {checkpoint} does not fit the model"):
            given = auto_class.from_pretrained(checkpoint, config=as_pretrained, dtype="float32", **SAFELY)
    return model, _take_over(model, given, compare_tensors(checkpoint, stored, set(given.state_dict())))


def _take_over(model: PreTrainedModel, given: PreTrainedModel, found: TransferReport) -> TransferReport:
    """Copy what `given` has loaded into `model`, which may see more than `given` does."""
    own, tensors = model.state_dict(), given.state_dict()
    loaded, forward = [], []
    for name, tensor in own.items():
        # a reverse trunk of its own starts from the weights of the forward one
        source = name if name in tensors else name.replace("model.backbone_reverse.", "model.backbone.", 1)
        if source not in found.loaded:
            continue
        if tensor.shape == tensors[source].shape:
            tensor.copy_(tensors[source])
            loaded.append(name)
        elif name.rsplit(".", 1)[-1] in PER_DIRECTION:
            tensor[: len(tensors[source])].copy_(tensors[source])
            forward.append(name)
    new = own.keys() - {*loaded, *forward}
    return replace(found, loaded=tuple(sorted(loaded)), new=tuple(sorted(new)), forward=tuple(sorted(forward)))


@contextlib.contextmanager
def _quiet(failure: str):
    """Without transformers' own report of new and dropped tensors, which would come before ours."""
    verbosity = hf_logging.get_verbosity()
    hf_logging.set_verbosity_error()
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        raise HfLongSeqError(f"{failure}: {' '.join(str(error).split())}") from error
    finally:
        hf_logging.set_verbosity(verbosity)


def trunk_of(model: PreTrainedModel) -> tuple[str, PreTrainedModel]:
    """The base model of transformers within a model, and the name it has there."""
    name = "model.backbone" if model.config.model_type == ADAPTER else model.base_model_prefix
    return name, model.get_submodule(name)


@dataclass(frozen=True)
class LoadedTrunk:
    """A base model of transformers that was loaded to be copied.

    `where` is how messages name its source; `missing` and `unexpected` are what transformers reported of its tensors.
    """

    where: str
    model: PreTrainedModel
    missing: frozenset[str]
    unexpected: tuple[str, ...]

    @classmethod
    def load(cls, source: str | os.PathLike, where: str, revision: str | None = None) -> "LoadedTrunk":
        """Open the base model of a folder, or of a repository at a revision: safetensors only, no code of its own."""
        options: dict[str, Any] = {"dtype": "float32", **SAFELY}
        if revision is not None:
            options["revision"] = revision
        with _quiet(f"{where} cannot be loaded"):
            model, found = AutoModel.from_pretrained(source, output_loading_info=True, **options)
        return cls(where, model, frozenset(found["missing_keys"]), tuple(sorted(found["unexpected_keys"])))

    def embedding_name(self) -> str:
        """Name of the token embedding's tensor."""
        weight = self.model.get_input_embeddings().weight
        return next(name for name, tensor in self.model.named_parameters() if tensor is weight)


def take_trunk(
    model: PreTrainedModel, base: LoadedTrunk, *, new_vocabulary: bool = False, ours: bool = True
) -> TransferReport:
    """Copy a base model of transformers into the trunk of `model`.

    Args:
        model: One of transformers' models with a head, or one of ours around its base model.
        base: What is copied.
        new_vocabulary: The token embedding stays as it is, because the ids mean something else.
        ours: The checkpoint was written by this package, so that a tensor too many is a mistake; others may hold
            buffers of old versions.

    Raises:
        HfLongSeqError: Unless everything of the trunk is there, in its shape, and nothing of a trunk is left over.
    """
    name, trunk = trunk_of(model)
    own, embedding = trunk.state_dict(), base.embedding_name()
    given = {key: tensor for key, tensor in base.model.state_dict().items() if key not in base.missing}
    left = [key for key in given if key not in own or (new_vocabulary and key == embedding)]
    given = {key: tensor for key, tensor in given.items() if key not in left}
    new = [key for key in own if key not in given]
    expected = {embedding} if new_vocabulary else set()
    lacks = [key for key in new if not _is_pooler(key) and key not in expected]
    holds = [key for key in left if not _is_pooler(key) and key != embedding]
    if ours:
        holds += [key for key in base.unexpected if key.startswith(f"{base.model.base_model_prefix}.")]
    other = [key for key in own.keys() & given.keys() if own[key].shape != given[key].shape]
    if lacks or holds or other:
        key = (lacks or holds or sorted(other))[0]
        what = "lacks" if lacks else "also holds" if holds else "has in another shape"
        raise HfLongSeqError(f"{base.where} {what} {key}, so it does not fit this model: use the same model section.")
    loaded = {f"{name}.{key}": given[key] for key in own if key in given}
    # a trunk that reads both ways with separate weights starts from the same ones in both directions
    loaded |= {f"{name}_reverse.{key}": tensor for key, tensor in given.items()}
    tensors = model.state_dict()
    loaded = {key: tensor for key, tensor in loaded.items() if key in tensors}
    with torch.no_grad():
        for key, tensor in loaded.items():
            tensors[key].copy_(tensor)
    return TransferReport(
        loaded=tuple(sorted(loaded)),
        new=tuple(sorted(tensors.keys() - loaded.keys())),
        dropped=tuple(sorted([*base.unexpected, *left])),
    )


def _is_pooler(key: str) -> bool:
    return key.startswith("pooler.")


def compare_configs(checkpoint: Path, pretrained: PreTrainedConfig, config: PreTrainedConfig) -> None:
    """Raise for the first field, other than those of the head, in which the two configurations differ."""
    if pretrained.model_type != config.model_type:
        raise HfLongSeqError(
            f"init_from {checkpoint} is a {pretrained.model_type} model, but model.arch asks for {config.model_type}: "
            "pretrain this architecture, or fine-tune that one."
        )
    if config.model_type == ADAPTER:
        compare_configs(checkpoint, pretrained.backbone_config, config.backbone_config)
    old, new = pretrained.to_dict(), config.to_dict()
    opened = new.get("bidirectional") and not old.get("bidirectional")
    for name in new:
        if opened and name in DIRECTION_FIELDS:
            continue
        if _is_of_the_trunk(name) and _plain(old.get(name)) != _plain(new[name]):
            raise HfLongSeqError(
                f"init_from {checkpoint} has {name}={old.get(name)}, but this run has {name}={new[name]}: "
                "use the same model and data settings in both phases."
            )


def _is_of_the_trunk(field: str) -> bool:
    if "dropout" in field or "drop" in field.split("_")[-1] or field.startswith(("classifier_", "summary_")):
        return False
    return field not in HEAD_FIELDS and field != "backbone_config"


def _plain(value):
    """A field as JSON gives it back."""
    return list(value) if isinstance(value, tuple) else value


def compare_tensors(checkpoint: Path, stored: set[str], wanted: set[str]) -> TransferReport:
    """Sort tensors into loaded, new and dropped, and raise for any that may not be new or dropped."""
    prefix = "" if any(name.startswith("model.") for name in stored) else "model."
    stored = {name if name.startswith(DROPPED_PREFIXES) else prefix + name for name in stored}
    new, dropped = sorted(wanted - stored), sorted(stored - wanted)
    missing = [name for name in new if not name.startswith(NEW_PREFIXES)]
    foreign = [name for name in dropped if not name.startswith(DROPPED_PREFIXES)]
    if missing or foreign:
        what = f"lacks {', '.join(missing[:3])}" if missing else f"also holds {', '.join(foreign[:3])}"
        raise HfLongSeqError(
            f"init_from {checkpoint} {what}, so it does not fit this model: pretrain with the same model section."
        )
    return TransferReport(tuple(sorted(wanted & stored)), tuple(new), tuple(dropped))


def tensor_names(checkpoint: Path) -> set[str]:
    """Names of the tensors in a checkpoint's safetensors files, sharded or not."""
    index = checkpoint / "model.safetensors.index.json"
    if index.is_file():
        return set(json.loads(index.read_text(encoding="utf-8"))["weight_map"])
    weights = checkpoint / "model.safetensors"
    if not weights.is_file():
        raise HfLongSeqError(f"init_from {checkpoint} holds no model.safetensors: give the folder of a saved model.")
    with safe_open(weights, framework="pt") as file:
        return set(file.keys())
