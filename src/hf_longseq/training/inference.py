# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Use of a finished run: `evaluate` it on a split of its task or on new labelled files, `predict` labels for both.

Axes: B batch, L length, K labels.
"""

import functools
import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from transformers import AutoModelForTokenClassification, PreTrainedModel, PrinterCallback

from hf_longseq.data import byte_text
from hf_longseq.data.collators import IGNORE, DataCollatorWithLongPadding
from hf_longseq.data.published import content_hash
from hf_longseq.data.raw_inputs import LabelledInputs, RawInputs
from hf_longseq.data.row_hashes import ROW_HASH, count_trained_on
from hf_longseq.errors import MALFORMED, HfLongSeqError, did_you_mean, explained
from hf_longseq.metrics.spans import Tags, spans_of
from hf_longseq.training import run_folder
from hf_longseq.training.assemble import CLASSIFIER
from hf_longseq.training.config import FinetuneConfig, build_phase
from hf_longseq.training.eval_metrics import (
    ClassificationMetrics,
    TokenMetrics,
    decide,
    metrics_without_prefix,
    probabilities,
)
from hf_longseq.training.hf_architectures import class_names
from hf_longseq.training.recipe import Recipe
from hf_longseq.training.run import TaskData, load_data
from hf_longseq.training.run_folder import BEST, RUNS
from hf_longseq.training.trainer import LongSeqTrainer, SPTTrainer
from hf_longseq.training.transfer import local_checkpoint
from hf_longseq.training.untrusted import open_model

logger = logging.getLogger(__name__)

SPLITS = ("train", "validation", "test")
# A record may be anybody's: here it starts no process.
IN_THIS_PROCESS = {"dataloader_num_workers": 0, "dataloader_prefetch_factor": None}


def evaluate(
    model: str | os.PathLike,
    source: Any = None,
    *,
    split: str = "test",
    input_column: str | None = None,
    second_input_column: str | None = None,
    label_column: str | None = None,
    batch_size: int = 32,
    data: TaskData | None = None,
) -> dict[str, float]:
    """Score a run's model on new labelled rows, or on a split of the task it was trained on.

    Args:
        model: Folder of a run of `pretrain` (scored on fixed masks) or `finetune`, or of a comparison with `best`;
            with a source any checkpoint with a classifier, or a Hub id.
        source: New rows with labels, as for `predict`. Rows without an input or a label are left out, and counted in a
            warning.
        split: "train" (the labelled subset), "validation" or "test", without a source.
        input_column, second_input_column, label_column: Columns of the source; default: those of the run, else the
            first usual names that it has.
        batch_size: Examples per forward pass; changes the speed, not the result.
        data: The loaded data of the run, if they are at hand.

    Returns:
        The loss and the metrics over the whole split; of a source also `examples`, how many rows were scored.

    Raises:
        HfLongSeqError: If the source has no label column, or a class that the model does not know.
    """
    model = finished_run(model)
    settings = {"per_device_eval_batch_size": batch_size, "report_to": "none", **IN_THIS_PROCESS}
    scored: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as scratch:
        if source is None:
            rows, data, recorded = split_of_run(model, split, data)
            phase, seed = recorded["run"]["phase"], recorded["run"]["seed"]
            if split != "train":
                count_trained_on(Path(model), rows, split)
            section = getattr(Recipe.load(recorded).changed({phase: settings}), phase)
            arguments = section.of_run(Path(scratch), steps=1, seed=seed, metric="loss")
            trainer_class = SPTTrainer if phase == "pretrain" else LongSeqTrainer
            trainer = trainer_class(Path(model), arguments, eval_dataset=rows, spec=data.spec)
        else:
            given = {"input_column": input_column, "second_input_column": second_input_column}
            arguments = build_phase("finetune", settings).of_run(Path(scratch), steps=1, seed=0, metric="loss")
            given |= {"label_column": label_column}
            trainer, scored["examples"] = _trainer_of_source(model, source, given, arguments)
        trainer.remove_callback(PrinterCallback)
        return {**scored, **metrics_without_prefix(trainer.evaluate(metric_key_prefix="test"), "test")}


def _trainer_of_source(
    model: str | os.PathLike, source: Any, given: dict[str, str | None], arguments: FinetuneConfig
) -> tuple[LongSeqTrainer, int]:
    """A trainer that scores a checkpoint on the labelled rows of a source, and their number."""
    folder, classifier, per_position = _classifier(model)
    config = classifier.config
    problem, recorded = _problem(config), _recorded_columns(folder)
    rows = LabelledInputs(RawInputs(source, folder, config, given, recorded), config, problem, per_position)
    name, total = rows.inputs.source.name, len(rows.inputs)
    if counts := ", ".join(f"{number} without {what}" for what, number in rows.without.items() if number):
        logger.warning("%s: %d of %d rows are left out: %s.", name, total - len(rows), total, counts)
    if recorded:
        count_trained_on(folder, Dataset.from_dict({ROW_HASH: rows.hashes()}), name)
    names = () if problem == "regression" else class_names(config)
    scored = TokenMetrics if per_position else ClassificationMetrics
    metrics = scored(problem, names, getattr(config, "label_scale", None))
    trainer = LongSeqTrainer(
        classifier,
        arguments,
        _collator(config, per_position),
        eval_dataset=rows,
        compute_metrics=metrics,
        preprocess_logits_for_metrics=metrics.reduce,
        compute_loss_func=functools.partial(metrics.loss, config),
    )
    return trainer, len(rows)


def predict(
    model: str | os.PathLike,
    source: Any = None,
    *,
    split: str | None = None,
    input_column: str | None = None,
    second_input_column: str | None = None,
    limit: int | None = None,
    batch_size: int = 32,
    data: TaskData | None = None,
) -> list[dict[str, Any]]:
    """Classify new inputs, or examples of the run's task.

        predict("runs/mine", ["a new text", "another"])

    Args:
        model: Folder of a run of `finetune`, or of a comparison with `best`; with a source any checkpoint with a
            classifier, or a Hub id.
        source: New inputs for the checkpoint's own processor: csv, tsv, jsonl, parquet, npy, npz, a folder
            or a file of pictures or sounds, a data set on the Hub, "-" for lines of standard input, or from Python a
            list of texts or arrays, an array, a `DataFrame`, a `Dataset` and so on.
        split: "train", "validation" or "test" of the run's task ("test" if nothing else is given).
        input_column, second_input_column: Columns of the source; default: those of the run, else the first usual name.
        limit: Only the first examples.
        batch_size: Examples per forward pass.
        data: The loaded data of the run, if they are at hand.

    Returns:
        One mapping per row, in the order of the rows. Of a source it begins with the row's own cells (lists of
        numbers, pictures and sounds left out); of a split it has `index` and the true `label`. Then follow
        `prediction` (a class name, a list of names, or a number) and, for classes, `score` (its probability) and
        `probabilities` (by name). Of models that label every position: `spans` (see `span_answer`) or, for numbers,
        one `prediction` per position.
        The prediction of a row without an input is None; a warning counts these.
    """
    if split is not None and source is not None:
        raise HfLongSeqError(f"split={split!r} and source={str(source)!r} are given: choose one of them.")
    folder, classifier, per_position = _classifier(finished_run(model))
    config = classifier.config
    if source is None:
        rows, data, _ = split_of_run(folder, split or "test", data)
        collator = DataCollatorWithLongPadding.from_task(data.spec)
        bytes_are_read = byte_text.is_read_by(data.spec)
    else:
        given = {"input_column": input_column, "second_input_column": second_input_column}
        rows = RawInputs(source, folder, config, given, _recorded_columns(folder), limit)
        bytes_are_read = rows.reads_text and config.vocab_size == byte_text.VOCAB_SIZE
        collator = _collator(config, per_position)
    count = len(rows) if limit is None else min(limit, len(rows))
    kept = [row for row in range(count) if source is None or not rows.is_empty(row)]
    found: dict[int, dict[str, Any]] = {}
    for number, inputs, label, logits in _outputs(classifier, collator, rows, kept, batch_size):
        if per_position:
            found[number] = span_answer(logits, label, inputs, config, bytes_are_read)
        else:
            found[number] = _answer(logits, label, config)
    if source is None:
        return [{"index": number, **answer} for number, answer in found.items()]
    return _table(rows, found, count, config, per_position)


def _table(rows: RawInputs, found: dict[int, dict], count: int, config, per_position: bool) -> list[dict[str, Any]]:
    """The first rows of a source with their answers."""
    cells = rows.cells(count)
    names = config.id2label.values()
    new = {"prediction", "score", "probabilities", "spans", *(f"probability.{name}" for name in names)}
    taken = [name for name in (cells[0] if cells else ()) if name in new]
    if taken:
        logger.warning("%s has columns that predictions replace: %s.", rows.source.name, ", ".join(taken))
    if len(found) < count:
        lacking = count - len(found)
        logger.warning("%s: %d of %d rows have no input and get no prediction.", rows.source.name, lacking, count)
    none = {"spans" if per_position and config.problem_type != "regression" else "prediction": None}
    return [
        {name: cell for name, cell in own.items() if name not in taken} | found.get(row, none)
        for row, own in enumerate(cells)
    ]


def _classifier(model: str | os.PathLike) -> tuple[Path, PreTrainedModel, bool]:
    """Folder and model of a checkpoint with a classifier, and whether it labels every position."""
    folder, _ = local_checkpoint(model, "model")
    with explained(f"model {folder} has a damaged config.json", *MALFORMED, remedy="restore it"):
        saved = (run_folder.read_json(folder / "config.json").get("architectures") or ["trunk"])[0]
    if not str(saved).endswith("Classification"):
        raise HfLongSeqError(f"model {folder} holds {saved!r}, which has no classifier: give one of finetune.")
    per_position = saved.endswith("ForTokenClassification")
    return folder, open_model(AutoModelForTokenClassification if per_position else CLASSIFIER, folder), per_position


def _collator(config, per_position: bool) -> DataCollatorWithLongPadding:
    # transformers' own classes read tokens and lack the field
    reads_tokens = getattr(config, "input_type", "tokens") == "tokens"
    return DataCollatorWithLongPadding(
        pad_token_id=config.pad_token_id or 0,
        vocab_size=config.vocab_size if reads_tokens else None,
        num_channels=None if reads_tokens else config.num_channels,
        num_labels=config.num_labels if config.num_labels > 1 else None,
        problem_type=config.problem_type,
        per_position=per_position,
    )


@torch.no_grad()
def _outputs(classifier, collator, rows, numbers: list[int], batch_size: int) -> Iterator[tuple]:
    """Number, inputs, label and logits of each row."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    classifier.to(device)
    for start in range(0, len(numbers), batch_size):
        some = numbers[start : start + batch_size]
        batch = collator([rows[index] for index in some])
        labels = batch.pop("labels", [None] * len(some))
        logits = classifier(**{name: tensor.to(device) for name, tensor in batch.items()}).logits.float().cpu()
        for row, number in enumerate(some):
            yield number, {name: tensor[row] for name, tensor in batch.items()}, labels[row], logits[row]


