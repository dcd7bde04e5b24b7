# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The official code's checkpoints (encoder, backbone, decoder), taken apart and translated into blocks of our trunk.

    [prefix.]encoder[.N].weight | .bias | .pe          embedding, linear map of values, table of positions
    [prefix.]model.layers.N.norm.norm.*                one norm per layer
    [prefix.]model.layers.N.layer.*                    S4, S4D, DLR, attention, or a feed-forward layer of its own
    [prefix.]model.norm.norm.*                         final norm: there exactly when the model is pre-norm
    [prefix.]decoder[.N].output_transform[.N].*        linear head or two-layer perceptron, per position or pooled
    [prefix.]decoder[.N].retrieval.classifier.N.*      head for pairs of documents

A block is a mixer with the feed-forward layer that follows it, if any; the official code numbers them separately.
`convert.build` finds tensors that are missing, too many, or of another shape.

Axes: H channels, S independent (A, B) copies, n conjugate pairs, N = 2n, D directions; a last axis of 2 is (real,
imaginary).
"""

import re
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from hf_longseq.errors import HfLongSeqError
from hf_longseq.models.ssm_reference import dense_system

Tensors = dict[str, torch.Tensor]
Dense = list[tuple[torch.Tensor, torch.Tensor]]

# Counters, caches of the kernel at one length, states of metrics.
IGNORED = re.compile(
    r"(num_batches_tracked|kernel\.(kernel\.)?(omega|z|dA|dB|dC|step\w*)|\w*torchmetrics\..*|metrics\..*|loss\..*)$"
)
# Prefixes by torch.compile and data parallelism.
WRAPPERS = re.compile(r"(?<![^.])(?:_orig_mod|module)\.")
LAYER = re.compile(r"^(?P<backbone>(?:.*\.)?)layers\.(?P<index>\d+)\.(?P<part>norm|layer)\.(?P<rest>.+)$")
DECODER = re.compile(
    r"^(?P<head>decoder\w*)(?:\.\d+)*?(?P<kind>\.output_transform|\.retrieval\.classifier)?(?:\.(?P<place>\d+))?"
    r"\.(?P<leaf>weight|bias)$"
)
FEED_FORWARD = re.compile(r"^ff\.(?P<place>\d+)(?:\.0)?\.(?P<leaf>weight|bias)$")

LEAVES = ("weight", "bias")
GATED = {"D": "skip_D", **{f"output_linear.{leaf}": f"output_projection.{leaf}" for leaf in LEAVES}}
KERNEL = {"kernel.C": "output_C", "kernel.B": "input_B", "kernel.log_dt": "log_dt", "kernel.L": "length", **GATED}
# Official names in a layer of each kind, and ours. No other kind has the first.
NAMES = {
    "s4": {"kernel.inv_w_real": "log_neg_A_real", "kernel.w_imag": "A_imag", "kernel.P": "low_rank_P", **KERNEL},
    "s4d": {"kernel.inv_A_real": "log_neg_A_real", "kernel.A_imag": "A_imag", **KERNEL},
    "dlr": {
        "kernel.Lambda_log_neg_re": "mode_decay_root",
        "kernel.Lambda_im": "mode_frequency",
        "kernel.W": "mode_weight_W",
        **GATED,
    },
    "attention": {f"linears.{n}.{leaf}": f"{x}_proj.{leaf}" for n, x in enumerate("qkvo") for leaf in LEAVES}
    | {"rope.freqs": "frequencies"},
    "feed-forward": {f"{place}.{leaf}": f"{place}_proj.{leaf}" for place in ("up", "down") for leaf in LEAVES},
}
BIASES = {f"{place}_proj.bias" for place in ("q", "k", "v", "o", "up", "down")}
FLAT = {"skip_D", "log_dt", "mode_decay_root", "mode_frequency", "output_projection.bias", "frequencies", *BIASES}
# Channels whose dense N x N systems are held at a time.
CHANNELS_AT_A_TIME = 32


@dataclass
class Layer:
    """One layer of the backbone: `kind` is a key of `NAMES`, and `tensors` have our names."""

    kind: str
    tensors: Tensors
    norm: Tensors


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
        if kind == "attention":
            return found | self._attention_fields(options)
        directions = len(tensors["mode_weight_W" if kind == "dlr" else "output_C"])
        if options.causal and directions == 2:
            raise HfLongSeqError(
                "the checkpoint's kernels have two directions, so it is not causal: leave out --causal."
            )
        found["bidirectional"] = directions == 2
        if kind == "dlr":
            return found | {"state_size": len(tensors["mode_frequency"])}
        copies, pairs = tensors["A_imag"].shape
        found |= {"state_size": 2 * pairs, "num_ssm": None if copies == self.hidden_size else copies}
        return found | {"kernel": "dplr" if kind == "s4" else "diagonal"}

    def _attention_fields(self, options) -> dict[str, Any]:
        heads, width = options.num_attention_heads, self.hidden_size
        found: dict[str, Any] = {"bidirectional": not options.causal, "attention_window": options.attention_window}
        if self.rotary:
            frequencies = self.mixer.tensors["frequencies"].double()
            head_size = 2 * len(frequencies)
            if heads not in (None, width / head_size):
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
        return found | {"num_attention_heads": heads}

    def translate(self) -> tuple[Tensors, dict[str, Any]]:
        """Our names and values, and the fields that the norm determines."""
        ours, fields = translate_norm(self.mixer.norm, self.hidden_size, "mixer_norm")
        ours |= {f"mixer.{name}": tensor for name, tensor in self._mixer().items()}
        if self.feed_forward is not None:
            ours |= translate_norm(self.feed_forward.norm, self.hidden_size, "feed_forward_norm")[0]
            ours |= {f"feed_forward.{name}": tensor for name, tensor in self.feed_forward.tensors.items()}
        return ours, fields

    def _mixer(self) -> Tensors:
        ours = {name: x for name, x in self.mixer.tensors.items() if name not in ("length", "frequencies")}
        length = int(self.mixer.tensors.get("length", torch.tensor(0)))
        if self.mixer.kind == "s4" and length > 0:
            ours["output_C"] = true_readout(ours, length)
        return ours


@dataclass
class Official:
    """A checkpoint's parts. `heads` maps the name of a decoder to its dense layers, in order, as (weight, bias)."""

    embedding: tuple[torch.Tensor, torch.Tensor | None]
    positions: torch.Tensor | None
    blocks: list[Block]
    final_norm: Tensors
    heads: dict[str, Dense]
    pair: bool


