# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""What checkpoints learned, channel by channel: kernels, receptive fields and attention, as tidy rows and curves.

Axes: D directions (past, future), H channels, L distances, O offsets of the input from the output.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from transformers import AutoModel

from hf_longseq.analysis import kernel_measures, receptive_field
from hf_longseq.analysis.examples import some_examples
from hf_longseq.analysis.kernel_measures import DIRECTIONS
from hf_longseq.data.collators import DataCollatorWithLongPadding
from hf_longseq.data.task import TASKS, TaskSpec, unknown_task
from hf_longseq.errors import HfLongSeqError
from hf_longseq.models import ARCHITECTURES
from hf_longseq.training import run_folder
from hf_longseq.training.recipe import Recipe
from hf_longseq.training.untrusted import open_model

LONGEST = 2048
"""Distances looked at where the task is longer and nothing else is asked for."""

RANDOM_LENGTH = 1024


@dataclass
class Analysis:
    """One checkpoint and its analysis.

    Args:
        label: Its name in tables and pictures.
        arch: Architecture.
        inputs: Where the examples for gradients and attention came from, in words.
        kernels: (D, H, L) of every layer that has kernels; of LRU and S5 the kernel of each channel to itself.
        fields: Mean influence by offset (O,) of every mixer, under its layer's number, and of the "network".
        attention: Share by offset (layers, heads, O); a model without attention has no layers here.
        uniform: Share by offset (O,) of equal attention to all that is visible.
    """

    label: str
    arch: str
    inputs: str
    bidirectional: bool
    kernels: list[np.ndarray] = field(default_factory=list)
    fields: dict[Any, np.ndarray] = field(default_factory=dict)
    attention: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 1)))
    uniform: np.ndarray = field(default_factory=lambda: np.zeros(1))


def analyse(
    checkpoints: list[str | os.PathLike],
    labels: list[str] | None = None,
    *,
    task: str | None = None,
    length: int | None = None,
    examples: int = 8,
) -> list[Analysis]:
    """Analyse checkpoints.

    Args:
        checkpoints: Folders with a `config.json` and weights, such as finished runs.
        labels: A name for each; the folders' own by default.
        task: Take examples of this task instead of the run's own; without either, inputs are random.
        length: Distances looked at, and longest example; the longest of the tasks' lengths by default, up to 2,048.
        examples: Inputs for gradients and attention.
    """
    labels = unique_labels(checkpoints, labels)
    for name, value in (("length", length), ("examples", examples)):
        if value is not None and value < 1:
            raise HfLongSeqError(f"{name} is {value}: give a number of at least 1.")
    opened = [open_checkpoint(folder) for folder in checkpoints]
    chosen = [
        task_examples(folder, model.config, task, examples)
        for folder, (_, model) in zip(checkpoints, opened, strict=True)
    ]
    if length is None:
        lengths = [RANDOM_LENGTH if spec is None else spec.max_length for _, spec, _ in chosen]
        length = min(max(lengths), LONGEST)
    found = []
    for label, (arch, model), (rows, spec, words) in zip(labels, opened, chosen, strict=True):
        limit = getattr(model.config, "max_position_embeddings", None) or length
        inputs = as_inputs(rows, spec, model.config, min(length, limit), examples)
        found.append(_analyse(label, arch, model, inputs, words, length))
    return found


def unique_labels(checkpoints: list, labels: list[str] | None) -> list[str]:
    """A name for every checkpoint, by default that of its folder; of equal names with the folder around it."""
    paths = [Path(os.path.abspath(folder)) for folder in checkpoints]
    parts = 1 if len({path.name for path in paths}) == len(paths) else 2
    labels = labels or ["-".join(path.parts[-parts:]) for path in paths]
    if len(labels) != len(checkpoints) or len(set(labels)) < len(labels):
        raise HfLongSeqError(
            f"the names {', '.join(labels)} do not tell {len(checkpoints)} checkpoints apart: give each its own with "
            "--labels."
        )
    return labels


