"""Results folders made by hand: what `compare` leaves, without training."""

import json

import pandas as pd

from hf_longseq.comparison.results import COLUMNS
from hf_longseq.comparison.scores import read_results
from hf_longseq.comparison.statistics import arm_means


def arms_of(folder):
    """The arms of a comparison, in the order of its table, with what is not recorded as None."""
    means = arm_means(read_results([str(folder)]).scores)
    return means.astype(object).where(means.notna(), None).to_dict("records")


def row(architecture="s4", arm="scratch", values=(0.5, 0.52, 0.51), **more):
    """The lines of an arm, in one: columns of `scores.csv`, of which a list has a value per seed."""
    pretrained = not arm.startswith("scratch")
    return {
        "architecture": architecture, "arm": arm, "labels": 1000, "seed": list(range(len(values))),
        "value": list(values), "tuning": False, "chosen": True, "pretrain_steps": 20 * pretrained,
        "finetune_steps": 50, "scratch": "scratch" if pretrained else None,
        "scratch_tied": "scratch-tied" if pretrained else None,
    } | more  # fmt: skip


def folder_of(path, rows, task="listops", metric="accuracy", data=None, **more):
    path.mkdir(parents=True, exist_ok=True)
    lines = []
    for one in rows:
        for place, seed in enumerate(one["seed"]):
            line = {name: value[place] if isinstance(value, list) else value for name, value in one.items()}
            line = {"task": task, "data": data or task, "metric": metric, "run": f"runs/{one['arm']}-s{seed}", **line}
            splits = ["validation"] if line["tuning"] else ["validation", "test"]
            lines += [line | {"split": split, "seed": seed} for split in splits]
    pd.DataFrame(lines).reindex(columns=COLUMNS).to_csv(path / "scores.csv", index=False)
    results = {"task": task, "metric": metric, "greater_is_better": metric != "rmse", **more}
    (path / "results.json").write_text(json.dumps(results))
    return str(path)


def fair(values, tied, architecture="s4", converged=True, **more):
    """Arms from scratch, of equal budget and after masked pretraining, all that a verdict asks for."""
    shared = {"subset_seed": list(range(len(values))), **more}
    return [
        row(architecture, "scratch", [value - 0.3 for value in tied], **shared),
        row(architecture, "scratch-tied", tied, finetune_steps=70, converged=converged, **shared),
        row(architecture, "spt-masked", values, converged=True, **shared),
    ]  # fmt: skip
