# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""New files for a checkpoint: opened as `--data` opens them, encoded by the processor that lies beside the weights."""

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoFeatureExtractor, AutoImageProcessor, AutoTokenizer, PreTrainedConfig

from hf_longseq.data.own_data import LABEL_NAMES, input_name, modality_of
from hf_longseq.data.own_reader import Reader, is_absent, open_audio, open_image, read_numbers, text_of
from hf_longseq.data.own_sources import AUDIO_ENDINGS, IMAGE_ENDINGS, Table, open_source, rows_of
from hf_longseq.data.tokenizers import cut_length
from hf_longseq.errors import HfLongSeqError, explained

logger = logging.getLogger(__name__)

STDIN = "-"


class RawInputs:
    """Rows of a source in the form that the checkpoint of a folder reads, one at a time.

    The source is what `--data` takes, a single picture or sound, or "-" for lines of text or JSON from standard input;
    its columns have by default the first usual name that it has.
    """

    def __init__(
        self,
        source: Any,
        folder: Path,
        config: PreTrainedConfig,
        input_column: str | None = None,
        second_input_column: str | None = None,
    ):
        tables, self.has_cut = list(_open(source).values()), False
        with explained(f"model {folder} holds a tokenizer or processor that cannot be read", Exception):
            self.processor, self.kind = _processor(folder, config)
        self.classes = getattr(config, "label2id", None) or {}
        if not any(map(len, tables)):
            raise HfLongSeqError(f"{tables[0].name} has no rows.")
        if getattr(config, "pair_classification", False) and second_input_column is None:
            raise HfLongSeqError("the model reads pairs of inputs: name the second one with second_input_column.")
        self._check_kind(tables[0], input_column or input_name(tables[0]))
        # the table of every row, its columns of inputs and of labels, the names of its classes, and its place there
        self.rows: list[tuple[Table, list, Any, Any, int]] = []
        for table in tables:
            inputs = [table.column(input_column or input_name(table))]
            inputs += [] if second_input_column is None else [table.column(second_input_column)]
            label = next((name for name in LABEL_NAMES if name in table.names), None)
            labels, names = (None, None) if label is None else (table.labels(label), table.class_names(label))
            self.rows += [(table, inputs, labels, names, row) for row in range(len(table))]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def reads_text(self) -> bool:
        """Whether the inputs are text, which a tokenizer turns into ids."""
        return self.kind == "text" and isinstance(self._raw(0)[0], str)

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        """One row: `input_ids` or `input_values`, and `..._2` for pairs."""
        table, _, _, _, row = self.rows[index]
        name = "input_values" if self.kind in ("series", "image values") else "input_ids"
        where = f"{table.name}, row {row + 1},"
        encoded = [self._encode(raw, where) for raw in self._raw(index)]
        return {(name if number == 0 else f"{name}_2"): array for number, array in enumerate(encoded)}

    def described(self, index: int) -> dict[str, str]:
        """The file that a row is, and its class where the source names one that the model knows."""
        _, _, labels, names, row = self.rows[index]
        raw, said = self._raw(index)[0], {}
        if isinstance(raw, str) and raw.lower().endswith(AUDIO_ENDINGS + IMAGE_ENDINGS):
            said["file"] = raw
        label = None if labels is None else labels[row]
        if np.ndim(label) == 0 and label is not None:
            if isinstance(label, float | np.floating) and float(label).is_integer():  # classes beside empty cells
                label = int(label)
            name = names[int(label)] if names and not isinstance(label, str) else str(label)
            if name in self.classes:
                said["label"] = name
        return said

    def _raw(self, index: int) -> list[Any]:
        _, inputs, _, _, row = self.rows[index]
        return [column[row] for column in inputs]

    def _check_kind(self, table: Table, column: str) -> None:
        """Raise if the first table holds another kind of input than the model reads."""
        found = modality_of(table, column)
        fits = {
            "text": ("text", "tokens"),
            "ids": ("tokens", "text"),
            "series": ("values", "tokens", "audio", "text"),
            "image values": ("image", "values", "tokens"),
            "image ids": ("image", "values", "tokens"),
        }[self.kind]
        if found not in fits:
            raise HfLongSeqError(
                f"{table.name} holds {found} in column {column!r}, but the model reads {self.kind.split()[0]}: give a "
                "source of the same kind, or name another --input_column."
            )

    def _encode(self, raw: Any, where: str) -> np.ndarray:
        raw = text_of(raw)
        if is_absent(raw):
            raise HfLongSeqError(f"{where} is empty: remove the row.")
        if self.kind in ("text", "ids"):
            if self.kind == "text" and isinstance(raw, str):
                cut = cut_length(self.processor)
                ids = self.processor(raw)["input_ids"]
                if cut is not None and len(ids) > cut:
                    self._tell_of_a_cut(where, len(ids), cut)
                    ids = self.processor(raw, truncation=True, max_length=cut)["input_ids"]
                return np.asarray(ids)
            return Reader("tokens").read(raw, where)
        with explained(f"{where} does not fit the model", ValueError):
            return self._series(raw, where) if self.kind == "series" else self._picture(raw, where)

    def _series(self, raw: Any, where: str) -> np.ndarray:
        rate = None
        if isinstance(raw, dict) or (isinstance(raw, str) and raw.lower().endswith(AUDIO_ENDINGS)):
            raw, rate = open_audio(raw, where, None)
        values = self.processor.prepare(np.array(read_numbers(raw, where), dtype=np.float64), rate)
        longest = self.processor.max_length
        if longest is not None and len(values) > longest:
            self._tell_of_a_cut(where, len(values), longest)
        return values[:longest].numpy()

    def _tell_of_a_cut(self, where: str, length: int, longest: int) -> None:
        """Warn of the first input of the source that is cut."""
        if not self.has_cut:
            logger.warning(
                "%s has %d positions: the model was trained on up to %d, and reads these.", where, length, longest
            )
        self.has_cut = True

    def _picture(self, raw: Any, where: str) -> np.ndarray:
        is_file = isinstance(raw, (dict, str))
        picture = open_image(raw, where, self.processor.num_channels == 3, None) if is_file else raw
        encoded = self.processor(np.array(picture), return_tensors="np")
        return next(iter(encoded.values()))[0]