def open_checkpoint(folder: str | os.PathLike) -> tuple[str, torch.nn.Module]:
    """Architecture and trunk of a checkpoint, in evaluation mode."""
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise HfLongSeqError(f"checkpoint {folder} holds no config.json: give the folder of a finished run.")
    config = run_folder.read_json(folder / "config.json")
    kind = str(config.get("model_type")) if isinstance(config, dict) else None
    kinds = {f"longseq_{name}": name for name in ARCHITECTURES}
    if kind not in kinds:
        raise HfLongSeqError(f"checkpoint {folder} is a model of type {kind!r}: give one of {', '.join(kinds)}.")
    if config.get("window") is not None:
        raise HfLongSeqError(
            f"checkpoint {folder} has window={config['window']}, so its mixers read blocks, not the whole sequence: "
            "give a checkpoint without a window."
        )
    return kinds[kind], open_model(AutoModel, folder, dtype=torch.float32)


def task_examples(
    folder: str | os.PathLike, config, task: str | None, count: int
) -> tuple[list[dict], TaskSpec | None, str]:
    """Examples of `task`, or of the one that a run was trained on; none if neither is known."""
    if task is None:
        settings = run_folder.read_resolved(folder)
        if not isinstance(settings, dict) or "data" not in settings:
            return [], None, "random inputs"
        data = Recipe.load(settings).data
        name, options = data.task, data.options
    elif task in TASKS:
        name, options = task, {}
    else:
        raise unknown_task(task)
    try:
        rows, spec = some_examples(name, count, options)
    except (HfLongSeqError, OSError) as error:
        if task is not None:
            raise
        return [], None, f"random inputs (the data of {name} are not at hand: {' '.join(str(error).split())})"
    if spec.modality != config.input_type or (spec.num_channels or config.num_channels) != config.num_channels:
        raise HfLongSeqError(
            f"task {name} gives {spec.modality} but checkpoint {folder} reads {config.input_type} of "
            f"{config.num_channels} channels: choose the task it was trained on."
        )
    return rows, spec, f"{len(rows)} examples of {name}"


def as_inputs(rows: list[dict], spec: TaskSpec | None, config, length: int, count: int) -> list[dict]:
    """Examples as batches of one, cut to ``length``; random ones without a task."""
    name = "input_ids" if config.input_type == "tokens" else "input_values"
    if spec is not None:
        collator = DataCollatorWithLongPadding.from_task(spec)
        return [{name: collator([row])[name][:, :length]} for row in rows]
    generator = torch.Generator().manual_seed(0)
    size = min(length, RANDOM_LENGTH)
    if name == "input_ids":
        return [{name: torch.randint(config.vocab_size, (1, size), generator=generator)} for _ in range(count)]
    return [{name: torch.randn(1, size, config.num_channels, generator=generator)} for _ in range(count)]


def _analyse(label: str, arch: str, model, inputs: list[dict], words: str, length: int) -> Analysis:
    one = Analysis(label, arch, words, model.config.bidirectional)
    with torch.no_grad():
        mixers = [layer.mixer for layer in model.layers if hasattr(layer.mixer, "kernel")]
        one.kernels = [mixer.kernel(length).double().numpy() for mixer in mixers]
    one.fields = receptive_field.receptive_fields(model, inputs, length)
    if "attentions" in (model._can_record_outputs or {}):
        model.set_attn_implementation("eager")
        one.attention, one.uniform = receptive_field.attention_by_offset(model, inputs, length)
    return one


