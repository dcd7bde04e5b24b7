# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Time and peak memory of whole models beside transformers' own encoders: a training step and a prediction.

Every model has the same width and depth, reads tokens in both directions and predicts the masked ones. A step is
forward, loss, backward and AdamW; a prediction gives a distribution for every position. Lengths share a number of
positions per batch, so that the time of a step tells what a position costs at each length.
"""

from functools import partial

import torch
from torch import nn
from transformers import BertConfig, BertForMaskedLM, ModernBertConfig, ModernBertForMaskedLM

from hf_longseq import models
from hf_longseq.models.configuration_adapter import AdapterConfig
from hf_longseq.models.modeling_adapter import AdapterForMaskedLM
from layer_speed import VOCABULARY, estimate_bytes, mamba2_config
from side_by_side import Settings, check_names

LENGTHS = (128, 512, 2048, 8192, 32768, 65536, 131072, 1048576)
NAMES = ("bert", "modernbert", "mamba2", "transformer", "s4", "dlr", "cnn")
POSITIONS = 8192
"""Positions in a batch, over all of its sequences; a longer sequence is a batch of its own."""
HEADS, MASKED = 4, 0.15
OURS = {
    "transformer": (models.LongTransformerForMaskedLM, models.LongTransformerConfig, {"num_attention_heads": HEADS}),
    "s4": (models.S4ForMaskedLM, models.S4Config, {}),
    "dlr": (models.DLRForMaskedLM, models.DLRConfig, {}),
    "cnn": (models.CNNForMaskedLM, models.CNNConfig, {}),
}
LABELS = {"bert": "BERT", "modernbert": "ModernBERT", "mamba2": "Mamba-2", "transformer": "Transformer", "s4": "S4"}
LABELS |= {"dlr": "DLR", "cnn": "CNN"}
GIB_PER_LAYER = 6.0
"""Memory of a training step of `s4`, `dlr` or `cnn`, for 2**20 positions of 128 channels."""


def build_model(
    name: str,
    hidden_size: int = 128,
    layers: int = 4,
    s4_state: int = 64,
    dlr_state: int = 1024,
    positions: int = LENGTHS[-1],
) -> nn.Module:
    """The masked language model of that name, of :data:`NAMES`; `positions` is the longest sequence it will read."""
    shared = {"vocab_size": VOCABULARY, "hidden_size": hidden_size, "num_hidden_layers": layers}
    attention = {
        "num_attention_heads": HEADS,
        "intermediate_size": 4 * hidden_size,
        "max_position_embeddings": positions,
    }
    if name == "bert":
        return BertForMaskedLM(BertConfig(**shared, **attention))
    if name == "modernbert":
        ids = {f"{word}_token_id": 0 for word in ("pad", "bos", "eos", "cls", "sep")}
        return ModernBertForMaskedLM(ModernBertConfig(**shared, **attention, **ids))
    if name == "mamba2":
        trunk = mamba2_config(hidden_size, layers, s4_state)
        return AdapterForMaskedLM(AdapterConfig(backbone_config=trunk, input_type="tokens", bidirectional=True))
    model_class, config_class, fields = OURS[name]
    states = {"s4": {"state_size": s4_state}, "dlr": {"state_size": dlr_state}}.get(name, {})
    return model_class(config_class(bidirectional=True, **shared, **fields, **states))


def training_step(model: nn.Module, optimizer: torch.optim.Optimizer, **batch: torch.Tensor) -> None:
    """One update."""
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


@torch.no_grad()
def prediction(model: nn.Module, input_ids: torch.Tensor) -> None:
    """Logits of every position, without dropout."""
    model.eval()(input_ids=input_ids)
    model.train()


def benchmark_encoders(**options) -> list[dict]:
    """Measures a training step and a prediction of every model at every length; the options are those of `Settings`.

    `batch` is None for as many sequences as have :data:`POSITIONS` positions together.

    Returns:
        Rows as of `benchmark_ops`, with "what" ("training step" or "prediction"), "layers" and "parameters" besides.
    """
    settings = Settings(**{"lengths": LENGTHS, "names": NAMES, "batch": None, "layers": 4, **options})
    contests = {"training step": settings.contest(), "prediction": settings.contest()}
    device = torch.device(settings.device)
    sizes = {"hidden_size": settings.hidden_size, "layers": settings.layers}
    names = check_names(settings.names, NAMES)
    torch.manual_seed(0)
    longest = {"positions": max(settings.lengths)}
    built = {name: build_model(name, **sizes, **settings.states, **longest).to(device).train() for name in names}
    optimizers = {name: torch.optim.AdamW(model.parameters(), lr=1e-4) for name, model in built.items()}
    rows = []
    for length in settings.lengths:
        batch = settings.batch or max(1, POSITIONS // length)
        input_ids = torch.randint(1, VOCABULARY, (batch, length), device=device)
        labels = input_ids.masked_fill(torch.rand(batch, length, device=device) >= MASKED, -100)
        read = {"input_ids": input_ids, "labels": labels}
        runs = {
            "training step": {name: partial(training_step, built[name], optimizers[name], **read) for name in names},
            "prediction": {name: partial(prediction, built[name], input_ids) for name in names},
        }
        for what, contest in contests.items():
            needs = {name: _bytes(name, what, batch, length, settings) for name in names}
            for name, measured in contest.measure(runs[what], needs).items():
                parameters = sum(parameter.numel() for parameter in built[name].parameters())
                row = {"what": what, "op": name, "batch": batch, "length": length, **sizes, "parameters": parameters}
                rows.append(row | measured)
    return rows


def _bytes(name: str, what: str, batch: int, length: int, settings: Settings) -> int:
    """About what a model needs that may not fit; 0 for the others. A prediction holds one layer at a time."""
    if name == "mamba2":
        one = estimate_bytes(name, batch, length, settings.hidden_size, **settings.states)
        return 2 * settings.layers * one if what == "training step" else one
    scores = 4 * batch * length**2  # of one head
    if name == "modernbert":
        return 4 * scores  # its masks
    if what == "prediction":
        return 0
    if name == "bert":  # attention with dropout is not fused on a CPU
        return 4 * settings.layers * HEADS * scores
    gib = GIB_PER_LAYER * settings.layers * settings.hidden_size / 128
    return int(gib * 2**30 * batch * length / 2**20) if name in ("s4", "dlr", "cnn") else 0


def draw(rows: list[dict], path: str) -> None:
    """Microseconds per position against length, both axes logarithmic, one line per model."""
    import matplotlib

    from hf_longseq.comparison.figures import STYLE

    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure
        from matplotlib.ticker import EngFormatter

        figure = Figure(figsize=(7.2, 3.4), layout="constrained")
        panels = list(dict.fromkeys(row["what"] for row in rows))
        for axis, what in zip(figure.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels, strict=True):
            for name in NAMES:
                points = [row for row in rows if (row["what"], row["op"]) == (what, name) and not row["skipped"]]
                if not points:
                    continue
                lengths = [row["length"] for row in points]
                costs = [1e6 * row["seconds"] / row["batch"] / row["length"] for row in points]
                axis.loglog(
                    lengths, costs, marker="o", ms=4, label=LABELS[name], linestyle="-" if name in OURS else "--"
                )
            for ticks in (axis.xaxis, axis.yaxis):  # the style reads no powers of ten
                ticks.set_major_formatter(EngFormatter(sep=""))
                ticks.set_minor_formatter("")
            axis.set_title(what)
            axis.set_xlabel("length, positions")
        figure.axes[0].set_ylabel("microseconds per position")
        figure.axes[-1].legend(fontsize="small")
        figure.savefig(path, dpi=150)
