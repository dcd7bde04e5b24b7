# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""New files for a checkpoint: opened as `--data` opens them, encoded by the processor that lies beside the weights."""

import json
import logging
import os
import sys
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from datasets import ClassLabel, List, Value
from transformers import (
    AutoFeatureExtractor,
    AutoImageProcessor,
    AutoTokenizer,
    BaseImageProcessor,
    BatchEncoding,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
)

from hf_longseq.data import byte_text
from hf_longseq.data.own_labels import LABEL_NAMES, read_labels
from hf_longseq.data.own_reader import (
    Reader,
    content_of,
    is_absent,
    modality_of,
    open_audio,
    open_image,
    read_numbers,
    text_of,
)
from hf_longseq.data.own_runs import IGNORE
from hf_longseq.data.own_sources import AUDIO_ENDINGS, IMAGE_ENDINGS, Source, open_source, rows_of
from hf_longseq.data.processors import cut_length, special_as_text
from hf_longseq.data.row_hashes import hash_of
from hf_longseq.errors import HfLongSeqError, did_you_mean, explained
from hf_longseq.escaping import one_line

logger = logging.getLogger(__name__)

STDIN = "-"
# What each kind of processor reads, and the modalities that it takes.
FITS = {
    "text": ("text", "tokens"),
    "ids": ("tokens", "text"),
    "series": ("values", "tokens", "audio", "text"),
    "image": ("image", "values", "tokens"),
}


@dataclass
class Encoder:
    """Encodes raw inputs by a processor: a tokenizer, an image processor, a feature extractor, or None for ids, which
    are then cut to `max_length`."""

    processor: Any
    max_length: int | None = None
    has_cut: bool = False

    @property
    def kind(self) -> str:
        """ "text", "image", "series" or "ids"."""
        if isinstance(self.processor, PreTrainedTokenizerBase):
            return "text"
        if isinstance(self.processor, BaseImageProcessor):
            return "image"
        return "ids" if self.processor is None else "series"

    def check(self, source: Source, column: str, reader: str = "the model") -> str:
        """As what a column is read: its modality, which the processor has to take; numbers in text are "values"."""
        found = modality_of(source, column)
        if found not in FITS[self.kind]:
            raise HfLongSeqError(
                f"{source.name} holds {found} in column {column!r}, but {reader} reads {self.kind}: give a source of "
                "the same kind, or name another --input_column."
            )
        return "values" if found == "text" and self.kind != "text" else found

    def encode(self, raw: Any, where: str) -> tuple[str, np.ndarray]:
        """`input_ids` or `input_values`, and the array of one input."""
        raw = text_of(raw)
        if is_absent(raw):
            raise HfLongSeqError(f"{where} is empty: remove the row.")
        if self.kind == "text" and isinstance(raw, str):
            return "input_ids", np.asarray(self.tokens(raw, where)["input_ids"])
        if self.kind in ("text", "ids"):
            ids = Reader("tokens").read(raw, where)
            longest = self.max_length if self.kind == "ids" else cut_length(self.processor)
            return "input_ids", ids[:longest] if self._is_cut(len(ids), longest, where) else ids
        with explained(f"{where} does not fit the model", ValueError):
            if self.kind == "series":
                return "input_values", self._series(raw, where)
            is_file = isinstance(raw, (dict, str))
            picture = open_image(raw, where, self.processor.num_channels == 3, None) if is_file else np.array(raw)
            ((name, encoded),) = self.processor(picture, return_tensors="np").items()
            return name, encoded[0]

    def tokens(self, text: str, where: str, **options: Any) -> BatchEncoding:
        """What the tokenizer makes of a text, cut where the model's inputs end."""
        longest, options = cut_length(self.processor), special_as_text(self.processor) | options
        with explained(f"{where} does not fit the model's tokenizer", OverflowError, ValueError):
            found = self.processor(text, **options)
            if self._is_cut(len(found["input_ids"]), longest, where):
                found = self.processor(text, truncation=True, max_length=longest, **options)
        return found

    def _series(self, raw: Any, where: str) -> np.ndarray:
        rate = None
        if isinstance(raw, dict) or (isinstance(raw, str) and raw.lower().endswith(AUDIO_ENDINGS)):
            raw, rate = open_audio(raw, where, None)
        values = self.processor.prepare(np.array(read_numbers(raw, where), dtype=np.float64), rate)
        self._is_cut(len(values), self.processor.max_length, where)
        return values[: self.processor.max_length].numpy()

    def _is_cut(self, length: int, longest: int | None, where: str) -> bool:
        """Whether an input is too long; a warning names the first one."""
        too_long = longest is not None and length > longest
        if too_long and not self.has_cut:
            logger.warning(
                "%s has %d positions: the model was trained on up to %d, and reads these.", where, length, longest
            )
        self.has_cut = self.has_cut or too_long
        return too_long


