# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""One run: `pretrain` on a task's inputs, or `finetune` on its labels, into a folder of its own.

    recipe = Recipe.load("smnist", {"model": {"arch": "dlr"}})
    first = pretrain(recipe, "runs/pretrained")
    second = finetune(recipe, "runs/classifier", init_from=first.output_dir)
    AutoModelForSequenceClassification.from_pretrained(second.output_dir)

The best checkpoint is chosen on the validation split; the test split is read once, after that choice. A run that was
interrupted goes on when it is started again, and one that is finished is not repeated.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PrinterCallback, TrainerCallback, set_seed

from hf_longseq.data.collators import DataCollatorForMaskedDenoising, MaskEpochCallback
from hf_longseq.data.processors import task_processor
from hf_longseq.data.task import TaskSpec
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training import checkpoints, manifest, processes, survival
from hf_longseq.training.arguments import PhaseSection, check_seed
from hf_longseq.training.assembly import (
    CLASSIFIER,
    TaskData,
    build_config,
    build_model,
    classification_parts,
    denoising_parts,
    label_statistics,
    load_data,
    pretraining_class,
    training_arguments,
)
from hf_longseq.training.flops import training_flops
from hf_longseq.training.foreign_weights import start_from_weights
from hf_longseq.training.progress import Listener, silent
from hf_longseq.training.recipe import Recipe
from hf_longseq.training.tracking import tracker
from hf_longseq.training.trainer import LongSeqTrainer, ProgressReport, WallClock
from hf_longseq.training.transfer import TransferReport, load_pretrained_classifier


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
    data: TaskData | None = None,
) -> RunResult:
    """Train a model to restore (or to predict) the inputs of the task's training split; labels are never read.

    Args:
        recipe: Settings; its `pretrain` section is used.
        output_dir: A new folder, or one in which the same run was interrupted.
        seed: Seed of weights, order, masks and dropout.
        overwrite: Delete a run that the folder holds, and start again.
        listener: Told the progress, see `progress.py`.
        data: The loaded data of `recipe.data`, to load them once for several runs.

    Raises:
        HfLongSeqError: If a setting, the data or the folder is not fit for the run; nothing is written then.
    """
    check_seed(seed)
    processes.join()
    data = data or processes.main_first(lambda: load_data(recipe.data))
    config = build_config(recipe, data.spec)
    set_seed(seed)
    model = build_model(pretraining_class(recipe, data.spec), config)
    report = start_from_weights(model, recipe, data.spec)
    redraw_parameters(model, recipe.model.init_normal)
    collator, eval_collator, metrics = denoising_parts(recipe, data.spec, seed)
    settings = recipe.to_dict()
    run = {"phase": "pretrain", "seed": seed}
    return _run(
        Path(output_dir),
        {**{name: settings[name] for name in ("model", "data", "pretrain")}, "run": run},
        model=model,
        section=recipe.pretrain,
        train=data.pretrain,
        data=data,
        metric="loss",
        callbacks=[MaskEpochCallback(collator)] if isinstance(collator, DataCollatorForMaskedDenoising) else [],
        overwrite=overwrite,
        listener=listener,
        trainer_parts={"data_collator": collator, "eval_data_collator": eval_collator, "eval_metrics": metrics},
        extra=_transferred(report),
    )


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
    data: TaskData | None = None,
) -> RunResult:
    """Train a classifier (or regressor) on the labelled subset, from a pretrained checkpoint or from scratch.

    Args:
        recipe: Settings; the `finetune` section is used, or the `scratch` section without `init_from`.
        output_dir: A new folder, or one in which the same run was interrupted.
        init_from: Folder of a pretrained model; None starts from scratch.
        init: Name of the arm in reports; by default "spt" or "scratch".
        score_test: Whether to score the test split at the end; without, the run is a candidate for a choice.
        seed, overwrite, listener, data: As for `pretrain`.

    Raises:
        HfLongSeqError: As for `pretrain`, and if the checkpoint is of another architecture, size or task.
    """
    check_seed(seed)
    processes.join()
    data = data or processes.main_first(lambda: load_data(recipe.data))
    config = build_config(recipe, data.spec, classifier=True)
    section = recipe.finetune if init_from is not None else recipe.scratch
    scale = label_statistics(data.labelled, data.spec)
    for name, numbers in scale.items():
        setattr(config, name, numbers)
    collator, metrics = classification_parts(data.spec, scale.get("label_scale"))
    set_seed(seed)
    run: dict[str, Any] = {
        "phase": "finetune",
        "init": init or ("scratch" if init_from is None else "spt"),
        "seed": seed,
    }
    if init_from is None:
        model = build_model(CLASSIFIER, config)
        report = start_from_weights(model, recipe, data.spec)
        redraw_parameters(model, recipe.model.init_normal)
    else:
        model, report = load_pretrained_classifier(init_from, config, task=recipe.data.task)
        run["init_from"] = manifest.path_from(output_dir, init_from)
        run["init_weights"] = manifest.weights_hash(init_from)
    settings = recipe.to_dict()
    return _run(
        Path(output_dir),
        {"model": settings["model"], "data": settings["data"], "finetune": _plain(section), "run": run},
        model=model,
        section=section,
        train=data.labelled,
        data=data,
        metric=data.spec.metric,
        callbacks=[],
        overwrite=overwrite,
        listener=listener,
        trainer_parts={"data_collator": collator, "eval_metrics": metrics},
        test=data.test,
        score_test=score_test,
        extra={
            **({"unit": data.spec.unit} if data.spec.unit else {}),
            **scale,
            **_transferred(report),
        },
    )


