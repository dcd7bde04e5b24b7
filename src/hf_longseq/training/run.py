# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""One run: `pretrain` on a task's inputs, or `finetune` on its labels, into a folder.

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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from datasets import concatenate_datasets
from transformers import PreTrainedModel, PrinterCallback

from hf_longseq.data.row_hashes import GROUP, INPUTS, ROW_HASH, count_trained_on, save_trained_on
from hf_longseq.data.task import TaskSpec, limit_examples, load_task
from hf_longseq.data.unlabelled import read_unlabelled, without_held_out
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training import callbacks, checkpoints, distributed, run_folder
from hf_longseq.training.arguments import DataSection, check_seed
from hf_longseq.training.assemble import all_labels
from hf_longseq.training.callbacks import tracker
from hf_longseq.training.config import FinetuneConfig
from hf_longseq.training.eval_metrics import metrics_without_prefix
from hf_longseq.training.flops import training_flops
from hf_longseq.training.hf_architectures import starts_from
from hf_longseq.training.progress import Listener, silent
from hf_longseq.training.recipe import Recipe
from hf_longseq.training.run_folder import environment
from hf_longseq.training.trainer import LongSeqTrainer, SPTTrainer
from hf_longseq.training.trainer_card import chosen_evaluation
from hf_longseq.training.transfer import local_checkpoint

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

# The share of the labels that `data.validation=labels` chooses on.
VALIDATION_SHARE = 0.2
# Validation and test are cut to the same examples in every run, so that scores can be compared.
HELD_OUT_SEED = 42
# Below this many steps a run is a trial of the settings: skip the warning about chance.
FEWEST_STEPS = 10


@dataclass(frozen=True)
class RunResult:
    """A finished run: its folder, for `from_pretrained`, and the content of its `metrics.json`."""

    output_dir: Path
    metrics: dict[str, Any]


@dataclass(frozen=True)
class TaskData:
    """The splits of a run: inputs of pretraining and of its evaluation, the labelled subset, validation and test."""

    spec: TaskSpec
    pretrain: "Dataset"
    pretrain_validation: "Dataset"
    labelled: "Dataset"
    validation: "Dataset"
    test: "Dataset"


