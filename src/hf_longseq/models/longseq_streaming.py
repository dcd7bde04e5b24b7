# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Inference over streams: causal models read pieces of any size and answer as if they had read everything at once.

Axes: B batch, L positions of a piece, H hidden size.
"""

import torch
from torch import nn
from transformers.modeling_outputs import SequenceClassifierOutput

from .longseq_layers import pool
from .longseq_losses import check_lengths, in_units
from .ssm_cache import RecurrentCache


class RunningPool:
    """Pools a stream of hidden states by "mean", "max", "first" or "last", in memory that does not grow.

    `value` is (B, H) in the dtype of the hidden states; rows without a valid position so far are NaN.
    """

    def __init__(self, pooling: str):
        self.pooling = pooling
        self.count_B1: torch.Tensor | None = None
        self.kept_BH: torch.Tensor | None = None

    def update(self, hidden_BLH: torch.Tensor, valid_BL: torch.Tensor | None) -> None:
        """Takes in a piece; `valid_BL` is 1 at real positions, None when all are."""
        if valid_BL is None:
            valid_BL = torch.ones(hidden_BLH.shape[:2], dtype=torch.bool, device=hidden_BLH.device)
        new_B1 = (valid_BL != 0).sum(dim=1, keepdim=True)
        # a float32 sum of a million positions would lose the new ones
        wide = torch.float32 if hidden_BLH.device.type == "mps" else torch.float64
        if self.pooling == "mean":
            piece_BH = (hidden_BLH * valid_BL[..., None].to(hidden_BLH.dtype)).sum(dim=1, dtype=wide)
        else:
            piece_BH = pool(hidden_BLH, valid_BL, self.pooling)
        if self.kept_BH is None:
            self.count_B1, self.kept_BH = new_B1, piece_BH
            return
        if self.pooling == "mean":
            self.kept_BH = self.kept_BH + piece_BH
        elif self.pooling == "max":
            self.kept_BH = torch.maximum(self.kept_BH, piece_BH)
        else:
            takes_new = new_B1 > 0 if self.pooling == "last" else (self.count_B1 == 0) & (new_B1 > 0)
            self.kept_BH = torch.where(takes_new, piece_BH, self.kept_BH)
        self.count_B1 = self.count_B1 + new_B1

    def value(self, dtype: torch.dtype) -> torch.Tensor:
        """What everything so far is pooled to."""
        pooled_BH = self.kept_BH / self.count_B1.clamp(min=1) if self.pooling == "mean" else self.kept_BH
        return pooled_BH.to(dtype).masked_fill(self.count_B1 == 0, float("nan"))


class LongSeqStream:
    """A causal model that reads a stream piece by piece, without gradients.

    The pieces may have any sizes: answers are those of one pass over the whole stream. With recurrent mixers (S4, DLR,
    LRU, S5) and convolutions (CNN) memory and the time of a position do not depend on what was read before; attention
    has to keep its keys.

    Example:
        ```python
        model = S4ForSequenceClassification.from_pretrained("me/heartbeat").eval()
        stream = model.stream()
        for samples in sensor:  # tensors (batch, any length, channels)
            logits = stream.feed(input_values=samples).logits
            print(stream.positions, logits.softmax(-1))  # the answer for all that was read so far
        stream.reset()  # forget everything, begin with another sequence
        ```

    Args:
        model: a causal model of this package, in evaluation mode.

    Raises:
        ValueError: for a bidirectional model, one with a window, a classifier of pairs, or a model in training mode.
    """

    def __init__(self, model: nn.Module):
        name, config = type(model).__name__, model.config
        if config.bidirectional:
            raise ValueError(
                f"{name} is bidirectional and needs the whole sequence at once: only models built with "
                "bidirectional=False read streams."
            )
        if getattr(config, "window", None) is not None:
            raise ValueError(f"{name} has window={config.window}: only models without one read streams.")
        if config.pair_classification:
            raise ValueError(f"{name} classifies pairs of sequences: only classifiers of single ones read streams.")
        self.model = model
        self.reset()

    def reset(self) -> None:
        """Forgets what was read."""
        self.cache = getattr(self.model, "model", self.model).make_cache()
        self.pool = RunningPool(self.model.config.pooling)
        self._seen_BL: torch.Tensor | None = None

    @property
    def positions(self) -> int:
        """How many positions were read since the beginning."""
        return self.cache.get_seq_length()

    @torch.no_grad()
    def feed(
        self,
        input_ids: torch.Tensor | None = None,
        input_values: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
    ):
        """Reads the next piece.

        Args:
            input_ids: (B, L), for models of tokens; the batch size is that of the first piece.
            input_values: (B, L, C), or (B, L) with one channel, for models of real values.
            attention_mask: (B, L), 1 at real positions of this piece; None when all are.

        Returns:
            Of a classifier of whole sequences, logits (B, K): the answer for everything read so far (NaN for a row
            that was padding only). Of other models the output for the positions of this piece.

        Raises:
            ValueError: for an empty piece, another batch size than before, or a model in training mode.
        """
        if self.model.training:
            raise ValueError(f"{type(self.model).__name__} is in training mode: call model.eval() before a stream.")
        piece = input_ids if input_ids is not None else input_values
        if piece is not None:
            self._check(piece, attention_mask)
        inputs = {"attention_mask": self._whole_mask(piece, attention_mask), "past_key_values": self.cache}
        inputs |= {"input_ids": input_ids} if input_values is None else {"input_values": input_values}
        if not getattr(self.model, "pools_positions", False):
            return self.model(**inputs)
        hidden_BLH = self.model.model(**inputs).last_hidden_state
        self.pool.update(hidden_BLH, attention_mask)
        logits_BK = self.model.classifier(self.pool.value(hidden_BLH.dtype))
        return SequenceClassifierOutput(logits=in_units(logits_BK, self.model.config))

    def _check(self, piece: torch.Tensor, attention_mask: torch.Tensor | None) -> None:
        check_lengths(piece.shape[1], None)
        if attention_mask is not None and attention_mask.shape != piece.shape[:2]:
            raise ValueError(
                f"attention_mask has shape {tuple(attention_mask.shape)} but the piece has "
                f"{tuple(piece.shape[:2])}: give the mask of this piece only."
            )
        if self._seen_BL is not None and self._seen_BL.shape[0] != piece.shape[0]:
            raise ValueError(
                f"the piece has {piece.shape[0]} sequences but the stream began with {self._seen_BL.shape[0]}: call "
                "reset() to begin another."
            )

    def _whole_mask(self, piece: torch.Tensor | None, attention_mask: torch.Tensor | None) -> torch.Tensor | None:
        """The mask as the mixers need it: recurrent ones that of the piece, attention that of all positions."""
        if piece is None:
            return attention_mask
        if type(self.cache) is RecurrentCache:
            self._seen_BL = piece.new_empty(piece.shape[0], 0)  # remembers the batch size
            return attention_mask
        if attention_mask is None:
            valid_BL = torch.ones(piece.shape[:2], dtype=torch.bool, device=piece.device)
        else:
            valid_BL = attention_mask.bool()
        self._seen_BL = valid_BL if self._seen_BL is None else torch.cat((self._seen_BL, valid_BL), dim=1)
        return None if self._seen_BL.all() else self._seen_BL.long()
