# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Opens a checkpoint of hf-longseq and runs it on one input of a visitor; `app.py` shows what comes out.

Models are opened by the Auto classes with the code of the installed package: whatever code a repository carries is
never downloaded, so that a public Space may open any name a visitor types.
"""

import csv
import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub import model_info, snapshot_download
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoFeatureExtractor, AutoImageProcessor, AutoModel, AutoTokenizer

from hf_longseq import models
from hf_longseq.data import byte_text
from hf_longseq.escaping import markdown
from hf_longseq.hub.model_files import PREPROCESSOR, TOKENIZER, TOKENIZER_CONFIG
from hf_longseq.hub.pictures import learned_kernels
from hf_longseq.training.inference import span_answer
from hf_longseq.training.untrusted import read_config

MAX_POSITIONS = 1 << 16
MAX_NAME, MAX_LAYERS = 200, 256
RATES = (100, 768_000)  # samples a second of an uploaded sound; resampling takes memory in proportion
# What a visitor may have a public Space download, in bytes.
MAX_WEIGHTS, MAX_TEXTS = 1 << 30, 20 << 20
WEIGHTS = r"model(-\d{5}-of-\d{5})?\.safetensors"
TEXTS = ("config.json", "model.safetensors.index.json", PREPROCESSOR, TOKENIZER_CONFIG, TOKENIZER)
HEADS = ("ForMaskedLM", "ForCausalLM", "ForPreTraining", "ForSequenceClassification", "ForTokenClassification")
NEW_TOKENS = 48
SHOWN_LABELS = 10
# Positions of the input over which attention is averaged.
ATTENTION_POSITIONS = 512


class Unusable(ValueError):
    """A checkpoint or an input that the demo cannot take, in one sentence for the visitor."""


@dataclass
class Checkpoint:
    """An open checkpoint: `kind` says what it reads ("text", "ids", "image", "audio" or "series")."""

    name: str
    model: Any
    processor: Any
    kind: str
    head: str

    @property
    def pair(self) -> bool:
        """Whether it compares two inputs."""
        return self.head == "ForSequenceClassification" and self.model.config.pair_classification

    @property
    def restores(self) -> bool:
        """Whether parts of the input are hidden and restored, by a head that was never given labels."""
        return self.head == "ForPreTraining" or (self.head == "ForMaskedLM" and self.kind != "text")

    @property
    def summary(self) -> str:
        config = self.model.config
        direction = "bidirectional" if config.bidirectional else "causal"
        size = f"{config.num_hidden_layers} layers of {config.hidden_size} channels"
        return (
            f"{self.task}\n\n**{type(self.model).__name__}**: {size}, {direction}, {self.model.num_parameters():,} "
            f"parameters; reads {READS[self.kind]}"
        )

    @property
    def task(self) -> str:
        """What to give and what comes back, in a sentence; names of labels may be a stranger's."""
        config = self.model.config
        names = [markdown(name) for name in list(config.id2label.values())[:SHOWN_LABELS]]
        labels = ", ".join(names) + (", ..." if len(config.id2label) > SHOWN_LABELS else "")
        given = GIVE[self.kind].replace("one", "two", 1) if self.pair else GIVE[self.kind]
        if self.head == "ForSequenceClassification":
            number = config.problem_type == "regression" or config.num_labels == 1
            return f"{given}: the model answers with {'a number' if number else f'its class ({labels})'}."
        if self.head == "ForTokenClassification":
            what = "a number for every position" if config.problem_type == "regression" else f"spans ({labels})"
            return f"{given}: the model answers with {what}."
        if self.head == "ForCausalLM":
            return f"{given}: the model continues it."
        if self.restores:
            causal = config.pretraining_objective == "causal" and self.head == "ForPreTraining"
            return f"{given}: the model {'predicts each position from those before it' if causal else HIDDEN}."
        return f"{given} with {self.processor.mask_token} where something is missing: the model fills the gaps."