def _processor(folder: Path, config: PreTrainedConfig) -> tuple[Any, str]:
    """What lies beside the weights to encode inputs, and what it reads: text, ids, series, or pictures."""
    own = {"trust_remote_code": False}
    if (folder / "preprocessor_config.json").is_file():
        settings = json.loads((folder / "preprocessor_config.json").read_text(encoding="utf-8"))
        if "image_processor_type" in settings:
            found = AutoImageProcessor.from_pretrained(folder, **own)
            return found, "image ids" if getattr(found, "return_tokens", False) else "image values"
        return AutoFeatureExtractor.from_pretrained(folder, **own), "series"
    if (folder / "tokenizer_config.json").is_file():
        return AutoTokenizer.from_pretrained(folder, **own), "text"
    if getattr(config, "input_type", "tokens") == "values":
        raise HfLongSeqError(f"model {folder} holds no preprocessor_config.json, which says how it reads numbers.")
    return None, "ids"


def _open(source: Any) -> dict[str, Table]:
    """Tables of a source, or one of standard input or of a single picture or sound."""
    source = os.fspath(source) if isinstance(source, os.PathLike) else source
    if isinstance(source, str) and source == STDIN:
        lines = [line.rstrip("\n") for line in sys.stdin if line.strip()]
        if lines and lines[0].lstrip().startswith("{"):
            with explained("standard input is not readable as JSON lines", ValueError):
                rows = [json.loads(line) for line in lines]
            return {"all": Table("stdin", rows_of(rows))}
        return {"all": Table("stdin", rows_of(lines))}
    path = Path(source).expanduser() if isinstance(source, str) else None
    if path and path.is_file() and path.suffix.lower() in AUDIO_ENDINGS + IMAGE_ENDINGS:
        return {"all": Table(path.name, rows_of({"file": [str(path)]}))}
    return open_source(source)
