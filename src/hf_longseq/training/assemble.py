# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""From a model, arguments and rows to what a trainer trains with: head, weights, collators and metrics.

Both trainers come through here, from Python and from the commands. A model is named in one of these ways:

"s4", "hf:modernbert"       an architecture by name: default sizes, fresh weights
ModelSection("s4", ...)     an architecture and fields of its configuration, as a recipe has them
S4Config(...)               a configuration: fresh weights
"runs/pretrained"           a folder, or a repository on the Hub: its weights, under the head that is needed
S4Model(...), S4For...(...) a model: itself if it has the head, else its trunk under a new one

Arguments with an `objective` (an `SPTConfig`) pretrain; all others train on the labels.
"""

import copy
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import numpy as np
import torch
import transformers
from huggingface_hub.errors import StrictDataclassError
from transformers import PreTrainedConfig, PreTrainedModel, set_seed

from hf_longseq import ARCHITECTURES
from hf_longseq.data import collators
from hf_longseq.data.task import TaskSpec
from hf_longseq.errors import HfLongSeqError, did_you_mean, explained
from hf_longseq.models.configuration_longseq import LongSeqConfig
from hf_longseq.training.architectures import config_class_of, is_hf, looking_back
from hf_longseq.training.arguments import ModelSection
from hf_longseq.training.eval_metrics import ClassificationMetrics, DenoisingMetrics, SplitMetrics, TokenMetrics
from hf_longseq.training.hf_architectures import class_names, hf_configuration, label_fields
from hf_longseq.training.transfer import (
    AutoClass,
    TransferReport,
    config_of,
    load_pretrained,
    local_checkpoint,
    start_from_weights,
)
from hf_longseq.training.untrusted import SAFELY, open_model

if TYPE_CHECKING:
    from datasets import Dataset

Source = str | os.PathLike | ModelSection | PreTrainedConfig | PreTrainedModel

CLASSIFIER = transformers.AutoModelForSequenceClassification
# One seed for the masks of every evaluation of every run, so that validation losses can be compared.
EVALUATION_MASK_SEED = 0


@dataclass(frozen=True)
class Parts:
    """What a trainer trains with.

    `spec` has the token ids that this model uses. `eval_collator` is None where evaluation takes the collator of
    training. `transfer` says which weights were loaded; None: the model was given, or starts from random ones.
    """

    model: PreTrainedModel
    spec: TaskSpec
    collator: Callable
    eval_collator: Callable | None
    metrics: SplitMetrics
    transfer: TransferReport | None = None

    @property
    def of_classes(self) -> bool:
        """Whether a label is one class, token or level, not numbers."""
        if isinstance(self.collator, collators.DataCollatorWithLongPadding):
            return self.spec.problem_type == "single_label_classification"
        return self.spec.modality == "tokens" or getattr(self.collator, "num_levels", None) is not None


def assemble(
    model: Source,
    args: transformers.TrainingArguments,
    rows: "Dataset",
    spec: TaskSpec,
    *,
    init_from: str | os.PathLike | None = None,
    trains: bool = True,
) -> Parts:
    """Everything a trainer needs besides its arguments and rows.

    Args:
        model: As at the top of this file.
        args: An `SPTConfig` to pretrain, other `TrainingArguments` to train on the labels; `seed` draws fresh weights.
        rows: Those that the model learns from, with `labels` for a regression, whose targets are standardised.
        spec: What the rows hold; for several numbers to predict from a stream, `labels` names them.
        init_from: A pretrained checkpoint whose trunk a classifier of `model` starts from.
        trains: False leaves a saved model with the right head as it was saved.

    Raises:
        HfLongSeqError: If the model cannot read the rows, or cannot do what the arguments ask.
    """
    fields = {} if pretrains(args) else label_statistics(rows, spec)
    head = head_class(args, spec)
    report: TransferReport | None = None
    base = getattr(model, "get_base_model", lambda: model)()  # within adapters of peft
    if not pretrains(args):
        spec = _with_targets(spec, rows, getattr(base, "config", base))
    if isinstance(base, PreTrainedModel):
        _as_read_by(base.config, spec)  # raises before a head is built for other inputs
        check_directions(args, base.config, type(base).__name__)
        set_seed(args.seed)
        fits = _has_head(base.config, head, type(base))
        if base is not model and not fits:
            raise HfLongSeqError(
                f"the adapters are around a {type(base).__name__}: put them around what {head.__name__} opens."
            )
        found = cast(PreTrainedModel, model)  # adapters of peft, whose class passes for the one within, among them
        if not fits:
            config = copy.deepcopy(base.config)
            _set(config, {**_of_the_phase(args, spec), **fields})
            found = fresh_model(head, config)
            setattr(found, found.base_model_prefix, base.base_model)
    elif _is_checkpoint(model):
        found, report = _from_checkpoint(model, head, args, spec, fields, trains)
    else:
        section = ModelSection(model) if isinstance(model, str) else model
        config = configuration(section, args, spec)
        _set(config, fields)
        set_seed(args.seed)
        if init_from is not None:
            found, report = load_pretrained(init_from, config, head, spec.name)
        else:
            found = fresh_model(head, config)
            if isinstance(section, ModelSection):
                report = start_from_weights(found, section, spec)
                redraw_parameters(found, section.init_normal)
    spec = _as_read_by(found.config, spec)
    names = class_names(found.config)
    if not pretrains(args) and 0 < len(spec.labels) < len(names):  # rows may lack the last classes
        spec = replace(spec, labels=names)
    made = collators_and_metrics(args, spec, getattr(found.config, "label_scale", None))
    return Parts(found, spec, *made, transfer=report)


def pretrains(args: Any) -> bool:
    return hasattr(args, "objective")


def head_class(args: Any, spec: TaskSpec) -> AutoClass:
    """The Auto class whose head fits the inputs and the objective, or the labels; a next-token head is for models that
    look back."""
    if not pretrains(args):
        return transformers.AutoModelForTokenClassification if spec.per_position else CLASSIFIER
    if spec.modality == "values":
        return transformers.AutoModelForPreTraining
    return transformers.AutoModelForCausalLM if _looks_back(args) else transformers.AutoModelForMaskedLM


def configuration(model: Source, args: Any, spec: TaskSpec) -> PreTrainedConfig:
    """The configuration of a phase: the fields that are asked for, and what rows and objective determine."""
    if not pretrains(args):
        _checked_problem(spec)
    if isinstance(model, PreTrainedConfig):
        return _fitted(model, args, spec)
    section = ModelSection(model) if isinstance(model, str) else model
    if not isinstance(section, ModelSection):
        raise HfLongSeqError(
            f"model is {type(model).__name__}: give a model, a configuration, the name of an architecture "
            f"({', '.join(ARCHITECTURES)}, hf:TYPE), a folder, or a repository on the Hub."
        )
    if pretrains(args) and _looks_back(args):  # what is fine-tuned of it reads both ways
        section = replace(section, fields=looking_back(section.arch, section.fields))
    if is_hf(section.arch):
        config = hf_configuration(section, spec, getattr(args, "objective", None), num_levels(args, spec))
    else:
        fields = {"bidirectional": True, **section.fields, **_inputs(spec), **_of_the_phase(args, spec)}
        fields |= {name: getattr(spec, name) for name in SPECIAL_IDS}
        with explained("the model section does not work", StrictDataclassError, ValueError, TypeError):
            config = config_class_of(section.arch)(**fields)
    check_directions(args, config, section.arch)
    return config


SPECIAL_IDS = ("pad_token_id", "mask_token_id", "eos_token_id")


def _inputs(spec: TaskSpec) -> dict[str, Any]:
    if spec.modality == "tokens":
        return {"input_type": "tokens", "vocab_size": spec.vocab_size}
    return {"input_type": "values", "num_channels": spec.num_channels}


def _of_the_phase(args: Any, spec: TaskSpec) -> dict[str, Any]:
    """What the objective, or the labels, determine in a configuration."""
    labels = label_fields(spec) if spec.problem_type else {}
    fields = {"pair_classification": spec.pair, **labels}
    if pretrains(args):  # where directions take turns, outputs stand where their labels do
        fields["pretraining_objective"] = "causal" if _looks_back(args) else "masked"
        if spec.modality == "values":
            fields["num_levels"] = num_levels(args, spec)
    return fields


def _fitted(config: PreTrainedConfig, args: Any, spec: TaskSpec) -> PreTrainedConfig:
    """A copy of a configuration for these rows; token ids that it states stay."""
    config, inputs = copy.deepcopy(config), _inputs(spec)
    if spec.modality == "tokens":
        stated = not isinstance(config, LongSeqConfig) or config.vocab_size != type(config).vocab_size
        inputs["vocab_size"] = max(config.vocab_size, spec.vocab_size) if stated else spec.vocab_size
        inputs |= {name: getattr(spec, name) for name in SPECIAL_IDS if getattr(config, name, None) is None}
    _set(config, inputs | _of_the_phase(args, spec))
    check_directions(args, config, type(config).__name__)
    with explained("the configuration does not work", StrictDataclassError):
        config.validate()
    return config


def check_directions(args: Any, config: PreTrainedConfig, name: str) -> None:
    """Raise if pretraining asks of a model a direction that it has not got, or shows it what it would predict."""
    if not pretrains(args):
        return
    both_ways = getattr(config, "bidirectional", False)
    if args.both_directions and not (both_ways and isinstance(config, LongSeqConfig)):
        raise HfLongSeqError(
            f"both_directions is true, but {name} is not a bidirectional model of hf-longseq: set bidirectional to "
            "true, or leave both_directions out."
        )
    if _looks_back(args) and both_ways:
        raise HfLongSeqError(
            f"objective is 'causal', but {name} is bidirectional and sees what it would predict: set "
            "bidirectional=False, both_directions=True, or take the masked objective."
        )


def _looks_back(args: Any) -> bool:
    return args.objective == "causal" and not args.both_directions


def num_levels(args: Any, spec: TaskSpec) -> int | None:
    """Levels to predict by cross-entropy; None for the L1 loss (written 0) and for tokens."""
    if spec.modality == "tokens" or not pretrains(args):
        return None
    return spec.num_levels if args.num_levels is None else args.num_levels or None


def fresh_model(head: AutoClass, config: PreTrainedConfig) -> PreTrainedModel:
    """A freshly initialised model, with errors of its constructor as one sentence."""
    with explained("the model section does not work", ValueError):
        return head.from_config(config)


def redraw_parameters(model: PreTrainedModel, deviation: float | None) -> None:
    """Redraw every parameter from N(0, deviation), gains, embeddings and time steps included; None changes nothing.

    The ablation of a structured initialisation: what is left of an architecture once its state-space matrices start
    as noise (paper, the study of random initialisation). Drawn from torch's generator.
    """
    if deviation is not None:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(0.0, deviation)


def _is_checkpoint(model: Source) -> TypeGuard[str | os.PathLike]:
    """Whether a source is a folder or a repository; a word that is neither, nor an architecture, is an error."""
    if not isinstance(model, str | os.PathLike) or model in ARCHITECTURES or (isinstance(model, str) and is_hf(model)):
        return False
    if "/" not in str(model) and not os.path.isdir(model):
        raise HfLongSeqError(
            f"model is {str(model)!r}{did_you_mean(str(model), ARCHITECTURES)}: give an architecture "
            f"({', '.join(ARCHITECTURES)}, hf:TYPE), a folder that exists, or a repository (ORGANISATION/NAME)."
        )
    return True


def _from_checkpoint(
    model: str | os.PathLike, head: AutoClass, args: Any, spec: TaskSpec, fields: dict[str, Any], trains: bool
) -> tuple[PreTrainedModel, TransferReport | None]:
    folder, _ = local_checkpoint(model, "model")
    config = config_of(folder, f"model {model}")
    named = config.architectures if isinstance(config.architectures, list) else ()
    if not trains and _has_head(config, head, *named):
        return open_model(head, folder), None
    _as_read_by(config, spec)
    _set(config, {**_of_the_phase(args, spec), **fields})
    check_directions(args, config, config.model_type)
    set_seed(args.seed)
    if not pretrains(args) and config.model_type.startswith("longseq_"):
        return load_pretrained(folder, config, head, spec.name, what=f"model {model}")
    options = {"ignore_mismatched_sizes": True, "output_loading_info": True, **SAFELY}
    found, report = head.from_pretrained(folder, config=config, dtype="float32", **options)
    new = [*report["missing_keys"], *(entry[0] for entry in report["mismatched_keys"])]
    trunk = [name for name in new if name.startswith(f"{found.base_model_prefix}.")]
    if trunk:
        raise HfLongSeqError(
            f"model {model} lacks {trunk[0]} in the shape that its configuration gives it: name a whole checkpoint."
        )
    return found, None


def _has_head(config: PreTrainedConfig, head: AutoClass, *found: type | str) -> bool:
    """Whether a model class, or the name of one, is that of a head for this configuration."""
    mapping: Any = head._model_mapping  # that transformers declares as None and sets in every subclass
    wanted = mapping.get(type(config), None)
    return wanted is not None and any(
        issubclass(one, wanted) if isinstance(one, type) else one == wanted.__name__ for one in found
    )


def _set(config: PreTrainedConfig, fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        if hasattr(config, name):
            setattr(config, name, value)


def _as_read_by(config: PreTrainedConfig, spec: TaskSpec) -> TaskSpec:
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
    stated = {name: getattr(config, name, None) for name in SPECIAL_IDS}
    ids: dict[str, Any] = {name: value for name, value in stated.items() if isinstance(value, int)}
    return replace(spec, **ids, vocab_size=own.vocab_size)


def collators_and_metrics(
    args: Any, spec: TaskSpec, label_scale: list[float] | None = None
) -> tuple[Callable, Callable | None, SplitMetrics]:
    """Collators of training and of evaluation (None: the same), and metrics."""
    if not pretrains(args):
        scored = TokenMetrics if spec.per_position else ClassificationMetrics
        metrics = scored(_checked_problem(spec), spec.labels, label_scale)
        return collators.DataCollatorWithLongPadding.from_task(spec), None, metrics
    levels, documents = {"num_levels": num_levels(args, spec)}, 2 if spec.pair else 1
    if args.objective == "causal":
        both = args.both_directions  # labels stand where they are predicted, in two batches
        collator = collators.DataCollatorForCausalDenoising.from_task(spec, **levels, both_directions=both)
        return collator, collator, DenoisingMetrics(causal=not both, documents=2 * documents if both else documents)
    masking = {**levels, "mask_ratio": args.mask_ratio or spec.mask_ratio, "span_length": args.span_length}
    masked = collators.DataCollatorForMaskedDenoising.from_task
    training = masked(spec, **masking, seed=getattr(args, "seed", 0))
    evaluation = masked(spec, **masking, seed=EVALUATION_MASK_SEED, deterministic=True)
    return training, evaluation, DenoisingMetrics(documents=documents)


def _checked_problem(spec: TaskSpec) -> str:
    if spec.problem_type is None:
        raise HfLongSeqError(
            f"{spec.source} has no labels to fine-tune on: name their column with --label_column, or use "
            "`hf-longseq pretrain`."
        )
    fitting = (TokenMetrics if spec.per_position else ClassificationMetrics).FITTING[spec.problem_type]
    if spec.metric not in fitting:
        raise HfLongSeqError(
            f"task {spec.name!r} is scored by {spec.metric!r}, which does not fit a {spec.problem_type}: "
            f"use one of {', '.join(fitting)} in its TaskSpec."
        )
    return spec.problem_type


def _with_targets(spec: TaskSpec, rows: "Dataset", given: Any) -> TaskSpec:
    """The task with a name for each of several numbers to predict: those of a configuration that was `given`, if it
    has as many outputs, else value_0, value_1, ..."""
    if spec.problem_type != "regression" or spec.labels or not hasattr(rows, "__len__"):  # a stream is read once
        return spec
    count = int(np.prod(np.shape(rows[0]["labels"])[spec.per_position :]))
    known = class_names(given) if isinstance(given, PreTrainedConfig) else ()
    names = known if len(known) == count else tuple(f"value_{index}" for index in range(count))
    return replace(spec, labels=names) if count > 1 else spec


def label_statistics(rows: "Dataset", spec: TaskSpec) -> dict[str, list[float]]:
    """Mean and deviation of each target of a regression, for the classifier's configuration; nothing for classes."""
    if spec.problem_type != "regression" or not hasattr(rows, "__len__"):  # a stream is read once
        return {}
    labels = all_labels(rows).astype(np.float64)
    with explained("labels have not equally many numbers in every row", ValueError, remedy="mend them"):
        labels = labels.reshape(len(labels) if spec.per_position else len(rows), -1)
    targets = np.split(labels, labels.shape[1], axis=1)
    if spec.per_position or len(targets) > 1:
        targets = [one[((one != collators.IGNORE) & np.isfinite(one))[:, 0]] for one in targets]
    if not all(len(one) and np.isfinite(one).all() for one in targets):
        return {}  # the collator names the row
    mean, std = (np.concatenate([getattr(one, name)(0) for one in targets]) for name in ("mean", "std"))
    return {"label_mean": mean.tolist(), "label_scale": np.where(std > 0, std, 1.0).tolist()}


def all_labels(rows: "Dataset") -> np.ndarray:
    """The labels of all examples, or of all positions of all examples: (entries,) or (entries, targets)."""
    columns = rows.select_columns(["labels"]).with_format("numpy")
    batches = [batch["labels"] for batch in columns.iter(batch_size=1000)]
    return np.concatenate([row for rows in batches for row in (rows if rows[0].ndim else [rows])])