def _problem(config) -> str:
    return config.problem_type or ("regression" if config.num_labels == 1 else "single_label_classification")


def _answer(logits_K: torch.Tensor, label: torch.Tensor | None, config) -> dict[str, Any]:
    problem = _problem(config)
    decided = decide(logits_K.numpy(), problem)
    answer: dict[str, Any] = {"prediction": _named(decided, problem, config)}
    if problem != "regression":
        chances = probabilities(logits_K, problem)
        if problem == "single_label_classification":
            answer["score"] = round(float(chances[decided]), 4)
        answer["probabilities"] = {config.id2label[i]: round(float(p), 4) for i, p in enumerate(chances)}
    if label is not None:
        answer["label"] = _named(label.numpy(), problem, config)
    return answer


def _named(value, problem: str, config) -> Any:
    if problem == "single_label_classification":
        return config.id2label[int(value)]
    if problem == "multi_label_classification":
        return [config.id2label[index] for index in np.flatnonzero(value)]
    numbers = np.asarray(value).reshape(-1).tolist()
    return numbers[0] if len(numbers) == 1 else numbers


def span_answer(
    logits_LK: torch.Tensor,
    label: torch.Tensor | None,
    inputs: dict[str, torch.Tensor],
    config,
    reads_bytes: bool = False,
) -> dict[str, Any]:
    """The `spans` of an example (or `prediction`, numbers) and, where the truth is known, `label`.

    A span has `start`, `end` (one after the last), `label`, and `score`, the mean probability of its positions. Ends
    are positions of the input; of texts (`reads_bytes`) they are characters, and `text` is what the span holds.

    Labels are (L,) or (L, K), -100 where none is known.
    """
    problem, valid_L = _problem(config), inputs["attention_mask"].bool()
    if reads_bytes:
        valid_L = valid_L & (inputs["input_ids"] >= byte_text.BYTE_ID)  # a closing token is not part of the text
    ids_L = inputs["input_ids"][valid_L].numpy() if reads_bytes else None
    logits_LK, true = logits_LK[valid_L], None if label is None else label[valid_L].numpy()
    answer: dict[str, Any] = {}
    if problem == "regression":
        numbers_LK = np.round(logits_LK.numpy().astype(np.float64), 6)
        answer["prediction"] = (numbers_LK[:, 0] if numbers_LK.shape[1] == 1 else numbers_LK).tolist()
        if true is not None:
            known = true.astype(object)
            known[true == IGNORE] = None
            answer["label"] = (known.ravel() if numbers_LK.shape[1] == 1 else known).tolist()
        return answer
    names = list(class_names(config))
    scores_LK = probabilities(logits_LK, problem).numpy()
    answer["spans"] = _spans(decide(logits_LK.numpy(), problem), names, problem, ids_L, scores_LK)
    if true is not None:
        answer["label"] = _spans(true, names, problem, ids_L)
    return answer