def _transferred(report: TransferReport | None) -> dict[str, Any]:
    """What `metrics.json` says of weights that were taken over."""
    if report is None:
        return {}
    return {"transfer": {"loaded": len(report.loaded), "new": report.new, "dropped": report.dropped}}


def redraw_parameters(model: PreTrainedModel, deviation: float | None) -> None:
    """Redraw every parameter from N(0, deviation), gains, embeddings and time steps included; None changes nothing.

    The ablation of a structured initialisation: what is left of an architecture once its state-space matrices start
    as noise (paper, the study of random initialisation). Drawn from torch's generator, which the run's seed has set.
    """
    if deviation is not None:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(0.0, deviation)


def _plain(section: PhaseSection) -> dict[str, Any]:
    return dict(vars(section))


def _run(folder: Path, settings: dict[str, Any], listener: Listener, **parts: Any) -> RunResult:
    """`_run_held`, with every other command kept out of the folder; of several processes one holds it and tells."""
    section = parts["section"]
    with tracker(section.report_to, section.section, folder), processes.holding(folder):
        return _run_held(folder, settings, listener=listener if processes.is_main() else silent, **parts)


def _run_held(
    folder: Path,
    settings: dict[str, Any],
    *,
    model,
    section: PhaseSection,
    train,
    data: TaskData,
    metric: str,
    callbacks: list[TrainerCallback],
    overwrite: bool,
    listener: Listener,
    trainer_parts: dict[str, Any],
    test=None,
    score_test: bool = True,
    extra: dict[str, Any] | None = None,
) -> RunResult:
    """Train, choose on validation, score the test split if there is one, and leave a finished run folder."""
    run = settings["run"]
    processes.check_enough(len(train))
    steps = section.steps(len(train))
    arguments = training_arguments(section, folder, steps=steps, seed=run["seed"], metric=metric)
    used = {"train": train, "validation": data.validation, **({"test": test} if test is not None else {})}
    record = manifest.data_record(used, data.spec, settings["data"])
    processes.check_same("the data", record["splits"], "copy the same files to every machine.")
    state, resumed_from, resolved = processes.by_main(lambda: _open_folder(folder, settings, record, used, overwrite))
    processes.check_folder_is_shared(folder, manifest.RESOLVED, resolved)
    if state == "finished":
        listener(folder.name, steps, steps, None)
        if processes.is_main():
            shutil.rmtree(folder / manifest.CHECKPOINTS, ignore_errors=True)  # a kill may have come before that
        return RunResult(folder, manifest.read_json(folder / manifest.METRICS))

    clock = WallClock()
    collate = trainer_parts.get("eval_data_collator") or trainer_parts["data_collator"]
    flops = None
    if arguments.process_index == 0:
        micro = min(arguments.per_device_train_batch_size, len(train))
        flops = training_flops(model, collate, [train[row] for row in range(micro)], arguments.device)
    use_cache = getattr(model.config, "use_cache", None)
    trainer = LongSeqTrainer(
        model=model,
        args=arguments,
        train_dataset=train,
        eval_dataset=data.validation,
        ssm_learning_rate=section.ssm_learning_rate,
        group_by_length=section.group_by_length,
        callbacks=[
            clock,
            ProgressReport(folder.name, listener, metric),
            stop := survival.StopOnSignal(lambda text: listener(folder.name, trainer.state.global_step, steps, text)),
            survival.StopOnNaN(section.section),
            *callbacks,
        ],
        **trainer_parts,
    )
    trainer.remove_callback(PrinterCallback)
    try:
        with stop:
            trainer.train(resume_from_checkpoint=str(resumed_from) if resumed_from else None)
        scored = test is not None and score_test
        test_metrics = (
            metrics_without_prefix(trainer.evaluate(test, metric_key_prefix="test"), "test") if scored else {}
        )
    except ValueError:
        # Bad data found in the first batches: a folder with nothing to go on from would only be in the way.
        if processes.is_main() and checkpoints.last_checkpoint(folder) is None:
            manifest.empty_folder(folder)
        raise
    if use_cache is not None:
        trainer.model.config.use_cache = use_cache  # the Trainer switches it off for training
    examples_seen = steps * section.global_batch_size
    result = {
        **run,
        "task": settings["data"]["task"],
        "arch": settings["model"]["arch"],
        "metric": metric,
        "validation": best_validation(trainer),
        **({"test": test_metrics} if scored else {}),
        "best_step": trainer.state.best_global_step,
        "steps": steps,
        "train_examples": len(train),
        "examples_seen": examples_seen,
        "flops": None if flops is None else flops * examples_seen,
        "num_parameters": trainer.model.num_parameters(),
        "wall_seconds": _wall_seconds(trainer),
        **(extra or {}),
    }
    if test is not None:
        result |= _chance(result, data, section, lambda text: listener(folder.name, steps, steps, text))
    model = trainer.whole_model()
    if trainer.is_world_process_zero():
        _finish(trainer, model, folder, result, data.spec)
    processes.wait()  # none may look for the result before it is there
    return RunResult(folder, result)


