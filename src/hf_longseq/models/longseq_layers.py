# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The parts around a mixer: norms, dropout, feed-forward, pooling and the classifier.

Axes: B batch, L length, H hidden size, K number of labels.
"""

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from transformers import initialization as init
from transformers.activations import ACT2FN

from .ssm_precision import wide_dtype, widened

DIRECTIONS = ("forward", "backward")
"""What a bidirectional model can be asked to see: the present and what lies before it, or after it."""


def one_direction(readout_D: torch.Tensor, direction: str | None) -> torch.Tensor:
    """Readouts or kernels (2, ...) of both directions with zeros for the one that is not asked for; all for None."""
    if direction is None:
        return readout_D
    none = torch.zeros_like(readout_D[0])
    return torch.stack([row if name == direction else none for name, row in zip(DIRECTIONS, readout_D, strict=True)])


def packing(valid_BL: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The index (B, L) that moves real positions to the front in their order, and the index that undoes it."""
    order_BL = torch.argsort(~valid_BL.bool(), dim=1, stable=True)
    return order_BL, torch.argsort(order_BL, dim=1)


def take_positions(x_BLH: torch.Tensor, index_BL: torch.Tensor) -> torch.Tensor:
    """`x_BLH[b, index_BL[b, l]]` for every b and l."""
    return x_BLH.gather(1, index_BL[..., None].expand(-1, -1, x_BLH.shape[-1]))


