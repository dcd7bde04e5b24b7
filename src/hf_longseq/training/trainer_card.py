# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The model card that a trainer writes, of what it knows itself; `publish` writes that of a finished run."""

import os
from collections.abc import Sized
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub import ModelCard, ModelCardData

from hf_longseq.data.task import TaskSpec
from hf_longseq.escaping import cleaned, render, without_paths
from hf_longseq.training.arguments import ModelSection
from hf_longseq.training.assemble import head_class, pretrains
from hf_longseq.training.eval_metrics import metrics_without_prefix
from hf_longseq.version import __version__

TEMPLATE = Path(__file__).parent / "templates" / "trainer_card.md.jinja"
FILES = ("*.json", "*.safetensors", "*.py")
SETTINGS = (
    "learning_rate", "ssm_learning_rate", "weight_decay", "per_device_train_batch_size", "gradient_accumulation_steps",
    "warmup_steps", "lr_scheduler_type", "max_grad_norm", "bf16", "seed",
)  # fmt: skip


def start_of(model: Any, init_from: str | os.PathLike | None, loaded: bool) -> str:
    """What a model began with: weights by the name of their folder or repository, a model that was given, or none."""
    if isinstance(model, torch.nn.Module):
        return f"the weights of a {type(model).__name__}"
    named = init_from or (model.arch if isinstance(model, ModelSection) else model)
    if loaded or (isinstance(named, str | os.PathLike) and os.path.isdir(named)):
        return f"the weights of {without_paths(os.fspath(named))}"
    return "random weights"


def trainer_card(trainer: Any, folder: Path, spec: TaskSpec, start: str, stated: dict[str, Any]) -> ModelCard:
    """The card of a trainer's model in a folder; it began with `start`, on rows that `spec` describes.

    `trainer` is a `LongSeqTrainer`, whose module imports this one. `stated` holds the fields of `ModelCardData` that
    the user states, such as `license` and `tags`.
    """
    args, state, config = trainer.args, trainer.state, trainer.model.config
    repo_id = trainer.hub_model_id or args.hub_model_id or folder.absolute().name
    own = stated.pop("tags", None) or []
    name = stated.pop("model_name", None) or repo_id.split("/")[-1]
    tags = ["hf-longseq", config.model_type.replace("_", "-"), "long-sequences"]
    tags += [own] if isinstance(own, str) else own
    tags.append("self-pretraining" if pretrains(args) else "fine-tuning")
    rows = {"training": trainer.train_dataset, "evaluation": trainer.eval_dataset}  # streams have no length
    head = ModelCardData(library_name="transformers", model_name=name, tags=tags, **stated)
    text = render(
        TEMPLATE,
        head=ModelCardData(**cleaned(head.to_dict())).to_yaml(),
        name=name,
        model_class=type(trainer.model).__name__,
        start=start,
        pretraining=_pretraining(args, spec) if pretrains(args) else "",
        code=_code(trainer.processor, repo_id, head_class(args, spec).__name__),
        num_parameters=trainer.model.num_parameters(),
        vocab_size=getattr(config, "vocab_size", spec.vocab_size),
        spec=spec,
        data=", ".join(filter(None, (spec.name, without_paths(spec.source or ""), spec.note))),
        sizes={name: f"{len(split):,}" for name, split in rows.items() if isinstance(split, Sized)},
        evaluated=f"step {chosen_evaluation(trainer).get('step')}",
        scores=metrics_without_prefix(chosen_evaluation(trainer), "eval"),
        steps=state.global_step,
        planned=state.max_steps,
        settings={
            field: getattr(value, "value", value)
            for field in SETTINGS
            if (value := getattr(args, field, None)) is not None
        },
        versions={"hf_longseq": __version__, "torch": torch.__version__, "transformers": transformers.__version__},
        files=sorted(file.name for ending in FILES for file in folder.glob(ending)),
    )
    return ModelCard(text)


def _pretraining(args: Any, spec: TaskSpec) -> str:
    if args.objective == "causal":
        return f"predicting the next input{' and the previous one' if args.both_directions else ''}"
    return f"restoring masked inputs, mask ratio {args.mask_ratio or spec.mask_ratio}, spans of {args.span_length}"


def _code(processor: Any, repo_id: str, auto_class: str) -> str:
    """Python that opens the model, and what prepares its inputs."""
    kind = type(processor)
    auto = "Tokenizer" if issubclass(kind, transformers.PreTrainedTokenizerBase) else "ImageProcessor"
    auto = "FeatureExtractor" if issubclass(kind, transformers.FeatureExtractionMixin) else auto
    classes, opened = [auto_class], [f"model = {auto_class}.from_pretrained({repo_id!r}, trust_remote_code=True)"]
    if processor is not None:
        classes.append(f"Auto{auto}")
        opened.append(f"processor = Auto{auto}.from_pretrained({repo_id!r}, trust_remote_code=True)")
    return "\n".join([f"from transformers import {', '.join(classes)}", "", *opened])


def chosen_evaluation(trainer: transformers.Trainer) -> dict[str, Any]:
    """What the log says of the step whose weights were loaded as the best, or else of the last evaluation."""
    found = [entry for entry in trainer.state.log_history if "eval_loss" in entry]
    best = trainer.state.best_global_step if trainer.args.load_best_model_at_end else None
    return next((one for one in found if one["step"] == best), found[-1] if found else {})
