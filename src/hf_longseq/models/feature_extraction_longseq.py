# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Sounds and series of measurements to padded batches, scaled as the training data were.

Travels with a checkpoint. Axes: B batch, L length, C channels.
"""

import math

import torch
from transformers.feature_extraction_sequence_utils import SequenceFeatureExtractor
from transformers.feature_extraction_utils import BatchFeature
from transformers.utils import logging

logger = logging.get_logger(__name__)

RESAMPLING_BLOCK = 2**14
"""Positions computed at a time, so that memory does not grow with the length."""


class LongSeqFeatureExtractor(SequenceFeatureExtractor):
    """Turns series (L,) or (L, C) into `input_values`, (B, L) for one channel, else (B, L, C), float32, and into
    `attention_mask` (B, L).

    Args:
        feature_size: Channels C.
        sampling_rate: Rate in Hz that the model was trained on; None where a series has no rate. Other rates are
            resampled (polyphase, Kaiser window).
        padding_value: What fills short series; the mask, not this value, says what is padding.
        mean, std: Per channel, fixed at training time; a value becomes (value - mean) / std.
        peak: If set, each series is first freed of its own mean and scaled to this largest absolute value.
        max_length: Longer series are cut.
    """

    model_input_names = ["input_values", "attention_mask"]

    def __init__(
        self,
        feature_size: int = 1,
        sampling_rate: int | None = None,
        padding_value: float = 0.0,
        mean: list[float] | tuple[float, ...] | None = None,
        std: list[float] | tuple[float, ...] | None = None,
        peak: float | None = None,
        max_length: int | None = None,
        **kwargs,
    ):
        super().__init__(feature_size, sampling_rate, padding_value, **kwargs)
        self.mean = [float(number) for number in mean] if mean else [0.0] * feature_size
        self.std = [float(number) for number in std] if std else [1.0] * feature_size
        if not len(self.mean) == len(self.std) == feature_size:
            raise ValueError(
                f"mean has {len(self.mean)} and std {len(self.std)} numbers; give feature_size={feature_size} of each."
            )
        self.peak = peak
        self.max_length = max_length

    def __call__(
        self,
        raw,
        sampling_rate: int | None = None,
        padding: bool | str = True,
        max_length: int | None = None,
        truncation: bool = True,
        pad_to_multiple_of: int | None = None,
        return_attention_mask: bool | None = None,
        return_tensors: str | None = None,
        **kwargs,
    ) -> BatchFeature:
        """Encode one series or a batch.

        Args:
            raw: An array or tensor (L,) or (L, C), a list of numbers, or a list of such series for a batch. Of one
                channel also an array (B, L), or lists of equal or unequal length.
            sampling_rate: Rate of `raw` in Hz; taken to be the model's if not given.
            padding: True or "longest", "max_length", or False (then all must have one length to become tensors).
            max_length: Instead of the extractor's own.
            truncation: Cut at `max_length`.
            pad_to_multiple_of: Pad up to the next multiple of this length.
            return_attention_mask: Leave the mask out with False.
            return_tensors: "pt", or "np", which is the default.

        Raises:
            ValueError: For an empty series, one with NaN, or with other channels than the model's.
        """
        if sampling_rate is None and self.sampling_rate is not None:
            logger.warning_once(
                f"No sampling_rate was given: the input is taken to have {self.sampling_rate} Hz, the model's rate."
            )
        elif sampling_rate is not None and not (sampling_rate > 0 and sampling_rate == int(sampling_rate)):
            raise ValueError(f"sampling_rate is {sampling_rate}; give a whole number of samples per second.")
        limit = self.max_length if max_length is None else max_length
        batch = raw if is_batch(raw, self.feature_size) else [raw]
        series = [self.prepare(one, sampling_rate, row) for row, one in enumerate(batch)]
        if truncation and limit is not None:
            series = [one[:limit] for one in series]
        features = BatchFeature({"input_values": series})
        return self.pad(
            features,
            padding=padding,
            max_length=limit,
            pad_to_multiple_of=pad_to_multiple_of,
            return_attention_mask=return_attention_mask,
            return_tensors=return_tensors or "np",
        )

    def prepare(self, raw, sampling_rate: int | None, row: int = 0) -> torch.Tensor:
        """One series, (L,) for one channel, else (L, C), at the model's rate, in the model's scale."""
        values_LC = torch.as_tensor(raw).to(torch.float64)
        values_LC = values_LC[:, None] if values_LC.ndim == 1 else values_LC
        if values_LC.ndim != 2 or values_LC.shape[1] != self.feature_size:
            raise ValueError(
                f"series {row} has shape {tuple(values_LC.shape)}; give (length,) or (length, channels) with "
                f"{self.feature_size} channel(s)."
            )
        if len(values_LC) == 0:
            raise ValueError(f"series {row} has length 0; drop empty series.")
        if not torch.isfinite(values_LC).all():
            raise ValueError(f"series {row} holds NaN or infinity; fill or remove missing values.")
        if sampling_rate is not None and self.sampling_rate is not None and sampling_rate != self.sampling_rate:
            values_LC = resample(values_LC, int(sampling_rate), int(self.sampling_rate))
        if self.peak is not None:
            values_LC = values_LC - values_LC.mean(0)
            values_LC = values_LC * (self.peak / values_LC.abs().max().clamp(min=1e-12))
        mean_C, std_C = (torch.tensor(numbers, dtype=torch.float64) for numbers in (self.mean, self.std))
        values_LC = ((values_LC - mean_C) / std_C).float()
        return values_LC[:, 0] if self.feature_size == 1 else values_LC


def is_batch(raw, channels: int) -> bool:
    """Whether `raw` is several series: with one channel a list of lists or an array (B, L), as `datasets.map` gives
    them; with several, one dimension more. An array (L, 1) is one series of one channel."""
    if not isinstance(raw, (list, tuple)):
        shape = getattr(raw, "shape", ())
        return len(shape) == 3 or (len(shape) == 2 and channels == 1 and shape[1] != 1)
    if not raw:
        return False
    first = raw[0]
    if not isinstance(first, (list, tuple)):
        return getattr(first, "ndim", 0) > 0
    if not first or isinstance(first[0], (list, tuple)) or getattr(first[0], "ndim", 0) > 0:
        return True
    return channels == 1 and (len(raw) == 1 or any(len(one) != 1 for one in raw))


def resample(values_LC: torch.Tensor, old_rate: int, new_rate: int) -> torch.Tensor:
    """(L, C) at `old_rate` to (ceil(L * new / old), C) at `new_rate`, by a windowed-sinc filter.

    The same filter as scipy's `resample_poly`: ten zero crossings a side, Kaiser window with beta 5.
    """
    divisor = math.gcd(old_rate, new_rate)
    up, down = new_rate // divisor, old_rate // divisor
    half = 10 * max(up, down)
    taps = torch.arange(-half, half + 1, dtype=torch.float64)
    window = torch.kaiser_window(2 * half + 1, periodic=False, beta=5.0, dtype=torch.float64)
    kernel = torch.sinc(taps / max(up, down)) * window
    kernel = kernel * (up / kernel.sum())
    blocks = torch.arange(-(-len(values_LC) * up // down)).split(RESAMPLING_BLOCK)
    return torch.cat([_resampled_at(block, values_LC, kernel, up, down) for block in blocks])


def _resampled_at(block_K: torch.Tensor, values_LC: torch.Tensor, kernel: torch.Tensor, up: int, down: int):
    """Positions ``block_K`` of the output. Of the filter only the taps that fall on an input are looked at, one in
    ``up``: with the usual rates (44,100 to 16,000 Hz) that is one in 160."""
    half = len(kernel) // 2
    middle_K = block_K * down
    first_K = -((half - middle_K) // up)  # the first input that the filter reaches
    inputs_KT = first_K[:, None] + torch.arange(2 * half // up + 1)
    tap_KT = inputs_KT * up - middle_K[:, None] + half
    reached = (tap_KT <= 2 * half) & (inputs_KT >= 0) & (inputs_KT < len(values_LC))
    weights_KT = kernel[tap_KT.clamp(max=2 * half)] * reached
    picked_KTC = values_LC[inputs_KT.clamp(0, len(values_LC) - 1)]
    return torch.einsum("kt,ktc->kc", weights_KT, picked_KTC)


__all__ = ["LongSeqFeatureExtractor"]
