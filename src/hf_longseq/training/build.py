# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""From a recipe to the parts of a run: the data of a phase, the model's configuration, collators, Trainer arguments.

Everything that can be wrong with a recipe is found here, before a folder is made or a step is taken.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
import transformers
from datasets import concatenate_datasets
from huggingface_hub.errors import StrictDataclassError

from hf_longseq.data import collators
from hf_longseq.data.row_hashes import INPUTS, ROW_HASH
from hf_longseq.data.task import TaskSpec, limit_examples, load_task
from hf_longseq.data.unlabelled import read_unlabelled, without_held_out
from hf_longseq.errors import HfLongSeqError, explained
from hf_longseq.metrics import greater_is_better
from hf_longseq.training import distributed
from hf_longseq.training.architectures import config_class_of, is_hf, label_fields, looking_back
from hf_longseq.training.arguments import DataSection, PhaseSection, PretrainSection
from hf_longseq.training.eval_metrics import ClassificationMetrics, DenoisingMetrics
from hf_longseq.training.recipe import Recipe
from hf_longseq.training.run_folder import CHECKPOINTS
from hf_longseq.training.spt_config import SPTConfig
from hf_longseq.training.token_metrics import TokenMetrics
from hf_longseq.training.tracking import PROJECT

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

# One seed for the masks of every evaluation of every run, so that validation losses can be compared.
EVALUATION_MASK_SEED = 0


@dataclass(frozen=True)
class TaskData:
    """The splits a run uses: inputs of pretraining, the labelled subset, validation and test."""

    spec: TaskSpec
    pretrain: "Dataset"
    labelled: "Dataset"
    validation: "Dataset"
    test: "Dataset"


# Validation and test are cut to the same examples in every run, so that scores can be compared.
HELD_OUT_SEED = 42


def load_data(section: DataSection, seed: int = 0) -> TaskData:
    """Load the task and take the subsets that the section asks for, the same for the same section and seed.

    Where `subset_seed` is "run", the seed of the run draws the labelled subset.
    """
    splits, spec = load_task(section.task, **section.options)
    train = splits["train"]
    subset_seed = seed if section.subset_seed == "run" else section.subset_seed
    classes = spec.problem_type == "single_label_classification"
    by_class = classes and not spec.per_position
    limit = section.num_train_examples if section.train_fraction is None else section.train_fraction

    labelled = train
    if limit is not None:
        option = "num_train_examples" if section.train_fraction is None else "train_fraction"
        labelled = limit_examples(train, limit, subset_seed, by_class, f"data.{option}")
        if classes:
            check_classes(labelled, spec)
    held_out = {}
    for name in ("validation", "test"):
        limit = getattr(section, f"num_{name}_examples")
        whole = splits[name]
        held_out[name] = whole if limit is None else limit_examples(whole, min(limit, len(whole)), seed=HELD_OUT_SEED)
    if section.pretrain_inputs in ("unlabelled", "all+unlabelled"):
        pretrain = _with_unlabelled(section, splits, spec)
    elif isinstance(section.pretrain_inputs, int):  # in the order of the labelled subsets
        pretrain = limit_examples(train, section.pretrain_inputs, subset_seed, by_class, "data.pretrain_inputs")
    else:
        pretrain = {"subset": labelled, "all": train}[section.pretrain_inputs]
    return TaskData(spec, pretrain, labelled, held_out["validation"], held_out["test"])


def _with_unlabelled(section: DataSection, splits: "DatasetDict", spec: TaskSpec) -> "Dataset":
    """Inputs without labels that equal no held-out input, after those of train if the section asks for all."""
    more = [splits["unlabelled"]] if "unlabelled" in splits else []
    if section.unlabelled is not None:
        known = ("input_column", "colour", "image_size", "sampling_rate", "cache_dir")
        options = {name: section.options[name] for name in known if name in section.options}
        more.append(read_unlabelled(section.unlabelled, spec, splits["train"], **options))
    alone = section.pretrain_inputs == "unlabelled"
    if not more:
        if alone:
            raise HfLongSeqError(
                f"data.pretrain_inputs is unlabelled, but task {section.task!r} has labels for all its inputs: "
                "name others by data.unlabelled."
            )
        return splits["train"]
    inputs = [name for name in splits["train"].column_names if name in (*INPUTS, ROW_HASH)]
    unlabelled = concatenate_datasets([rows.select_columns(inputs) for rows in more])
    unlabelled = without_held_out(unlabelled, (splits["validation"], splits["test"]))
    return unlabelled if alone else concatenate_datasets([splits["train"].select_columns(inputs), unlabelled])


