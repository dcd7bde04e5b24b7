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
from datasets import ClassLabel, Value
from transformers import AutoFeatureExtractor, AutoImageProcessor, AutoTokenizer, PreTrainedConfig

from hf_longseq.data.own_data import input_name, modality_of
from hf_longseq.data.own_reader import Reader, is_absent, open_audio, open_image, read_numbers, text_of
from hf_longseq.data.own_sources import AUDIO_ENDINGS, IMAGE_ENDINGS, Table, open_source, rows_of
from hf_longseq.data.tokenizers import cut_length
from hf_longseq.errors import HfLongSeqError, did_you_mean, explained

logger = logging.getLogger(__name__)

STDIN = "-"


class RawInputs:
    """Rows of a source in the form that the checkpoint of a folder reads, one at a time.

    The source is what `--data` takes, a single picture or sound, or "-" for lines of text or JSON from standard input.
    Its columns are those of `given`, else those that the run `recorded`, else the first usual names that it has.
    """

    def __init__(
        self,
        source: Any,
        folder: Path,
        config: PreTrainedConfig,
        given: dict[str, str | None] | None = None,
        recorded: dict[str, Any] | None = None,
    ):
        tables, self.has_cut = list(_open(source).values()), False
        with explained(f"model {folder} holds a tokenizer or processor that cannot be read", Exception):
            self.processor, self.kind = _processor(folder, config)
        if not any(map(len, tables)):
            raise HfLongSeqError(f"{tables[0].name} has no rows.")
        self.given = {name: column for name, column in (given or {}).items() if column is not None}
        self.recorded = recorded or {}
        second = self.given.get("second_input_column", self.recorded.get("second_input_column"))
        if getattr(config, "pair_classification", False) and second is None:
            raise HfLongSeqError("the model reads pairs of inputs: name the second one with second_input_column.")
        self.tables = tables
        self.columns = [[self._input_column(table), *([] if second is None else [second])] for table in tables]
        self.modality = self._check_kind(tables[0], self.columns[0][0])
        # the table of every row, its columns of inputs, and its place there
        self.rows: list[tuple[Table, list, int]] = []
        for table, names in zip(tables, self.columns, strict=True):
            inputs = [table.column(name) for name in names]
            self.rows += [(table, inputs, row) for row in range(len(table))]

    def _input_column(self, table: Table) -> str:
        recorded = self.recorded.get("input_column")
        if "input_column" in self.given or recorded in table.names:
            return self.given.get("input_column", recorded)
        if recorded is not None and table.main_column is None and len(table.names) > 1:
            raise HfLongSeqError(
                f"{table.name} has no column {recorded!r}, which the model was trained on"
                f"{did_you_mean(recorded, table.names)}: it has {', '.join(table.names)}; name one with input_column."
            )
        return input_name(table)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def name(self) -> str:
        """What messages call the source."""
        return self.tables[0].name

    def where(self, index: int) -> str:
        """What messages call a row, numbered from 1 in its table."""
        table, _, row = self.rows[index]
        return f"{table.name}, row {row + 1},"

    def is_empty(self, index: int) -> bool:
        """Whether a row lacks an input."""
        return any(is_absent(raw) or (isinstance(raw, list | np.ndarray) and not len(raw)) for raw in self.raw(index))

    def cells(self, count: int) -> list[dict[str, Any]]:
        """The first rows as the source has them, less lists, pictures and sounds."""
        found: list[dict[str, Any]] = []
        for table in self.tables:
            kinds = {name: getattr(kind, "dtype", "") for name, kind in table.rows.features.items()}
            plain = [name for name, kind in table.rows.features.items() if isinstance(kind, Value | ClassLabel)]
            plain = [name for name in plain if "binary" not in kinds[name]]
            first = range(min(len(table), count - len(found)))
            found += table.rows.select_columns(plain).select(first).to_list() if plain else [{} for _ in first]
        return found

    @property
    def reads_text(self) -> bool:
        """Whether the inputs are text, which a tokenizer turns into ids."""
        return self.kind == "text" and self.modality == "text"

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        """One row: `input_ids` or `input_values`, and `..._2` for pairs."""
        name = "input_values" if self.kind in ("series", "image values") else "input_ids"
        encoded = [self._encode(raw, self.where(index)) for raw in self.raw(index)]
        return {(name if number == 0 else f"{name}_2"): array for number, array in enumerate(encoded)}

    def raw(self, index: int) -> list[Any]:
        """The inputs of a row as the source has them."""
        _, inputs, row = self.rows[index]
        return [column[row] for column in inputs]

    def _check_kind(self, table: Table, column: str) -> str:
        """The kind of input that the first table holds, which has to be one that the model reads."""
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
        return found

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
