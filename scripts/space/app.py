# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""A demo of any checkpoint of hf-longseq, as a Space or on your own machine.

python scripts/space/app.py [FOLDER OR REPOSITORY] [--port 7860]
"""

import argparse
import os
from pathlib import Path

import gradio as gr
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from demo_checkpoint import Answer, Checkpoint, Unusable, open_checkpoint, reach, run
from demo_inputs import examples_of
from hf_longseq.escaping import html

DEFAULT = os.environ.get("HF_LONGSEQ_CHECKPOINT", "hf-longseq/transformer-spoken-tones-spt")
CACHE: dict[str, Checkpoint] = {}
OPEN: dict[str, str] = {}  # the name of the checkpoint whose inputs a visitor sees, by the session of the page
KEPT = 2
CANVAS = (256, 256)
# fonts of the visitor's own machine: those of the default theme come from another server
THEME = gr.themes.Default(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])
# the label of a plot lies over it, and so above its title on a narrow screen: it gets a line of its own
CSS = "#curves label, #kernels label { position: static; }"
SPAN_COLOURS = ("#4c9be8", "#f2a65a", "#7bc47f", "#e57f84", "#b58ad6", "#d4b94e", "#63c5c9", "#c98bb9")


def opened(name: str) -> Checkpoint:
    """The checkpoint of that name; the last few stay open."""
    if name not in CACHE:
        while len(CACHE) >= KEPT:
            CACHE.pop(next(iter(CACHE)))
        try:
            CACHE[name] = open_checkpoint(name)
        except Unusable as error:
            raise gr.Error(plain(error)) from error
    return CACHE[name]


def plain(message: object) -> str:
    """A message as a toast shows it as text: toasts are HTML, and names in a message may be a stranger's."""
    return str(html(message))


def close_page(request: gr.Request) -> None:
    """A visitor is gone."""
    OPEN.pop(request.session_hash, None)


def show_inputs(name: str, request: gr.Request):
    """Open a checkpoint and show what it reads: summary, inputs by kind, examples."""
    checkpoint = opened(name)
    OPEN[request.session_hash] = name
    kind, pair = checkpoint.kind, checkpoint.pair
    examples = examples_of(checkpoint)
    texts = kind in ("text", "ids", "series")
    what = {"text": "Text", "ids": "Token ids, between blanks", "series": "Series: csv, a position per row"}
    label = what.get(kind, "Text")
    return (
        checkpoint.summary,
        gr.update(visible=texts, label=label, value=""),
        gr.update(visible=texts and pair, label=f"{label} (second)", value=""),
        gr.update(visible=kind == "series"),
        gr.update(visible=kind == "image", value=on_canvas(Image.new("RGB", CANVAS)) if kind == "image" else None),
        gr.update(visible=kind == "audio", value=None),
        gr.update(visible=checkpoint.restores and checkpoint.model.config.pretraining_objective == "masked"),
        gr.update(visible=bool(examples), choices=list(examples), value=None),
        gr.update(interactive=kind == "image"),
        *(gr.update(visible=False) for _ in range(5)),  # the answers
    )


def show_first(name: str, request: gr.Request):
    """Open what the address of the page asks for (`?checkpoint=ORGANISATION/NAME`), or the checkpoint in the box."""
    asked = request.query_params.get("checkpoint", name)
    return gr.skip() if asked == name else asked, *show_inputs(asked, request)


def ready(name: str, text: str, sound):
    """Predict waits for an input; a canvas may be drawn on at any time."""
    kind = opened(name).kind
    given = kind == "image" or (sound is not None if kind == "audio" else bool((text or "").strip()))
    return gr.update(interactive=given)


def on_canvas(picture: Image.Image) -> dict:
    """A picture as the editor's background, to be drawn on in white."""
    return {"background": picture, "layers": [], "composite": picture}


