# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""One run: `pretrain` on a task's inputs, or `finetune` on its labels, into a folder of its own.

    recipe = Recipe.load("smnist", {"model": {"arch": "dlr"}})
    first = pretrain(recipe, "runs/pretrained")
    second = finetune(recipe, "runs/classifier", init_from=first.output_dir)
    AutoModelForSequenceClassification.from_pretrained(second.output_dir)

The best checkpoint is chosen on the validation split; the test split is read once, after that choice. Started again,
an interrupted run resumes, and a finished one is kept as it is.
"""

import contextlib
import json
import os
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import PreTrainedModel, PrinterCallback, TrainerCallback, TrainingArguments, set_seed

from hf_longseq.data.collators import DataCollatorForMaskedDenoising, MaskEpochCallback
from hf_longseq.data.processors import task_processor
from hf_longseq.data.row_hashes import count_trained_on, save_trained_on
from hf_longseq.data.task import TaskSpec
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training import build, callbacks, checkpoints, distributed, run_folder
from hf_longseq.training.arguments import PhaseSection, check_seed
from hf_longseq.training.flops import training_flops
from hf_longseq.training.hf_weights import start_from_weights
from hf_longseq.training.progress import Listener, silent
from hf_longseq.training.recipe import Recipe
from hf_longseq.training.tracking import tracker
from hf_longseq.training.trainer import LongSeqTrainer, ProgressReport, WallClock
from hf_longseq.training.transfer import TransferReport, load_pretrained_classifier, local_checkpoint

if TYPE_CHECKING:
    from datasets import Dataset


# A run of so few steps is a trial of the settings: that it has learned nothing goes without saying.
FEWEST_STEPS = 10


@dataclass(frozen=True)
class RunResult:
    """A finished run: its folder, which `from_pretrained` opens, and the content of its `metrics.json`."""

    output_dir: Path
    metrics: dict[str, Any]


def pretrain(
    recipe: Recipe,
    output_dir: str | os.PathLike,
    *,
    seed: int = 0,
    overwrite: bool = False,
    listener: Listener = silent,
    data: build.TaskData | None = None,
    train_dataset: "Dataset | None" = None,
) -> RunResult:
    """Train a model to restore (or to predict) the inputs of the task's training split; labels are never read.

    Args:
        recipe: Settings; its `pretrain` section is used.
        output_dir: A new folder, or one in which the same run was interrupted.
        seed: Seed of weights, order, masks and dropout.
        overwrite: Delete a run that the folder holds, and start again.
        listener: Told the progress, see `progress.py`.
        data: The loaded data of `recipe.data`, to load them once for several runs.
        train_dataset: Rows to pretrain on instead, with the task's input column (`input_ids` or `input_values`).

    Raises:
        HfLongSeqError: If a setting, the data or the folder is not fit for the run; nothing is written then.
    """
    check_seed(seed)
    distributed.join()
    data = data or distributed.main_first(lambda: build.load_data(recipe.data, seed))
    if train_dataset is not None:
        data = replace(data, pretrain=train_dataset)
    config = build.build_config(recipe, data.spec)
    set_seed(seed)
    model = build.build_model(build.pretraining_class(recipe.pretrain, data.spec), config)
    report = start_from_weights(model, recipe, data.spec)
    redraw_parameters(model, recipe.model.init_normal)
    collator, eval_collator, metrics = build.denoising_parts(recipe.pretrain, data.spec, seed)
    settings = recipe.to_dict()
    commit, transfer = _transferred(report)
    run = {"phase": "pretrain", "seed": seed, **commit}
    job = _PreparedRun(
        Path(output_dir),
        {**{name: settings[name] for name in ("model", "data", "pretrain")}, "run": run},
        model=model,
        section=recipe.pretrain,
        train=data.pretrain,
        data=data,
        metric="loss",
        callbacks=[MaskEpochCallback(collator)] if isinstance(collator, DataCollatorForMaskedDenoising) else [],
        listener=listener,
        trainer_parts={"data_collator": collator, "eval_data_collator": eval_collator, "eval_metrics": metrics},
        extra=transfer,
    )
    return _run(job, overwrite)


def finetune(
    recipe: Recipe,
    output_dir: str | os.PathLike,
    *,
    init_from: str | os.PathLike | None = None,
    init: str | None = None,
    score_test: bool = True,
    seed: int = 0,
    overwrite: bool = False,
    listener: Listener = silent,
    data: build.TaskData | None = None,
) -> RunResult:
    """Train a classifier (or regressor) on the labelled subset, from a pretrained checkpoint or from scratch.

    Args:
        recipe: Settings; the `finetune` section is used, or the `scratch` section without `init_from`.
        output_dir: A new folder, or one in which the same run was interrupted.
        init_from: Folder of a model, or a repository on the Hub; None starts from scratch.
        init: Name of the arm in reports; by default "spt", "scratch", or "pretrained" where the architecture comes
            with weights (`hf:REPOSITORY`).
        score_test: Whether to score the test split at the end; without, the run is a candidate for a choice.
        seed, overwrite, listener, data: As for `pretrain`.

    Raises:
        HfLongSeqError: As for `pretrain`, and if the checkpoint is of another architecture, size or kind of input.
    """
    check_seed(seed)
    distributed.join()
    data = data or distributed.main_first(lambda: build.load_data(recipe.data, seed))
    config = build.build_config(recipe, data.spec, classifier=True)
    section = recipe.finetune if init_from is not None else recipe.scratch
    scale = build.label_statistics(data.labelled, data.spec)
    for name, numbers in scale.items():
        setattr(config, name, numbers)
    collator, metrics = build.classification_parts(data.spec, scale.get("label_scale"))
    set_seed(seed)
    run: dict[str, Any] = {"phase": "finetune", "init": init or "spt", "seed": seed}
    start, seen = None, {}
    if init_from is None:
        model = build.build_model(build.classifier_class(data.spec), config)
        report = start_from_weights(model, recipe, data.spec)
        redraw_parameters(model, recipe.model.init_normal)
        run["init"] = init or ("pretrained" if report else "scratch")
    else:
        model, report = load_pretrained_classifier(
            init_from, config, task=recipe.data.task, auto_class=build.classifier_class(data.spec)
        )
        run["init_from"] = run_folder.path_from(output_dir, init_from)
        start = local_checkpoint(init_from)[0]
        run["init_weights"] = run_folder.weights_hash(start)
        if score_test and (count := count_trained_on(start, data.test, "test")):
            seen = {"test_examples_trained_on": count}
    commit, transfer = _transferred(report)
    run |= commit
    settings = recipe.to_dict()
    job = _PreparedRun(
        Path(output_dir),
        {"model": settings["model"], "data": settings["data"], "finetune": section.settings(), "run": run},
        model=model,
        section=section,
        train=data.labelled,
        data=data,
        metric=data.spec.metric,
        listener=listener,
        trainer_parts={"data_collator": collator, "eval_metrics": metrics},
        test=data.test,
        score_test=score_test,
        extra={**({"unit": data.spec.unit} if data.spec.unit else {}), **scale, **transfer, **seen},
        start=start,
    )
    return _run(job, overwrite)


def _transferred(report: TransferReport | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `resolved.yaml` says of weights of a repository, whose branch may move, and `metrics.json` of any."""
    if report is None:
        return {}, {}
    moved = {"loaded": len(report.loaded), "forward": report.forward, "new": report.new, "dropped": report.dropped}
    moved["pretrained_on"] = report.pretrained_on
    moved = {name: value for name, value in moved.items() if value or name not in ("forward", "pretrained_on")}
    return {"weights_commit": report.commit} if report.commit else {}, {"transfer": moved}