class RawInputs:
    """Rows of a source in the form that the checkpoint of a folder reads, one at a time.

    The source is what `--data` takes, a single picture or sound, or "-" for lines of text or JSON from standard input.
    Its columns are those of `given`, else those that the run `recorded`, else the first usual names that it has.
    Of a stream the first `num_rows` are read.
    """

    def __init__(
        self,
        source: Any,
        folder: Path,
        config: PreTrainedConfig,
        given: dict[str, str | None] | None = None,
        recorded: dict[str, Any] | None = None,
        num_rows: int | None = None,
    ):
        self.source = _open(source, num_rows)
        self.recorded = recorded or {}
        longest = self.recorded.get("max_length")
        with explained(f"model {folder} holds a tokenizer or processor that cannot be read", Exception):
            self.encoder = Encoder(_processor(folder, config), longest if isinstance(longest, int) else None)
        if not len(self.source):
            raise HfLongSeqError(f"{self.source.name} has no rows.")
        self.given = {name: column for name, column in (given or {}).items() if column is not None}
        second = self.given.get("second_input_column", self.recorded.get("second_input_column"))
        if getattr(config, "pair_classification", False) and second is None:
            raise HfLongSeqError("the model reads pairs of inputs: name the second one with second_input_column.")
        self.names = [self._input_column(), *([] if second is None else [second])]
        self.columns = [self.source.column(name) for name in self.names]
        self.modality = self.encoder.check(self.source, self.names[0])

    def _input_column(self) -> str:
        recorded, known = self.recorded.get("input_column"), self.source.first.column_names
        given = self.given.get("input_column", recorded if recorded in known else None)
        if given is not None:
            return given
        if recorded is not None and self.source.main_column is None and len(known) > 1:
            raise HfLongSeqError(
                f"{self.source.name} has no column {recorded!r}, which the model was trained on"
                f"{did_you_mean(recorded, known)}: it has {', '.join(known)}; name one with input_column."
            )
        return self.source.input_name()

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, row: int) -> dict[str, np.ndarray]:
        """One row: `input_ids` or `input_values`, and `..._2` for pairs."""
        found = {}
        for raw, ending in zip(self.raw(row), ("", "_2"), strict=False):
            name, array = self.encoder.encode(raw, self.source.where(row))
            found[f"{name}{ending}"] = array
        return found

    def raw(self, row: int) -> list[Any]:
        """The inputs of a row as the source has them."""
        return [column[row] for column in self.columns]

    def is_empty(self, row: int) -> bool:
        """Whether a row lacks an input."""
        return any(is_absent(raw) or raw == [] for raw in self.raw(row))

    @property
    def reads_text(self) -> bool:
        """Whether the inputs are text that a tokenizer turns into ids."""
        return self.encoder.kind == "text" and self.modality == "text"

    def cells(self, count: int) -> list[dict[str, Any]]:
        """The first rows as the source has them, less lists of numbers, pictures and sounds."""
        found: list[dict[str, Any]] = []
        for rows in self.source.splits.values():
            plain = [name for name, kind in rows.features.items() if _is_plain(kind)]
            first = range(min(len(rows), count - len(found)))
            found += rows.select_columns(plain).select(first).to_list() if plain else [{} for _ in first]
        return found


