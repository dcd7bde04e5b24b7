# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Losses of the heads, and the checks that a batch fits the model.

Every loss is a sum over scored entries divided by how many there are. The Trainer passes that number for the whole
optimisation step as `num_items_in_batch`, over accumulated batches and processes; dividing by it makes accumulation
and several processes give exactly the gradients of one large batch. A batch in which nothing is scored costs zero.

One rule for all heads: padding is never scored, whatever label stands there, and neither is a prediction made at it.
Losses are float32, or float64 where the logits are.

Axes: B batch, L length, C channels, V vocabulary, Q levels, K labels.
"""

import torch
from torch.nn import functional as F

from .ssm_precision import widened

IGNORE_INDEX = -100


def _normalise(total: torch.Tensor, count: torch.Tensor, num_items_in_batch) -> torch.Tensor:
    if num_items_in_batch is None:
        return total / count.clamp(min=1)
    if torch.is_tensor(num_items_in_batch):
        return total / num_items_in_batch.to(total.device).clamp(min=1)
    return total / max(num_items_in_batch, 1)


def cross_entropy_loss(logits: torch.Tensor, labels: torch.Tensor, num_items_in_batch=None) -> torch.Tensor:
    """Cross-entropy of `logits` (..., V) against integer `labels` (...), -100 ignored."""
    labels = labels.reshape(-1).to(logits.device)
    flat = widened(logits).reshape(-1, logits.shape[-1])
    total = F.cross_entropy(flat, labels, ignore_index=IGNORE_INDEX, reduction="sum")
    return _normalise(total, (labels != IGNORE_INDEX).sum(), num_items_in_batch)


def next_token_loss(logits_BLV: torch.Tensor, labels_BL: torch.Tensor, num_items_in_batch=None) -> torch.Tensor:
    """Cross-entropy of the logits at t against the label at t + 1."""
    return cross_entropy_loss(logits_BLV[:, :-1], labels_BL[:, 1:], num_items_in_batch)


def absolute_error_loss(predictions: torch.Tensor, targets: torch.Tensor, num_items_in_batch=None) -> torch.Tensor:
    """Mean absolute error over the entries of `targets` other than -100 (same shape as `predictions`)."""
    scored = targets != IGNORE_INDEX
    predictions = widened(predictions)
    error = (predictions - targets.to(predictions.dtype)).abs().masked_fill(~scored, 0.0)
    return _normalise(error.sum(), scored.sum(), num_items_in_batch)


def reconstruction_loss(
    logits: torch.Tensor, labels: torch.Tensor, causal: bool, num_items_in_batch=None
) -> torch.Tensor:
    """Loss of `...ForPreTraining`: `logits` (B, L, C) values against float labels of that shape (L1), or (B, L, C, Q)
    levels against integer labels (B, L, C); one channel may be left out of the labels. `causal` compares t with t + 1.
    """
    levels = logits.ndim == 4
    shape = logits.shape[:-1] if levels else logits.shape
    if labels.shape != shape and (*labels.shape, 1) != tuple(shape):
        raise ValueError(
            f"labels have shape {tuple(labels.shape)} but the model reconstructs {tuple(shape)}; give one target per "
            "position and channel."
        )
    labels = labels.reshape(shape).to(logits.device)
    if causal:
        logits, labels = logits[:, :-1], labels[:, 1:]
    if levels:
        return cross_entropy_loss(logits, labels, num_items_in_batch)
    return absolute_error_loss(logits, labels, num_items_in_batch)


def infer_problem_type(config, labels: torch.Tensor) -> str:
    """`config.problem_type`, or what the labels imply; unlike transformers' own, never written back to the config."""
    if config.problem_type is not None:
        return config.problem_type
    if config.num_labels == 1:
        return "regression"
    return "multi_label_classification" if labels.is_floating_point() else "single_label_classification"


def classification_loss(logits: torch.Tensor, labels: torch.Tensor, config, num_items_in_batch=None) -> torch.Tensor:
    """Cross-entropy, binary cross-entropy or mean squared error, as the problem type says, of logits (B, K), or
    (B, L, K) with labels for every position; -100 is not scored. The squared error is that of standardised targets
    where the configuration has their mean and deviation."""
    problem_type = infer_problem_type(config, labels)
    labels = labels.to(logits.device)
    if problem_type == "single_label_classification":
        if labels.numel() * logits.shape[-1] != logits.numel():
            raise ValueError(
                f"labels have shape {tuple(labels.shape)} but the {problem_type} head gives {tuple(logits.shape)}; "
                f"give one class per {'position' if logits.ndim == 3 else 'example'}."
            )
        check_class_labels(labels, config.num_labels)
        return cross_entropy_loss(logits, labels, num_items_in_batch)
    if labels.numel() != logits.numel():
        raise ValueError(
            f"labels have shape {tuple(labels.shape)} but the {problem_type} head gives {tuple(logits.shape)}; "
            f"give one number per {'position' if logits.ndim == 3 else 'example'} and label."
        )
    logits = widened(logits)
    labels = labels.reshape(logits.shape).to(logits.dtype)
    scored = labels != IGNORE_INDEX
    if problem_type == "regression":
        if getattr(config, "label_scale", None) is not None:  # those of transformers have none
            labels = (labels - labels.new_tensor(config.label_mean)) / labels.new_tensor(config.label_scale)
        entries = F.mse_loss(logits, labels, reduction="none")
    else:
        entries = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return _normalise(entries.masked_fill(~scored, 0.0).sum(), scored.sum(), num_items_in_batch)