def _open_folder(
    folder: Path, settings: dict[str, Any], record: dict[str, Any], used: dict[str, Any], overwrite: bool
) -> tuple[str, Path | None, str]:
    """Claim a run's folder and record where it runs and on what: its state, the checkpoint to go on from, settings."""
    state = manifest.claim_folder(folder, settings, overwrite)
    resolved = (folder / manifest.RESOLVED).read_text(encoding="utf-8")
    if state == "finished":
        return state, None, resolved
    _check_same_data(folder, record)
    manifest.write_json(folder / manifest.ENVIRONMENT, manifest.environment())
    manifest.write_json(folder / manifest.DATA, record)
    if "source_row" in used["train"].column_names:
        manifest.write_splits(folder / manifest.SPLITS, used)
    return state, checkpoints.last_checkpoint(folder) if state == "resume" else None, resolved


def _wall_seconds(trainer: LongSeqTrainer) -> float:
    """Seconds of training over all resumes, by the clock that the checkpoints kept."""
    clocks = [callback for callback in trainer.callback_handler.callbacks if isinstance(callback, WallClock)]
    return round(clocks[0].seconds, 3)


def _finish(
    trainer: LongSeqTrainer, model: PreTrainedModel, folder: Path, result: dict[str, Any], spec: TaskSpec
) -> None:
    """Save the chosen model, what prepares its inputs, and the records; `metrics.json`, the mark of a finished run,
    comes last."""
    model.save_pretrained(folder)
    # A text that a model is to continue must not be closed.
    processor = task_processor(spec, add_eos=not model.can_generate())
    if processor is not None:
        processor.save_pretrained(folder)
    history = [
        entry for entry in trainer.state.log_history if "train_runtime" not in entry and "test_loss" not in entry
    ]
    manifest.write_json(folder / manifest.HISTORY, history)
    for path in folder.iterdir():
        if path.is_file():
            manifest.sync(path)  # the mark of a finished run must not reach the disk before its weights
    manifest.write_json(folder / manifest.METRICS, result)
    shutil.rmtree(folder / manifest.CHECKPOINTS, ignore_errors=True)


def _chance(result: dict[str, Any], data: TaskData, section: PhaseSection, tell) -> dict[str, Any]:
    """Whether a classifier is right no more often than one that always says the most frequent class."""
    accuracy = result["validation"].get("accuracy")
    if data.spec.problem_type != "single_label_classification" or accuracy is None:
        return {}
    examples = len(data.validation)
    chance = survival.chance_of(data.validation["labels"][:])
    stuck = survival.at_chance(accuracy, chance, examples)
    if stuck:
        tell(
            f"stuck at chance: validation accuracy {accuracy:.3f}, the most frequent class alone gives {chance:.3f} "
            f"({examples} examples); give it more steps (now {result['steps']}), another {section.section}."
            f"learning_rate (now {section.learning_rate:g}), or pretrain first (hf-longseq spt)"
        )
    return {"chance": chance, "stuck_at_chance": stuck}


def best_validation(trainer: LongSeqTrainer) -> dict[str, float]:
    """Validation metrics of the checkpoint that was chosen."""
    for entry in trainer.state.log_history:
        if entry["step"] == trainer.state.best_global_step and "eval_loss" in entry:
            return metrics_without_prefix(entry, "eval")
    return {}


def metrics_without_prefix(metrics: dict[str, Any], prefix: str) -> dict[str, float]:
    timing = ("runtime", "samples_per_second", "steps_per_second", "model_preparation_time")
    named = {key.removeprefix(f"{prefix}_"): value for key, value in metrics.items() if key.startswith(f"{prefix}_")}
    return {key: value for key, value in named.items() if key not in timing}


def _check_same_data(folder: Path, record: dict[str, Any]) -> None:
    """A run may only go on with the data it began with."""
    path = folder / manifest.DATA
    if path.is_file() and manifest.read_json(path)["splits"] != record["splits"]:
        raise HfLongSeqError(
            f"the data of task {record['task']!r} are not those with which the run in {folder} began: restore them, "
            "or start again with --overwrite."
        )
