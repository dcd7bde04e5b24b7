# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The page of a task in the documentation, written from its description, its loader and its module's own words."""

import importlib
import inspect
import re
from pathlib import Path

from hf_longseq.data.task import TASKS, TaskSpec, describe_task, load_task
from hf_longseq.data.task_spec import MissingDataError

SOURCES = {
    "generated": "Generated on this machine, once; nothing to download "
    "(`python benchmarks/bench.py data` measures the speed).",
    "embedded": "Travels with the package; nothing to download.",
    "package": "Read from a package of the Python Package Index.",
    "hub": "Downloaded from the Hugging Face Hub, once.",
    "files": "Read from files that you get; the error of the first call prints the command.",
}

QUESTIONS = {
    "listops": "What is the value of `[MAX 2 9 [MIN 4 7] 0]`, nested ten levels deep? (10 classes)",
    "spoken-tones": "Which of four Mandarin tones does this syllable have, heard as raw samples? (4 classes)",
    "text": "Does this film review praise or pan the film, read byte by byte? (2 classes)",
    "retrieval": "Does one of these two papers cite the other, read byte by byte? (2 classes)",
    "image": "What does this small grey picture show, read pixel by pixel? (10 classes)",
    "pathfinder": "Does a dashed path join the two discs in a picture of 32 x 32 pixels? (2 classes)",
    "pathfinder-16": "Does a dashed path join the two discs in a picture of 16 x 16 pixels? (2 classes) A small "
    "task of this package for a CPU, beside the benchmark's.",
    "pathx": "Does a dashed path join the two discs in a picture of 128 x 128 pixels? (2 classes)",
    "pathx-256": "Does a dashed path join the two discs in a picture of 256 x 256 pixels? (2 classes)",
    "speech-commands": "Which of 35 words is spoken in a second of raw audio? (35 classes)",
    "scifar": "What does this small colour picture show, read pixel by pixel? (10 classes)",
    "bidmc-hr": "How fast does a patient's heart beat, seen in 32 seconds of PPG and ECG? (a number per minute)",
    "bidmc-rr": "How fast does a patient breathe, seen in 32 seconds of PPG and ECG? (a number per minute)",
    "bidmc-spo2": "How much oxygen is in a patient's blood, seen in 32 seconds of PPG and ECG? (per cent)",
    "smnist": "Which digit was written here, read pixel by pixel? (10 classes)",
    "gene-starts": "Does a gene start in the middle of this DNA? (2 classes)",
    "gene-spans": "Which bases of this DNA lie in a gene, and on which strand? (3 classes at every position)",
    "fly-exons": "Which bases of a fruit fly's chromosome are exons, which introns? (3 classes at every position)",
    "fly-repeats": "Which bases of a fruit fly's chromosome are repeats? (2 classes at every position)",
    "voices": "Which of four speakers is heard in a second of raw audio? (4 classes)",
    "own-data": "How do I train on my own files, arrays, or a data set on the Hub?",
}
DNA = '"ACGT" * 256'
RAW = {
    "listops": '"[MAX 2 9 [MIN 4 7 X X"',
    "gene-starts": '"ACGT" * 64',
    **dict.fromkeys(("gene-spans", "fly-exons", "fly-repeats"), DNA),
}


def task_page(name: str) -> str:
    """Markdown of a task's page."""
    entry, spec = TASKS[name], describe_task(name)
    module_name, function_name = entry.loader.split(":")
    module = importlib.import_module(module_name)
    loader = getattr(module, function_name)
    parts = [
        f"# {name}\n",
        f"{QUESTIONS[name]}\n",
        f"{_paragraphs(module.__doc__)}\n",
        f"Size: {entry.size}. {SOURCES[entry.source]}\n",
        f"```bash\n{_command(name)}\n```\n",
    ]
    if entry.source == "files" and spec is not None:
        parts.insert(-1, f"> {_how_to_get(name)}\n")
    if spec is not None:
        parts += [_facts(spec), "", _use(spec), ""]
    parts += ["## Options of the loader\n", _options(loader, dict(entry.options)), ""]
    return "\n".join(parts).rstrip() + "\n"


def index() -> str:
    """Markdown of the list of all pages."""
    lines = ["# Tasks\n", "`hf-longseq tasks list` prints this list, with what is cached already.\n"]
    lines += ["| task | what | size | source |", "|---|---|---|---|"]
    for name, entry in TASKS.items():
        lines.append(f"| [{name}]({name}.md) | {entry.summary} | {entry.size} | {entry.source} |")
    lines += ["", "These pages are written by `python scripts/write_task_pages.py` from the loaders themselves."]
    return "\n".join(lines) + "\n"


def _paragraphs(docstring: str) -> str:
    """The docstring of a module as Markdown paragraphs."""
    parts = docstring.strip().split("\n\n")
    return "\n\n".join(" ".join(part.split()) if not part.startswith("- ") else part for part in parts)