def _spans(
    classes: np.ndarray, names: list[str], problem: str, ids_L: np.ndarray | None, scores_LK: np.ndarray | None = None
) -> list[dict[str, Any]]:
    """Spans of classes (L,), or of every label on its own, in the order of their beginnings."""
    if problem == "single_label_classification":
        return _runs(np.where(classes == IGNORE, -1, classes), names, ids_L, scores_LK)
    found = []
    for index, name in enumerate(names):
        on_L = (classes[:, index] > 0).astype(np.int64)
        scores = None if scores_LK is None else np.stack([1 - scores_LK[:, index], scores_LK[:, index]], axis=1)
        found += _runs(on_L, ["O", name], ids_L, scores)
    return sorted(found, key=lambda span: (span["start"], span["end"]))


def _runs(classes_L: np.ndarray, names: list[str], ids_L, scores_LK) -> list[dict[str, Any]]:
    # -1, an unknown class, is outside of every span
    tags = Tags.of((*names, "O") if "O" not in names else tuple(names))
    classes_L = np.where(classes_L < 0, list(tags.kind_K).index(-1), classes_L)
    if ids_L is not None:
        text = byte_text.decode(ids_L)
        # the character that each byte belongs to; bytes 10xxxxxx go on with one
        letter_L = np.cumsum((ids_L - byte_text.BYTE_ID) & 0xC0 != 0x80) - 1
    spans = []
    for first, end, kind in spans_of(classes_L, tags).tolist():
        span: dict[str, Any] = {"start": first, "end": end, "label": tags.kinds[kind]}
        if scores_LK is not None:
            given = scores_LK[np.arange(first, end), classes_L[first:end]]
            span["score"] = round(float(given.mean()), 4)
        if ids_L is not None:
            first, end = int(letter_L[first]), int(letter_L[end - 1]) + 1
            span |= {"start": first, "end": end, "text": text[first:end]}
        spans.append(span)
    return spans