READS = {
    "text": "text",
    "ids": "token ids",
    "image": "pictures, pixel by pixel",
    "audio": "sound, sample by sample",
    "series": "series of numbers",
}


GIVE = {
    "text": "Write one text",
    "ids": "Write one list of token ids",
    "image": "Draw or choose one picture",
    "audio": "Record or choose one sound",
    "series": "Write or upload one series",
}
HIDDEN = "sees it with some positions hidden, and restores them"


@dataclass
class Answer:
    """What the model says: probabilities of labels, a text, curves to draw (name -> values), or spans: pieces of the
    input with the label of each, or None, and for curves the first position, end and label of each."""

    labels: dict[str, float] | None = None
    text: str | None = None
    curves: dict[str, torch.Tensor] | None = None
    pieces: list[tuple[str, str | None]] | None = None
    shades: tuple[tuple[int, int, str], ...] = ()


def open_checkpoint(name: str) -> Checkpoint:
    """Open a folder or a repository of the Hub under the head it was saved with.

    Raises:
        Unusable: If there is no such checkpoint, or it is none of this package's.
    """
    name = name.strip()[:MAX_NAME]
    folder = Path(name).expanduser()
    try:
        if not folder.is_dir():
            folder = _download(name)
        config = _configuration(folder, name)
        head = _head(config, name)
        processor, kind = _processor(folder, config.input_type)
        model = getattr(transformers, f"AutoModel{head}").from_pretrained(
            folder, config=config, dtype="float32", use_safetensors=True, trust_remote_code=False
        )
    except Unusable:
        raise
    except (OSError, ValueError, RuntimeError, AttributeError, TypeError, LookupError, StrictDataclassError) as error:
        reason = " ".join(str(error).split())[:200]
        raise Unusable(f"{name!r} is neither a folder nor a repository with a checkpoint of ours: {reason}") from error
    return Checkpoint(name, model.eval(), processor, kind, head)


def _download(name: str) -> Path:
    """Files of a repository in a folder: its weights only once configuration and sizes say that they can be opened."""
    files = {file.rfilename: file.size or 0 for file in model_info(name, files_metadata=True).siblings}
    weights = {file: size for file, size in files.items() if re.fullmatch(WEIGHTS, file)}
    texts = {file: size for file, size in files.items() if file in TEXTS}
    for kind, sizes, limit in (("weights", weights, MAX_WEIGHTS), ("tokenizer and configuration", texts, MAX_TEXTS)):
        if sum(sizes.values()) > limit:
            total = f"{sum(sizes.values()) / 1e6:,.0f} MB of {kind}"
            raise Unusable(f"{name!r} holds {total}; the demo opens up to {limit / 1e6:,.0f} MB.")
    folder = Path(snapshot_download(name, allow_patterns=["config.json"]))
    _head(_configuration(folder, name), name)
    if not weights:
        raise Unusable(f"{name!r} holds no model.safetensors, the one kind of weights that the demo opens.")
    return Path(snapshot_download(name, allow_patterns=[*texts, *weights]))


def _configuration(folder: Path, name: str) -> Any:
    """The configuration of one of this package's architectures, of a size that the demo can open."""
    said = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if said.get("model_type") not in {config.model_type for config, _ in models.ARCHITECTURES.values()}:
        raise Unusable(f"{name!r} holds a {said.get('model_type')} model: give a checkpoint of hf-longseq.")
    layers = said.get("num_hidden_layers", 0)
    if isinstance(layers, int) and layers <= MAX_LAYERS:
        config = read_config(folder)
        with torch.device("meta"):  # what the file of weights lacks would be made up, at any size
            parameters = AutoModel.from_config(config).num_parameters()
        if set(config.id2label) != set(range(config.num_labels)):
            raise Unusable(f"{name!r} has labels that are not numbered from 0 without a gap.")
        if 4 * parameters <= MAX_WEIGHTS:
            return config
    raise Unusable(f"{name!r} describes a model that is too large for the demo ({MAX_WEIGHTS / 1e6:,.0f} MB).")


