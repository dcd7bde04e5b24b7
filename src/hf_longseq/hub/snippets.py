# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The code that a model card shows: a pipeline on a real example, and what else the model is good for.

Nothing that a record says is in it: code is written from the configuration's numbers, the name of the repository and
examples that this package made itself.
"""

import contextlib
import io
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from hf_longseq.data.published import INPUTS, media_kind, to_published
from hf_longseq.data.task import TASKS, load_task
from hf_longseq.data.tokenizers import task_tokenizer
from hf_longseq.training.recipe import loader_parameters

MEDIA = {"audio": "example.wav", "image": "example.png"}
MAX_TEXT = 256
# Tasks whose input is neither text nor a series without a pipeline of its own.
PIPELINES = {
    "image": ("image", "pathfinder", "pathfinder-16", "pathx", "pathx-256", "scifar", "smnist"),
    "audio": ("spoken-tones", "speech-commands", "voices"),
}
HEAD_PIPELINES = {"ForMaskedLM": "fill-mask", "ForCausalLM": "text-generation"}
LISTOPS = "[MAX 4 [MIN 2 3 ] 1 [SM 5 9 0 ] ]"
CLASSES = """for answer in classify({example}, top_k=3):
    print(f"{{answer['label']}}: {{answer['score']:.1%}}")"""
WORDS = {
    "fill-mask": """for answer in fill({example}, top_k=3):
    print(f"{{answer['token_str']}}: {{answer['score']:.1%}}")""",
    "text-generation": 'print(generate({example}, max_new_tokens=24, do_sample=False)[0]["generated_text"])',
    "token-classification": """for piece in label({example}, aggregation_strategy="simple")[:8]:
    print(f"{{piece['start']}} to {{piece['end']}}: {{piece['entity_group']}} ({{piece['score']:.1%}})")""",
}
NEW_CLASSIFIER = """from transformers import AutoModelForSequenceClassification

model = AutoModelForSequenceClassification.from_pretrained(
    "{repo_id}", trust_remote_code=True, num_labels=3, problem_type="single_label_classification",
    id2label={{0: "a", 1: "b", 2: "c"}}, label2id={{"a": 0, "b": 1, "c": 2}},
)  # the classifier is new and has to be fine-tuned"""
CLASSIFIER = """from transformers import AutoModelForSequenceClassification

model = AutoModelForSequenceClassification.from_pretrained("{repo_id}", trust_remote_code=True)"""
ENCODER = """import torch
from transformers import AutoModel

encoder = AutoModel.from_pretrained("{repo_id}", trust_remote_code=True).eval()
inputs = {inputs}
with torch.no_grad():
    features = encoder(**inputs).last_hidden_state  # one vector per position
print(features.shape)"""


@dataclass(frozen=True)
class Snippets:
    """Two pieces of code for a card; each runs as it stands.

    Args:
        use: What the model is for.
        other: What else it is good for.
        other_title: What that is.
        pipeline: The pipeline that `use` runs; None where transformers has none for such inputs.
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
    """What the first piece prints of the model in a folder that this package saved."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(compile(_local(code.use, repo_id, folder), "a snippet of the card", "exec"), {})
    return shown.getvalue().rstrip("\n")


def pipeline_tag(task: str, config, head: str) -> str | None:
    """The Hub's name for what the model does; None where it has none, or its pipeline does not take such inputs."""
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
    """An example of the test split of a task that the package embeds or draws, and its label: its text, or the name of
    a file that is written into `folder`; (None, None) for other data, which are their owner's.

    Args:
        task: Name of the task.
        given: Options of the task, as recorded with the run.
        folder: The folder that is published.
    """
    if task == "listops":
        return LISTOPS, "4"
    if task not in TASKS or TASKS[task].source not in ("generated", "embedded"):
        return None, None
    known = loader_parameters(task)
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
    """The code for a card.

    Args:
        config: Configuration of the model.
        head: Suffix of its class, such as "ForMaskedLM".
        repo_id: Where it will be published.
        folder: The folder that is published; the processor in it decides whether there is a pipeline.
        task: What it was trained for.
        example: The text or file that `real_example` gave.
        classifier: Whether a checkpoint of another head holds a classifier too.
    """
    tag = pipeline_tag(task, config, head)
    needed = "tokenizer_config.json" if tag and tag.split("-")[0] not in MEDIA else "preprocessor_config.json"
    tag = tag if (folder / needed).is_file() else None
    use = _pipeline(tag, repo_id, folder, example) if tag else _model(config, head, repo_id, folder)
    if head in ("ForSequenceClassification", "ForTokenClassification"):
        return Snippets(use, ENCODER.format(repo_id=repo_id, inputs=_inputs(config)), "As an encoder:", tag)
    if classifier:
        return Snippets(use, CLASSIFIER.format(repo_id=repo_id), "Its classifier:", tag)
    return Snippets(use, NEW_CLASSIFIER.format(repo_id=repo_id), "For fine-tuning on labels of your own:", tag)