class LabelledInputs:
    """The rows of a source that have inputs and labels, as `input_ids` or `input_values` and `labels`.

    Attributes:
        rows: Which rows of the source these are.
        without: How many rows lack "an input", or "a label".
    """

    def __init__(self, inputs: RawInputs, config: PreTrainedConfig, problem: str, per_position: bool):
        self.inputs, source = inputs, inputs.source
        known = source.first.column_names
        column = inputs.given.get("label_column", inputs.recorded.get("label_column"))
        column = column or next((name for name in LABEL_NAMES if name in known), None)
        if column is None:
            raise HfLongSeqError(
                f"{source.name} has no label column among {', '.join(known)}: name it with label_column."
            )
        empty = np.array([inputs.is_empty(row) for row in range(len(inputs))], bool)
        names = None if problem == "regression" else list((config.id2label or {}).values())
        outside = inputs.recorded.get("outside_label")
        reader = Reader("text" if inputs.reads_text else "values")
        self.labels = read_labels(
            source, column, inputs.names, reader, per_position, problem, outside, empty=empty, names=names
        )
        self.rows = np.flatnonzero(~self.labels.missing).tolist()
        tokenizer = inputs.encoder.processor
        self.by_token = per_position and inputs.reads_text and config.vocab_size != byte_text.VOCAB_SIZE
        if self.by_token and not tokenizer.is_fast:
            raise HfLongSeqError(
                f"the model's tokenizer {type(tokenizer).__name__} does not say which characters a token stands for, "
                "so labels of positions cannot be scored: save its fast form beside the weights."
            )
        self.without = {"an input": int(empty.sum()), "a label": int((self.labels.missing & ~empty).sum())}

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        row = self.rows[index]
        encoded = self.inputs[row]
        if not self.labels.per_position:
            return encoded | {"labels": self.labels.targets[row]}
        if self.by_token:
            return encoded | {"labels": self._of_tokens(row)}
        length = len(next(iter(encoded.values())))
        return encoded | {"labels": self.labels.lay_out(row, length, cut=self.inputs.encoder.has_cut)}

    def _of_tokens(self, row: int) -> np.ndarray:
        """Labels (L,) of tokens: each has that of its first character, and none if it stands for no character."""
        text, encoder = text_of(self.inputs.raw(row)[0]), self.inputs.encoder
        first_bytes = np.cumsum([0, *(len(letter.encode()) for letter in text)])
        of_bytes = self.labels.lay_out(row, int(first_bytes[-1]) + 1, cut=False)
        found = encoder.tokens(text, self.inputs.source.where(row), return_offsets_mapping=True)
        starts, ends = np.array(found["offset_mapping"]).T
        labels = of_bytes[first_bytes[starts]]
        labels[starts == ends] = IGNORE
        return labels

    def hashes(self) -> np.ndarray:
        """Hashes of the rows as data of a user's own have them, (N,) int64."""
        modality = self.inputs.recorded.get("modality") or self.inputs.modality
        where = self.inputs.source.where
        contents = ([content_of(raw, modality, where(row)) for raw in self.inputs.raw(row)] for row in self.rows)
        return np.array([hash_of(content) for content in contents], np.int64)


def _is_plain(kind: Any) -> bool:
    """Whether a column holds values or lists of words."""
    words = isinstance(kind, List) and str(getattr(kind.feature, "dtype", "")).endswith("string")
    return (words or isinstance(kind, Value | ClassLabel)) and "binary" not in str(kind)


def _processor(folder: Path, config: PreTrainedConfig) -> Any | None:
    """What lies beside the weights to encode inputs."""
    own = {"trust_remote_code": False}
    if (folder / "preprocessor_config.json").is_file():
        settings = json.loads((folder / "preprocessor_config.json").read_text(encoding="utf-8"))
        kind = AutoImageProcessor if "image_processor_type" in settings else AutoFeatureExtractor
        return kind.from_pretrained(folder, **own)
    if (folder / "tokenizer_config.json").is_file():
        return _sound(AutoTokenizer.from_pretrained(folder, **own), folder)
    if getattr(config, "input_type", "tokens") == "values":
        raise HfLongSeqError(f"model {folder} holds no preprocessor_config.json, which says how it reads numbers.")
    return None


def _sound(tokenizer: PreTrainedTokenizerBase, folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer, if it reads a text: damaged rules open, and panic at the first one."""
    try:
        longest = cut_length(tokenizer)
        tokenizer("a", truncation=longest is not None, max_length=longest)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the tokenizers library is not an Exception
        raise HfLongSeqError(f"{folder} has a tokenizer that reads nothing ({one_line(error)}): restore it.") from None
    return tokenizer


def _open(data: Any, num_rows: int | None) -> Source:
    """A source, or one of standard input or of a single picture or sound."""
    data = os.fspath(data) if isinstance(data, os.PathLike) else data
    if isinstance(data, str) and data == STDIN:
        lines = [line.rstrip("\n") for line in islice(filter(str.strip, sys.stdin), num_rows)]
        if lines and lines[0].lstrip().startswith("{"):
            with explained("standard input is not readable as JSON lines", ValueError):
                lines = [json.loads(line) for line in lines]
        return Source({"all": rows_of(lines)}, {"all": "stdin"})
    path = Path(data).expanduser() if isinstance(data, str) else None
    if path and path.is_file() and path.suffix.lower() in AUDIO_ENDINGS + IMAGE_ENDINGS:
        return Source({"all": rows_of({"file": [str(path)]})}, {"all": path.name})
    return open_source(data, num_rows)