def redraw_parameters(model: PreTrainedModel, deviation: float | None) -> None:
    """Redraw every parameter from N(0, deviation), gains, embeddings and time steps included; None changes nothing.

    The ablation of a structured initialisation: what is left of an architecture once its state-space matrices start
    as noise (paper, the study of random initialisation). Drawn from torch's generator, which the run's seed has set.
    """
    if deviation is not None:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(0.0, deviation)


@dataclass(frozen=True)
class _PreparedRun:
    """A run that is ready to start.

    `metric` chooses the best checkpoint on validation, `trainer_parts` are arguments of the trainer that only one of
    the phases has, `score_test` says whether `test` is scored, `extra` is what `metrics.json` says besides, and
    `start` the folder of the checkpoint whose weights it starts from.
    """

    folder: Path
    settings: dict[str, Any]
    model: PreTrainedModel
    section: PhaseSection
    train: "Dataset"
    data: build.TaskData
    metric: str
    listener: Listener
    trainer_parts: dict[str, Any]
    callbacks: list[TrainerCallback] = field(default_factory=list)
    test: "Dataset | None" = None
    score_test: bool = False
    extra: dict[str, Any] = field(default_factory=dict)
    start: Path | None = None

    @property
    def steps(self) -> int:
        return self.section.steps(len(self.train))

    @property
    def splits(self) -> "dict[str, Dataset]":
        """All examples that the run reads."""
        test = {} if self.test is None else {"test": self.test}
        return {"train": self.train, "validation": self.data.validation, **test}

    def tell(self, step: int, text: str | None) -> None:
        if distributed.is_main():
            self.listener(self.folder.name, step, self.steps, text)


