# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Labels of new files, as the numbers of a model's own classes."""

from typing import Any

import numpy as np
from transformers import PreTrainedConfig

from hf_longseq.data.label_sequences import IGNORE, LabelSequences, over_words
from hf_longseq.data.own_data import LABEL_NAMES
from hf_longseq.data.own_reader import Reader, is_absent, text_of, words_in
from hf_longseq.data.own_sources import Rows
from hf_longseq.data.raw_inputs import RawInputs
from hf_longseq.data.row_hashes import hash_of
from hf_longseq.errors import HfLongSeqError, did_you_mean, explained


class LabelledInputs:
    """The rows of a source that have inputs and labels, as `input_ids` or `input_values` and `labels`.

    Attributes:
        rows: Which rows of the source these are.
        without: How many rows lack "an input", or "a label".
    """

    def __init__(self, inputs: RawInputs, config: PreTrainedConfig, problem: str, per_position: bool):
        self.inputs, self.problem, self.names = inputs, problem, list(config.id2label.values())
        self.ids = {name: index for index, name in config.id2label.items()}
        tables = Rows(dict(enumerate(inputs.tables)))
        column = self._column(tables)
        cells, self.class_names = tables.cells(column), tables.first.class_names(column)
        empty = [inputs.is_empty(row) for row in range(len(inputs))]
        unlabelled = [not none and is_absent(cell) for none, cell in zip(empty, cells, strict=True)]
        self.without = {"an input": sum(empty), "a label": sum(unlabelled)}
        self.rows = [row for row in range(len(inputs)) if not empty[row] and not unlabelled[row]]
        if not self.rows:
            raise HfLongSeqError(f"{tables.name} has no row with an input and a label in column {column!r}.")
        found = {row: cells[row] for row in self.rows}
        self.sequences = self._sequences(found) if per_position else None
        self.targets = {} if per_position else {row: self._target(row, cell) for row, cell in found.items()}

    def _column(self, tables: Rows) -> str:
        column = self.inputs.given.get("label_column", self.inputs.recorded.get("label_column"))
        column = column or next((name for name in LABEL_NAMES if name in tables.first.names), None)
        if column is None:
            raise HfLongSeqError(
                f"{tables.name} has no label column among {', '.join(tables.first.names)}: name it with label_column."
            )
        return column

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        row = self.rows[index]
        encoded = self.inputs[row]
        if self.sequences is None:
            return encoded | {"labels": self.targets[row]}
        length, text = len(next(iter(encoded.values()))), None
        if self.inputs.reads_text:
            text = text_of(self.inputs.raw(row)[0])
        labels = self.sequences.lay_out(row, length, self.inputs.where(row), text, cut=self.inputs.has_cut)
        if self.problem == "single_label_classification":
            own = np.array([self.ids.get(name, IGNORE) for name in self.sequences.names])
            labels = np.where(labels == IGNORE, IGNORE, own[np.maximum(labels, 0)])
        return encoded | {"labels": labels}

    def hashes(self) -> np.ndarray:
        """Hashes of the rows as data of a user's own have them, (N,) int64."""
        reader = Reader(self.inputs.recorded.get("modality") or self.inputs.modality)
        contents = ([reader.content(raw, self.inputs.where(row)) for raw in self.inputs.raw(row)] for row in self.rows)
        return np.array([hash_of(content) for content in contents], np.int64)

    def _target(self, row: int, cell: Any) -> Any:
        """The number of a class, numbers to predict, or 0 and 1 for every class."""
        where = self.inputs.where(row)
        if self.problem == "regression":
            with explained(f"{where} has label {cell!r}, which is no number", TypeError, ValueError):
                return np.asarray(cell, np.float32)
        if self.problem == "single_label_classification":
            return self._class(np.asarray(cell).reshape(-1)[0].item(), where)
        several = np.asarray(cell).reshape(-1).tolist()
        if self.class_names is None and len(several) == len(self.names) > 1 and set(several) <= {0, 1}:
            return np.array(several, np.float32)
        target = np.zeros(len(self.names), np.float32)
        target[[self._class(label, where) for label in several]] = 1
        return target

    def _class(self, label: Any, where: str) -> int:
        """The model's number of a class."""
        if isinstance(label, float) and label.is_integer():  # numbers of classes beside empty cells
            label = int(label)
        name = self.class_names[label] if self.class_names and isinstance(label, int) else str(label)
        if name not in self.ids:
            raise _unknown(name, where, self.names)
        return self.ids[name]

    def _sequences(self, found: dict[int, Any]) -> LabelSequences:
        """Labels of every position, whose classes have to be the model's."""
        texts, where = None, self.inputs.where
        if self.inputs.reads_text:
            raw = {row: self.inputs.raw(row)[0] for row in found}
            if words_in(next(iter(raw.values()))):
                found = over_words(raw, found, self.class_names, where)
            texts = {row: text_of(one) for row, one in raw.items()}
        outside = self.inputs.recorded.get("outside_label")
        sequences = LabelSequences.read(found, where, texts, self.problem, self.class_names, outside)
        if self.problem == "single_label_classification":
            for row, (classes, _) in sequences.rows.items():
                for name in (sequences.names[number] for number in classes if number != IGNORE):
                    if name not in self.ids:
                        raise _unknown(name, where(row), self.names)
        return sequences


def _unknown(name: str, where: str, names: list[str]) -> HfLongSeqError:
    listed = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    known = f"has class {name!r}{did_you_mean(name, names)}, and the model knows {listed}"
    return HfLongSeqError(f"{where} {known}: correct it, or empty the cell.")