def _head(config: Any, name: str) -> str:
    """The head under which a model was saved; one that the demo can show."""
    saved = str((config.architectures or [""])[0])
    head = saved[saved.index("For") :] if "For" in saved else ""
    if head not in HEADS:
        raise Unusable(f"{name!r} was saved without a head whose predictions the demo shows ({', '.join(HEADS)}).")
    return head


def _processor(folder: Path, input_type: str) -> tuple[Any, str]:
    """What was saved to prepare inputs, and the kind of input."""
    path = folder / "preprocessor_config.json"
    if path.is_file():
        if "image_processor_type" in json.loads(path.read_text(encoding="utf-8")):
            return AutoImageProcessor.from_pretrained(folder, trust_remote_code=False), "image"
        extractor = AutoFeatureExtractor.from_pretrained(folder, trust_remote_code=False)
        return extractor, "audio" if extractor.sampling_rate else "series"
    if (folder / "tokenizer_config.json").is_file():
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False), "text"
    return None, "ids" if input_type == "tokens" else "series"


def prepare(checkpoint: Checkpoint, raw: Any) -> dict[str, torch.Tensor]:
    """One input of the checkpoint's kind as a batch of one.

    Args:
        raw: A text ("text", "ids"), a Pillow image, a (rate, samples) pair, or csv text ("series").
    """
    kind, processor, config = checkpoint.kind, checkpoint.processor, checkpoint.model.config
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        raise Unusable("There is no input yet: give one, or choose an example.")
    if kind == "text":
        batch = dict(processor(raw, return_tensors="pt", truncation=processor.model_max_length < MAX_POSITIONS))
        batch = {key: batch[key] for key in ("input_ids", "attention_mask")}
    elif kind == "image":
        batch = dict(processor(raw, return_tensors="pt"))
    elif kind == "audio":
        rate, samples = raw
        if not RATES[0] <= rate <= RATES[1] or len(samples) * processor.sampling_rate > MAX_POSITIONS * rate:
            most = f"give up to {MAX_POSITIONS / processor.sampling_rate:.1f} seconds at {RATES[0]} to {RATES[1]} Hz"
            raise Unusable(f"The sound has {len(samples)} samples at {rate} Hz: {most}.")
        values = torch.as_tensor(samples).double()
        batch = dict(processor(values.mean(1) if values.ndim == 2 else values, rate, return_tensors="pt"))
    elif kind == "ids":
        batch = {"input_ids": torch.tensor([_token_ids(raw, config.vocab_size)])}
    else:
        values = torch.tensor(read_series(raw, config.num_channels))
        batch = dict(processor(values, return_tensors="pt")) if processor else {"input_values": values[None].float()}
    length = next(iter(batch.values())).shape[1]
    if not 0 < length <= MAX_POSITIONS:
        raise Unusable(f"The input has {length} positions; the demo takes 1 to {MAX_POSITIONS}.")
    return batch


def _token_ids(raw: str, vocab_size: int) -> list[int]:
    words = raw.replace(",", " ").split()
    if not all(word.isdecimal() and int(word) < vocab_size for word in words):
        raise Unusable(f"Token ids are whole numbers from 0 to {vocab_size - 1} between blanks.")
    return [int(word) for word in words]


def read_series(raw: str, channels: int) -> list[list[float]]:
    """Rows of a csv text, one position each; a first row of names is left out. A single row is one channel."""
    rows = [row for row in csv.reader(io.StringIO(raw.replace("\t", ",").replace(";", ","))) if any(row)]
    rows = [[cell for cell in row if cell.strip()] for row in rows]
    if len(rows) > 1 and not _numbers(rows[0]):
        rows = rows[1:]
    if len(rows) == 1 and channels == 1:
        rows = [[cell] for cell in rows[0]]
    for index, row in enumerate(rows):
        if not _numbers(row) or len(row) != channels:
            raise Unusable(f"Row {index} of the series is {','.join(row)[:60]!r}; give {channels} number(s) per row.")
    return [[float(cell) for cell in row] for row in rows]


