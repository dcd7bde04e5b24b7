# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""From rows of a data set to batches: masked denoising, causal denoising, and plain padding for fine-tuning.

The three collators take rows with `input_ids` (tokens) or `input_values` (numbers), with or without a second document
(`input_ids_2`, `input_values_2`), and work with the stock `transformers.Trainer`. Axes: B rows, L steps, C channels.

Masking follows the paper (section 2): every position is masked with the same probability, always by the mask token (or
by zero and a flag), and only masked positions are scored. What is guaranteed about the masks:

- `deterministic=True`: a mask depends on the seed and on the example alone, so two evaluations agree;
- after `set_epoch(n)` (`MaskEpochCallback` calls it for a `Trainer`): a mask depends on (seed, epoch, example),
  hence fresh in every epoch, the same for any number of workers and processes, and the same after a resume
  (of a stream, within its first pass);
- otherwise: fresh draws from torch's generator, repeatable for a seed and a number of workers, not after a resume.

An example is known by its content.
"""

import hashlib
from dataclasses import InitVar, dataclass, field, fields

import numpy as np
import torch
from transformers.tokenization_utils_base import PreTrainedTokenizerBase
from transformers.trainer_callback import TrainerCallback
from transformers.trainer_utils import has_length

from hf_longseq.data.task_spec import TaskSpec
from hf_longseq.errors import HfLongSeqError

IGNORE = -100
Batch = dict[str, torch.Tensor]


@dataclass
class _Collator:
    """Reading, checking and padding of rows, shared by the three collators.

    Args:
        tokenizer: Gives the ids of padding and mask and the number of ids where the arguments below do not.
        pad_token_id: Id that fills short rows; the attention mask, not this id, says what is padding. Default: 0.
        vocab_size: Number of ids; None leaves the upper end unchecked.
        num_channels: Channels expected in `input_values`; None accepts any.
        value_range: Lowest and highest value; needed for stored grey levels and for targets in levels.
        pad_to_multiple_of: Round the padded length up to a multiple of this.
    """

    tokenizer: PreTrainedTokenizerBase | None = None
    pad_token_id: int | None = None
    vocab_size: int | None = None
    num_channels: int | None = None
    value_range: tuple[float, float] | None = None
    pad_to_multiple_of: int | None = None

    def __post_init__(self):
        if self.tokenizer is not None and not isinstance(self.tokenizer, PreTrainedTokenizerBase):
            raise HfLongSeqError(
                f"{type(self).__name__} got {self.tokenizer!r} in the place of a tokenizer: give a tokenizer, or name "
                "the arguments."
            )
        known = {"pad_token_id": getattr(self.tokenizer, "pad_token_id", None) or 0}
        if self.tokenizer is not None:
            known |= {"mask_token_id": self.tokenizer.mask_token_id, "vocab_size": len(self.tokenizer)}
        for name, value in known.items():
            if getattr(self, name, value) is None:
                setattr(self, name, value)

    @classmethod
    def from_task(cls, spec: TaskSpec, **overrides):
        """Make the collator that fits a task; `overrides` replace or add arguments."""
        stated = vars(spec) | {"num_labels": len(spec.labels) or None}
        return cls(**({field.name: stated[field.name] for field in fields(cls) if field.name in stated} | overrides))

    def _read(self, rows: list[dict], name: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The sequences under `name`, checked: int64 ids (L,) or float32 values (L, C). And their attention masks,
        (L,): the rows' own if they have any (already padded data), else all ones."""
        read_one = self._read_ids if name.startswith("input_ids") else self._read_values
        key = "attention_mask_2" if name.endswith("_2") else "attention_mask"
        sequences, masks = [], []
        for index, row in enumerate(rows):
            where = f"{name} of example {index} in the batch"
            if row.get(name) is None:
                raise HfLongSeqError(f"{where} is missing: every row needs a {name!r} column.")
            sequence = read_one(np.asarray(row[name]), where)
            if len(sequence) == 0:
                raise HfLongSeqError(f"{where} is empty: remove rows of length 0 from the data set.")
            own = row.get(key)
            mask = np.ones(len(sequence), dtype=np.int64) if own is None else np.asarray(own).astype(np.int64)
            if mask.shape != (len(sequence),) or not mask.any():
                raise HfLongSeqError(
                    f"{key} of example {index} in the batch has shape {mask.shape} and {int(mask.sum())} ones for "
                    f"{len(sequence)} steps: give one 0 or 1 per step, and at least one 1."
                )
            sequences.append(sequence)
            masks.append(mask)
        return sequences, masks

    def _read_ids(self, ids: np.ndarray, where: str) -> np.ndarray:
        if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iub"):
            raise HfLongSeqError(
                f"{where} has shape {ids.shape} and type {ids.dtype}: give a flat list of integers or input_values."
            )
        ids = ids.astype(np.int64)
        outside = ids < 0 if self.vocab_size is None else (ids < 0) | (ids >= self.vocab_size)
        if outside.any():
            step = int(outside.argmax())
            size = "" if self.vocab_size is None else f" of {self.vocab_size} (0..{self.vocab_size - 1})"
            raise HfLongSeqError(
                f"{where} holds token id {ids[step]} at step {step}, outside the vocabulary{size}: "
                "encode the data with this task's tokenizer, or raise vocab_size."
            )
        return ids

    def _read_values(self, values: np.ndarray, where: str) -> np.ndarray:
        if values.ndim not in (1, 2) or values.dtype.kind not in "iufb":
            raise HfLongSeqError(
                f"{where} has shape {values.shape} and type {values.dtype}: give numbers of shape (length,) or "
                "(length, channels)."
            )
        if values.ndim == 1:
            values = values[:, None]
        if self.num_channels is not None and values.shape[1] != self.num_channels:
            raise HfLongSeqError(
                f"{where} has {values.shape[1]} channels, but num_channels={self.num_channels}: "
                "lay the row out as (length, channels), or change num_channels."
            )
        if values.dtype.kind in "iu":
            if self.value_range is None:
                raise HfLongSeqError(
                    f"{where} holds integers (grey levels 0..255) but value_range is None: state it, for example "
                    "(-1, 1), or store the values as float32."
                )
            if values.size and (values.min() < 0 or values.max() > 255):
                raise HfLongSeqError(
                    f"{where} holds integers from {values.min()} to {values.max()}, but grey levels are 0..255: "
                    "store other numbers as float32."
                )
            low, high = self.value_range
            return (low + values * ((high - low) / 255.0)).astype(np.float32)
        finite = np.isfinite(values)
        if not finite.all():
            step, channel = np.argwhere(~finite)[0]
            raise HfLongSeqError(
                f"{where} holds {values[step, channel]} at step {step}, channel {channel}: "
                "fill or remove missing values before training."
            )
        return values.astype(np.float32)

    def _stack(self, arrays: list[np.ndarray], fill) -> torch.Tensor:
        """Pad on the right with `fill` and stack: (B, L) or (B, L, C)."""
        length = max(len(array) for array in arrays)
        if self.pad_to_multiple_of:
            length = -(-length // self.pad_to_multiple_of) * self.pad_to_multiple_of
        if any(array.shape[1:] != arrays[0].shape[1:] for array in arrays):
            counts = sorted({array.shape[1] for array in arrays})
            raise HfLongSeqError(f"input_values in one batch have {counts} channels: every row needs the same number.")
        stacked = np.full((len(arrays), length, *arrays[0].shape[1:]), fill, dtype=arrays[0].dtype)
        for row, array in zip(stacked, arrays, strict=True):
            row[: len(array)] = array
        return torch.from_numpy(stacked)


def _documents(rows: list[dict]) -> list[str]:
    """Names of the sequence columns in the rows: one, or two for pairs of documents."""
    if not rows:
        raise HfLongSeqError("The batch has no rows: check the data set's length and the batch size.")
    kind = "input_ids" if "input_ids" in rows[0] else "input_values"
    if kind not in rows[0]:
        raise HfLongSeqError(f"The rows hold {sorted(rows[0])}: a row needs 'input_ids' or 'input_values'.")
    return [kind, f"{kind}_2"] if f"{kind}_2" in rows[0] else [kind]


def _never_ignored(numbers: np.ndarray) -> np.ndarray:
    """True float32 targets: one of exactly -100, which would be taken for an ignored one, becomes its neighbour."""
    return np.where(numbers == IGNORE, np.nextafter(numbers, np.float32(0)), numbers)


@dataclass
class DataCollatorWithLongPadding(_Collator):
    """Pads rows for fine-tuning and prediction; two documents of a pair stay side by side.

    Returns, from `collator(rows)`: `input_ids` (B, L) int64 or `input_values` (B, L, C) float32, `attention_mask`
    (B, L) int64, the same with `_2` for pairs, and `labels` if the rows have them: (B,) int64 classes, or float32
    (B,) or (B, targets). With a label for every position they are (B, L) int64, or float32 (B, L) or (B, L, targets),
    and -100 on padding and where a row has -100 or NaN.

    Args:
        num_labels: Number of classes; labels outside 0..num_labels-1 are an error. None leaves them unchecked.
        problem_type: As in `TaskSpec`; None decides by the type of the labels.
        per_position: Whether rows have a label for every position.
    """

    num_labels: int | None = None
    problem_type: str | None = None
    per_position: bool = False

    def __call__(self, rows: list[dict]) -> Batch:
        batch: Batch = {}
        for name in _documents(rows):
            sequences, masks = self._read(rows, name)
            batch[name] = self._stack(sequences, self.pad_token_id if name.startswith("input_ids") else 0.0)
            batch["attention_mask_2" if name.endswith("_2") else "attention_mask"] = self._stack(masks, 0)
        labelled = [row.get("labels") is not None for row in rows]
        if any(labelled) and not all(labelled):
            raise HfLongSeqError(
                f"labels of example {labelled.index(False)} in the batch are missing, but other rows have labels: "
                "remove the rows without, or the column."
            )
        if all(labelled):
            batch["labels"] = self._labels(rows, masks)
        return batch

    def _labels(self, rows: list[dict], masks: list[np.ndarray]) -> torch.Tensor:
        """Labels of the rows, or of their positions with -100 where none is scored."""
        every = [np.asarray(row["labels"]) for row in rows]
        of_type = "single_label_classification" if np.result_type(*every).kind in "iub" else "regression"
        are_classes = (self.problem_type or of_type) == "single_label_classification"
        for index, (labels, mask) in enumerate(zip(every, masks, strict=True)):
            where = f"labels of example {index} in the batch"
            if self.per_position and labels.shape[:1] != mask.shape:
                raise HfLongSeqError(
                    f"{where} have shape {labels.shape} for {len(mask)} steps: give one per step, {IGNORE} where "
                    "none is to be scored."
                )
            if are_classes:
                self._check_classes(labels, where)
            labels = labels.astype(np.int64) if are_classes else self._numbers(labels, where)
            if labels.shape[self.per_position :] != every[0].shape[self.per_position :]:
                raise HfLongSeqError(
                    f"{where} have shape {labels.shape}, those of the first {every[0].shape}: give as many numbers."
                )
            if self.per_position:
                valid = np.reshape(mask == 1, (-1, *[1] * (labels.ndim - 1)))
                labels = np.where(valid, labels, labels.dtype.type(IGNORE))
            every[index] = labels
        return self._stack(every, IGNORE) if self.per_position else torch.from_numpy(np.stack(every))

    def _numbers(self, labels: np.ndarray, where: str) -> np.ndarray:
        """Labels that are not classes, in float32; -100 where a position, or one of several labels, is unknown."""
        numbers = labels.astype(np.float32)
        if self.per_position:
            numbers = np.where(np.isnan(numbers), np.float32(IGNORE), numbers)
        elif labels.size == 1 and self.problem_type != "multi_label_classification":
            numbers = _never_ignored(numbers)
        if not np.isfinite(numbers).all():
            remedy = "give NaN where none is to be scored" if self.per_position else "remove rows without target"
            raise HfLongSeqError(f"{where} hold {numbers[~np.isfinite(numbers)][0]}: {remedy}.")
        return numbers

    def _check_classes(self, labels: np.ndarray, where: str) -> None:
        """Raise unless these are classes that there are."""
        if labels.dtype.kind not in "iub" or (labels.ndim and not self.per_position):
            raise HfLongSeqError(
                f"{where} has type {labels.dtype} and shape {labels.shape}, but the task is a classification: give "
                "one integer class per row, or set problem_type to 'regression'."
            )
        outside = (labels < 0) | (labels >= (self.num_labels or np.inf))
        outside &= labels != IGNORE if self.per_position else True
        if outside.any():
            classes = "the classes 0, 1, ..." if self.num_labels is None else f"the classes 0..{self.num_labels - 1}"
            raise HfLongSeqError(
                f"{where} is {labels[outside][0]}, outside {classes}: number the classes from 0, or raise num_labels."
            )


@dataclass
class _DenoisingCollator(_Collator):
    """What masked and causal denoising share: pairs become separate rows, the task's labels go, targets are made.

    Args:
        num_levels: For values: None gives float targets (L1), a number gives targets in that many levels of
            `value_range` (cross-entropy; values outside the range take the nearest level).
    """

    num_levels: int | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.num_levels is not None and (self.num_levels < 2 or self.value_range is None):
            raise HfLongSeqError(
                f"num_levels={self.num_levels} with value_range={self.value_range}: use at least 2 levels and state "
                "the range that they divide, for example value_range=(-1, 1)."
            )

    def _flatten(self, rows: list[dict]) -> tuple[str, list[np.ndarray], list[np.ndarray]]:
        """Kind of input, sequences and attention masks; the second documents follow all the first ones."""
        names = _documents(rows)
        read = [self._read(rows, name) for name in names]
        return names[0], sum((sequences for sequences, _ in read), []), sum((masks for _, masks in read), [])

    def _targets(self, kind: str, sequence: np.ndarray, scored: np.ndarray) -> np.ndarray:
        """Targets of one row, with `IGNORE` where `scored` is False."""
        if kind == "input_ids":
            return np.where(scored, sequence, IGNORE)
        if self.num_levels is None or self.value_range is None:  # both or neither are set
            return np.where(scored[:, None], _never_ignored(sequence), np.float32(IGNORE))
        low, high = self.value_range
        levels = np.rint((sequence.astype(np.float64) - low) * ((self.num_levels - 1) / (high - low)))
        return np.where(scored[:, None], np.clip(levels, 0, self.num_levels - 1).astype(np.int64), IGNORE)


@dataclass
class DataCollatorForMaskedDenoising(_DenoisingCollator):
    """Masks positions at random and makes the hidden content the target. The task's own labels are dropped.

    Returns, from `collator(rows)`, with both documents of a pair as rows of their own (B becomes 2B):

    - tokens: `input_ids`, `attention_mask`, `labels`, each (B, L) int64, as `DataCollatorForLanguageModeling` does;
    - values: `input_values` (B, L, C) float32 with zeros where masked, `bool_masked_pos` (B, L) bool, `attention_mask`
      (B, L) int64, `labels` (B, L, C), float32 or, with `num_levels`, int64.

    `labels` is -100 wherever nothing is masked, so a batch in which chance masks nothing has no target at all.

    Args:
        mask_ratio: Probability of each valid position to be masked, between 0 and 1, both excluded.
        mask_token_id: Id that replaces masked tokens; needed for tokens.
        span_length: Masked positions come in runs of this length, side by side at times; the ratio stays the same.
        seed: Seed of the masks.
        deterministic: The same mask for an example at each call, for evaluation.
        mlm_probability: `mask_ratio` by its name in `DataCollatorForLanguageModeling`.

    Example:
        >>> from hf_longseq.data.processors import byte_tokenizer
        >>> collator = DataCollatorForMaskedDenoising(byte_tokenizer(), mlm_probability=0.3)
        >>> collator([{"input_ids": [68, 97, 3]}])["labels"].shape
        torch.Size([1, 3])
    """

    mask_ratio: float = 0.15
    mask_token_id: int | None = None
    span_length: int = 1
    seed: int = 0
    deterministic: bool = False
    mlm_probability: InitVar[float | None] = None
    # Shared memory, so that workers which outlive an epoch see the new number.
    _epoch: torch.Tensor = field(init=False, repr=False, compare=False)

    def __post_init__(self, mlm_probability: float | None):
        super().__post_init__()
        if mlm_probability is not None:
            self.mask_ratio = mlm_probability
        if not 0.0 < self.mask_ratio < 1.0:
            raise HfLongSeqError(
                f"mask_ratio is {self.mask_ratio}: use a number between 0 and 1, both excluded, for example 0.15; "
                "without masking there is nothing to learn from."
            )
        if self.span_length < 1:
            raise HfLongSeqError(
                f"span_length is {self.span_length}: use 1 for single positions, or the length of a span."
            )
        mask, size = self.mask_token_id, self.vocab_size
        if mask is not None and size is not None and not 0 <= mask < size:
            raise HfLongSeqError(
                f"mask_token_id is {mask}, outside the vocabulary of {size}: use an id that the model's embedding has."
            )
        self._epoch = torch.full((1,), -1, dtype=torch.int64).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        """Tie the masks to (seed, epoch, example); call it before each epoch, or use `MaskEpochCallback`."""
        self._epoch.fill_(epoch)

    def __call__(self, rows: list[dict]) -> Batch:
        kind, sequences, attention = self._flatten(rows)
        masks = self._masks(len(rows), sequences, attention)
        targets = [self._targets(kind, sequence, mask) for sequence, mask in zip(sequences, masks, strict=True)]
        batch = {"attention_mask": self._stack(attention, 0), "labels": self._stack(targets, IGNORE)}
        if kind == "input_ids":
            if self.mask_token_id is None:
                raise HfLongSeqError(
                    "mask_token_id is None but the rows hold input_ids: name the id that replaces masked tokens."
                )
            shown = [np.where(mask, self.mask_token_id, ids) for ids, mask in zip(sequences, masks, strict=True)]
            return {kind: self._stack(shown, self.pad_token_id), **batch}
        shown = [np.where(mask[:, None], np.float32(0), x) for x, mask in zip(sequences, masks, strict=True)]
        return {kind: self._stack(shown, 0.0), "bool_masked_pos": self._stack(masks, False), **batch}

    def _masks(self, rows: int, sequences: list[np.ndarray], attention: list[np.ndarray]) -> list[np.ndarray]:
        """One boolean mask (L,) per sequence; sequence i is document i // rows of row i % rows."""
        if self.deterministic:
            epoch = 0
        elif self._epoch >= 0:
            epoch = 1 + int(self._epoch)
        else:
            epoch = int(torch.randint(2**62, (1,)))
        masks = []
        for index, (sequence, valid) in enumerate(zip(sequences, attention, strict=True)):
            content = np.ascontiguousarray(sequence).tobytes()
            example = int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
            masks.append(self._draw([self.seed, epoch, index // rows, example], valid))
        return masks

    def _draw(self, key: list[int], valid: np.ndarray) -> np.ndarray:
        """Boolean mask (L,): each valid position with probability `mask_ratio`, in runs of `span_length`."""
        generator = np.random.default_rng(key)
        if self.span_length == 1:
            return (generator.random(len(valid)) < self.mask_ratio) & (valid == 1)
        # Spans may also start before the sequence, so that every position has the same probability.
        start_ratio = 1.0 - (1.0 - self.mask_ratio) ** (1.0 / self.span_length)
        starts = generator.random(len(valid) + self.span_length - 1) < start_ratio
        covered = np.convolve(starts, np.ones(self.span_length), mode="valid") > 0.5
        return covered & (valid == 1)


@dataclass
class DataCollatorForCausalDenoising(_DenoisingCollator):
    """Makes every next step the target. The task's own labels are dropped; the model shifts inside.

    Returns, from `collator(rows)`, with both documents of a pair as rows of their own (B becomes 2B): `input_ids`
    (B, L) int64 or `input_values` (B, L, C) float32, `attention_mask` (B, L) int64, and `labels`: the input itself,
    (B, L) int64 for tokens, (B, L, C) float32 or int64 levels for values, with -100 on padding, on a step after
    padding and, for values, on the first step of each row.

    Args:
        both_directions: For a bidirectional model with a head of masked denoising, whose outputs stand where their
            labels do: `labels` holds the next step at every step, and `labels_backward` the previous one, each -100
            where either of the two is padding. `in_direction` makes a batch of one of them.
    """

    both_directions: bool = False

    def __call__(self, rows: list[dict]) -> Batch:
        kind, sequences, attention = self._flatten(rows)
        targets: list[np.ndarray] = []
        backward: list[np.ndarray] = []
        for sequence, valid in zip(sequences, attention, strict=True):
            # the first step of all has nothing before it, and the first after padding nothing real
            scored = valid == 1
            scored[1:] &= valid[:-1] == 1
            scored[0] &= kind == "input_ids" and not self.both_directions  # the model's shift takes it away
            targets.append(self._targets(kind, sequence, scored))
            if self.both_directions:
                targets[-1] = np.roll(targets[-1], -1, axis=0)
                backward.append(self._targets(kind, np.roll(sequence, 1, axis=0), scored))
        return {
            kind: self._stack(sequences, self.pad_token_id if kind == "input_ids" else 0.0),
            "attention_mask": self._stack(attention, 0),
            "labels": self._stack(targets, IGNORE),
            **({"labels_backward": self._stack(backward, IGNORE)} if backward else {}),
        }


def in_direction(batch: Batch, direction: str) -> Batch:
    """A batch with the labels of one `direction`, "forward" or "backward", and its name for the model; a batch without
    `labels_backward` as it is."""
    if "labels_backward" not in batch:
        return batch
    labels = batch["labels" if direction == "forward" else "labels_backward"]
    kept: dict = {name: tensor for name, tensor in batch.items() if name != "labels_backward"}
    return {**kept, "labels": labels, "direction": direction}


class MaskEpochCallback(TrainerCallback):
    """Tells a `DataCollatorForMaskedDenoising` the epoch, for a `Trainer`: masks then survive a resume unchanged.

    Of a stream this holds within its first pass. Its later passes have no number that a resumed `Trainer` knows, and
    it begins such a pass again.
    """

    def __init__(self, collator: DataCollatorForMaskedDenoising):
        self.collator = collator
        self.passes = 0

    def on_train_begin(self, args, state, control, **kwargs):
        self.passes = 0

    def on_epoch_begin(self, args, state, control, **kwargs):
        # state.epoch is a fraction of passes over the data, so a whole number here up to rounding; of a stream, whose
        # length nobody knows, it is a fraction of the run
        known = has_length(kwargs.get("train_dataloader"))
        self.collator.set_epoch(int((state.epoch or 0) + 1e-6) if known else self.passes)
        self.passes += 1
