# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The key layout of the official code's checkpoints (encoder, backbone, decoder), taken apart.

    [prefix.]encoder[.N].weight | .bias | .pe          embedding, linear map of values, table of positions
    [prefix.]model.layers.N.norm.norm.*                one norm per layer
    [prefix.]model.layers.N.layer.*                    S4, S4D, DLR, attention, or a feed-forward layer of its own
    [prefix.]model.norm.norm.*                         final norm: there exactly when the model is pre-norm
    [prefix.]decoder[.N].output_transform[.N].*        linear head or two-layer perceptron, per position or pooled
    [prefix.]decoder[.N].retrieval.classifier.N.*      head for pairs of documents

`take_apart` sorts the tensors and gives those of layers our names; nothing here depends on our own model classes.
"""

import re
from dataclasses import dataclass, field

import torch

from hf_longseq.errors import HfLongSeqError

Tensors = dict[str, torch.Tensor]

# Bookkeeping that carries no weights: counters, caches of the kernel at one length, states of metrics.
IGNORED = re.compile(
    r"(num_batches_tracked|kernel\.(kernel\.)?(omega|z|dA|dB|dC|step\w*)|\w*torchmetrics\..*|metrics\..*|loss\..*)$"
)
# What torch.compile and data parallelism put into the names of what they wrap.
WRAPPERS = re.compile(r"(?<![^.])(?:_orig_mod|module)\.")
LAYER = re.compile(r"^(?P<backbone>(?:.*\.)?)layers\.(?P<index>\d+)\.(?P<part>norm|layer)\.(?P<rest>.+)$")
NORM_LEAF = re.compile(r"^(?:norm\.)*(?P<leaf>weight|bias|running_mean|running_var|m|s)$")
FEED_FORWARD = re.compile(r"^ff\.(?P<place>\d+)(?:\.0)?\.(?P<leaf>weight|bias)$")


@dataclass
class Layer:
    """One layer of the backbone: `kind` is a key of `NAMES`, and `tensors` have our names."""

    kind: str
    tensors: Tensors
    norm: Tensors


@dataclass
class Official:
    """A checkpoint's parts. `heads` maps the name of a decoder to its dense layers, in order, as (weight, bias)."""

    embedding: tuple[torch.Tensor, torch.Tensor | None]
    positions: torch.Tensor | None
    layers: list[Layer]
    final_norm: Tensors
    heads: dict[str, list[tuple[torch.Tensor, torch.Tensor]]] = field(default_factory=dict)
    pair: bool = False


def take_apart(tensors: Tensors) -> Official:
    """Sort the tensors of a checkpoint."""
    tensors = _only_weights(tensors)
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
    embedding, positions = _encoder(parts["encoder"])
    heads, pair = _decoders(parts["decoder"])
    return Official(embedding, positions, _layers(parts["layers"]), _norm(parts["norm"], "norm"), heads, pair)


def _only_weights(tensors: Tensors) -> Tensors:
    kept = {}
    for name, tensor in tensors.items():
        name = WRAPPERS.sub("", re.sub(r"^(param|buffer)\.", "", name))
        if IGNORED.search(name):
            continue
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise HfLongSeqError(f"the checkpoint's {name} holds numbers that are not finite: give one that works.")
        if name in kept:
            raise HfLongSeqError(f"the checkpoint holds {name} twice, bare and wrapped: keep one of them.")
        kept[name] = tensor
    return kept


def _refuse_keys(names: list[str]) -> None:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    raise HfLongSeqError(
        f"the checkpoint holds {', '.join(names[:3])}{more}, which no model of the official layout has: convert one "
        "of an S4, S4D, DLR or Transformer backbone with a plain encoder and decoder."
    )


def _encoder(tensors: Tensors) -> tuple[tuple[torch.Tensor, torch.Tensor | None], torch.Tensor | None]:
    weights = [name for name in tensors if name.endswith(".weight")]
    positions = [name for name in tensors if name.endswith(".pe")]
    biases = [name for name in tensors if name.endswith(".bias")]
    unknown = [name for name in tensors if name not in (*weights, *positions, *biases)]
    if unknown or len(weights) > 1 or len(positions) > 1 or any(n[:-4] != weights[0][:-6] for n in biases if weights):
        _refuse_keys(unknown or [*weights, *biases, *positions])
    if not weights or tensors[weights[0]].ndim != 2:
        raise HfLongSeqError(
            "the checkpoint has no encoder weight of two axes (encoder.0.weight): give one with an embedding or a "
            "linear encoder."
        )
    weight = tensors[weights[0]]
    bias = tensors[biases[0]] if biases else None
    return (weight, bias), tensors[positions[0]] if positions else None