def _pipeline(tag: str, repo_id: str, folder: Path, example: str | None) -> str:
    imports, prepare, kind = ["from transformers import pipeline"], [], tag.split("-")[0]
    verb = {"fill-mask": "fill", "text-generation": "generate", "token-classification": "label"}.get(tag, "classify")
    fetched = f'hf_hub_download("{repo_id}", "{MEDIA.get(kind)}")'
    if kind in MEDIA and example:
        imports.insert(0, "from huggingface_hub import hf_hub_download")
    if kind == "audio":
        imports.insert(0, "import numpy")
        if example:
            imports[0] = "from scipy.io import wavfile"
            imports.sort()
            prepare = [f"rate, sound = wavfile.read({fetched})"]
        else:
            prepare = ['sound, rate = numpy.zeros(16000, dtype="float32"), 16000  # your recording']
        shown = '{"raw": sound, "sampling_rate": rate}'
    elif kind == "image":
        shown = "picture"
        if not example:
            imports.insert(0, "from PIL import Image")
        prepare = [f"picture = {fetched}" if example else 'picture = Image.new("L", (28, 28))  # your picture']
    else:
        text = repr(_text(tag, folder, example or "A text, read from its first to its last byte."))
        prepare, shown = ([f"text = {text}"], "text") if len(text) > 60 else ([], text)
    call = WORDS.get(tag, CLASSES).format(example=shown)
    opened = f'{verb} = pipeline("{tag}", "{repo_id}", trust_remote_code=True)'
    return "\n".join([*imports, "", opened, *prepare, call])


def _text(tag: str, folder: Path, text: str) -> str:
    """A text as a pipeline takes it: with a hidden token in its middle, or its first half, to be continued."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"][:MAX_TEXT]
    middle = len(ids) // 2
    if tag == "fill-mask":
        ids[middle] = tokenizer.mask_token_id
    return tokenizer.decode(ids[:middle] if tag == "text-generation" else ids)


def _inputs(config) -> str:
    """An input without content, of the kind that the model reads."""
    if config.input_type == "tokens":
        return f'{{"input_ids": torch.arange(64)[None] % {config.vocab_size}}}'
    shape = "1, 256" if config.num_channels == 1 else f"1, 256, {config.num_channels}"
    return f'{{"input_values": torch.zeros({shape})}}'


def _model(config, head: str, repo_id: str, folder: Path) -> str:
    """A model without a pipeline, with its processor if it has one."""
    auto, output = f"AutoModel{head}", "logits" if head else "last_hidden_state"
    name = "input_ids" if config.input_type == "tokens" else "input_values"
    opened = [f'model = {auto}.from_pretrained("{repo_id}", trust_remote_code=True).eval()']
    prepared, imported, imports = [f"inputs = {_inputs(config)}"], auto, ["import torch"]
    processor = folder / "preprocessor_config.json"
    if processor.is_file() and "feature_extractor_type" in processor.read_text(encoding="utf-8"):
        imports, imported = ["import numpy", "import torch"], f"AutoFeatureExtractor, {auto}"
        shape = "256" if config.num_channels == 1 else f"(256, {config.num_channels})"
        extractor = f'AutoFeatureExtractor.from_pretrained("{repo_id}", trust_remote_code=True)'
        prepared = [
            f"series = numpy.zeros({shape})  # your measurements, in the order of time",
            f'inputs = {extractor}(series, return_tensors="pt")',
        ]
    if config.pair_classification and head == "ForSequenceClassification":
        prepared += [f'inputs["{name}_2"] = inputs["{name}"]']
    run = ["with torch.no_grad():", f"    outputs = model(**inputs).{output}"]
    one_of_several = config.problem_type == "single_label_classification" and config.num_labels > 1
    if head == "ForSequenceClassification" and one_of_several:
        run += [
            "for label, score in zip(model.config.id2label.values(), outputs.softmax(-1)[0]):",
            '    print(f"{label}: {score:.1%}")',
        ]
    else:
        run += ["print(outputs.shape)"]
    return "\n".join([*imports, f"from transformers import {imported}", "", *opened, *prepared, *run])