def check_classes(labelled: "Dataset", spec: TaskSpec) -> None:
    """Raise if the labelled subset lacks a class, for a classifier could never learn it."""
    absent = set(range(len(spec.labels))) - set(np.unique(all_labels(labelled)).tolist())
    if absent:
        name = spec.labels[min(absent)]
        raise HfLongSeqError(
            f"the labelled subset of {len(labelled)} examples has none of class {name!r}: "
            "use more examples or another data.subset_seed."
        )


def all_labels(dataset: "Dataset") -> np.ndarray:
    """The labels of all examples, or of all positions of all examples: (entries,) or (entries, targets)."""
    columns = dataset.select_columns(["labels"]).with_format("numpy")
    batches = [batch["labels"] for batch in columns.iter(batch_size=1000)]
    return np.concatenate([row for rows in batches for row in (rows if rows[0].ndim else [rows])])


def build_config(recipe: Recipe, spec: TaskSpec, classifier: bool = False) -> transformers.PreTrainedConfig:
    """The configuration of a phase: the recipe's fields, and what the task and the objective determine.

    `classifier` is for fine-tuning; pretraining with the causal objective looks back only.
    """
    if classifier and spec.problem_type is None:
        raise HfLongSeqError(
            f"{spec.source} has no labels to fine-tune on: name their column with --label_column, or use "
            "`hf-longseq pretrain`."
        )
    if is_hf(recipe.model.arch):
        from hf_longseq.training import hf_architectures

        return hf_architectures.build_config(recipe, spec, classifier, num_levels(recipe.pretrain, spec))
    fields, objective = recipe.model.fields, recipe.pretrain.objective
    one_way = objective == "causal" and not classifier and not recipe.pretrain.both_directions
    fields = looking_back(recipe.model.arch, fields) if one_way else dict(fields)
    if spec.modality == "tokens":
        fields |= {"input_type": "tokens", "vocab_size": spec.vocab_size}
    else:
        fields |= {
            "input_type": "values",
            "num_channels": spec.num_channels,
            "num_levels": num_levels(recipe.pretrain, spec),
        }
    if not classifier:
        check_both_directions(recipe.pretrain, bool(fields["bidirectional"]), recipe.model.arch)
    fields |= {
        "pad_token_id": spec.pad_token_id,
        "mask_token_id": spec.mask_token_id,
        "eos_token_id": spec.eos_token_id,
        # with its mask opened, a classifier is no longer one of the causal kind
        "pretraining_objective": "masked" if fields["bidirectional"] else objective,
        "pair_classification": spec.pair,
        **label_fields(spec),
    }
    with explained("the model section does not work", StrictDataclassError, ValueError, TypeError):
        return config_class_of(recipe.model.arch)(**fields)


def check_both_directions(settings: PretrainSection | SPTConfig, bidirectional: bool, model: str) -> None:
    """Raise if prediction in both directions is asked of a model that has not got two."""
    if settings.both_directions and not bidirectional:
        raise HfLongSeqError(
            f"both_directions is true, but {model} is no bidirectional model of hf-longseq: set bidirectional to "
            "true, or leave both_directions out."
        )


def num_levels(settings: PretrainSection | SPTConfig, spec: TaskSpec) -> int | None:
    """Levels to predict by cross-entropy; None for the L1 loss (written 0 in a recipe) and for tokens."""
    if spec.modality == "tokens":
        return None
    return spec.num_levels if settings.num_levels is None else settings.num_levels or None


def pretraining_class(settings: PretrainSection | SPTConfig, spec: TaskSpec) -> type:
    """The Auto class whose head fits the inputs and the objective; a next-token head is for models that look back."""
    if spec.modality == "values":
        return transformers.AutoModelForPreTraining
    looks_back = settings.objective == "causal" and not settings.both_directions
    return transformers.AutoModelForCausalLM if looks_back else transformers.AutoModelForMaskedLM


def build_model(auto_class: type, config: transformers.PreTrainedConfig):
    """A freshly initialised model, with errors of its constructor as one sentence."""
    with explained("the model section does not work", ValueError):
        return auto_class.from_config(config)


def denoising_parts(settings: PretrainSection | SPTConfig, spec: TaskSpec, seed: int):
    """Collators for training and for evaluation, and the metrics, of pretraining."""
    levels = {"num_levels": num_levels(settings, spec)}
    documents = 2 if spec.pair else 1
    if settings.objective == "causal":
        both = settings.both_directions  # labels stand where they are predicted, in two batches
        collator = collators.DataCollatorForCausalDenoising.from_task(spec, **levels, both_directions=both)
        return collator, collator, DenoisingMetrics(causal=not both, documents=2 * documents if both else documents)
    masking = {**levels, "mask_ratio": settings.mask_ratio or spec.mask_ratio, "span_length": settings.span_length}
    training = collators.DataCollatorForMaskedDenoising.from_task(spec, **masking, seed=seed)
    evaluation = collators.DataCollatorForMaskedDenoising.from_task(
        spec, **masking, seed=EVALUATION_MASK_SEED, deterministic=True
    )
    return training, evaluation, DenoisingMetrics(documents=documents)


