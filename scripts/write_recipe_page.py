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

INTRODUCTION = """# Recipes

A recipe is one YAML file: model, data, and the phases `pretrain`, `finetune` and `scratch` (what differs from
`finetune` in a run from scratch). `hf-longseq recipes list` names them, `hf-longseq recipes show listops/s4` prints
one with its comments. The command line overrides any value:

```bash
hf-longseq spt --recipe listops/s4 --finetune.learning_rate 5e-4 --output_dir runs/listops-s4
hf-longseq spt --recipe listops/transformer --pretrain.objective causal --output_dir runs/listops-causal
hf-longseq spt --recipe listops/s4 --tiny --output_dir runs/trial   # toy sizes, seconds
hf-longseq spt --recipe listops/s4 --finetune.optim adafactor --pretrain.torch_compile true --output_dir runs/other
```

With `--task` or `--data` a recipe brings its model and phases to other data; its `data` section, the number of labels
included, stays behind.

`pretrain` is an `SPTConfig`, `finetune` and `scratch` are `FinetuneConfig`s: transformers' `TrainingArguments`, any
field of which may stand there. `global_batch_size` counts the examples of a step over all processes, from which the
accumulation follows, and `num_train_epochs` may take the place of `max_steps`. A mistyped name is an error that
suggests the right one.
Three groups are refused, with their reason: fields that a run sets to keep comparisons fair
(`gradient_accumulation_steps`, `dataloader_drop_last`, `label_smoothing_factor`), to keep its folder whole
(`save_strategy`, `save_steps`, `load_best_model_at_end`), and those with their own option (`seed`, `output_dir`).

In commands `--learning_rate`, `--num_train_epochs`, `--batch_size` (the global one), `--max_steps` and
`--per_device_train_batch_size` hold for every phase; `--pretrain.learning_rate` is of one. `--device cpu` leaves an
accelerator alone.

```yaml
model: {arch: s4, hidden_size: 64, num_hidden_layers: 2}
data: {task: listops}
pretrain: {objective: masked, span_length: 8, max_steps: 1000, optim: adamw_torch_fused}
finetune: {max_steps: 500, lr_scheduler_type: linear, bf16: true}
variants:
  transformer: {model: {arch: transformer, hidden_size: 128}}   # a model of its own, which a comparison takes too
  dlr: {pretrain: {ssm_learning_rate: 1.0e-4}}                  # for --arch dlr, which keeps the size of the model
  causal: {model: {pooling: last}}                              # for the causal objective
```

A recipe is for one architecture and one objective; `variants` holds named changes to it. Another `--arch` keeps
`hidden_size` and `num_hidden_layers` of the model, and the variant of its name. `--recipe` also takes the
`resolved.yaml` of a run, of a comparison, and of either by version 0.2.

## Where the values come from

1. What the paper tuned: learning rates, batches (of S4 and DLR), mask ratios, pooling.
2. What it leaves open (depth, width, decay, warm-up, epochs, batches of the Transformers): the configuration files of
   its official code, unless the first lines of a recipe say otherwise.
3. Our own choice for the rest, marked "not in the paper" in the recipe.

`transformer` is the model of the paper's Table 1 (sinusoidal positions, the sizes of Tay et al.),
`transformer-rotary` that of Table 2; outside of the Long Range Arena there is one Transformer, a rotary one. LRU, S5
and MEGA follow their own authors; the CNN has the size and the rates of S4.

## How all recipes differ from the official code

- Positions are masked with the paper's ratio; many official files leave masking off by default.
- Both phases have one model section; the official files of three tasks contradict each other.
- Weight decay spares biases, norms and the skip D. dt is trained with the rate of A and B, all of Lambda and W with
  one rate.
- Attention and batch norm skip padding. Every evaluation example counts. Masks of evaluation are fixed.
- Validation makes every choice: Text holds out a validation split, BIDMC is split by recording.
- The learning rate falls by a cosine where the official files wait for plateaus or halve it in stages.
- float32 throughout; `--finetune.bf16 true` and `--pretrain.bf16 true` are for GPUs.

The paper ended every phase after 24 hours on one GPU (Path-X and Speech Commands Transformers: five days on four),
so the epochs below are an upper bound. **The runs at full size are still to be done here.**

## Sequences of different lengths

`--pretrain.train_sampling_strategy group_by_length` (and `--finetune...`) makes batches of examples of similar
length, in an order that depends on seed and epoch alone. Of the positions in random batches of 32, 45% are padding on
ListOps and 46% on news articles of up to 4,096 bytes; grouped, 2% and 6%
(`benchmarks/results/cpu-epyc-1-thread-length-grouping.csv`). It is off in the recipes, because the paper
shuffles and batch norm would see batches of one length; with `--data` it is on.

## All recipes

`2 x 3e-3 x 32` would read: 2 epochs at learning rate 3e-3 in batches of 32; `steps` says so where the budget is
given in steps. Pretraining shows the masked ratio and the loss, CE for cross-entropy over tokens or grey levels,
L1 otherwise. The parameters are those of the classifier.
"""


def recipe_page() -> str:
    """Markdown of the page."""
    lines = [INTRODUCTION]
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
    page = Path(__file__).resolve().parent.parent / "docs" / "recipes.md"
    page.write_text(recipe_page(), encoding="utf-8")
    print(f"{page} written")