def _command(name: str) -> str:
    data = " --data reviews.csv --input_column text --label_column label" if name == "own-data" else f" --task {name}"
    return f"hf-longseq tasks show {name}\nhf-longseq spt{data} --tiny --output_dir /tmp/{name}"


def _how_to_get(name: str) -> str:
    """What the loader says when it finds no data; CACHE stands for the cache folder."""
    try:
        load_task(name, cache_dir="CACHE")
    except MissingDataError as error:
        return f"{error} CACHE stands for `HF_LONGSEQ_CACHE`, by default `longseq` in the Hugging Face home."
    raise RuntimeError(f"There is a folder CACHE here with data of {name}: move it away.")


def _use(spec: TaskSpec) -> str:
    """How a finished run answers to raw inputs."""
    if spec.pair:
        return (
            "A finished run carries its tokenizer. Encode both documents with it, and pass the second one to the "
            "model as `input_ids_2` and `attention_mask_2`: transformers has no pipeline for two documents."
        )
    if spec.image_shape is not None:
        kind, raw = "image-classification", "Image.open(file)"
    elif spec.modality == "tokens":
        kind, raw = f"{'token' if spec.per_position else 'text'}-classification", RAW.get(spec.name, '"What a film."')
    elif spec.sampling_rate:
        kind, raw = "audio-classification", "samples"
    else:
        return (
            "A finished run carries its feature extractor: `AutoFeatureExtractor.from_pretrained(folder)` turns an "
            "array (length, channels) into the model's inputs. The model answers in "
            f"{spec.unit or 'classes'}."
        )
    call = f'pipeline("{kind}", model=folder)'
    note = f"  # float32, {spec.sampling_rate:,} Hz" if spec.sampling_rate else ""
    return f"A finished run answers to raw inputs:\n\n```python\n{call}({raw}){note}\n```"


def _facts(spec: TaskSpec) -> str:
    """Table of the description."""
    low, high = spec.value_range or (None, None)
    kind = {
        "tokens": f"token ids, {spec.vocab_size} of them",
        "values": f"real values, {spec.num_channels} per step"
        + (f", from {low:.4g} to {high:.4g}" if spec.value_range else ""),
    }[spec.modality]
    loss = "cross-entropy over the ids" if spec.modality == "tokens" else "L1 on the values"
    if spec.num_levels:
        loss = f"cross-entropy over {spec.num_levels} grey levels"
    classes = ", ".join(spec.labels) if len(spec.labels) <= 12 else f"{len(spec.labels)} classes"
    rows = [
        ("a step is", kind),
        ("longest example", f"{spec.max_length:,} steps" + (" in each of two documents" if spec.pair else "")),
        ("picture", " x ".join(map(str, spec.image_shape)) if spec.image_shape else ""),
        ("sampling rate", f"{spec.sampling_rate:,} Hz" if spec.sampling_rate else ""),
        ("to predict", (classes or f"a number ({spec.unit})") + (", at every step" if spec.per_position else "")),
        ("score", spec.metric + (f", in {spec.unit}" if spec.unit else "")),
        ("masked in pretraining", f"{spec.mask_ratio:.0%} of the steps, {loss}"),
        ("source", spec.source),
        ("licence", spec.license),
        ("note", spec.note),
    ]
    lines = ["| | |", "|---|---|", *(f"| {title} | {text} |" for title, text in rows if text)]
    return "\n".join(lines)


def _options(loader, fixed: dict) -> str:
    """Table of a loader's options, from its docstring."""
    said = _arguments(inspect.getdoc(loader) or "")
    lines = ["| option | default | meaning |", "|---|---|---|"]
    for name, parameter in inspect.signature(loader).parameters.items():
        if name not in fixed:
            default = "" if parameter.default in (parameter.empty, None) else f"`{parameter.default}`"
            lines.append(f"| `--data.{name}` | {default} | {said.get(name, '').replace('|', '/')} |")
    return "\n".join(lines)


def _arguments(docstring: str) -> dict[str, str]:
    """What the Args section of a docstring says of each argument; arguments named together share the words."""
    section = docstring.split("Args:\n", 1)[-1].split("\n\n")[0]
    said: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        begins = re.match(r" {4}([a-z_0-9]+(?:, [a-z_0-9]+)*): (.*)", line)
        if begins:
            names = begins.group(1).split(", ")
            said |= dict.fromkeys(names, begins.group(2))
        else:
            said |= {name: f"{said[name]} {line.strip()}" for name in names}
    return said


if __name__ == "__main__":
    folder = Path(__file__).resolve().parent.parent / "docs" / "tasks"
    folder.mkdir(parents=True, exist_ok=True)
    for name in TASKS:
        (folder / f"{name}.md").write_text(task_page(name), encoding="utf-8")
    (folder / "README.md").write_text(index(), encoding="utf-8")
    print(f"{len(TASKS)} pages in {folder}")