def measure_rows(found: list[Analysis]) -> pd.DataFrame:
    """Tidy rows: checkpoint, layer, channel (or head), direction, measure, value."""
    rows: list[tuple] = []
    for one in found:
        for layer, kernel_DHL in enumerate(one.kernels):
            values = kernel_measures.measures(kernel_DHL)
            for measure, value_DH in values.items():
                for (direction, channel), value in np.ndenumerate(value_DH):
                    rows.append((one.label, layer, channel, DIRECTIONS[direction], measure, value))
        for layer, share_O in one.fields.items():
            for share in receptive_field.FIELDS:
                reach = receptive_field.field_reach(share_O, share)
                rows.append((one.label, layer, "", "both", f"receptive_field_{100 * share:.0f}", reach))
        for (layer, head), value in np.ndenumerate(receptive_field.mean_distance(one.attention)):
            rows.append((one.label, layer, head, "both", "attention_distance", value))
        if len(one.attention):
            uniform = receptive_field.mean_distance(one.uniform)
            rows.append((one.label, "", "", "both", "attention_distance_if_equal", uniform))
    # of type object, so that whole numbers are written as such
    shown = [(*cells, int(value) if float(value).is_integer() else float(f"{value:.6g}")) for *cells, value in rows]
    return pd.DataFrame(shown, columns=MEASURE_COLUMNS, dtype=object)


def curve_rows(found: list[Analysis]) -> pd.DataFrame:
    """The lines of the pictures: checkpoint, layer, head, curve, at, value."""
    curves = []
    for one in found:
        for layer, kernel_DHL in enumerate(one.kernels):
            at, levels = kernel_measures.time_levels(kernel_DHL)
            curves.append((one.label, layer, "", "kernel_median_db_by_offset", at, np.median(levels, axis=0)))
            at, levels = kernel_measures.frequency_levels(kernel_DHL)
            curves.append((one.label, layer, "", "response_median_db_by_frequency", at, np.median(levels, axis=0)))
        for layer, share_O in one.fields.items():
            curves.append((one.label, layer, "", "influence_by_offset", *kernel_measures.binned(share_O)))
        for layer, head in np.ndindex(one.attention.shape[:2]):
            shares = kernel_measures.binned(one.attention[layer, head])
            curves.append((one.label, layer, head, "attention_by_offset", *shares))
    rows = [
        (*names, float(f"{x:.6g}"), float(f"{y:.6g}"))
        for *names, at, values in curves
        for x, y in zip(at, values, strict=True)
    ]
    return pd.DataFrame(rows, columns=CURVE_COLUMNS)


MEASURE_COLUMNS = ("checkpoint", "layer", "channel", "direction", "measure", "value")
CURVE_COLUMNS = ("checkpoint", "layer", "head", "curve", "at", "value")


def table(found: list[Analysis]) -> str:
    """A line per checkpoint and layer; steps, medians over channels with the 10th and 90th percentile."""
    lines = []
    for one in found:
        for layer in one.fields:
            reaches = [receptive_field.field_reach(one.fields[layer], share) for share in (0.5, 0.9)]
            line = {"checkpoint": one.label, "layer": str(layer)}
            if layer != "network" and one.kernels:
                decay_DH, length = kernel_measures.decay_length(one.kernels[layer]), one.kernels[layer].shape[-1]
                line |= {f"decay {side}": _spread(of, length) for side, of in zip(DIRECTIONS, decay_DH, strict=False)}
            line["mixer sees 50/90 %"] = f"{reaches[0]} / {reaches[1]}"
            if len(one.attention) and layer == "network":
                line["attention distance"] = f"(equal: {receptive_field.mean_distance(one.uniform):.0f})"
            elif len(one.attention):
                heads = receptive_field.mean_distance(one.attention[layer])
                line["attention distance"] = " ".join(f"{value:.0f}" for value in heads)
            lines.append(line)
    columns = ("checkpoint", "layer", "decay past", "decay future", "mixer sees 50/90 %", "attention distance")
    return pd.DataFrame(lines, columns=columns).dropna(axis=1, how="all").fillna("").to_string(index=False)


def _spread(values: np.ndarray, length: int) -> str:
    low, middle, high = (
        f">={length}" if value >= length else f"{value:.0f}" for value in np.percentile(values, [10, 50, 90])
    )
    return middle if low == high else f"{middle} ({low} to {high})"