def take_example(name: str, example: str | None):
    """Put an example into the input of its kind."""
    checkpoint = opened(name)
    value = examples_of(checkpoint).get(example) if example else None
    if value is None:
        return gr.update(), gr.update(), gr.update(), gr.update()
    kind = checkpoint.kind
    first, second = value if checkpoint.pair else (value, None)
    return (
        first if kind in ("text", "ids", "series") else gr.update(),
        second if checkpoint.pair else gr.update(),
        on_canvas(first) if kind == "image" else gr.update(),
        first if kind == "audio" else gr.update(),
    )


def read_file(path: str | None):
    """The text of an uploaded csv file."""
    return gr.update() if path is None else Path(path).read_text(encoding="utf-8", errors="replace")


def predict(name: str, text: str, text_2: str, drawing, sound, share: float, request: gr.Request):
    """Answer and pictures for the input of the checkpoint's kind; nothing, if another one is open."""
    if OPEN.get(request.session_hash, name) != name:
        # a drawing takes its time to arrive; so this may have been asked before the other checkpoint was opened
        gr.Warning(plain(f"Not asked: {name} is not the checkpoint that is open; press Open to use it."))
        return gr.skip()
    checkpoint = opened(name)
    picture = drawing and drawing["composite"]
    if picture is not None and picture.mode == "RGBA":
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, "black"), picture)
    raw = {"image": picture, "audio": sound}.get(checkpoint.kind, text)
    try:
        answer = run(checkpoint, raw, text_2, share)
        title, kernels = reach(checkpoint, raw)
    except (Unusable, ValueError) as error:  # the processors and models say in ValueErrors what they do not take
        raise gr.Error(plain(error)) from error
    return (
        gr.update(visible=answer.labels is not None, value=answer.labels),
        gr.update(visible=answer.text is not None, value=answer.text),
        gr.update(visible=answer.curves is not None, value=answer.curves and draw_answer(checkpoint, answer)),
        gr.update(visible=answer.pieces is not None, value=answer.pieces, color_map=span_colours(answer)),
        gr.update(visible=bool(kernels), value=kernels and draw_kernels(title, kernels)),
    )


def span_colours(answer: Answer) -> dict[str, str]:
    """A colour for every label of a text's spans."""
    labels = dict.fromkeys(label for _, label in answer.pieces or () if label)
    return {label: SPAN_COLOURS[index % len(SPAN_COLOURS)] for index, label in enumerate(labels)}


def draw_answer(checkpoint: Checkpoint, answer: Answer) -> Figure:
    """What was hidden and restored: curves, or pictures where positions are pixels."""
    figure = Figure(figsize=(6, 3), layout="constrained")
    if checkpoint.kind == "image" and len({len(curve) for curve in answer.curves.values()}) == 1:
        size = (checkpoint.processor.height, checkpoint.processor.width)
        if len(next(iter(answer.curves.values()))) == size[0] * size[1]:
            for axis, (label, curve) in zip(figure.subplots(1, 3), answer.curves.items(), strict=True):
                axis.imshow(curve.reshape(size), cmap="gray")
                axis.set_title(label, fontsize=9)
                axis.axis("off")
            return figure
    axis = figure.subplots()
    for label, curve in answer.curves.items():
        axis.plot(curve.numpy(), label=label, linewidth=0.9)
    names = list(dict.fromkeys(label for _, _, label in answer.shades))
    for start, end, label in answer.shades:
        axis.axvspan(start - 0.5, end - 0.5, color=f"C{1 + names.index(label) % 9}", alpha=0.3, linewidth=0)
    for index, label in enumerate(names):
        axis.plot([], [], color=f"C{1 + index % 9}", alpha=0.3, linewidth=6, label=label)
    axis.set_xlabel("position")
    axis.legend(frameon=False, fontsize=8)
    return figure