def _numbers(cells: list[str]) -> bool:
    try:
        return all(abs(float(cell)) < 1e30 for cell in cells)
    except ValueError:
        return False


@torch.no_grad()
def run(checkpoint: Checkpoint, raw: Any, raw_2: Any = None, hidden_share: float = 0.25) -> Answer:
    """What the checkpoint says of an input.

    Args:
        raw, raw_2: The input; the second one for checkpoints that compare two.
        hidden_share: Which part of the positions is hidden, where the checkpoint restores inputs.
    """
    batch = prepare(checkpoint, raw)
    if checkpoint.head == "ForSequenceClassification":
        if checkpoint.pair:
            batch |= {f"{key}_2": value for key, value in prepare(checkpoint, raw_2).items()}
        return _classify(checkpoint, checkpoint.model(**batch).logits[0].float())
    if checkpoint.head == "ForTokenClassification":
        return _label(checkpoint, batch)
    if checkpoint.head == "ForCausalLM":
        return _go_on(checkpoint, batch)
    if checkpoint.restores:
        return _restore(checkpoint, batch, hidden_share)
    return _fill(checkpoint, batch)


def _classify(checkpoint: Checkpoint, logits_K: torch.Tensor) -> Answer:
    config = checkpoint.model.config
    problem = config.problem_type or ("regression" if config.num_labels == 1 else "single_label_classification")
    if problem == "regression":
        return Answer(text=", ".join(f"{number:.4g}" for number in logits_K.tolist()))
    several = problem == "multi_label_classification"
    shares = logits_K.sigmoid() if several else logits_K.softmax(-1)
    return Answer(labels={config.id2label[index]: share for index, share in enumerate(shares.tolist())})


def _label(checkpoint: Checkpoint, batch: dict[str, torch.Tensor]) -> Answer:
    """Every position with its label: a text in pieces, a signal with shaded spans, or the numbers as a curve."""
    tokenizer = checkpoint.processor if checkpoint.kind == "text" else None
    is_bytes = tokenizer is not None and len(tokenizer) == byte_text.VOCAB_SIZE
    inputs = next(iter(batch.values()))
    logits = checkpoint.model(**batch).logits.float()
    masks = {"attention_mask": torch.ones(inputs.shape[:2], dtype=torch.long)}
    row = {name: tensor[0] for name, tensor in (masks | batch).items()}
    answer = span_answer(logits[0], None, row, checkpoint.model.config, is_bytes)
    if "prediction" in answer:
        numbers = torch.tensor(answer["prediction"])
        return Answer(curves={"predicted": numbers.reshape(len(numbers), -1)[:, 0]})
    if inputs.is_floating_point():
        shades = tuple((span["start"], span["end"], span["label"]) for span in answer["spans"])
        return Answer(curves={"input": inputs[0].reshape(inputs.shape[1], -1)[:, 0]}, shades=shades)
    if is_bytes:
        symbols = list(byte_text.decode(inputs[0]))
    else:
        symbols = tokenizer.convert_ids_to_tokens(inputs[0]) if tokenizer else [f"{id} " for id in inputs[0].tolist()]
    pieces, place = [], 0
    for span in answer["spans"]:
        if span["start"] >= place:  # of spans that overlap the one that began first
            pieces += [("".join(symbols[place : span["start"]]), None)]
            pieces += [("".join(symbols[span["start"] : span["end"]]), span["label"])]
            place = span["end"]
    pieces.append(("".join(symbols[place:]), None))
    return Answer(pieces=[(text, label) for text, label in pieces if text])


def _go_on(checkpoint: Checkpoint, batch: dict[str, torch.Tensor]) -> Answer:
    tokenizer = checkpoint.processor if checkpoint.kind == "text" else None
    config = checkpoint.model.config
    made = checkpoint.model.generate(
        **batch, max_new_tokens=NEW_TOKENS, do_sample=False, pad_token_id=config.pad_token_id or 0
    )[0]
    return Answer(text=tokenizer.decode(made) if tokenizer else " ".join(map(str, made.tolist())))