@dataclass
class WindowBlocks:
    """A batch cut into blocks of W positions, which a mixer reads as M sequences of their own.

    Blocks are counted from the first real position, so that padding on the left does not move them; those without a
    real position are left out.

    Attributes:
        shape: (B, number of blocks of a sequence, W).
        valid_MW: 1 at real positions, None when all are.
        order_BL: index that moves the first real position to the front; None without padding.
        inverse_BL: index that undoes it.
        kept_M: which of all blocks are left; None for all.
    """

    shape: tuple[int, int, int]
    valid_MW: torch.Tensor | None = None
    order_BL: torch.Tensor | None = None
    inverse_BL: torch.Tensor | None = None
    kept_M: torch.Tensor | None = None

    @classmethod
    def of(cls, x_BLH: torch.Tensor, valid_BL: torch.Tensor | None, window: int) -> "WindowBlocks":
        """The blocks of a batch; `valid_BL` is 1 at real positions, None when all are."""
        batch, length = x_BLH.shape[:2]
        window = min(window, length)
        blocks = cls((batch, -(-length // window), window))
        if valid_BL is None and length % window == 0:
            return blocks
        if valid_BL is None:
            valid_BL = x_BLH.new_ones(batch, length, dtype=torch.long)
        else:
            place_L, first_B1 = torch.arange(length, device=x_BLH.device), valid_BL.long().argmax(dim=1, keepdim=True)
            blocks.order_BL, blocks.inverse_BL = (place_L + first_B1) % length, (place_L - first_B1) % length
        valid_MW = blocks.cut(valid_BL[..., None])[..., 0]
        blocks.kept_M = valid_MW.any(dim=1).nonzero()[:, 0]
        blocks.valid_MW = valid_MW[blocks.kept_M]
        return blocks

    def cut(self, x_BLH: torch.Tensor) -> torch.Tensor:
        """(B, L, H) to (M, W, H), zeros behind the end of a sequence."""
        batch, count, window = self.shape
        if self.order_BL is not None:
            x_BLH = take_positions(x_BLH, self.order_BL)
        x_BLH = F.pad(x_BLH, (0, 0, 0, count * window - x_BLH.shape[1]))
        x_MWH = x_BLH.reshape(batch * count, window, -1)
        return x_MWH if self.kept_M is None else x_MWH[self.kept_M]

    def join(self, x_MWH: torch.Tensor, length: int) -> torch.Tensor:
        """(M, W, H) to (B, L, H), zeros where no block is left."""
        batch, count, window = self.shape
        if self.kept_M is not None:
            x_MWH = x_MWH.new_zeros(batch * count, *x_MWH.shape[1:]).index_copy(0, self.kept_M, x_MWH)
        x_BLH = x_MWH.reshape(batch, count * window, -1)[:, :length]
        return x_BLH if self.inverse_BL is None else take_positions(x_BLH, self.inverse_BL)


class LongSeqBatchNorm(nn.Module):
    """Batch norm over the channels of a sequence whose statistics leave out padding.

    With several processes the statistics are those of the whole batch, so that one process and many train alike.
    Running statistics follow torch's convention (momentum 0.1, unbiased variance).
    """

    momentum = 0.1

    def __init__(self, hidden_size: int, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(hidden_size))
        self.bias = nn.Parameter(torch.empty(hidden_size))
        self.register_buffer("running_mean", torch.empty(hidden_size, dtype=torch.float32))
        self.register_buffer("running_var", torch.empty(hidden_size, dtype=torch.float32))

    def reset_parameters(self) -> None:
        init.ones_(self.weight)
        init.zeros_(self.bias)
        init.zeros_(self.running_mean)
        init.ones_(self.running_var)

    def forward(self, hidden_BLH: torch.Tensor, valid_BL: torch.Tensor | None = None) -> torch.Tensor:
        """Normalise `hidden_BLH`; `valid_BL` is 1 at real positions, None when all are. Same shape and dtype out."""
        x_BLH = widened(hidden_BLH)
        if self.training:
            mean_H, var_H = self._batch_statistics(x_BLH, valid_BL)
        else:
            mean_H, var_H = self.running_mean, self.running_var
        scale_H = self.weight.to(x_BLH.dtype) * torch.rsqrt(var_H + self.eps)
        return ((x_BLH - mean_H) * scale_H + self.bias.to(x_BLH.dtype)).to(hidden_BLH.dtype)

    def _batch_statistics(
        self, x_BLH: torch.Tensor, valid_BL: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if valid_BL is None:
            weight_BL1 = torch.ones_like(x_BLH[..., :1])
        else:
            weight_BL1 = valid_BL[..., None].to(x_BLH.dtype)
        count = _sum_over_processes(weight_BL1.sum().reshape(1)).clamp(min=1.0)
        mean_H = _sum_over_processes((x_BLH * weight_BL1).sum(dim=(0, 1))) / count
        var_H = _sum_over_processes(((x_BLH - mean_H).square() * weight_BL1).sum(dim=(0, 1))) / count
        # gradient checkpointing computes a batch again within the backward pass, and it counts once
        if not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1:
            return mean_H, var_H
        with torch.no_grad():
            unbiased_H = var_H * count / (count - 1).clamp(min=1.0)
            for running_H, batch_H in ((self.running_mean, mean_H), (self.running_var, unbiased_H)):
                # a model cast to half precision has its running statistics in it, too
                running_H.copy_(torch.lerp(running_H.to(batch_H.dtype), batch_H, self.momentum))
        return mean_H, var_H


class LongSeqScaleNorm(nn.Module):
    """Divides by the root mean square over the channels, with one learned factor for all of them."""

    def __init__(self, hidden_size: int, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(1))

    def reset_parameters(self) -> None:
        init.ones_(self.weight)

    def forward(self, hidden_BLH: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(hidden_BLH, hidden_BLH.shape[-1:], eps=self.eps) * self.weight


def _sum_over_processes(x: torch.Tensor) -> torch.Tensor:
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        from torch.distributed.nn.functional import all_reduce  # differentiable; absent where torch has no distributed

        return all_reduce(x)
    return x


def build_norm(config) -> nn.Module:
    """The norm that `config.norm` names."""
    norms = {"layer": nn.LayerNorm, "rms": nn.RMSNorm, "batch": LongSeqBatchNorm, "scale": LongSeqScaleNorm}
    return norms[config.norm](config.hidden_size, eps=config.norm_eps)


def apply_norm(norm: nn.Module, hidden_BLH: torch.Tensor, valid_BL: torch.Tensor | None) -> torch.Tensor:
    """Call `norm`, telling batch norm which positions are real."""
    if isinstance(norm, LongSeqBatchNorm):
        return norm(hidden_BLH, valid_BL)
    return norm(hidden_BLH)


class LongSeqDropout(nn.Dropout):
    """Dropout on (B, L, H); `tied` uses one mask for all positions of a sequence."""

    def __init__(self, p: float, tied: bool):
        super().__init__(p)
        self.tied = tied

    def forward(self, hidden_BLH: torch.Tensor) -> torch.Tensor:
        if not self.tied or not self.training or self.p == 0.0:
            return super().forward(hidden_BLH)
        return hidden_BLH * super().forward(torch.ones_like(hidden_BLH[:, :1]))


class FeedForward(nn.Module):
    """Two dense layers around an activation, position by position."""

    def __init__(self, config):
        super().__init__()
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size)
        self.act = ACT2FN[config.hidden_act]
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, hidden_BLH: torch.Tensor) -> torch.Tensor:
        return self.down_proj(self.act(self.up_proj(hidden_BLH)))


def pool(hidden_BLH: torch.Tensor, valid_BL: torch.Tensor | None, pooling: str) -> torch.Tensor:
    """Reduce (B, L, H) to (B, H) over valid positions by "mean", "max", "first" or "last"."""
    if valid_BL is None:
        valid_BL = torch.ones(hidden_BLH.shape[:2], dtype=torch.bool, device=hidden_BLH.device)
    valid_BL = valid_BL.bool()
    if pooling == "mean":
        weight_BL1 = valid_BL[..., None].to(hidden_BLH.dtype)
        wide = wide_dtype(hidden_BLH.dtype)  # a sum of 16k bfloat16 numbers would lose the small ones
        total_BH = (hidden_BLH * weight_BL1).sum(dim=1, dtype=wide)
        count_B1 = weight_BL1.sum(dim=1, dtype=wide).clamp(min=1.0)
        return (total_BH / count_B1).to(hidden_BLH.dtype)
    if pooling == "max":
        lowest = torch.finfo(hidden_BLH.dtype).min
        return hidden_BLH.masked_fill(~valid_BL[..., None], lowest).amax(dim=1)
    valid_BL = valid_BL.int()
    if pooling == "first":
        index_B = valid_BL.argmax(dim=1)
    else:
        index_B = valid_BL.shape[1] - 1 - valid_BL.flip(1).argmax(dim=1)
    return hidden_BLH[torch.arange(hidden_BLH.shape[0], device=hidden_BLH.device), index_B]


class ClassifierHead(nn.Module):
    """Pooled features (B, H), (B, 4 H) of a pair or (B, L, H) of positions, to as many rows of K logits."""

    def __init__(self, config):
        super().__init__()
        width = config.hidden_size * (4 if config.pair_classification else 1)
        self.dense = self.act = None
        if config.classifier_hidden_size is not None:
            self.dense = nn.Linear(width, config.classifier_hidden_size)
            self.act = ACT2FN[config.classifier_act]
            width = config.classifier_hidden_size
        self.out_proj = nn.Linear(width, config.num_labels)

    def forward(self, pooled: torch.Tensor) -> torch.Tensor:
        if self.dense is not None:
            pooled = self.act(self.dense(pooled))
        return self.out_proj(pooled)
