# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Layers of the official code, translated into blocks of our trunk.

A block is a mixer with the feed-forward layer that follows it, if any; the official code numbers them separately.

Axes: H channels, S independent (A, B) copies, n conjugate pairs, N = 2n, D directions; a last axis of 2 is (real,
imaginary).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from hf_longseq.errors import HfLongSeqError
from hf_longseq.hub.official_layout import STATE_SPACE, Layer, Tensors
from hf_longseq.models.ssm_reference import dense_system

# Channels whose dense N x N systems are held at a time.
CHANNELS_AT_A_TIME = 32


@dataclass
class Block:
    """A mixer and the feed-forward layer after it."""

    mixer: Layer
    feed_forward: Layer | None = None

    @property
    def hidden_size(self) -> int:
        """H."""
        weight = "q_proj.weight" if self.mixer.kind == "attention" else "output_projection.weight"
        return self.mixer.tensors[weight].shape[1]

    @property
    def rotary(self) -> bool:
        """Whether the attention keeps rotary frequencies."""
        return "frequencies" in self.mixer.tensors

    def fields(self, options) -> dict[str, Any]:
        """Fields of the configuration that the tensors of this block determine."""
        tensors, kind = self.mixer.tensors, self.mixer.kind
        found: dict[str, Any] = {}
        if self.feed_forward is not None:
            found["intermediate_size"] = len(self.feed_forward.tensors["up_proj.weight"])
            found["hidden_act"] = options.activation or "gelu"
        elif kind == "attention":
            raise HfLongSeqError(
                "the checkpoint's attention layers have no feed-forward layers between them, which our Transformer "
                "needs: it cannot be converted."
            )
        elif options.activation not in (None, "gelu"):
            raise HfLongSeqError(
                f"--activation is {options.activation!r}, but the checkpoint has no feed-forward layers, and inside "
                "state-space layers it is always gelu: leave it out."
            )
        if kind == "attention":
            return found | self._attention_fields(options)
        if options.causal and self.directions == 2:
            raise HfLongSeqError(
                "the checkpoint's kernels have two directions, so it is not causal: leave out --causal."
            )
        found["bidirectional"] = self.directions == 2
        if kind == "dlr":
            return found | {"state_size": len(tensors["mode_frequency"])}
        copies, pairs = tensors["A_imag"].shape
        found |= {"state_size": 2 * pairs, "num_ssm": None if copies == self.hidden_size else copies}
        return found | {"kernel": "dplr" if kind == "s4" else "diagonal"}

    @property
    def directions(self) -> int:
        """D, of a state-space layer: 2 if it is bidirectional."""
        readout = self.mixer.tensors["mode_weight_W" if self.mixer.kind == "dlr" else "output_C"]
        skip = self.mixer.tensors["skip_D"].reshape(-1, self.hidden_size)
        if readout.ndim != 4 or len(readout) not in (1, 2) or len(skip) != 1:
            raise HfLongSeqError(
                "the checkpoint's kernels have several heads per channel, ours one or two directions: it cannot be "
                "converted."
            )
        return len(readout)

    def _attention_fields(self, options) -> dict[str, Any]:
        heads, width = options.num_attention_heads, self.hidden_size
        found: dict[str, Any] = {"bidirectional": not options.causal}
        if self.rotary:
            frequencies = self.mixer.tensors["frequencies"].double()
            head_size = 2 * len(frequencies)
            if width % head_size or heads not in (None, width // head_size):
                raise HfLongSeqError(
                    f"the checkpoint's rotary frequencies are for heads of {head_size} numbers, which gives "
                    f"{width / head_size:g} heads, but --num_attention_heads is {heads}: leave it out."
                )
            heads = width // head_size
            if len(frequencies) > 1:
                base = float(frequencies[1] ** (-head_size / 2))
                found["rope_theta"] = float(f"{base:.4g}")  # stored in float32: 9999.998 means 10,000
        if heads is None:
            raise HfLongSeqError(
                "the number of attention heads cannot be seen in the checkpoint: give --num_attention_heads."
            )
        if options.attention_window is not None:
            found["attention_window"] = options.attention_window
        return found | {"num_attention_heads": heads}


def blocks(layers: Iterable[Layer]) -> list[Block]:
    """Pair every mixer with the feed-forward layer after it; all blocks must be of one make."""
    found: list[Block] = []
    for layer in layers:
        if layer.kind != "feed-forward":
            found.append(Block(layer))
        elif found and found[-1].feed_forward is None:
            found[-1].feed_forward = layer
        else:
            raise HfLongSeqError(
                "the checkpoint has a feed-forward layer that follows no mixer: our blocks are a mixer and at most "
                "one feed-forward layer, so it cannot be converted."
            )
    makes = {(block.mixer.kind, block.feed_forward is None, block.rotary) for block in found}
    if len(makes) != 1:
        raise HfLongSeqError(
            f"the checkpoint mixes blocks of different make ({', '.join(sorted({kind for kind, _, _ in makes}))}): "
            "ours are all alike, so it cannot be converted."
        )
    return found


def translate_block(block: Block, first: Block, index: int) -> tuple[Tensors, dict[str, Any]]:
    """Our names and values for one block, and the fields that its norms determine."""
    if block.hidden_size != first.hidden_size or (
        block.mixer.kind in STATE_SPACE and block.directions != first.directions
    ):
        raise HfLongSeqError(f"the checkpoint's block {index} has other sizes than its first: it cannot be converted.")
    translated, fields = translate_norm(block.mixer.norm, block.hidden_size, f"block {index}")
    ours = {f"mixer_norm.{name}": tensor for name, tensor in translated.items()}
    ours |= {f"mixer.{name}": tensor for name, tensor in _mixer(block).items()}
    if block.feed_forward is not None:
        translated, again = translate_norm(block.feed_forward.norm, block.hidden_size, f"block {index}")
        if again != fields:
            raise HfLongSeqError(f"the checkpoint's block {index} has two kinds of norm: it cannot be converted.")
        ours |= {f"feed_forward_norm.{name}": tensor for name, tensor in translated.items()}
        ours |= {f"feed_forward.{name}": tensor for name, tensor in block.feed_forward.tensors.items()}
    return ours, fields


def translate_norm(tensors: Tensors, width: int, where: str) -> tuple[Tensors, dict[str, Any]]:
    """Our tensors and configuration for a norm."""
    names = set(tensors)
    if names == {"weight", "bias", "running_mean", "running_var"}:
        return tensors, {"norm": "batch"}
    if names == {"weight", "bias"}:
        return tensors, {"norm": "layer"}
    if names == {"m", "s"}:
        # the official layer norm over the channels of a transposed layout: one gain and one offset, no epsilon
        gain = tensors["s"].float().reshape(1).expand(width)
        offset = tensors["m"].float().reshape(1).expand(width)
        return {"weight": gain, "bias": gain * offset}, {"norm": "layer", "norm_eps": 1e-12}
    raise HfLongSeqError(
        f"the checkpoint's norm of {where} has {', '.join(sorted(names)) or 'no tensors'}: only layer norm and batch "
        "norm can be converted."
    )


def _mixer(block: Block) -> Tensors:
    ours, width = dict(block.mixer.tensors), block.hidden_size
    length = int(ours.pop("length", torch.tensor(0)))
    ours.pop("frequencies", None)
    if block.mixer.kind in STATE_SPACE and len(ours["output_projection.weight"]) != 2 * width:
        raise HfLongSeqError(
            f"the checkpoint's output layers have {len(ours['output_projection.weight'])} outputs for {width} "
            "channels, so they are not gated by GLU: it cannot be converted."
        )
    if block.mixer.kind == "s4" and length > 0:
        ours["output_C"] = true_readout(ours, length)
    return ours


def true_readout(ours: Tensors, length: int) -> torch.Tensor:
    """Undo C~ = C (I - dA^L), in which form the official S4 keeps its read-out; solved in float64.

    Args:
        ours: Parameters of the mixer under our names, with C~ as "output_C".
        length: L, the internal length of the official kernel.

    Returns:
        C, (D, H, n, 2), float32. Source: Gu et al., "S4", 2022, algorithm 1.
    """
    repeats = len(ours["log_dt"]) // len(ours["A_imag"])
    w_Hn = torch.complex(-ours["log_neg_A_real"].double().exp(), ours["A_imag"].double()).repeat(repeats, 1)
    b_Hn, p_Hn = (torch.view_as_complex(ours[x].double()).repeat(repeats, 1) for x in ("input_B", "low_rank_P"))
    c_DHn = torch.view_as_complex(ours["output_C"].double())
    log_dt_H, solved = ours["log_dt"].double(), []
    for part in torch.arange(len(log_dt_H)).split(CHANNELS_AT_A_TIME):
        step_HNN, _ = dense_system(log_dt_H[part], w_Hn[part], b_Hn[part], p_Hn[part])
        remainder_HNN = torch.eye(step_HNN.shape[-1]) - torch.linalg.matrix_power(step_HNN, length)
        stored_DHN = torch.cat((c_DHn[:, part], c_DHn[:, part].conj()), -1)
        solved.append(torch.linalg.solve(remainder_HNN.mT, stored_DHN[..., None])[..., 0])
    c_DHn = torch.cat(solved, dim=1)[..., : c_DHn.shape[-1]]
    return torch.view_as_real(c_DHn.resolve_conj().contiguous()).float()