def take_apart(tensors: Tensors) -> Official:
    """Sort the tensors of a checkpoint, and give those of its layers our names."""
    bare = {name: WRAPPERS.sub("", re.sub(r"^(param|buffer)\.", "", name)) for name in tensors}
    bare = {name: one for name, one in bare.items() if not IGNORED.search(one)}
    if len(set(bare.values())) < len(bare):
        raise HfLongSeqError("the checkpoint holds tensors twice, bare and wrapped: keep one of each.")
    tensors = {one: tensors[name] for name, one in bare.items()}
    found = {match["backbone"] for name in tensors if (match := LAYER.match(name))}
    if len(found) != 1:
        shown = ", ".join(list(tensors)[:3]) or "nothing"
        raise HfLongSeqError(
            f"the checkpoint has no single backbone (keys like model.layers.0.layer.*, found {shown}): give a "
            "checkpoint of the official code."
        )
    backbone = found.pop()
    outer = re.sub(r"(^|\.)model\.$", r"\1", backbone)
    parts: dict[str, Tensors] = {"layers": {}, "norm": {}, "encoder": {}, "decoder": {}}
    unknown = []
    for name, tensor in tensors.items():
        inner, side = name.removeprefix(backbone), name.removeprefix(outer)
        if name.startswith(backbone) and inner.split(".")[0] in ("layers", "norm"):
            parts[inner.split(".")[0]][inner.split(".", 1)[1]] = tensor
        elif name.startswith(outer) and side.startswith(("encoder", "decoder")):
            parts[side[:7]][side] = tensor
        else:
            unknown.append(name)
    if unknown:
        _refuse_keys(unknown)
    encoder = {name.split(".")[-1]: tensor for name, tensor in parts["encoder"].items()}
    if "weight" not in encoder or len(encoder) < len(parts["encoder"]) or set(encoder) - {"weight", "bias", "pe"}:
        _refuse_keys(list(parts["encoder"]) or ["no encoder weight"])
    embedding = (encoder["weight"], encoder.get("bias"))
    heads, pair = _decoders(parts["decoder"])
    return Official(embedding, encoder.get("pe"), _blocks(parts["layers"]), _norm(parts["norm"]), heads, pair)


def _refuse_keys(names: list[str]) -> NoReturn:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    raise HfLongSeqError(
        f"the checkpoint holds {', '.join(names[:3])}{more}, which no model of the official layout has: convert one "
        "of an S4, S4D, DLR or Transformer backbone with a plain encoder and decoder."
    )


def _decoders(tensors: Tensors) -> tuple[dict[str, Dense], bool]:
    grouped: dict[str, dict[int, Tensors]] = {}
    pair = False
    for name, tensor in tensors.items():
        match = DECODER.match(name)
        if match is None or tensor.ndim != (2 if match["leaf"] == "weight" else 1):
            _refuse_keys([name])
        pair = pair or match["kind"] == ".retrieval.classifier"
        place = int(match["place"] or 0) if match["kind"] else 0
        grouped.setdefault(match["head"], {}).setdefault(place, {})[match["leaf"]] = tensor
    heads = {
        head: [(x["weight"], x.get("bias", torch.zeros(len(x["weight"])))) for _, x in sorted(places.items())]
        for head, places in grouped.items()
    }
    return heads, pair


