# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Use of a finished run: `evaluate` it on a split of its task, `predict` labels for a split or for new files."""

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForTokenClassification, PrinterCallback

from hf_longseq.data import byte_text
from hf_longseq.data.collators import DataCollatorWithLongPadding
from hf_longseq.data.published import content_hash
from hf_longseq.data.raw_inputs import RawInputs
from hf_longseq.data.row_hashes import count_trained_on
from hf_longseq.errors import HfLongSeqError, did_you_mean
from hf_longseq.training import run_folder
from hf_longseq.training.assemble import CLASSIFIER
from hf_longseq.training.eval_metrics import decide, probabilities
from hf_longseq.training.recipe import Recipe
from hf_longseq.training.run import metrics_without_prefix
from hf_longseq.training.span_answers import span_answers
from hf_longseq.training.subsets import TaskData, load_data
from hf_longseq.training.trainer import LongSeqTrainer, SPTTrainer
from hf_longseq.training.transfer import local_checkpoint
from hf_longseq.training.untrusted import open_model

SPLITS = ("train", "validation", "test")


def evaluate(
    model: str | os.PathLike, *, split: str = "test", batch_size: int = 32, data: TaskData | None = None
) -> dict[str, float]:
    """Score a run's model on a split of the task it was trained on.

    Args:
        model: Folder of a run of `pretrain` (scored on fixed masks) or `finetune`.
        split: "train" (the labelled subset), "validation" or "test".
        batch_size: Examples per forward pass; changes the speed, not the result.
        data: The loaded data of the run, if they are at hand.

    Returns:
        The loss and the metrics over the whole split.
    """
    recipe, phase, seed = _recorded(model)
    data = data or load_data(recipe.data, seed)
    settings = {"per_device_eval_batch_size": batch_size, "report_to": "none"}
    section = getattr(recipe.changed({phase: settings}), phase)
    rows = _split(data, split, phase, Path(model))
    if split != "train":
        count_trained_on(Path(model), rows, split)
    with tempfile.TemporaryDirectory() as scratch:
        arguments = section.of_run(Path(scratch), steps=1, seed=seed, metric="loss")
        trainer_class = SPTTrainer if phase == "pretrain" else LongSeqTrainer
        trainer = trainer_class(Path(model), arguments, eval_dataset=rows, spec=data.spec)
        trainer.remove_callback(PrinterCallback)
        return metrics_without_prefix(trainer.evaluate(metric_key_prefix="test"), "test")


@torch.no_grad()
def predict(
    model: str | os.PathLike,
    *,
    split: str | None = None,
    source: str | os.PathLike | None = None,
    input_column: str | None = None,
    second_input_column: str | None = None,
    limit: int | None = None,
    batch_size: int = 32,
    data: TaskData | None = None,
) -> list[dict[str, Any]]:
    """Classify new inputs, or examples of the run's task.

    Args:
        model: Folder of a run of `finetune`; with a source any checkpoint with a classifier, or a Hub id.
        split: "train", "validation" or "test" of the run's task ("test" if nothing else is given).
        source: Raw inputs, which the checkpoint's own processor encodes: csv, tsv, jsonl, parquet, npy, npz, a folder
            or a file of pictures or sounds, a data set on the Hub, or "-" for lines of standard input.
        input_column, second_input_column: Columns of the source; default: the first usual name that it has.
        limit: Only the first examples.
        batch_size: Examples per forward pass.
        data: The loaded data of the run, if they are at hand.

    Returns:
        One mapping per example: `index`, `prediction` (a class name, a list of names, or a number), `score` (its
        probability) and `probabilities` (by name) for classes, `file` where the source is of files, and `label` where
        the truth is known. Of models that label every position, `spans`
        (see `span_answers`) or, for numbers, one `prediction` per position.
    """
    if split is not None and source is not None:
        raise HfLongSeqError(f"split={split!r} and source={str(source)!r} are given: choose one of them.")
    model, _ = local_checkpoint(model, "model")
    saved = (run_folder.read_json(model / "config.json").get("architectures") or [""])[0]
    if not saved.endswith("Classification"):
        raise HfLongSeqError(f"model {model} is a {saved or 'trunk'} without a classifier: give one of finetune.")
    per_position = saved.endswith("ForTokenClassification")
    classifier = open_model(AutoModelForTokenClassification if per_position else CLASSIFIER, model)
    config = classifier.config
    if source is None:
        recipe, phase, seed = _recorded(model)
        data = data or load_data(recipe.data, seed)
        rows = _split(data, split or "test", phase, model)
        collator = DataCollatorWithLongPadding.from_task(data.spec)
        bytes_are_read = byte_text.is_read_by(data.spec)
    else:
        rows = RawInputs(
            os.fspath(source) if isinstance(source, os.PathLike) else source,
            model,
            config,
            input_column,
            second_input_column,
        )
        bytes_are_read = rows.reads_text and config.vocab_size == byte_text.VOCAB_SIZE
        # transformers' own classes, which have no such field, read tokens
        reads_tokens = getattr(config, "input_type", "tokens") == "tokens"
        collator = DataCollatorWithLongPadding(
            pad_token_id=config.pad_token_id or 0,
            vocab_size=config.vocab_size if reads_tokens else None,
            num_channels=None if reads_tokens else config.num_channels,
            num_labels=config.num_labels if config.num_labels > 1 else None,
            problem_type=config.problem_type,
            per_position=per_position,
        )
    count = len(rows) if limit is None else min(limit, len(rows))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    classifier.to(device)
    answers = []
    for start in range(0, count, batch_size):
        batch = collator([rows[index] for index in range(start, min(start + batch_size, count))])
        labels = batch.pop("labels", None)
        logits = classifier(**{name: tensor.to(device) for name, tensor in batch.items()}).logits.float().cpu()
        if per_position:
            answers += span_answers(logits, labels, batch, config, start, bytes_are_read)
        else:
            answers += _answers(logits, labels, config, start)
    if source is not None:
        answers = [answer | rows.described(answer["index"]) for answer in answers]
    return answers