def label_statistics(labelled: "Dataset", spec: TaskSpec) -> dict[str, list[float]]:
    """Mean and deviation of the targets of a regression, for the classifier's configuration; nothing for classes."""
    if spec.problem_type != "regression":
        return {}
    labels = all_labels(labelled).astype(np.float64)
    labels = labels.reshape(len(labels), -1)
    if spec.per_position:
        labels = labels[(labels != collators.IGNORE).all(1) & np.isfinite(labels).all(1)]
    if not len(labels) or not np.isfinite(labels).all():
        return {}  # the collator names the row
    std = labels.std(0)
    return {"label_mean": labels.mean(0).tolist(), "label_scale": np.where(std > 0, std, 1.0).tolist()}


def classification_parts(spec: TaskSpec, label_scale: list[float] | None = None):
    """Collator and metrics of fine-tuning."""
    metrics = (TokenMetrics if spec.per_position else ClassificationMetrics).FITTING[spec.problem_type]
    if spec.metric not in metrics:
        raise HfLongSeqError(
            f"task {spec.name!r} is scored by {spec.metric!r}, which does not fit a {spec.problem_type}: "
            f"use one of {', '.join(metrics)} in its TaskSpec."
        )
    collator = collators.DataCollatorWithLongPadding.from_task(spec)
    if spec.per_position:
        return collator, TokenMetrics(spec.problem_type, spec.labels, label_scale)
    return collator, ClassificationMetrics(spec.problem_type, label_scale=label_scale)


def training_arguments(
    section: PhaseSection, folder: Path, *, steps: int, seed: int, metric: str
) -> transformers.TrainingArguments:
    """Arguments of the Trainer; accumulation follows from the global batch size and the number of processes."""
    number, asked = distributed.count(), section.per_device_train_batch_size
    micro = asked or section.global_batch_size // number
    if not micro or section.global_batch_size % (micro * number):
        raise HfLongSeqError(
            f"{section.section}.global_batch_size={section.global_batch_size} cannot be shared by {number} processes"
            f"{f' that take {micro} examples at a time' if asked else ''}: make it a multiple of "
            f"{number * (asked or 1)}, or change the number of processes."
        )
    every = section.eval_steps or max(1, steps // 10)
    settings = section.settings()
    del settings["global_batch_size"], settings["num_train_epochs"]  # in accumulation and in max_steps
    if not isinstance(section, PretrainSection):
        del settings["ssm_learning_rate"]
    if not section.gradient_checkpointing:
        del settings["gradient_checkpointing"]  # about to be renamed in transformers
    settings |= {
        "output_dir": str(folder / CHECKPOINTS),
        "max_steps": steps,
        "per_device_train_batch_size": micro,
        "per_device_eval_batch_size": section.per_device_eval_batch_size or micro,
        "gradient_accumulation_steps": section.global_batch_size // (micro * number),
        "seed": seed,
        "data_seed": seed,
        "eval_strategy": "steps",
        "eval_steps": every,
        "save_strategy": "steps",
        "save_steps": every,
        "save_total_limit": 2,
        "load_best_model_at_end": True,
        "metric_for_best_model": metric,
        "greater_is_better": greater_is_better(metric),
        "logging_nan_inf_filter": False,
        "batch_eval_metrics": True,
        "restore_callback_states_from_checkpoint": True,
        "remove_unused_columns": False,
        "label_names": ["labels"],
        "run_name": folder.name,
        "disable_tqdm": True,
    }
    defaults = {
        "use_cpu": not torch.accelerator.is_available(),  # said openly, or bf16 on a CPU is refused
        "dataloader_persistent_workers": section.dataloader_num_workers > 0,
        "dataloader_pin_memory": torch.cuda.is_available(),
        "logging_steps": max(1, steps // 100),
        "project": PROJECT,
    }
    kind = SPTConfig if isinstance(section, PretrainSection) else transformers.TrainingArguments
    with explained(f"the {section.section} section does not work", ValueError, TypeError, ImportError):
        return kind(**{**defaults, **settings})


CLASSIFIER = transformers.AutoModelForSequenceClassification


def classifier_class(spec: TaskSpec) -> type:
    """The Auto class whose head fits the task's labels."""
    return transformers.AutoModelForTokenClassification if spec.per_position else CLASSIFIER