def _blocks(tensors: Tensors) -> list[Block]:
    """Every mixer with the feed-forward layer after it."""
    inner: dict[int, Tensors] = {}
    norms: dict[int, Tensors] = {}
    for name, tensor in tensors.items():
        match = LAYER.match(f"layers.{name}")
        if match is None:
            _refuse_keys([f"layers.{name}"])
        place = norms if match["part"] == "norm" else inner
        place.setdefault(int(match["index"]), {})[match["rest"]] = tensor
    if sorted(inner) != list(range(len(inner))):
        raise HfLongSeqError(
            f"the checkpoint has layers {sorted(inner)}, which are not numbered from 0 without a gap: give a complete "
            "checkpoint."
        )
    found: list[Block] = []
    for index in range(len(inner)):
        layer = _layer(index, _one_spelling(inner[index]), _norm(norms.get(index, {})))
        if layer.kind != "feed-forward":
            found.append(Block(layer))
        elif found and found[-1].feed_forward is None:
            found[-1].feed_forward = layer
        else:
            raise HfLongSeqError(
                "the checkpoint has a feed-forward layer that follows no mixer: our blocks are a mixer and at most "
                "one feed-forward layer, so it cannot be converted."
            )
    return found


def _one_spelling(tensors: Tensors) -> Tensors:
    """`kernel.kernel.X` and `kernel.X`, `ff.0.0.X` and `ff.0.X`, `output_linear.0.X` and `output_linear.X` alike."""
    places = sorted({int(match["place"]) for name in tensors if (match := FEED_FORWARD.match(name))})
    renamed = {}
    for name, tensor in tensors.items():
        if (match := FEED_FORWARD.match(name)) and len(places) == 2:
            name = f"{('up', 'down')[places.index(int(match['place']))]}.{match['leaf']}"
        name = re.sub(r"^kernel\.kernel\.", "kernel.", name)
        renamed[re.sub(r"^output_linear\.0\.", "output_linear.", name)] = tensor
    return renamed


def _layer(index: int, tensors: Tensors, norm: Tensors) -> Layer:
    kind = next((kind for kind, names in NAMES.items() if next(iter(names)) in tensors), "")
    names = NAMES.get(kind, {})
    if unknown := sorted(set(tensors) - set(names)):
        _refuse_keys([f"layers.{index}.layer.{name}" for name in unknown])
    ours = {names[name]: _in_our_shape(names[name], tensor) for name, tensor in tensors.items()}
    for bias in BIASES & set(names.values()):
        ours.setdefault(bias, torch.zeros(len(ours[bias.replace("bias", "weight")])))
    return Layer(kind, ours, norm)


def _in_our_shape(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Vectors flat; a dense layer that was written as a convolution of length one without its third axis; inputs and
    low-rank factors (1, S, n, 2) as (S, n, 2)."""
    if name in FLAT:
        return tensor.flatten()
    if name.endswith("weight") and tensor.ndim == 3 and tensor.shape[-1] == 1:
        return tensor[..., 0]
    return tensor[0] if name in ("input_B", "low_rank_P") and tensor.ndim == 4 and len(tensor) == 1 else tensor


def _norm(tensors: Tensors) -> Tensors:
    return {re.sub(r"^(norm\.)*", "", name): tensor for name, tensor in tensors.items()}


def translate_norm(tensors: Tensors, width: int, name: str) -> tuple[Tensors, dict[str, Any]]:
    """Our tensors for the norm `name`, and what the configuration says of it."""
    names = set(tensors)
    fields: dict[str, Any] = {"norm": "layer"}
    if names == {"weight", "bias", "running_mean", "running_var"}:
        fields = {"norm": "batch"}
    elif names == {"m", "s"}:
        # the official layer norm over the channels of a transposed layout: one gain and one offset, no epsilon
        gain = tensors["s"].float().reshape(1).expand(width)
        offset = tensors["m"].float().reshape(1).expand(width)
        tensors, fields = {"weight": gain, "bias": gain * offset}, {"norm": "layer", "norm_eps": 1e-12}
    elif names != {"weight", "bias"}:
        raise HfLongSeqError(
            f"a norm of the checkpoint has {', '.join(sorted(names)) or 'no tensors'}: only layer norm and batch norm "
            "can be converted."
        )
    return {f"{name}.{leaf}": tensor for leaf, tensor in tensors.items()}, fields


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