def _run(job: _PreparedRun, overwrite: bool) -> RunResult:
    """Train, choose on validation, score the test split if there is one, and leave a finished run folder."""
    with (
        tracker(job.section.report_to, job.section.section, job.folder),
        run_folder.holding(job.folder) if distributed.is_main() else contextlib.nullcontext(),
        checkpoints.room_in(job.folder),
    ):
        distributed.check_enough(len(job.train))
        seed = job.settings["run"]["seed"]
        arguments = build.training_arguments(job.section, job.folder, steps=job.steps, seed=seed, metric=job.metric)
        finished, resumed_from = _open_folder(job, overwrite)
        if finished:
            job.tell(job.steps, None)
            if distributed.is_main():  # a kill may have come before that
                shutil.rmtree(job.folder / run_folder.CHECKPOINTS, ignore_errors=True)
            return RunResult(job.folder, run_folder.read_json(job.folder / run_folder.METRICS))
        flops = None
        if distributed.is_main():  # on a batch of the collator that has no state
            collator = job.trainer_parts.get("eval_data_collator") or job.trainer_parts["data_collator"]
            rows = job.train.select(range(min(arguments.per_device_train_batch_size, len(job.train))))
            flops = training_flops(job.model, collator, rows, arguments.device)
        use_cache = getattr(job.model.config, "use_cache", None)
        trainer, test_metrics = _train(job, arguments, resumed_from)
        if use_cache is not None:
            trainer.model.config.use_cache = use_cache  # the Trainer switches it off for training
        result = _result(job, trainer, flops, test_metrics)
        model = trainer.whole_model()
        if trainer.is_world_process_zero():
            save_trained_on(job.folder, job.train, job.start)
            _finish(trainer, model, job.folder, result, job.data.spec)
        distributed.wait()  # none may look for the result before it is there
        return RunResult(job.folder, result)


def _open_folder(job: _PreparedRun, overwrite: bool) -> tuple[bool, Path | None]:
    """Claim the run's folder, the same in all processes: whether it is finished, and the checkpoint to go on from."""
    record = run_folder.data_record(job.splits, job.data.spec, job.settings["data"])
    distributed.check_same("the data", record["splits"], "copy the same files to every machine.")
    state, resumed_from, resolved = distributed.by_main(lambda: _claim(job, record, overwrite))
    distributed.check_folder_is_shared(job.folder, run_folder.RESOLVED, resolved)
    return state == "finished", resumed_from


def _claim(job: _PreparedRun, record: dict[str, Any], overwrite: bool) -> tuple[str, Path | None, str]:
    """Record where a run takes place and on what: its state, the checkpoint to go on from, its settings as written."""
    folder = job.folder
    state = run_folder.claim_folder(folder, job.settings, overwrite)
    path = folder / run_folder.RESOLVED
    if state == "finished":
        return state, None, path.read_text(encoding="utf-8")
    begun = folder / run_folder.DATA
    if begun.is_file() and run_folder.read_json(begun)["splits"] != record["splits"]:
        raise HfLongSeqError(
            f"the data of task {record['task']!r} are not those with which the run in {folder} began: restore them, "
            "or start again with --overwrite."
        )
    checkpoint = checkpoints.last_checkpoint(folder) if state == "resume" else None
    if checkpoint is None:
        run_folder.write_yaml(path, job.settings)  # it begins, or begins again, with the weights that are there now
    run_folder.write_json(folder / run_folder.ENVIRONMENT, run_folder.environment())
    run_folder.write_json(begun, record)
    if "source_row" in job.train.column_names:  # which rows of a user's own source are in which split
        rows = {name: [int(row) for row in split["source_row"][:]] for name, split in job.splits.items()}
        run_folder.write_whole(folder / run_folder.SPLITS, json.dumps(rows) + "\n")
    return state, checkpoint, path.read_text(encoding="utf-8")


