"""Results folders made by hand: what `compare` leaves, without training."""

import json


def row(arch="s4", init="scratch", values=(0.5, 0.52, 0.51), **more):
    pretrained = not init.startswith("scratch")
    return {
        "arch": arch, "init": init, "objective": init.split("@")[0].partition("-")[2] if pretrained else None,
        "seeds": list(range(len(values))), "values": list(values), "validation_values": list(values),
        "train_examples": 1000, "pretrain_steps": 20 * pretrained, "finetune_steps": 50,
        "scratch": "scratch" if pretrained else None, "scratch_tied": ["scratch-tied"] if pretrained else [],
    } | more  # fmt: skip


def folder_of(path, rows, task="listops", metric="accuracy", **more):
    path.mkdir(parents=True, exist_ok=True)
    (path / "results.json").write_text(json.dumps({"task": task, "metric": metric, "rows": rows} | more))
    return str(path)


def fair(values, tied, arch="s4", converged=True, **more):
    """Rows of scratch, equal budget and masked pretraining, all that a verdict asks for."""
    seeds = {"subset_seeds": list(range(len(values))), **more}
    return [
        row(arch, "scratch", [value - 0.3 for value in tied], **seeds),
        row(arch, "scratch-tied", tied, finetune_steps=70, converged=[converged] * len(tied), **seeds),
        row(arch, "spt-masked", values, converged=[True] * len(values), **seeds),
    ]  # fmt: skip
