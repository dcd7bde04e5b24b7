# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Model, configuration and processor of a published folder, written anew from the fields that this package knows.

A run folder may be anybody's, and a field may name code. So a file is parsed and only its known fields are written.
The code beside them is this package's.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import GenerationConfig, PreTrainedConfig, PreTrainedTokenizerFast

from hf_longseq import models
from hf_longseq.errors import MALFORMED, HfLongSeqError, explained
from hf_longseq.models.modeling_longseq import LongSeqPreTrainedModel
from hf_longseq.training import run_folder

PREPROCESSOR, TOKENIZER_CONFIG, TOKENIZER = "preprocessor_config.json", "tokenizer_config.json", "tokenizer.json"
EXTRACTOR_FIELDS = (
    "feature_size", "sampling_rate", "padding_value", "padding_side", "mean", "std", "peak", "max_length",
    "return_attention_mask",
)  # fmt: skip
IMAGE_FIELDS = ("height", "width", "num_channels", "value_range", "fit", "return_tokens")
# Of series or sounds, and of pictures: field that names the class, Auto class, class, and fields of its file.
PROCESSORS = (
    ("feature_extractor_type", "AutoFeatureExtractor", models.LongSeqFeatureExtractor, EXTRACTOR_FIELDS),
    ("image_processor_type", "AutoImageProcessor", models.LongSeqImageProcessor, IMAGE_FIELDS),
)
TOKENIZER_FIELDS = (
    "model_max_length", "task_max_length", "clean_up_tokenization_spaces", "padding_side", "truncation_side",
)  # fmt: skip
NOT_OURS, RESTORE = "is not a file of this package's", "restore it, or use push_to_hub of the model itself"


def save_model(source: LongSeqPreTrainedModel, folder: Path, state_dict: dict | None = None) -> None:
    """Write weights (`state_dict` where a file holds more than the model), code and configuration."""
    source.save_pretrained(folder, state_dict=state_dict)
    saved = run_folder.read_json(folder / "config.json")
    _write_config(folder, {**known_fields(source.config, saved), "auto_map": dict(source.auto_map)})
    path = folder / "generation_config.json"
    if path.is_file():
        known, saved = GenerationConfig().to_dict(), run_folder.read_json(path)
        run_folder.write_json(path, {name: saved[name] for name in saved if name in known and is_plain(saved[name])})


def known_fields(config: PreTrainedConfig, saved: dict[str, Any]) -> dict[str, Any]:
    """The fields of a saved configuration that its class declares, and likewise of those within it."""
    names = {"model_type"} | {field.name for field in dataclasses.fields(config)}
    kept = {name: value for name, value in saved.items() if name in names}
    inner = {name: getattr(config, name, None) for name in config.sub_configs if name in kept}
    return kept | {
        name: known_fields(value, kept[name]) for name, value in inner.items() if isinstance(value, PreTrainedConfig)
    }


def _write_config(folder: Path, content: dict[str, Any]) -> None:
    content["auto_map"] = dict(sorted(content["auto_map"].items()))
    run_folder.write_json(folder / "config.json", dict(sorted(content.items())))


def is_plain(value: Any) -> bool:
    """Whether a value is a number, a text, a switch, nothing, or a list of these."""
    items = value if isinstance(value, list) else [value]
    return all(item is None or isinstance(item, (str, int, float)) for item in items)


def save_processor(run: Path, folder: Path) -> None:
    """Write the tokenizer or processor of a run into a folder with its model, if there is one.

    Raises:
        HfLongSeqError: If it belongs to another package, or names other code.
    """
    if (run / PREPROCESSOR).is_file():
        _save_preprocessor(run / PREPROCESSOR, folder)
    if (run / TOKENIZER_CONFIG).is_file():
        _save_tokenizer(run, folder)


def _save_preprocessor(path: Path, folder: Path) -> None:
    content = run_folder.read_json(path)
    with explained(f"{path} {NOT_OURS}", *MALFORMED, remedy=RESTORE):
        field, auto, kind, known = PROCESSORS["image_processor_type" in content]
        ours = {auto: f"{kind.__module__.split('.')[-1]}.{kind.__name__}"}
        _refuse_other_code(path.name, content, ours)
        if content[field] != kind.__name__:
            raise ValueError(f"{field} is {content[field]!r}")
        kind(**_plain_fields(content, known)).save_pretrained(folder)
    config = run_folder.read_json(folder / "config.json")
    _write_config(folder, {**config, "auto_map": {**config["auto_map"], **ours}})


def _save_tokenizer(run: Path, folder: Path) -> None:
    """Write a tokenizer with its special tokens, without chat template and code."""
    content = run_folder.read_json(run / TOKENIZER_CONFIG)
    with explained(f"{run / TOKENIZER_CONFIG} {NOT_OURS}", *MALFORMED, remedy=RESTORE):
        _refuse_other_code(TOKENIZER_CONFIG, content, {})
        special = PreTrainedTokenizerFast.SPECIAL_TOKENS_ATTRIBUTES
        tokens = {name: content[name] for name in special if content.get(name) is not None}
        texts = {name: token["content"] if isinstance(token, dict) else token for name, token in tokens.items()}
        fields = _plain_fields({**content, **texts}, [*TOKENIZER_FIELDS, *texts])
    # the library in Rust raises Exception itself
    with explained(f"{run / TOKENIZER} holds no tokenizer", Exception, remedy="restore it"):
        tokenizer = Tokenizer.from_str((run / TOKENIZER).read_text(encoding="utf-8"))
        names = ["input_ids", "attention_mask"]
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_input_names=names, **fields).save_pretrained(folder)


def _refuse_other_code(name: str, content: dict[str, Any], ours: dict[str, str]) -> None:
    named = content.get("auto_map", {})
    pairs = named.items() if isinstance(named, dict) else [("", named)]
    for auto, value in pairs:
        if ours.get(auto) != value:
            where = f"{auto} = {value!r}" if auto else repr(value)
            raise HfLongSeqError(
                f"{name} names code that is not this package's (auto_map: {where}): remove it, or use push_to_hub of "
                "the model itself."
            )


def _plain_fields(content: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    fields = {name: content[name] for name in names if name in content}
    for name, value in fields.items():
        if not is_plain(value):
            raise ValueError(f"{name} is {value!r}")
    return fields
