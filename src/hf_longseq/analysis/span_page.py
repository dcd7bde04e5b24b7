# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""A page that shows the spans of a run in colour: texts with marked spans, long sequences and signals as bands.

    write_span_page("runs/classifier", "runs/classifier/spans.html")

The page is one file without scripts. Axes: L positions.
"""

import html
import os
from pathlib import Path
from typing import Any

import numpy as np

from hf_longseq.data import byte_text
from hf_longseq.data.task import TaskSpec
from hf_longseq.errors import HfLongSeqError
from hf_longseq.metrics.spans import Tags
from hf_longseq.training.inference import predict, split_of_run
from hf_longseq.training.run_folder import read_json, write_whole

PAGE = "spans.html"
COLOURS = ("#9ecae9", "#ffbf79", "#a3d9a5", "#f4a7b9", "#cbb9e3", "#e2d08a", "#8fd3d1", "#d0b49f")
LONGEST_TEXT = 2000
WIDTH, HEIGHT, POINTS = 900, 90, 900
STYLE = """body{font:14px/1.7 system-ui,sans-serif;margin:2em auto;max-width:960px;color:#222}
.row{margin:1.2em 0}.who{color:#777;display:inline-block;width:4em}.text{font-family:ui-monospace,monospace;
white-space:pre-wrap;overflow-wrap:anywhere}mark{padding:1px 0;border-radius:3px}.key mark{padding:2px 8px;
margin-right:6px}svg{display:block;background:#fafafa}"""


def has_spans(model: str | os.PathLike) -> bool:
    """Whether a finished run labels positions with classes."""
    path = Path(model) / "config.json"
    config = read_json(path) if path.is_file() else {}
    head = (config.get("architectures") or [""])[0]
    return head.endswith("ForTokenClassification") and config.get("problem_type") != "regression"


def write_span_page(
    model: str | os.PathLike, path: str | os.PathLike | None = None, *, split: str = "test", limit: int = 20
) -> Path:
    """Write a page with the true and the predicted spans of some examples.

    Args:
        model: Folder of a finished run of `finetune` on labels of positions.
        path: The page; by default `spans.html` in the run's folder.
        split: "train", "validation" or "test" of the run's task.
        limit: How many examples, the first ones.

    Returns:
        The path of the page.

    Raises:
        HfLongSeqError: If the model labels no positions with classes.
    """
    if not has_spans(model):
        raise HfLongSeqError(
            f"model {model} has no spans to show: give the folder of a finetune run that labels positions."
        )
    rows, data, _ = split_of_run(model, split)
    answers = predict(model, split=split, limit=limit, data=data)
    names = Tags.of(data.spec.labels).kinds
    colour_of = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(names)}
    body = [_example(answer, rows[answer["index"]], data.spec, colour_of) for answer in answers]
    key = " ".join(
        f'<mark style="background:{colour}">{html.escape(name)}</mark>' for name, colour in colour_of.items()
    )
    title = html.escape(f"Spans in {data.spec.name}, {split}")
    page = (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{title}</title>\n<style>{STYLE}</style>\n'
        f'<h1>{title}</h1>\n<p class="key">{key}</p>\n' + "\n".join(body) + "\n</html>\n"
    )
    path = Path(model) / PAGE if path is None else Path(path)
    write_whole(path, page)
    return path


def _example(answer: dict[str, Any], row: dict, spec: TaskSpec, colour_of: dict[str, str]) -> str:
    """One example: the truth above, the prediction below."""
    sequence = np.asarray(row["input_ids" if spec.modality == "tokens" else "input_values"])
    symbols = _symbols(sequence, spec) if spec.modality == "tokens" else None
    both = {"truth": answer["label"], "model": answer["spans"]}
    if symbols is None or len(symbols) > LONGEST_TEXT:
        drawn = _bands(both, sequence, spec, colour_of)
    else:
        drawn = "\n".join(
            f'<div><span class="who">{who}</span><span class="text">{_marked(symbols, spans, colour_of)}</span></div>'
            for who, spans in both.items()
        )
    return f'<div class="row"><b>{answer["index"]}</b>\n{drawn}</div>'


def _symbols(ids_L: np.ndarray, spec: TaskSpec) -> list[str]:
    """What stands at each position: characters of text, symbols of a vocabulary, or ids."""
    if byte_text.is_read_by(spec):
        return list(byte_text.decode(ids_L))
    if spec.vocabulary:
        return [spec.vocabulary[index] for index in ids_L]
    return [f"{index} " for index in ids_L]


def _marked(symbols: list[str], spans: list[dict], colour_of: dict[str, str]) -> str:
    """The text with its spans on coloured ground; of spans that overlap the one that began first is shown."""
    pieces, place = [], 0
    for span in spans:
        if span["start"] < place:
            continue
        inside = "".join(symbols[span["start"] : span["end"]])
        what = html.escape(f"{span['label']} {span.get('score', '')}".strip(), quote=True)
        pieces.append(html.escape("".join(symbols[place : span["start"]])))
        pieces.append(
            f'<mark style="background:{colour_of[span["label"]]}" title="{what}">{html.escape(inside)}</mark>'
        )
        place = span["end"]
    return "".join([*pieces, html.escape("".join(symbols[place:]))])


def _bands(both: dict[str, list[dict]], sequence: np.ndarray, spec: TaskSpec, colour_of: dict[str, str]) -> str:
    """Bands of colour along the positions, truth above and prediction below, under the first channel of a signal."""
    length = len(sequence)
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="100%" role="img">']
    for place, (who, spans) in enumerate(both.items()):
        for span in spans:
            x, end = (WIDTH * span[side] / length for side in ("start", "end"))
            what = html.escape(f"{who}: {span['label']} {span['start']} to {span['end']}")
            parts.append(
                f'<rect x="{x:.2f}" y="{place * HEIGHT / 2:g}" width="{max(end - x, 0.5):.2f}" '
                f'height="{HEIGHT / 2:g}" fill="{colour_of[span["label"]]}"><title>{what}</title></rect>'
            )
    if spec.modality == "values":
        first_L = sequence.reshape(length, -1)[:, 0].astype(np.float64)
        shown = np.unique(np.linspace(0, length - 1, min(length, POINTS)).round().astype(int))
        low, high = first_L.min(), first_L.max()
        y = HEIGHT * (0.95 - 0.9 * (first_L[shown] - low) / (high - low or 1.0))
        points = " ".join(f"{WIDTH * (x + 0.5) / length:.1f},{height:.1f}" for x, height in zip(shown, y, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="#333" stroke-width="0.8"/>')
    return "".join([*parts, "</svg>", f"<small>{length:,} positions; truth above, model below</small>"])
