# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The code of a model card: a pipeline on a real example, and another use of the model.

`templates/snippets.py.jinja` gets the configuration's numbers, the name of the repository and examples that this
package made, and nothing from records, which may be anybody's.
"""

import contextlib
import io
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from transformers import AutoTokenizer

from hf_longseq.data.processors import task_tokenizer
from hf_longseq.data.published import INPUTS, media_kind, to_published
from hf_longseq.data.task import TASKS, load_task

MEDIA = {"audio": "example.wav", "image": "example.png"}
MAX_TEXT = 256
# Tasks with the pipelines of pictures and of sounds.
PIPELINES = {
    "image": ("image", "pathfinder", "pathfinder-16", "pathx", "pathx-256", "scifar", "smnist"),
    "audio": ("spoken-tones", "speech-commands", "voices"),
}
HEAD_PIPELINES = {"ForMaskedLM": "fill-mask", "ForCausalLM": "text-generation"}
LISTOPS = "[MAX 4 [MIN 2 3 ] 1 [SM 5 9 0 ] ]"
TEMPLATE = Path(__file__).parent / "templates" / "snippets.py.jinja"
VERBS = {"fill-mask": "fill", "text-generation": "generate", "token-classification": "label"}
SHOWN = {"audio": '{"raw": sound, "sampling_rate": rate}', "image": "picture"}


@dataclass(frozen=True)
class Snippets:
    """Two pieces of code for a card, each complete: the first use of the model, and another.

    `pipeline` is that of `use`; None where transformers has none for such inputs.
    """

    use: str
    other: str
    other_title: str
    pipeline: str | None = None

    def here(self, repo_id: str, folder: Path) -> tuple[str, str]:
        """Both, reading a folder instead of the repository."""
        return tuple(_local(code, repo_id, folder) for code in (self.use, self.other))


def _local(code: str, repo_id: str, folder: Path) -> str:
    for name in MEDIA.values():
        code = code.replace(f'hf_hub_download("{repo_id}", "{name}")', repr(str(folder / name)))
    return code.replace(f'"{repo_id}"', repr(str(folder)))


def printed(code: Snippets, repo_id: str, folder: Path) -> str:
    """The output of the first piece with the model in a folder that this package saved."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(compile(_local(code.use, repo_id, folder), "a snippet of the card", "exec"), {})
    return shown.getvalue().rstrip("\n")


def pipeline_tag(task: str, config, head: str) -> str | None:
    """The Hub's name for the use of the model; None without one, or without a pipeline for such inputs."""
    tokens = config.input_type == "tokens"
    if head in HEAD_PIPELINES:
        return HEAD_PIPELINES[head]
    if head == "ForTokenClassification":
        return "token-classification" if tokens and config.problem_type != "regression" else None
    if head != "ForSequenceClassification" or config.pair_classification:
        return None
    if config.problem_type == "regression" and not tokens:
        return None
    kind = next((kind for kind, tasks in PIPELINES.items() if task in tasks), "text")
    return f"{kind}-classification" if tokens or kind != "text" else None


def real_example(task: str, given: dict[str, Any], folder: Path) -> tuple[str | None, str | None]:
    """An example of the test split, as text or as the name of a file written into `folder`, and its label.

    (None, None) for data that the package neither embeds nor generates. `given` are the recorded options of the task.
    """
    if task == "listops":
        return LISTOPS, "4"
    if task not in TASKS or TASKS[task].source not in ("generated", "embedded"):
        return None, None
    known = TASKS[task].parameters
    with tempfile.TemporaryDirectory() as cache:
        if TASKS[task].source == "generated":
            options = {"train_examples": 1, "eval_examples": 1, "num_workers": 1, "cache_dir": cache}
        else:
            options = {name: given[name] for name in known if name == "length" and given.get(name) is not None}
        splits, spec = load_task(task, **{name: value for name, value in options.items() if name in known})
        rows = splits["test"].select(range(1))
        media, tokenizer = media_kind(rows.features, spec), task_tokenizer(spec)
        label = None if spec.per_position or not spec.labels else spec.labels[int(rows[0]["labels"])]
        if media:
            table = to_published(rows.with_format("arrow")[:], rows.features, spec)
            (folder / MEDIA[media]).write_bytes(table[media][0].as_py()["bytes"])
            return MEDIA[media], label
        return tokenizer and tokenizer.decode(rows[0][INPUTS[0]], skip_special_tokens=True), label


def snippets(
    config, head: str, repo_id: str, folder: Path, task: str = "", example: str | None = None, classifier: bool = False
) -> Snippets:
    """The code for a card of a model whose class ends in `head`; the processor in `folder` decides on a pipeline.

    `example` comes from `real_example`; `classifier` says that a checkpoint of another head has one too.
    """
    tag = pipeline_tag(task, config, head)
    processor = folder / "preprocessor_config.json"
    needed = folder / "tokenizer_config.json" if tag and tag.split("-")[0] not in MEDIA else processor
    tag = tag if needed.is_file() else None
    kind, text = tag.split("-")[0] if tag else "", ""
    if tag and kind not in MEDIA:
        text = repr(_text(tag, folder, example or "A text, read from its first to its last byte."))
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    pieces = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).make_module({
        "repo_id": repo_id, "config": config, "head": head, "classifier": classifier, "tag": tag, "kind": kind,
        "verb": VERBS.get(tag, "classify"), "example": example, "text": text,
        "shown": SHOWN.get(kind) or ("text" if len(text) > 60 else text),
        "extractor": processor.is_file() and "feature_extractor_type" in processor.read_text(encoding="utf-8"),
    })  # fmt: skip
    title = "Its classifier:" if classifier else "For fine-tuning on labels of your own:"
    if head in ("ForSequenceClassification", "ForTokenClassification"):
        title = "As an encoder:"
    return Snippets(pieces.use().strip("\n"), pieces.other().strip("\n"), title, tag)


def _text(tag: str, folder: Path, text: str) -> str:
    """A text for a pipeline: with a hidden token in its middle, or its first half to continue."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"][:MAX_TEXT]
    middle = len(ids) // 2
    if tag == "fill-mask":
        ids[middle] = tokenizer.mask_token_id
    return tokenizer.decode(ids[:middle] if tag == "text-generation" else ids)