def only_valid(labels: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
    """Labels (B, L) or (B, L, K) with -100 where `attention_mask` (B, L), or (B, positions seen + L), is 0."""
    if attention_mask is None or attention_mask.ndim != 2:
        return labels
    padding_BL = attention_mask[:, -labels.shape[1] :] == 0
    return labels.masked_fill(padding_BL if labels.ndim == 2 else padding_BL[..., None], IGNORE_INDEX)


def only_after_valid(labels: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
    """The same for labels that the position before predicts: -100 also where that one is padding."""
    if attention_mask is None or attention_mask.ndim != 2:
        return labels
    valid_BL = attention_mask[:, -labels.shape[1] :]
    before_BL = F.pad(valid_BL[:, :-1], (1, 0))  # the shift takes the first away
    return only_valid(only_valid(labels, valid_BL), before_BL)


def in_units(logits: torch.Tensor, config) -> torch.Tensor:
    """Outputs (..., K) of a regression trained on standardised targets in the targets' units; others unchanged."""
    if config.label_scale is None or config.problem_type not in ("regression", None):
        return logits
    logits = widened(logits)
    return logits * logits.new_tensor(config.label_scale) + logits.new_tensor(config.label_mean)


def can_check(tensor: torch.Tensor) -> bool:
    """Whether values may be looked at: cheap on the CPU, but elsewhere it stalls the device or breaks a graph."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling() and not torch.jit.is_tracing()


def check_token_ids(input_ids: torch.Tensor | None, vocab_size: int) -> None:
    """Raise ValueError for ids that are missing, or outside [0, vocab_size)."""
    if input_ids is None:
        raise ValueError("this model reads tokens; pass input_ids (or inputs_embeds), not input_values.")
    if can_check(input_ids) and input_ids.numel():
        low, high = (int(bound) for bound in torch.aminmax(input_ids))
        if low < 0 or high >= vocab_size:
            wrong = low if low < 0 else high
            raise ValueError(
                f"input_ids hold the id {wrong} but the vocabulary has ids 0 to {vocab_size - 1}; check the tokenizer "
                "or set vocab_size in the configuration."
            )


def check_values(values_BLC: torch.Tensor, num_channels: int) -> None:
    """Raise ValueError for a wrong number of channels, NaN or infinity."""
    if values_BLC.ndim != 3 or values_BLC.shape[-1] != num_channels:
        raise ValueError(
            f"input_values have shape {tuple(values_BLC.shape)} but the model reads (batch, length, {num_channels}); "
            "check num_channels in the configuration."
        )
    if can_check(values_BLC) and not torch.isfinite(values_BLC).all():
        row = int((~torch.isfinite(values_BLC)).flatten(1).any(dim=1).nonzero()[0])
        raise ValueError(f"input_values hold NaN or infinity in row {row} of the batch; clean or impute the data.")


def check_lengths(length: int, attention_mask: torch.Tensor | None) -> None:
    """Raise ValueError for an empty sequence: no positions at all, or none that `attention_mask` leaves."""
    if length == 0:
        raise ValueError("the input has length 0; drop empty sequences from the data.")
    if attention_mask is not None and attention_mask.ndim == 2 and can_check(attention_mask):
        empty = (attention_mask != 0).sum(dim=1) == 0
        if empty.any():
            row = int(empty.nonzero()[0])
            raise ValueError(f"attention_mask leaves nothing of row {row} of the batch; drop empty sequences.")


def real_positions(
    attention_mask: torch.Tensor | None, inputs: torch.Tensor | None, cached: bool
) -> torch.Tensor | None:
    """The part of a mask (B, positions) that is about `inputs` (B, L, ...); None without such a mask.

    Raises:
        ValueError: If the mask is of another batch or length; with a cache it may begin before the inputs.
    """
    if attention_mask is None or inputs is None or attention_mask.ndim != 2 or inputs.ndim < 2:
        return None
    (batch, length), (rows, positions) = inputs.shape[:2], attention_mask.shape
    if rows != batch or positions < length or (positions > length and not cached):
        raise ValueError(
            f"attention_mask has shape {(rows, positions)} but the inputs have {(batch, length)}; give one entry per "
            "position" + (", those in the cache included." if cached else ".")
        )
    return attention_mask[:, positions - length :]


def without_padding(inputs: torch.Tensor, valid_BL: torch.Tensor | None) -> torch.Tensor:
    """Inputs (B, L, ...) with zeros where `valid_BL` is 0: a product with the mask would keep infinity and NaN."""
    if valid_BL is None:
        return inputs
    return inputs.masked_fill((valid_BL == 0)[..., None], 0.0)


def check_class_labels(labels: torch.Tensor, num_labels: int) -> None:
    """Raise ValueError for class ids outside [0, num_labels)."""
    if can_check(labels) and labels.numel() and not labels.is_floating_point():
        scored = labels[labels != IGNORE_INDEX]
        if scored.numel() and (scored.min() < 0 or scored.max() >= num_labels):
            wrong = int(scored.min()) if scored.min() < 0 else int(scored.max())
            raise ValueError(
                f"labels hold the class {wrong} but the model has num_labels {num_labels}; check the label column or "
                "set num_labels."
            )
