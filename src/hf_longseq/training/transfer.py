# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""From a pretrained checkpoint to a classifier, with a report of what was loaded, what is new and what was dropped.

The rule: everything of the trunk is loaded, only the classifier is new, only the head of pretraining is dropped.
Anything else is an error, for a silent mismatch would turn "pretrained" into "partly from scratch".
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from safetensors import safe_open
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedConfig, PreTrainedModel
from transformers.utils import logging as hf_logging

from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.manifest import read_resolved

NEW_PREFIXES = ("classifier.",)
DROPPED_PREFIXES = ("lm_head.", "reconstruction_head.")
# Fields in which a classifier may differ from the checkpoint it starts from: its head, regularisation, bookkeeping.
HEAD_FIELDS = frozenset(
    "pooling classifier_hidden_size classifier_act pair_classification problem_type id2label label2id num_levels "
    "label_mean label_scale "
    "pretraining_objective dropout tied_dropout attention_dropout initializer_range use_cache tie_word_embeddings "
    "architectures auto_map transformers_version dtype _name_or_path max_position_embeddings".split()
)


@dataclass(frozen=True)
class TransferReport:
    """Names of the tensors that a classifier took over, started afresh, and left behind."""

    loaded: tuple[str, ...]
    new: tuple[str, ...]
    dropped: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"loaded {len(self.loaded)} tensors; new: {', '.join(self.new) or 'none'}; "
            f"dropped: {', '.join(self.dropped) or 'none'}"
        )


def load_pretrained_classifier(
    checkpoint: str | os.PathLike, config: PreTrainedConfig, task: str | None = None
) -> tuple[PreTrainedModel, TransferReport]:
    """Build a classifier of `config` whose trunk comes from `checkpoint`.

    Args:
        checkpoint: Folder of a pretrained model (`...ForMaskedLM`, `...ForCausalLM`, `...ForPreTraining`).
        config: Configuration of the classifier.
        task: The task to be fine-tuned on, compared with the one recorded in the checkpoint's folder.

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
    pretrained = AutoConfig.from_pretrained(checkpoint)
    compare_configs(checkpoint, pretrained, config)
    stored = tensor_names(checkpoint)

    verbosity = hf_logging.get_verbosity()
    hf_logging.set_verbosity_error()  # its own report of new and dropped tensors would come before ours
    try:
        model = AutoModelForSequenceClassification.from_pretrained(checkpoint, config=config, dtype="float32")
    except (RuntimeError, ValueError) as error:
        raise HfLongSeqError(
            f"init_from {checkpoint} does not fit the model: {' '.join(str(error).split())}"
        ) from error
    finally:
        hf_logging.set_verbosity(verbosity)
    return model, compare_tensors(checkpoint, stored, set(model.state_dict()))


def compare_configs(checkpoint: Path, pretrained: PreTrainedConfig, config: PreTrainedConfig) -> None:
    """Raise for the first field, other than those of the head, in which the two configurations differ."""
    if pretrained.model_type != config.model_type:
        raise HfLongSeqError(
            f"init_from {checkpoint} is a {pretrained.model_type} model, but model.arch asks for {config.model_type}: "
            "pretrain this architecture, or fine-tune that one."
        )
    old, new = pretrained.to_dict(), config.to_dict()
    for name in new:
        if name not in HEAD_FIELDS and old.get(name) != new[name]:
            raise HfLongSeqError(
                f"init_from {checkpoint} has {name}={old.get(name)}, but this run has {name}={new[name]}: "
                "use the same model and data settings in both phases."
            )


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