def finished_run(model: str | os.PathLike) -> str | os.PathLike:
    """The model itself, or of the folder of a comparison the one that it kept as the best."""
    folder = Path(model)
    if (folder / "config.json").is_file() or not (folder / RUNS).is_dir():
        return model
    if not (folder / BEST / "config.json").is_file():
        raise HfLongSeqError(f"model {model} is a comparison that kept no {BEST}: give one of its runs, {RUNS}/NAME.")
    return folder / BEST


def _recorded_columns(folder: Path) -> dict[str, Any]:
    """The options of its data, columns among them, that a run on a user's own data records; of others nothing."""
    options = (run_folder.read_resolved(folder) or {}).get("data") or {}
    return options if options.get("task") == "own-data" else {}


def split_of_run(
    model: str | os.PathLike, name: str, data: TaskData | None = None
) -> tuple[Dataset, TaskData, dict[str, Any]]:
    """A split of a finished run's task, all data of the run, and its settings.

    Raises:
        HfLongSeqError: If the folder holds no finished run, or the split differs from the one that the run read.
    """
    settings = run_folder.read_finished(model)
    if name not in SPLITS:
        raise HfLongSeqError(f"split is {name!r}{did_you_mean(name, SPLITS)}: choose one of {', '.join(SPLITS)}.")
    if type(settings["run"].get("seed")) is not int:  # true is an int to isinstance
        raise HfLongSeqError(f"{Path(model, run_folder.RESOLVED)} names no seed of the run: restore it.")
    data = data or load_data(Recipe.load(settings).data, settings["run"]["seed"])
    inputs = "pretrain" if settings["run"]["phase"] == "pretrain" else "labelled"
    rows = getattr(data, inputs if name == "train" else name)
    record = Path(model) / run_folder.DATA
    with explained(f"{record} is not a record of data", *MALFORMED, remedy="restore it"):
        known = (run_folder.read_json(record).get("splits") or {}).get(name) if record.is_file() else None
        changed = known and known["sha256"] != content_hash(rows)
    if changed:
        raise HfLongSeqError(
            f"{name} of task {data.spec.name!r} is not what the run in {model} read, for the source has changed: "
            "restore it, or label its rows by predict --data."
        )
    return rows, data, settings