def _fill(checkpoint: Checkpoint, batch: dict[str, torch.Tensor]) -> Answer:
    """The text with every mask token replaced by the likeliest token."""
    tokenizer, ids_L = checkpoint.processor, batch["input_ids"][0].clone()
    masked_L = ids_L == tokenizer.mask_token_id
    if not masked_L.any():
        raise Unusable(f"This checkpoint restores hidden parts: write {tokenizer.mask_token} where one is to be.")
    logits_LV = checkpoint.model(**batch).logits[0]
    logits_LV[:, tokenizer.all_special_ids] = -torch.inf
    ids_L[masked_L] = logits_LV.argmax(-1)[masked_L]
    return Answer(text=tokenizer.decode(ids_L, skip_special_tokens=True))


def _restore(checkpoint: Checkpoint, batch: dict[str, torch.Tensor], share: float) -> Answer:
    """The first channel as it is, what of it the model saw, and what the model makes of it."""
    model, config = checkpoint.model, checkpoint.model.config
    causal = config.pretraining_objective == "causal" and checkpoint.head == "ForPreTraining"
    name = "input_ids" if "input_ids" in batch else "input_values"
    true_L = batch[name][0].float().reshape(batch[name].shape[1], -1)[:, 0]
    hidden_L = torch.zeros(len(true_L), dtype=torch.bool)
    if not causal:
        hidden_L = torch.rand(len(true_L), generator=torch.Generator().manual_seed(0)) < share
    if name == "input_values":
        restored_L = model(**batch, bool_masked_pos=hidden_L[None]).logits[0, :, 0].float()
    elif config.mask_token_id is None:
        raise Unusable("This checkpoint names no mask token, so nothing can be hidden from it.")
    else:
        batch = {**batch, name: batch[name].masked_fill(hidden_L, config.mask_token_id)}
        restored_L = model(**batch).logits[0].argmax(-1).float()
    if restored_L.ndim == 2:  # one score for each of the levels between the ends of the range
        low, high = getattr(checkpoint.processor, "value_range", (float(true_L.min()), float(true_L.max())))
        restored_L = low + restored_L.argmax(-1) * (high - low) / (restored_L.shape[-1] - 1)
    if causal:
        return Answer(curves={"input": true_L[1:], "predicted one step before": restored_L[:-1]})
    seen_L = true_L.masked_fill(hidden_L, torch.nan)
    return Answer(curves={"input": true_L, "seen": seen_L, "restored": torch.where(hidden_L, restored_L, true_L)})


@torch.no_grad()
def reach(checkpoint: Checkpoint, raw: Any) -> tuple[str, list[torch.Tensor]]:
    """How far each layer looks: the kernels it learned, (channels, lags), or for attention, which has none, the mean
    weight that each head gives to earlier positions of this input, (heads, lags). With a title; empty if neither."""
    kernels = learned_kernels(checkpoint.model)
    if kernels:
        return "Learned kernels: what an input adds to later outputs, first channels", kernels
    batch = {name: part[:, :ATTENTION_POSITIONS] for name, part in prepare(checkpoint, raw).items()}
    model, used = checkpoint.model, checkpoint.model.config._attn_implementation
    model.set_attn_implementation("eager")  # the only one that returns weights
    try:
        weights = getattr(model, model.base_model_prefix)(**batch, output_attentions=True).attentions
    finally:
        model.set_attn_implementation(used)
    found = [
        torch.stack([one_BALL[0].diagonal(-lag, -2, -1).mean(-1) for lag in range(one_BALL.shape[-1])], dim=-1)
        for one_BALL in weights or ()
        if one_BALL is not None
    ]
    return "Attention has no kernels: mean weight of earlier positions of this input, by head", found