def _decoders(tensors: Tensors) -> tuple[dict[str, list[tuple[torch.Tensor, torch.Tensor]]], bool]:
    grouped: dict[str, dict[int, Tensors]] = {}
    pair = False
    for name, tensor in tensors.items():
        match = re.match(
            r"^(?P<head>decoder\w*)(?:\.\d+)*?(?P<kind>\.output_transform|\.retrieval\.classifier)?(?:\.(?P<place>\d+))?"
            r"\.(?P<leaf>weight|bias)$",
            name,
        )
        if match is None or tensor.ndim != (2 if match["leaf"] == "weight" else 1):
            _refuse_keys([name])
        pair = pair or match["kind"] == ".retrieval.classifier"
        place = int(match["place"] or 0) if match["kind"] else 0
        grouped.setdefault(match["head"], {}).setdefault(place, {})[match["leaf"]] = tensor
    heads = {}
    for head, places in grouped.items():
        missing = [place for place in places if "weight" not in places[place]]
        if missing or len(places) > 2:
            raise HfLongSeqError(
                f"the checkpoint's {head} is neither a linear layer nor a perceptron of two: convert without it, by "
                "removing its keys."
            )
        heads[head] = [
            (parts["weight"], parts.get("bias", torch.zeros(len(parts["weight"]))))
            for _, parts in sorted(places.items())
        ]
    return heads, pair


def _layers(tensors: Tensors) -> list[Layer]:
    inner: dict[int, Tensors] = {}
    norms: dict[int, Tensors] = {}
    for name, tensor in tensors.items():
        match = LAYER.match(f"layers.{name}")
        if match is None:
            _refuse_keys([f"layers.{name}"])
        place = norms if match["part"] == "norm" else inner
        place.setdefault(int(match["index"]), {})[match["rest"]] = tensor
    if sorted(inner) != list(range(len(inner))) or not set(norms) <= set(inner):
        raise HfLongSeqError(
            f"the checkpoint has layers {sorted(inner)}, which are not numbered from 0 without a gap: give a complete "
            "checkpoint."
        )
    return [
        _layer(index, _one_spelling(inner[index]), _norm(norms.get(index, {}), f"layers.{index}.norm"))
        for index in range(len(inner))
    ]


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
STATE_SPACE = ("s4", "s4d", "dlr")
OPTIONAL = {"length", "frequencies", *(f"{place}_proj.bias" for place in ("q", "k", "v", "o", "up", "down"))}
FLAT = {"skip_D", "log_dt", "mode_decay_root", "mode_frequency", "output_projection.bias", *OPTIONAL}


def _layer(index: int, tensors: Tensors, norm: Tensors) -> Layer:
    kind = next((kind for kind, names in NAMES.items() if next(iter(names)) in tensors), None)
    names = NAMES.get(kind, {})
    if unknown := sorted(set(tensors) - set(names)):
        _refuse_keys([f"layers.{index}.layer.{name}" for name in unknown])
    lacking = sorted(name for name, ours in names.items() if name not in tensors and ours not in OPTIONAL)
    if lacking:
        raise HfLongSeqError(
            f"the checkpoint's layer {index} lacks {lacking[0]}, so it is no {kind} layer of the official layout: "
            "give a complete checkpoint."
        )
    ours = {names[name]: _in_our_shape(names[name], tensor) for name, tensor in tensors.items()}
    for place in OPTIONAL & set(names.values()):
        if place.endswith("bias"):
            ours.setdefault(place, torch.zeros(len(ours[place.replace("bias", "weight")])))
    return Layer(kind, ours, norm)


def _in_our_shape(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Vectors flat; a dense layer that was written as a convolution of length one without its third axis; inputs and
    low-rank factors (1, S, n, 2) as (S, n, 2)."""
    if name in FLAT:
        return tensor.flatten()
    if name.endswith("weight") and tensor.ndim == 3 and tensor.shape[-1] == 1:
        return tensor[..., 0]
    if name not in ("input_B", "low_rank_P"):
        return tensor
    if tensor.ndim == 4 and len(tensor) == 1:
        tensor = tensor[0]
    if tensor.ndim != 3:
        raise HfLongSeqError(
            f"the checkpoint has a low-rank factor or input of shape {tuple(tensor.shape)}, ours has rank one: it "
            "cannot be converted."
        )
    return tensor


def _norm(tensors: Tensors, where: str) -> Tensors:
    found = {}
    for name, tensor in tensors.items():
        match = NORM_LEAF.match(name)
        if match is None:
            _refuse_keys([f"{where}.{name}"])
        found[match["leaf"]] = tensor
    return found
