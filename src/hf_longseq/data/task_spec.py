# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""What a task is.

Columns of every task's `DatasetDict` (train / validation / test):

- tokens: `input_ids`, a list of int32 (and `input_ids_2` for pairs of documents);
- values: `input_values`, a list of float32 for one channel, an array (length, channels) for several. Integers in this
  column are grey levels 0..255, the compact form in which images are stored; the collators map them linearly
  onto `TaskSpec.value_range`;
- `labels`: an int64 class, a float32 target, or a list of float32 for several targets; where every position has a
  label, a list of int16 classes or of float32 targets, or an array (length, labels), with -100 where none is scored.

A loader may add a split `unlabelled` with inputs alone, for pretraining.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from hf_longseq.errors import HfLongSeqError

# Small real data sets that travel with the package: `<task>-<split>.parquet` and `<task>.md` (origin, licence).
EMBEDDED = Path(__file__).parent / "embedded"


class MissingDataError(HfLongSeqError, FileNotFoundError):
    """Data that have to be fetched first; the message holds the command."""


def find_file(place: str | Path, name: str, command: str) -> Path:
    """A file or folder at any depth; of several copies the innermost, as some archives break the outer one.

    Raises:
        MissingDataError: If there is none; the message holds the `command` that gets it.
    """
    found = max(sorted(Path(place).rglob(name)), key=lambda path: len(path.parts), default=None)
    if found is None:
        raise MissingDataError(f"{place} lacks {name} at any depth: run `{command}` and name the folder by data_dir.")
    return found


@dataclass(frozen=True)
class TaskSpec:
    """Everything a model, a collator and a report need to know about a task.

    Args:
        name: Name under which `load_task` knows the task.
        modality: "tokens" (integer ids) or "values" (real numbers with channels).
        max_length: Longest sequence, in steps, end-of-sequence token included.
        vocab_size: Number of token ids, special ones included; None for values.
        num_channels: Numbers per step; None for tokens.
        pad_token_id, mask_token_id, eos_token_id: Special ids; None where the task has none.
        labels: Class names in the order of the integer labels; empty for regression.
        problem_type: As in `transformers`: "single_label_classification", "multi_label_classification", "regression";
            None where there is nothing to predict.
        unit: Unit of the numbers to predict, in words.
        metric: Metric of the published results, for example "accuracy" or "rmse".
        mask_ratio: Share of positions that the paper masks in pretraining.
        num_levels: Number of grey levels to predict with cross-entropy; None means L1 on the values.
        value_range: Lowest and highest input value; maps values to levels and stored grey levels to values.
        normalization: Means and deviations per channel that the values were standardised with; None: not at all.
        pair: True if an example is two documents.
        per_position: True if every position has a label (token classification).
        image_shape: Height and width of an image laid out in raster order; None otherwise.
        image_fit: How pictures of another size come to this one, see `LongSeqImageProcessor`.
        sampling_rate: Samples per second of sounds; None otherwise.
        peak: Largest absolute value to which each recording was scaled, freed of its mean; None: it was not.
        vocabulary: The symbols in the order of their ids, where ids are not simply bytes or levels.
        source: Where the data come from, in words.
        license: Licence of the data.
        note: What a reader of results must know, such as a split that differs from the published one.
    """

    name: str
    modality: str
    max_length: int
    vocab_size: int | None = None
    num_channels: int | None = None
    pad_token_id: int | None = None
    mask_token_id: int | None = None
    eos_token_id: int | None = None
    labels: tuple[str, ...] = ()
    problem_type: str | None = "single_label_classification"
    unit: str = ""
    metric: str = "accuracy"
    mask_ratio: float = 0.5
    num_levels: int | None = None
    value_range: tuple[float, float] | None = None
    normalization: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    pair: bool = False
    per_position: bool = False
    image_shape: tuple[int, int] | None = None
    image_fit: str = "bilinear"
    sampling_rate: int | None = None
    peak: float | None = None
    vocabulary: tuple[str, ...] = ()
    source: str = ""
    license: str = ""
    note: str = ""

    def __post_init__(self):
        if self.modality not in ("tokens", "values"):
            raise HfLongSeqError(f"TaskSpec.modality is {self.modality!r}: use 'tokens' or 'values'.")
        needed = "vocab_size" if self.modality == "tokens" else "num_channels"
        if not getattr(self, needed):
            raise HfLongSeqError(f"TaskSpec {self.name!r} has modality {self.modality!r} but no {needed}: state it.")

    @property
    def num_labels(self) -> int:
        """Number of outputs of a classifier for this task (1 for regression)."""
        return len(self.labels) or 1


def cache_directory() -> Path:
    """Folder for generated and converted data: `HF_LONGSEQ_CACHE`, else `longseq` in the Hugging Face home."""
    stated = os.environ.get("HF_LONGSEQ_CACHE")
    if stated:
        return Path(stated).expanduser()
    from huggingface_hub.constants import HF_HOME

    return Path(HF_HOME) / "longseq"
