# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`spt`: the same model from scratch and after self-pretraining, under the same budget, over several seeds.

Three arms per architecture and seed, with P steps of pretraining and F steps of fine-tuning:

    scratch        F supervised steps
    spt            P steps of denoising the same inputs, then F supervised steps
    scratch-tied   P + F supervised steps: what the labels alone make of the steps that pretraining took

Every run has its own folder under `runs/` and is never repeated once finished, so an interrupted comparison goes on.
"""

import os
import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from hf_longseq.errors import HfLongSeqError, did_you_mean
from hf_longseq.metrics import greater_is_better
from hf_longseq.training import manifest
from hf_longseq.training.assembly import (
    CLASSIFIER,
    TaskData,
    build_config,
    build_model,
    classification_parts,
    denoising_parts,
    load_data,
)
from hf_longseq.training.phases import finetune, pretrain
from hf_longseq.training.progress import Listener, silent
from hf_longseq.training.recipe import Recipe, joint_settings

INITS = ("scratch", "spt", "scratch-tied")
RESULTS = "results.json"
BEST = "best"
# Shares of one number are easier to read as per cent.
PERCENT = ("accuracy", "f1")


@dataclass(frozen=True)
class Arm:
    """One line of the plan: an architecture, how it starts, a seed."""

    arch: str
    init: str
    seed: int

    @property
    def name(self) -> str:
        """Name of the run and of its folder."""
        return f"{self.arch}-{self.init}-s{self.seed}"


@dataclass(frozen=True)
class Comparison:
    """The result of `spt`: the content of `results.json`, and where the best pretrained classifier was put."""

    output_dir: Path
    results: dict[str, Any]
    best: Path | None

    def table(self) -> str:
        """The results as text, one line per arm."""
        return results_table(self.results)


def spt(
    recipes: Recipe | Sequence[Recipe],
    output_dir: str | os.PathLike,
    *,
    seeds: Sequence[int] = (0,),
    inits: Sequence[str] = INITS,
    jobs: int = 1,
    overwrite: bool = False,
    listener: Listener = silent,
) -> Comparison:
    """Run all arms, then write `results.json`, the plots and the best self-pretrained classifier.

    Args:
        recipes: One recipe per architecture, all on the same data.
        output_dir: A new folder, or that of the same comparison, which then goes on.
        seeds: One run of each arm per seed.
        inits: Which of the arms to run.
        jobs: Runs at a time, each in its own process with its share of the processor's threads.
        overwrite: Delete a comparison that the folder holds, and start again.
        listener: Told the progress of all runs.

    Raises:
        HfLongSeqError: For a wrong setting, before anything is trained or written.
    """
    recipes = [recipes] if isinstance(recipes, Recipe) else list(recipes)
    output_dir = Path(output_dir)
    by_arch = _checked(recipes, seeds, inits, jobs)
    data = load_data(recipes[0].data)
    for recipe in recipes:  # a mistake in the last architecture must not show after hours of the first
        with torch.device("meta"):
            build_model(CLASSIFIER, build_config(recipe, data.spec))
        denoising_parts(recipe, data.spec, seed=0)
    classification_parts(data.spec)

    settings = {
        **joint_settings(recipes),
        "run": {"phase": "spt", "seeds": list(seeds), "inits": list(inits)},
    }
    if not overwrite:
        _admit_extension(output_dir, settings)
    manifest.claim_folder(output_dir, settings, overwrite, finished=RESULTS)
    arms = [Arm(arch, init, seed) for seed in seeds for arch in by_arch for init in INITS if init in inits]
    steps = {arm: sum(arm_steps(by_arch[arm.arch], data, arm.init)) for arm in arms}
    listener = _tables_once(listener, list(by_arch))
    listener("", 0, sum(steps.values()), None)
    if jobs == 1:
        for arm in arms:
            run_arm(arm, by_arch[arm.arch], output_dir, listener, data)
    else:
        from hf_longseq.training.jobs import run_in_processes

        # The longest runs first, so that no process is left alone with one at the end.
        run_in_processes(sorted(arms, key=lambda arm: -steps[arm]), by_arch, output_dir, jobs, listener)
    return summarise(output_dir, arms, by_arch, data)


def _checked(recipes: list[Recipe], seeds: Sequence[int], inits: Sequence[str], jobs: int) -> dict[str, Recipe]:
    by_arch = {recipe.model.arch: recipe for recipe in recipes}
    for init in inits:
        if init not in INITS:
            raise HfLongSeqError(f"inits holds {init!r}{did_you_mean(init, INITS)}: choose from {', '.join(INITS)}.")
    if not recipes or not seeds or not inits:
        raise HfLongSeqError("a comparison needs at least one architecture, one seed and one arm: name them.")
    if len(by_arch) < len(recipes) or len(set(seeds)) < len(seeds):
        raise HfLongSeqError(f"an architecture or a seed (seeds {list(seeds)}) is named twice: name each once.")
    if any(recipe.data != recipes[0].data for recipe in recipes):
        raise HfLongSeqError("the data section differs between architectures: compare them on the same data.")
    if jobs < 1:
        raise HfLongSeqError(f"jobs is {jobs}: give the number of runs at a time, 1 or more.")
    return by_arch


def _admit_extension(output_dir: Path, settings: dict[str, Any]) -> None:
    """More seeds or arms may be added to a comparison in its folder; what is finished there stays."""
    found = manifest.read_resolved(output_dir)
    if found is None or manifest.first_difference({**found, "run": None}, {**settings, "run": None}):
        return
    wider = all(set(found["run"].get(name, [])) <= set(settings["run"][name]) for name in ("seeds", "inits"))
    if wider and found["run"].get("phase") == "spt":
        manifest.write_yaml(output_dir / manifest.RESOLVED, settings)


def arm_steps(recipe: Recipe, data: TaskData, init: str) -> tuple[int, int]:
    """Steps of pretraining and of fine-tuning that an arm takes."""
    pretraining = recipe.pretrain.steps(len(data.pretrain))
    if init == "spt":
        return pretraining, recipe.finetune.steps(len(data.labelled))
    supervised = recipe.scratch.steps(len(data.labelled))
    return 0, supervised + (pretraining if init == "scratch-tied" else 0)


def _tables_once(listener: Listener, archs: list[str]) -> Listener:
    """Pass on what is said of a model and its optimiser, the only text of several lines, once per architecture."""
    told: set[str] = set()

    def tell(label: str, step: int, total: int, text: str | None) -> None:
        if text and "\n" in text:
            arch = next(arch for arch in archs if label.startswith(f"{arch}-"))
            text = None if arch in told else text
            told.add(arch)
        listener(label, step, total, text)

    return tell


def run_arm(arm: Arm, recipe: Recipe, output_dir: Path, listener: Listener = silent, data: TaskData | None = None):
    """Run one arm into `output_dir/runs`; finished runs are not repeated."""
    data = data or load_data(recipe.data)
    common = {"seed": arm.seed, "listener": listener, "data": data}
    runs = output_dir / "runs"
    if arm.init == "spt":
        pretrained = pretrain(recipe, runs / f"{arm.arch}-pretrain-s{arm.seed}", **common)
        return finetune(recipe, runs / arm.name, init_from=pretrained.output_dir, **common)
    if arm.init == "scratch-tied":
        _, steps = arm_steps(recipe, data, arm.init)
        recipe = replace(recipe, scratch=replace(recipe.scratch, max_steps=steps))
    return finetune(recipe, runs / arm.name, init=arm.init, **common)


def summarise(output_dir: Path, arms: list[Arm], by_arch: dict[str, Recipe], data: TaskData) -> Comparison:
    """Collect the finished runs into `results.json`, plots and `best`."""
    metric = data.spec.metric
    groups: dict[tuple[str, str], list[Arm]] = {}
    for arm in arms:
        groups.setdefault((arm.arch, arm.init), []).append(arm)
    rows = []
    for (arch, init), members in groups.items():
        found = [manifest.read_json(output_dir / "runs" / arm.name / manifest.METRICS) for arm in members]
        seconds = [run["wall_seconds"] + _pretraining_seconds(output_dir, run, arch) for run in found]
        values = [metrics["test"][metric] for metrics in found]
        pretraining, supervised = arm_steps(by_arch[arch], data, init)
        rows.append(
            {
                "arch": arch,
                "init": init,
                "objective": by_arch[arch].pretrain.objective if init == "spt" else None,
                "seeds": [arm.seed for arm in members],
                "values": values,
                "mean": statistics.fmean(values),
                "std": statistics.stdev(values) if len(values) > 1 else 0.0,
                "train_examples": len(data.labelled),
                "pretrain_steps": pretraining,
                "finetune_steps": supervised,
                "wall_seconds": round(statistics.fmean(seconds), 2),
            }
        )
    results = {
        "task": data.spec.name,
        "metric": metric,
        "rows": rows,
        "environment": manifest.read_json(output_dir / "runs" / arms[0].name / manifest.ENVIRONMENT),
    }
    best = keep_best(output_dir, arms, metric)
    manifest.write_json(output_dir / RESULTS, results)
    return Comparison(output_dir, results, best)


def _pretraining_seconds(output_dir: Path, run: dict[str, Any], arch: str) -> float:
    if run["init"] != "spt":
        return 0.0
    pretraining = output_dir / "runs" / f"{arch}-pretrain-s{run['seed']}"
    return manifest.read_json(pretraining / manifest.METRICS)["wall_seconds"]


def keep_best(output_dir: Path, arms: list[Arm], metric: str) -> Path | None:
    """Copy the self-pretrained classifier with the best validation metric to `best`; without an spt arm, none."""
    candidates = [arm for arm in arms if arm.init == "spt"]
    if not candidates:
        return None

    def validation(arm: Arm) -> float:
        value = manifest.read_json(output_dir / "runs" / arm.name / manifest.METRICS)["validation"][metric]
        return value if greater_is_better(metric) else -value

    source = output_dir / "runs" / max(candidates, key=validation).name
    manifest.replace_folder(output_dir / BEST, lambda fresh: shutil.copytree(source, fresh, dirs_exist_ok=True))
    return output_dir / BEST


def results_table(results: dict[str, Any]) -> str:
    """Rows of `results.json` as aligned text; accuracies in per cent, mean ± standard deviation over the seeds."""
    metric = results["metric"]
    scale, unit = (100.0, " %") if metric in PERCENT else (1.0, "")
    digits = 1 if metric in PERCENT else 4
    rows = results["rows"]
    examples = sorted({row["train_examples"] for row in rows})
    head = (
        f"{results['task']}: {metric}{unit} on the test split, mean ± std over seeds "
        f"{' '.join(map(str, rows[0]['seeds']))}, {'/'.join(f'{n:,}' for n in examples)} labelled examples"
    )
    lines = [head, ""]
    lines.append(
        f"{'arch':<14}{'init':<14}{'objective':<11}{'pretrain':>9}{'finetune':>10}{metric:>18}{'seconds':>10}"
    )
    for row in rows:
        value = f"{scale * row['mean']:.{digits}f}"
        if len(row["values"]) > 1:
            value += f" ± {scale * row['std']:.{digits}f}"
        lines.append(
            f"{row['arch']:<14}{row['init']:<14}{row['objective'] or '-':<11}{row['pretrain_steps']:>9}"
            f"{row['finetune_steps']:>10}{value:>18}{row['wall_seconds']:>10.1f}"
        )
    return "\n".join(lines)
