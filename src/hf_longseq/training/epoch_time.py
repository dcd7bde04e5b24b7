# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Minutes per epoch of recipes: one optimiser step from scratch on inputs of the task's form, times the steps.

Inputs are random, so that no data are needed; reading data and evaluating come on top in a real run. Sequences have
the task's full length, to which the longest of a batch comes close.
"""

import gc
import statistics
import time
from collections.abc import Iterable
from typing import Any

import pandas as pd
import torch

from hf_longseq.data.task import TASKS, TaskSpec, describe_task
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.assemble import configuration, fresh_model, head_class
from hf_longseq.training.recipe import Recipe


def epoch_times(
    names: Iterable[str],
    device: str = "cpu",
    batch: int | None = None,
    length: int | None = None,
    repeats: int = 3,
) -> list[dict[str, Any]]:
    """Measure one optimiser step of the `scratch` phase of each recipe, on a GPU with bf16 in both precisions.

    Args:
        names: Shipped recipes or YAML files, of tasks that can be described without their data.
        batch: Sequences per step, instead of the recipe's.
        length: Steps per sequence, instead of the task's; minutes per epoch are then left out.
        repeats: Timed steps, after one that is not.

    Returns:
        Rows with "recipe", "precision", "batch", "length", "parameters", "seconds" (median of a step; None where the
        GPU has too little memory) and "minutes_per_epoch".
    """
    precisions = ["fp32"]
    if torch.device(device).type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False):
        precisions.append("bf16")
    rows, planned = [], []
    for name in names:
        recipe = Recipe.load(name)
        spec = describe_task(recipe.data.task)
        if spec is None:
            raise HfLongSeqError(
                f"recipe {name} is of task {recipe.data.task!r}, which only its data describe: leave it out."
            )
        planned.append((name, recipe, spec))
    for name, recipe, spec in planned:
        size = batch or recipe.scratch.examples_per_step
        micro = min(size, recipe.scratch.per_device_train_batch_size or size)
        steps = length or spec.max_length
        listed = TASKS[recipe.data.task].size.split("/")[0].replace(",", "")
        examples = int(listed) if listed.isdigit() and not length else None
        for precision in precisions:
            torch.manual_seed(0)
            config = configuration(recipe.model, recipe.scratch, spec)
            model = fresh_model(head_class(recipe.scratch, spec), config).train()
            model.to(device)  # type: ignore[arg-type]  # its decorator hides that it is a method
            inputs = _random_batch(spec, micro, steps, device)
            seconds = seconds_of_a_step(model, inputs, -(-size // micro), precision, repeats)
            minutes = seconds * examples / size / 60 if seconds and examples else None
            row: dict[str, Any] = {"recipe": name, "precision": precision, "batch": size, "length": steps}
            row |= {"parameters": model.num_parameters(), "seconds": seconds, "minutes_per_epoch": minutes}
            rows.append(row)
            del model, inputs
            gc.collect()
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Rows of `epoch_times` as aligned text."""
    shown = pd.DataFrame(rows).rename(columns=lambda name: name.replace("_", " "))
    return shown.to_string(index=False, na_rep="-", float_format=lambda number: f"{number:,.3g}")


def seconds_of_a_step(
    model, inputs: dict[str, torch.Tensor], accumulation: int, precision: str, repeats: int
) -> float | None:
    """Median time of an optimiser step as the Trainer takes it (autocast in bf16, weights in float32), after one that
    warms up; None where the GPU has too little memory."""
    optimizer, taken = torch.optim.AdamW(model.parameters(), lr=1e-4), []
    device = next(iter(inputs.values())).device.type
    try:
        for _ in range(repeats + 1):
            begin = time.perf_counter()
            for _ in range(accumulation):
                with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
                    loss = model(**inputs).loss / accumulation
                loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if device == "cuda":
                torch.cuda.synchronize()
            taken.append(time.perf_counter() - begin)
    except torch.OutOfMemoryError:
        return None
    return statistics.median(taken[1:])


def _random_batch(spec: TaskSpec, batch: int, length: int, device: str) -> dict[str, torch.Tensor]:
    """What a collator would give for sequences of equal length."""
    names = ("", "_2") if spec.pair else ("",)
    inputs = {}
    for name in names:
        if spec.vocab_size:
            inputs[f"input_ids{name}"] = torch.randint(spec.vocab_size, (batch, length))
        elif spec.num_channels:
            inputs[f"input_values{name}"] = torch.rand(batch, length, spec.num_channels) * 2 - 1
        inputs[f"attention_mask{name}"] = torch.ones(batch, length, dtype=torch.long)
    shape = (batch, length) if spec.per_position else (batch,)
    if spec.problem_type == "regression":
        inputs["labels"] = torch.rand(shape)
    else:
        inputs["labels"] = torch.randint(spec.num_labels, shape)
    return {name: tensor.to(device) for name, tensor in inputs.items()}