def _answers(logits: torch.Tensor, labels: torch.Tensor | None, config, start: int) -> list[dict[str, Any]]:
    problem = config.problem_type or ("regression" if config.num_labels == 1 else "single_label_classification")
    decided = decide(logits.numpy(), problem)
    answers = []
    for row in range(len(logits)):
        answer: dict[str, Any] = {"index": start + row, "prediction": _named(decided[row], problem, config)}
        if problem != "regression":
            chances = probabilities(logits[row], problem)
            if problem == "single_label_classification":
                answer["score"] = round(float(chances[decided[row]]), 4)
            answer["probabilities"] = {config.id2label[i]: round(float(p), 4) for i, p in enumerate(chances)}
        if labels is not None:
            answer["label"] = _named(labels[row].numpy(), problem, config)
        answers.append(answer)
    return answers


def _named(value, problem: str, config) -> Any:
    if problem == "single_label_classification":
        return config.id2label[int(value)]
    if problem == "multi_label_classification":
        return [config.id2label[index] for index in np.flatnonzero(value)]
    numbers = np.asarray(value).reshape(-1).tolist()
    return numbers[0] if len(numbers) == 1 else numbers


def _recorded(model: str | os.PathLike) -> tuple[Recipe, str, int]:
    """Settings, phase and seed of the run that a folder holds."""
    settings = run_folder.read_resolved(model)
    phase = ((settings or {}).get("run") or {}).get("phase")
    if phase not in ("pretrain", "finetune"):
        raise HfLongSeqError(
            f"model {model} is no run of pretrain or finetune (no {run_folder.RESOLVED} says so): give a run's "
            "folder; those of a comparison are OUTPUT_DIR/runs/NAME and, of spt, OUTPUT_DIR/best."
        )
    if not (Path(model) / run_folder.METRICS).is_file():
        raise HfLongSeqError(f"model {model} is an unfinished run: rerun its command to finish it.")
    return Recipe.load(settings), phase, settings["run"]["seed"]


def _split(data: TaskData, name: str, phase: str, model: Path):
    """A split of the task, which has to be that of the run: others may hold what it was trained on."""
    if name not in SPLITS:
        raise HfLongSeqError(f"split is {name!r}{did_you_mean(name, SPLITS)}: choose one of {', '.join(SPLITS)}.")
    rows = getattr(data, name if name != "train" else "pretrain" if phase == "pretrain" else "labelled")
    record = model / run_folder.DATA
    known = (run_folder.read_json(record).get("splits") or {}).get(name) if record.is_file() else None
    if known and known["sha256"] != content_hash(rows):
        raise HfLongSeqError(
            f"{name} of task {data.spec.name!r} is not what the run in {model} read, for the source has changed: "
            "restore it, or label its rows by predict --data."
        )
    return rows
