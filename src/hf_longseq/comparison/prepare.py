# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""What a comparison looks at before its first run: sizes of the data, operations of the models, mistakes in either."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from hf_longseq.comparison.plan import Run
from hf_longseq.data.task import TaskSpec
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training import run_folder
from hf_longseq.training.arguments import DataSection
from hf_longseq.training.assemble import collators_and_metrics, configuration, fresh_model, head_class
from hf_longseq.training.flops import training_flops
from hf_longseq.training.recipe import Recipe
from hf_longseq.training.run import TaskData, load_data
from hf_longseq.training.run_folder import RUNS


class DataCache:
    """Data by their section, so that runs on the same data load them once."""

    def __init__(self):
        self._loaded: dict[str, TaskData] = {}
        self._flops: dict[str, float | None] = {}

    def load(self, section: DataSection) -> TaskData:
        """The data of a section in which the planner has put the seed of the labelled subset."""
        key = repr(section)
        if key not in self._loaded:
            self._loaded[key] = load_data(section)
        return self._loaded[key]

    def count(self, section: DataSection) -> tuple[int, int]:
        """Numbers of pretraining inputs and of labelled examples."""
        data = self.load(section)
        return len(data.pretrain), len(data.labelled)

    def flops(self, recipe: Recipe, phase: str) -> float | None:
        """Operations of training on one example, counted on the first batch as in a run."""
        data, pretraining = self.load(recipe.data), phase == "pretrain"
        section = getattr(recipe, phase)
        rows = data.pretrain if pretraining else data.labelled
        micro = min(section.per_device_train_batch_size or section.examples_per_step, len(rows))
        key = repr((recipe.model, recipe.data, recipe.pretrain if pretraining else None, micro))
        if key not in self._flops:
            head, config, collator = _phase_parts(recipe, phase, data.spec)
            with torch.random.fork_rng():
                model = fresh_model(head, config)
            device = torch.accelerator.current_accelerator() or torch.device("cpu")
            self._flops[key] = training_flops(model, collator, [rows[row] for row in range(micro)], device)
        return self._flops[key]


def _phase_parts(recipe: Recipe, phase: str, spec: TaskSpec) -> tuple[type, Any, Any]:
    """The Auto class and the configuration of a phase's model, and the collator of its evaluation."""
    settings = getattr(recipe, phase)
    training, evaluation, _ = collators_and_metrics(settings, spec)
    return head_class(settings, spec), configuration(recipe.model, settings, spec), evaluation or training


def check_models(runs: Sequence[Run], data: DataCache) -> None:
    """Build every model of the plan without memory: a mistake in the last must not show after hours of the first."""
    different = {repr((run.recipe.model, run.recipe.pretrain.objective, run.phase)): run for run in reversed(runs)}
    for run in reversed(different.values()):
        head, config, _ = _phase_parts(run.recipe, run.phase, data.load(run.recipe.data).spec)
        with torch.device("meta"):
            fresh_model(head, config)


def check_held_out(output_dir: Path, data: TaskData, separate: bool) -> None:
    """Raise if a run in the folder of a comparison was chosen or scored on other data: a row is of one test split.

    Where validation is not a `separate` split, every seed has its own.
    """
    known = sorted((output_dir / RUNS).glob(f"*/{run_folder.DATA}"))
    splits = {"test": data.test, **({"validation": data.validation} if separate else {})} if known else {}
    now = run_folder.data_record(splits, data.spec, {})["splits"]
    for path in known:
        then = run_folder.read_json(path)["splits"]
        if any(then.get(name, record) != record for name, record in now.items()):
            raise HfLongSeqError(
                f"the data of task {data.spec.name!r} are not those with which {path.parent} was made: restore them, "
                "choose another output_dir, or start again with --overwrite."
            )