def draw_kernels(title: str, kernels: list) -> Figure:
    """One panel per layer."""
    figure = Figure(figsize=(min(2.6 * len(kernels), 14), 2.6), layout="constrained")
    figure.suptitle(title, fontsize=9)
    for index, (axis, taps) in enumerate(zip(np.ravel(figure.subplots(1, len(kernels))), kernels, strict=True)):
        axis.plot(taps.T.numpy(), linewidth=0.9)
        axis.set_title(f"layer {index}", fontsize=9)
        axis.set_xlabel("lag", fontsize=8)
        axis.tick_params(labelsize=7)
    return figure


def build(default: str) -> gr.Blocks:
    """The page; inputs of all kinds are on it, and the ones that the checkpoint reads are shown."""
    with gr.Blocks(title="hf-longseq") as page:
        gr.Markdown("# Long sequences\nOpen a checkpoint of hf-longseq: a repository of the Hub, or a folder.")
        with gr.Row():
            name = gr.Textbox(default, label="Checkpoint", elem_id="checkpoint", max_lines=1, scale=4)
            open_button = gr.Button("Open", elem_id="open", scale=1)
        summary = gr.Markdown(elem_id="summary")
        example = gr.Radio(label="Examples", elem_id="examples", visible=False)
        text = gr.Textbox(lines=4, max_lines=8, visible=False, elem_id="text")
        text_2 = gr.Textbox(lines=4, max_lines=8, visible=False, elem_id="text-2")
        file = gr.File(label="or a csv file", file_types=[".csv", ".tsv", ".txt"], visible=False, elem_id="file")
        picture = gr.ImageEditor(
            type="pil",
            sources=("upload", "clipboard"),
            transforms=(),
            layers=False,
            canvas_size=CANVAS,
            brush=gr.Brush(default_size=14, default_color="#ffffff", colors=["#ffffff"], color_mode="fixed"),
            visible=False,
            label="Drawing or picture",
            elem_id="picture",
        )
        sound = gr.Audio(type="numpy", visible=False, label="Sound", elem_id="sound")
        share = gr.Slider(0.05, 0.95, 0.25, label="Share of positions to hide", visible=False, elem_id="share")
        button = gr.Button("Predict", variant="primary", elem_id="predict", interactive=False)
        labels = gr.Label(label="Prediction", visible=False, elem_id="labels")
        said = gr.Textbox(label="Prediction", visible=False, elem_id="said")
        curves = gr.Plot(label="Restored", visible=False, elem_id="curves")
        spans = gr.HighlightedText(label="Spans", visible=False, elem_id="spans", show_legend=True)
        kernels = gr.Plot(label="How far each layer looks", visible=False, elem_id="kernels")

        outputs = [labels, said, curves, spans, kernels]
        shown = [summary, text, text_2, file, picture, sound, share, example, button, *outputs]
        inputs = [name, text, text_2, picture, sound, share]
        # Every click counts, in its order: one queue for all of them, so that no answer is shown after another
        # checkpoint was opened.
        clicks = {"trigger_mode": "multiple", "concurrency_id": "clicks"}
        button.click(predict, inputs, outputs, api_name="predict", **clicks)
        gr.on([open_button.click, name.submit], show_inputs, name, shown, api_name="open", **clicks)
        page.load(show_first, name, [name, *shown], api_visibility="private", concurrency_id="clicks")
        page.unload(close_page)
        example.change(take_example, [name, example], [text, text_2, picture, sound], api_name="example")
        gr.on([text.change, sound.change], ready, [name, text, sound], button, api_visibility="private", queue=False)
        file.upload(read_file, file, text, api_visibility="private")
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", nargs="?", default=DEFAULT, help="folder or repository that is open at first")
    parser.add_argument("--port", type=int, help="[7860, or the next one that is free]")
    options = parser.parse_args()
    try:
        examples_of(opened(options.checkpoint))  # so that the first visitor waits for neither
    except gr.Error as error:
        print(f"not opened: {error}")
    build(options.checkpoint).launch(server_port=options.port, theme=THEME, css=CSS)


if __name__ == "__main__":
    main()
