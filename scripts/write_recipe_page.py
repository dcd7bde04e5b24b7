# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The page of the recipes in the documentation, written from the YAML files that ship with the package."""

from pathlib import Path

import torch

from hf_longseq import recipes
from hf_longseq.data.task import TASKS, describe_task
from hf_longseq.training.architectures import is_hf
from hf_longseq.training.assemble import configuration, fresh_model, head_class
from hf_longseq.training.config import FinetuneConfig, SPTConfig
from hf_longseq.training.recipe import Recipe, architectures_of, read_recipe
from write_task_pages import QUESTIONS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "recipes.md"


def recipe_page() -> str:
    """Markdown of the page: what stands before the tables stays, the tables are written anew."""
    lines = [PAGE.read_text(encoding="utf-8").partition("\n### ")[0]]
    rows: dict[str, list[str]] = {}
    for name in recipes.names():
        for arch in architectures_of(read_recipe(name)):
            recipe = Recipe.load(name, arch=arch)
            rows.setdefault(recipe.data.task, []).append(_row(name, arch, recipe))
    for task in (task for task in TASKS if task in rows):
        lines += [f"### {task}", "", QUESTIONS[task], ""]
        lines += ["| recipe | model | parameters | pretraining | fine-tuning | from scratch | causal instead |"]
        lines += ["|---|---|---|---|---|---|---|", *rows[task], ""]
    lines += ["The tables are written by `python scripts/write_recipe_page.py` from the recipes themselves."]
    return "\n".join(lines) + "\n"


def _foreign_row(name: str, arch: str, recipe: Recipe) -> str:
    """An architecture of transformers, which does one of the objectives."""
    weights = recipe.model.fields.get("pretrained")
    size = "as its weights"
    if not weights:
        with torch.device("meta"):
            spec = describe_task(recipe.data.task)
            config = configuration(recipe.model, recipe.finetune, spec)
            model = fresh_model(head_class(recipe.finetune, spec), config)
            size = _count(model.num_parameters())
    scratch = "the same" if recipe.scratch == recipe.finetune else _phase(recipe.scratch)
    model = f"{arch}, {weights or 'random weights'}"
    pretraining = f"{recipe.pretrain.objective}: {_phase(recipe.pretrain)}"
    return f"| `{name}` | {model} | {size} | {pretraining} | {_phase(recipe.finetune)} | {scratch} | – |"


def _row(name: str, arch: str, recipe: Recipe) -> str:
    fields, spec = recipe.model.fields, describe_task(recipe.data.task)
    if is_hf(arch):
        return _foreign_row(name, arch, recipe)
    with torch.device("meta"):
        config = configuration(recipe.model, recipe.finetune, spec)
        size = fresh_model(head_class(recipe.finetune, spec), config).num_parameters()
    model = f"{arch}, {fields.get('num_hidden_layers')} layers of {fields.get('hidden_size')}"
    masking = f"{recipe.pretrain.mask_ratio or spec.mask_ratio:.0%}, {_loss(recipe.pretrain, spec)}"
    scratch = "the same" if recipe.scratch == recipe.finetune else _phase(recipe.scratch)
    cells = [
        f"`{name}`",
        model,
        _count(size),
        f"{masking}: {_phase(recipe.pretrain)}",
        _phase(recipe.finetune),
        scratch,
        _causal(recipe, Recipe.load(name, arch=arch, objective="causal")),
    ]
    return f"| {' | '.join(cells)} |"


def _loss(section: SPTConfig, spec) -> str:
    levels = spec.num_levels if section.num_levels is None else section.num_levels
    return "CE" if spec.modality == "tokens" or levels else "L1"


def _phase(section: FinetuneConfig) -> str:
    budget = f"{section.max_steps:,} steps" if section.max_steps else f"{section.num_train_epochs:g}"
    return f"{budget} x {_rate(section.learning_rate)} x {section.global_batch_size}"


def _count(parameters: int) -> str:
    return f"{parameters / 1e6:.3g} M" if parameters >= 1e5 else f"{parameters / 1e3:.3g} k"


def _rate(number: float) -> str:
    mantissa, exponent = f"{number:.1e}".split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


def _causal(masked: Recipe, causal: Recipe) -> str:
    """What a causal run has different, besides the direction."""
    parts = [
        f"{key} {value}"
        for key, value in causal.model.fields.items()
        if key != "bidirectional" and value != masked.model.fields.get(key)
    ]
    for name in ("pretrain", "finetune"):
        one, other = vars(getattr(masked, name)), vars(getattr(causal, name))
        changed = {
            key: value for key, value in other.items() if value != one[key] and value not in ("masked", "causal")
        }
        parts += [
            f"{name} {key.replace('learning_rate', 'at')} {_rate(value) if isinstance(value, float) else value}"
            for key, value in changed.items()
        ]
    return ", ".join(parts)


if __name__ == "__main__":
    PAGE.write_text(recipe_page(), encoding="utf-8")
    print(f"{PAGE} written")