def pretrain(
    recipe: Recipe,
    output_dir: str | os.PathLike,
    *,
    seed: int = 0,
    overwrite: bool = False,
    listener: Listener = silent,
    data: TaskData | None = None,
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
    data = _loaded(recipe, seed, data)
    data = replace(data, validation=data.pretrain_validation)
    rows = data.pretrain if train_dataset is None else train_dataset
    run = {"phase": "pretrain", "seed": seed}
    return _run(Job(Path(output_dir), recipe, "pretrain", run, rows, data, listener, metric="loss"), overwrite)


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
        init_from: Folder of a model, or a repository on the Hub; None starts from scratch.
        init: Name of the arm in reports; by default "spt", "scratch", or "pretrained" where the architecture comes
            with weights (`hf:REPOSITORY`).
        score_test: Whether to score the test split at the end; without, the run is a candidate for a choice.
        seed, overwrite, listener, data: As for `pretrain`.

    Raises:
        HfLongSeqError: As for `pretrain`, and if the checkpoint is of another architecture, size or kind of input.
    """
    data = _loaded(recipe, seed, data)
    run: dict[str, Any] = {"phase": "finetune", "init": init or "spt", "seed": seed}
    if init_from is None:
        run["init"] = init or ("pretrained" if starts_from(recipe.model) else "scratch")
    else:
        run["init_from"] = run_folder.path_from(output_dir, init_from)
        run["init_weights"] = run_folder.weights_hash(local_checkpoint(init_from)[0])
    section, rows = "scratch" if init_from is None else "finetune", data.labelled
    job = Job(Path(output_dir), recipe, section, run, rows, data, listener, data.spec.metric, init_from, score_test)
    return _run(job, overwrite)


def load_data(section: DataSection, seed: int = 0) -> TaskData:
    """Load the task and take the subsets that the section asks for, the same for the same section and seed.

    Where `subset_seed` is "run", the seed of the run draws the labelled subset.
    """
    splits, spec = load_task(section.task, **section.options)
    train = splits["train"]
    subset_seed = seed if section.subset_seed == "run" else section.subset_seed
    classes = spec.problem_type == "single_label_classification"
    by_class = classes and not spec.per_position
    option = "num_train_examples" if section.train_fraction is None else "train_fraction"
    labelled, limit = train, getattr(section, option)
    if limit is not None:
        labelled = limit_examples(train, limit, subset_seed, by_class, f"data.{option}")
        if classes:
            check_classes(labelled, spec)
    held_out = {}
    for name in ("validation", "test"):
        limit = getattr(section, f"num_{name}_examples")
        whole = splits[name]
        held_out[name] = whole if limit is None else limit_examples(whole, min(limit, len(whole)), seed=HELD_OUT_SEED)
    validation = held_out["validation"]
    if section.chosen_on == "labels":
        labelled, validation = _cut_labels(labelled, spec, by_class)
    if section.pretrain_inputs in ("unlabelled", "all+unlabelled"):
        pretrain = _with_unlabelled(section, splits, spec)
    elif isinstance(section.pretrain_inputs, int):  # in the order of the labelled subsets
        pretrain = limit_examples(train, section.pretrain_inputs, subset_seed, by_class, "data.pretrain_inputs")
    else:
        pretrain = {"subset": labelled, "all": train}[section.pretrain_inputs]
    return TaskData(spec, pretrain, held_out["validation"], labelled, validation, held_out["test"])


def _cut_labels(labelled: "Dataset", spec: TaskSpec, by_class: bool) -> "tuple[Dataset, Dataset]":
    """Labelled rows for training, and about a fifth of them, or of whole groups, for every choice."""
    count = max(round(VALIDATION_SHARE * len(labelled)), 1)
    ordered = limit_examples(labelled, len(labelled), HELD_OUT_SEED, by_class)
    groups = pd.Series(ordered[GROUP][:] if GROUP in ordered.column_names else range(len(ordered)))
    sizes = groups.value_counts(sort=False)  # in the order of their first rows
    chosen = sizes.index[: max(sizes.cumsum().searchsorted(count, "right"), 1)]
    if len(chosen) == len(sizes):
        what = "one labelled row" if len(labelled) == 1 else "the labelled rows of one group"
        raise HfLongSeqError(f"{what} cannot train and choose as well: label more, or add --data.validation separate.")
    choose = groups.isin(chosen).to_numpy()
    train, validation = (ordered.select(np.flatnonzero(mine)) for mine in (~choose, choose))
    if by_class:
        check_classes(train, spec)
    return train, validation


def _with_unlabelled(section: DataSection, splits: "DatasetDict", spec: TaskSpec) -> "Dataset":
    """Inputs without labels that equal no held-out input, after those of train if the section asks for all."""
    more = [splits["unlabelled"]] if "unlabelled" in splits else []
    if section.unlabelled is not None:
        names = ("input_column", "group_column", "cache_dir")
        options = {name: section.options[name] for name in names if name in section.options}
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
    kept = [without_held_out(rows, (splits["validation"], splits["test"])) for rows in more]
    unlabelled = concatenate_datasets([rows.select_columns(inputs) for rows in kept])
    return unlabelled if alone else concatenate_datasets([splits["train"].select_columns(inputs), unlabelled])


def check_classes(labelled: "Dataset", spec: TaskSpec) -> None:
    """Raise if the labelled subset lacks a class."""
    absent = set(range(len(spec.labels))) - set(np.unique(all_labels(labelled)).tolist())
    if absent:
        name = spec.labels[min(absent)]
        raise HfLongSeqError(
            f"the labelled subset of {len(labelled)} examples has none of class {name!r}: "
            "use more examples or another data.subset_seed."
        )


def _loaded(recipe: Recipe, seed: int, data: TaskData | None) -> TaskData:
    check_seed(seed)
    distributed.join()
    return data or distributed.main_first(lambda: load_data(recipe.data, seed))


@dataclass(frozen=True)
class Job:
    """One run to do.

    `section` is that of the recipe, `run` the entry of `resolved.yaml`, and `metric` chooses the best checkpoint on
    validation. `score_test` scores the test split.
    """

    folder: Path
    recipe: Recipe
    section: str
    run: dict[str, Any]
    train: "Dataset"
    data: TaskData
    listener: Listener
    metric: str
    init_from: str | os.PathLike | None = None
    score_test: bool = False

    @property
    def pretrains(self) -> bool:
        return self.section == "pretrain"

    @property
    def start(self) -> Path | None:
        return None if self.init_from is None else local_checkpoint(self.init_from)[0]

    @property
    def settings(self) -> FinetuneConfig:
        return getattr(self.recipe, self.section)

    @property
    def steps(self) -> int:
        return self.settings.steps(len(self.train))

    @property
    def splits(self) -> "dict[str, Dataset]":
        test = {} if self.pretrains else {"test": self.data.test}
        return {"train": self.train, "validation": self.data.validation, **test}

    def resolved(self, commit: str | None) -> dict[str, Any]:
        """The content of `resolved.yaml`, with the commit of the repository that the weights are from."""
        whole = self.recipe.to_dict()
        phase = {self.settings.section: self.settings.settings()}
        run = {**self.run, "weights_commit": commit} if commit else self.run
        return {"model": whole["model"], "data": whole["data"], **phase, "run": run}

    def tell(self, step: int, text: str | None) -> None:
        if distributed.is_main():
            self.listener(self.folder.name, step, self.steps, text)


def _run(job: Job, overwrite: bool) -> RunResult:
    """Train, choose on validation, score the test split if asked, and leave a finished run folder."""
    with (
        tracker(job.settings.report_to, job.settings.section, job.folder),
        run_folder.holding(job.folder) if distributed.is_main() else contextlib.nullcontext(),
    ):
        distributed.check_enough(len(job.train))
        stop = callbacks.StopOnSignal(job.tell)
        trainer = _trainer(job, stop)  # raises for wrong settings, before anything is written
        state, resumed_from = _open_folder(job, trainer, overwrite)
        if state == "finished":
            job.tell(job.steps, None)
            if distributed.is_main():  # a kill may have left them
                shutil.rmtree(job.folder / run_folder.CHECKPOINTS, ignore_errors=True)
            return RunResult(job.folder, run_folder.read_json(job.folder / run_folder.METRICS))
        collator = trainer.eval_data_collator or trainer.data_collator
        rows = job.train.select(range(min(trainer.args.per_device_train_batch_size, len(job.train))))
        # in every process: all compute batch norm together
        flops = training_flops(trainer.model, collator, rows, trainer.args.device)
        test_metrics = _train(job, trainer, stop, resumed_from)
        result = _result(job, trainer, flops, test_metrics)
        if trainer.use_cache is not None:
            trainer.model.config.use_cache = trainer.use_cache
        model = trainer.whole_model()
        if trainer.is_world_process_zero():
            save_trained_on(job.folder, job.train, job.start)
            _finish(trainer, model, job.folder, result)
        distributed.wait()  # for the result to be there
        return RunResult(job.folder, result)


def _trainer(job: Job, stop: callbacks.StopOnSignal) -> LongSeqTrainer:
    seed = job.run["seed"]
    arguments = job.settings.of_run(job.folder, steps=job.steps, seed=seed, metric=job.metric)
    progress = callbacks.ProgressReport(job.tell, job.metric)
    trainer = (SPTTrainer if job.pretrains else LongSeqTrainer)(
        model=job.recipe.model,
        args=arguments,
        train_dataset=job.train,
        eval_dataset=job.data.validation,
        spec=job.data.spec,
        init_from=job.init_from,
        callbacks=[callbacks.WallClock(), progress, stop, callbacks.StopOnNaN(job.settings.section)],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _open_folder(job: Job, trainer: LongSeqTrainer, overwrite: bool) -> tuple[str, Path | None]:
    """Claim the run's folder, in all processes alike: its state, and the checkpoint to resume from."""
    settings = job.resolved(trainer.transfer.commit if trainer.transfer else None)
    options = settings["data"] | {"validation": job.recipe.data.chosen_on}
    record = run_folder.data_record(job.splits, job.data.spec, options)
    distributed.check_same("the data", record["splits"], "copy the same files to every machine.")
    return distributed.by_main(lambda: _claim(job, settings, record, overwrite))


def _claim(job: Job, settings: dict[str, Any], record: dict[str, Any], overwrite: bool) -> tuple[str, Path | None]:
    """Record the settings, machine and data of a run."""
    folder = job.folder
    state = run_folder.claim_folder(folder, settings, overwrite)
    if state == "finished":
        return state, None
    begun = folder / run_folder.DATA
    if begun.is_file() and run_folder.read_json(begun)["splits"] != record["splits"]:
        raise HfLongSeqError(
            f"the data of task {record['task']!r} are not those with which the run in {folder} began: restore them, "
            "or start again with --overwrite."
        )
    checkpoint = checkpoints.newest_intact(folder / run_folder.CHECKPOINTS) if state == "resume" else None
    if checkpoint is None:
        # a new start takes the weights that are there now
        run_folder.write_yaml(folder / run_folder.RESOLVED, settings)
    run_folder.write_json(folder / run_folder.ENVIRONMENT, environment())
    run_folder.write_json(begun, record)
    if "source_row" in job.train.column_names:  # which rows of a user's own source are in which split
        rows = {name: [int(row) for row in split["source_row"][:]] for name, split in job.splits.items()}
        run_folder.write_whole(folder / run_folder.SPLITS, json.dumps(rows) + "\n")
    return state, checkpoint


def _train(
    job: Job, trainer: LongSeqTrainer, stop: callbacks.StopOnSignal, resumed_from: Path | None
) -> dict[str, float] | None:
    """Train or resume to the end; returns the test metrics of the chosen weights, if wanted."""
    try:
        with stop:
            if job.steps:
                trainer.train(resume_from_checkpoint=str(resumed_from) if resumed_from else None)
            else:  # the control: pretraining of no steps
                trainer.evaluate()
        if job.pretrains or not job.score_test:
            return None
        return metrics_without_prefix(trainer.evaluate(job.data.test, metric_key_prefix="test"), "test")
    except ValueError:
        # Bad data in the first batches: remove a folder without a checkpoint.
        if distributed.is_main() and checkpoints.newest_intact(job.folder / run_folder.CHECKPOINTS) is None:
            run_folder.empty_folder(job.folder)
        raise


def _result(
    job: Job, trainer: LongSeqTrainer, flops: float | None, test_metrics: dict[str, float] | None
) -> dict[str, Any]:
    """The content of `metrics.json`; `flops` are those of one example."""
    examples_seen = job.settings.examples_seen(job.steps, len(job.train))
    known = trainer.callback_handler.callbacks  # the clock may be one that a checkpoint kept
    config, spec = trainer.model.config, job.data.spec
    result = {
        **run_folder.read_yaml(job.folder / run_folder.RESOLVED)["run"],
        "task": job.recipe.data.task,
        "arch": job.recipe.model.arch,
        "metric": job.metric,
        "validation": metrics_without_prefix(chosen_evaluation(trainer), "eval"),
        **({} if test_metrics is None else {"test": test_metrics}),
        "best_step": trainer.state.best_global_step or 0,
        "steps": job.steps,
        "train_examples": len(job.train),
        "examples_seen": examples_seen,
        "flops": None if flops is None else flops * examples_seen,
        "num_parameters": trainer.model.num_parameters(),
        "wall_seconds": round(next(one for one in known if isinstance(one, callbacks.WallClock)).seconds, 3),
    }
    if not job.pretrains:
        scale = {name: getattr(config, name, None) for name in ("label_mean", "label_scale")}
        result |= {name: value for name, value in {"unit": spec.unit, **scale}.items() if value}
    if trainer.transfer:
        result["transfer"] = trainer.transfer.summary()
    if job.start and job.score_test and (seen := count_trained_on(job.start, job.data.test, "test")):
        result["test_examples_trained_on"] = seen
    return result if job.pretrains else {**result, **_chance(job, result)}


def _finish(trainer: LongSeqTrainer, model: PreTrainedModel, folder: Path, result: dict[str, Any]) -> None:
    """Save the chosen model, its processor and the records; last `metrics.json`, the mark of a finished run."""
    model.save_pretrained(folder)
    if trainer.processor is not None:
        trainer.processor.save_pretrained(folder)
    history = [
        entry for entry in trainer.state.log_history if "train_runtime" not in entry and "test_loss" not in entry
    ]
    run_folder.write_json(folder / run_folder.HISTORY, history)
    for path in folder.iterdir():
        if path.is_file():
            run_folder.sync(path)  # to the disk before the mark of a finished run
    run_folder.write_json(folder / run_folder.METRICS, result)
    shutil.rmtree(folder / run_folder.CHECKPOINTS, ignore_errors=True)


def _chance(job: Job, result: dict[str, Any]) -> dict[str, Any]:
    """Whether a classifier is at chance: as good as always naming the most frequent class."""
    accuracy = result["validation"].get("accuracy")
    if job.data.spec.problem_type != "single_label_classification" or accuracy is None:
        return {}
    examples = len(job.data.validation)
    chance = float(np.unique(all_labels(job.data.validation), return_counts=True)[1].max() / examples)
    stuck = callbacks.at_chance(accuracy, chance, examples)
    if stuck and job.steps > FEWEST_STEPS:
        remedy = "" if "init_from" in job.run else ", or pretrain first (hf-longseq spt)"
        job.tell(
            job.steps,
            f"stuck at chance: validation accuracy {accuracy:.3f}, the most frequent class alone gives {chance:.3f} "
            f"({examples} examples); give it more steps (now {job.steps}) or another {job.settings.section}."
            f"learning_rate (now {job.settings.learning_rate:g}){remedy}",
        )
    return {"chance": chance, "stuck_at_chance": stuck}
