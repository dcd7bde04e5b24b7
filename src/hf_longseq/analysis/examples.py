# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Examples of a task: text as text, pictures and series as a PNG (needs matplotlib)."""

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hf_longseq.data import byte_text
from hf_longseq.data.processors import task_tokenizer
from hf_longseq.data.task import TASKS, TaskSpec, load_task

# Characters of an example, and runs of its labels, that are shown.
WIDTH, RUNS = 400, 8


def some_examples(name: str, count: int, options: dict[str, Any]) -> tuple[list[dict], TaskSpec]:
    """The first rows of a task's training split, of different classes if possible.

    Generated tasks draw a few examples into a temporary folder.
    """
    few = {"train_examples": 4 * count, "eval_examples": 1}
    if TASKS[name].source == "generated" and not {"data_dir", "source"} & set(options):
        few = {key: value for key, value in few.items() if key in TASKS[name].parameters}
        with tempfile.TemporaryDirectory() as cache:
            splits, spec = load_task(name, **{**few, "num_workers": 1, "cache_dir": cache, **options})
            return _spread(splits["train"], count, spec), spec
    splits, spec = load_task(name, **options)
    return _spread(splits["train"], count, spec), spec


def _spread(rows, count: int, spec: TaskSpec) -> list[dict]:
    """Rows of one class after the other, in turn."""
    if spec.per_position or not spec.labels or "labels" not in rows.column_names or np.ndim(rows["labels"][:]) > 1:
        return [rows[i] for i in range(min(count, len(rows)))]
    labels = rows["labels"][:]
    turns = pd.Series(labels).groupby(np.asarray(labels)).cumcount()
    return [rows[i] for i in np.lexsort((labels, turns))[:count].tolist()]


def as_text(row: dict, spec: TaskSpec) -> str:
    """An example in words: its label, its length, and its beginning."""
    lines = [f"[{label_text(row.get('labels'), spec)}]"]
    for name in (key for key in ("input_ids", "input_ids_2", "input_values", "input_values_2") if key in row):
        sequence = np.asarray(row[name])
        text = " ".join(_content(sequence, spec).split())
        text = text if len(text) <= WIDTH else f"{text[: WIDTH - 4]} ..."
        lines.append(f"{len(sequence):,} steps: {text}")
    return "\n".join(lines)


def label_text(label: Any, spec: TaskSpec) -> str:
    """Name of a class, or the number to predict with its unit; of labels at every position their first runs."""
    if label is None:
        return "no label"
    if spec.per_position:
        return _runs_text(np.asarray(label), spec)
    if spec.problem_type == "single_label_classification":
        return spec.labels[int(label)]
    return f"{np.round(label, 2)} {spec.unit}".strip()


def _runs_text(labels: np.ndarray, spec: TaskSpec) -> str:
    if spec.problem_type != "single_label_classification":
        return f"labels of shape {labels.shape}: {' '.join(f'{number:.4g}' for number in np.ravel(labels)[:RUNS])} ..."
    starts = np.append(0, np.flatnonzero(np.diff(labels)) + 1)
    counts = np.diff(np.append(starts, len(labels)))
    names = [spec.labels[label] if label >= 0 else "not scored" for label in labels[starts[:RUNS]]]
    runs = ", ".join(f"{count:,} x {name}" for name, count in zip(names, counts, strict=False))
    return runs if len(starts) <= RUNS else f"{runs}, ..."


def _content(sequence: np.ndarray, spec: TaskSpec) -> str:
    if byte_text.is_read_by(spec):
        return byte_text.decode(sequence)
    if (tokenizer := task_tokenizer(spec)) is not None:
        return tokenizer.batch_decode([sequence.tolist()])[0]
    if sequence.ndim > 1:
        return " ".join(f"({', '.join(f'{x:.4g}' for x in step)})" for step in sequence[:40])
    return " ".join(f"{x:.4g}" for x in sequence[:200])


def draw(rows: list[dict], spec: TaskSpec, path: str | os.PathLike) -> Path:
    """Write a PNG with one panel per example: pictures in their shape, series as lines over the steps."""
    pyplot = load_pyplot()
    name = "input_values" if "input_values" in rows[0] else "input_ids"
    shape = spec.image_shape
    columns = min(len(rows), 4) if shape else 1
    lines = -(-len(rows) // columns)
    size = (2.2 * columns, 2.5 * lines) if shape else (9, 1.7 * lines)
    figure, panels = pyplot.subplots(lines, columns, figsize=size, squeeze=False, layout="constrained")
    for panel in panels.flat:
        panel.axis("off" if shape else "on")
    for panel, row in zip(panels.flat, rows, strict=False):
        sequence = np.asarray(row[name])
        panel.set_title(label_text(row.get("labels"), spec), fontsize=9, loc="left")
        if shape:
            grey = {"cmap": "gray", "vmin": 0, "vmax": 255} if sequence.ndim == 1 else {}
            panel.imshow(sequence.reshape(*shape, *sequence.shape[1:]), interpolation="nearest", **grey)
        else:
            panel.plot(sequence, linewidth=0.6)
            panel.set_xlim(0, max(len(np.asarray(other[name])) for other in rows))
            panel.tick_params(labelsize=7)
    if not shape:
        panels[-1, 0].set_xlabel("step", fontsize=8)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_figure(figure, path)
    return path


def load_pyplot():
    """matplotlib's pyplot, without a screen."""
    try:
        import matplotlib
    except ImportError:
        raise ImportError("Pictures are drawn with matplotlib: run `pip install 'hf-longseq[plot]'`.") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def save_figure(figure, path: Path) -> None:
    """Write a PNG, whole and without date and version: the same data give the same file. Closes the figure."""
    partial = path.with_name(f".{path.name}")
    figure.savefig(partial, format="png", dpi=130, metadata={"Software": None})
    partial.replace(path)
    load_pyplot().close(figure)