def _train(
    job: _PreparedRun, arguments: TrainingArguments, resumed_from: Path | None
) -> tuple[LongSeqTrainer, dict[str, float] | None]:
    """Train to the end; the trainer with the chosen weights, and their test metrics, if these are wanted."""
    stop = callbacks.StopOnSignal(job.tell)
    progress = ProgressReport(job.folder.name, job.listener, job.metric)
    trainer = LongSeqTrainer(
        model=job.model,
        args=arguments,
        train_dataset=job.train,
        eval_dataset=job.data.validation,
        ssm_learning_rate=job.section.ssm_learning_rate,
        callbacks=[WallClock(), progress, stop, callbacks.StopOnNaN(job.section.section), *job.callbacks],
        **job.trainer_parts,
    )
    trainer.remove_callback(PrinterCallback)
    try:
        with stop:
            if job.steps:
                trainer.train(resume_from_checkpoint=str(resumed_from) if resumed_from else None)
            else:  # the control of a pretraining that leaves the weights as they are
                trainer.evaluate()
        if job.test is None or not job.score_test:
            return trainer, None
        return trainer, metrics_without_prefix(trainer.evaluate(job.test, metric_key_prefix="test"), "test")
    except ValueError:
        # Bad data found in the first batches: a folder with nothing to go on from would only be in the way.
        if distributed.is_main() and checkpoints.last_checkpoint(job.folder) is None:
            run_folder.empty_folder(job.folder)
        raise


def _result(
    job: _PreparedRun, trainer: LongSeqTrainer, flops: float | None, test_metrics: dict[str, float] | None
) -> dict[str, Any]:
    """The content of `metrics.json`; `flops` are those of one example."""
    examples_seen = job.steps * job.section.global_batch_size
    known = trainer.callback_handler.callbacks  # the clock may be one that a checkpoint kept
    result = {
        **run_folder.read_resolved(job.folder)["run"],
        "task": job.settings["data"]["task"],
        "arch": job.settings["model"]["arch"],
        "metric": job.metric,
        "validation": best_validation(trainer),
        **({} if test_metrics is None else {"test": test_metrics}),
        "best_step": trainer.state.best_global_step or 0,
        "steps": job.steps,
        "train_examples": len(job.train),
        "examples_seen": examples_seen,
        "flops": None if flops is None else flops * examples_seen,
        "num_parameters": trainer.model.num_parameters(),
        "wall_seconds": round(next(one for one in known if isinstance(one, WallClock)).seconds, 3),
        **job.extra,
    }
    return result if job.test is None else {**result, **_chance(job, result)}


def _finish(
    trainer: LongSeqTrainer, model: PreTrainedModel, folder: Path, result: dict[str, Any], spec: TaskSpec
) -> None:
    """Save the chosen model, what prepares its inputs, and the records; `metrics.json`, the mark of a finished run,
    comes last."""
    model.save_pretrained(folder)
    # A text that a model is to continue must not be closed.
    processor = task_processor(spec, not model.can_generate(), model.config)
    if processor is not None:
        processor.save_pretrained(folder)
    history = [
        entry for entry in trainer.state.log_history if "train_runtime" not in entry and "test_loss" not in entry
    ]
    run_folder.write_json(folder / run_folder.HISTORY, history)
    for path in folder.iterdir():
        if path.is_file():
            run_folder.sync(path)  # the mark of a finished run must not reach the disk before its weights
    run_folder.write_json(folder / run_folder.METRICS, result)
    shutil.rmtree(folder / run_folder.CHECKPOINTS, ignore_errors=True)


def _chance(job: _PreparedRun, result: dict[str, Any]) -> dict[str, Any]:
    """Whether a classifier is right no more often than one that always says the most frequent class."""
    accuracy = result["validation"].get("accuracy")
    if job.data.spec.problem_type != "single_label_classification" or accuracy is None:
        return {}
    examples = len(job.data.validation)
    chance = float(np.unique(build.all_labels(job.data.validation), return_counts=True)[1].max() / examples)
    stuck = callbacks.at_chance(accuracy, chance, examples)
    if stuck and job.steps > FEWEST_STEPS:
        remedy = "" if "init_from" in job.settings["run"] else ", or pretrain first (hf-longseq spt)"
        job.tell(
            job.steps,
            f"stuck at chance: validation accuracy {accuracy:.3f}, the most frequent class alone gives {chance:.3f} "
            f"({examples} examples); give it more steps (now {job.steps}) or another {job.section.section}."
            f"learning_rate (now {job.section.learning_rate:g}){remedy}",
        )
    return {"chance": chance, "stuck_at_chance": stuck}


def best_validation(trainer: LongSeqTrainer) -> dict[str, float]:
    """Validation metrics of the checkpoint that was chosen."""
    for entry in trainer.state.log_history:
        if entry["step"] == (trainer.state.best_global_step or 0) and "eval_loss" in entry:
            return metrics_without_prefix(entry, "eval")
    return {}


def metrics_without_prefix(metrics: dict[str, Any], prefix: str) -> dict[str, float]:
    timing = ("runtime", "samples_per_second", "steps_per_second", "model_preparation_time")
    named = {key.removeprefix(f"{prefix}_"): value for key, value in metrics.items() if key.startswith(f"{prefix}_")}
    return {key: value for key, value in named.items() if key not in timing}
