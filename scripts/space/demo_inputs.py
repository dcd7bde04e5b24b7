# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Inputs to try a checkpoint with: recordings that travel with the package, and made-up texts, pictures and series."""

import functools
import math
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw

from demo_checkpoint import Checkpoint
from hf_longseq import load_task
from hf_longseq.data import genomes
from hf_longseq.models.feature_extraction_longseq import resample

SPOKEN = 6
PLAYED_RATE = 8000  # browsers play nothing below 3 kHz; the checkpoint's own processor brings it back
# from the embedded genome: the third base of the start codon in the middle is hidden
GENE = "TGCGGTCGTGTTGCGGTGCAACAGAAGGGCGGAGTGAAGAAACGGTGCGGCTGGCTTCGGGATCAT{mask}ATTTCAGAGGATCAACTGAAGCGCATCGCCGC"
LISTOPS = "[MAX 4 3 [MIN 2 3 ] 1 0 [MEDIAN 1 5 8 9 2 ] ]"


def examples_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """Names and inputs that fit; for checkpoints that compare two inputs, pairs of them."""
    kind, config = checkpoint.kind, checkpoint.model.config
    if kind == "text":
        found = _texts(checkpoint.processor, checkpoint.head)
    elif kind == "ids":
        found = {"counting": " ".join(str(index % config.vocab_size) for index in range(24))}
    elif kind == "image":
        found = _pictures()
    elif kind == "audio":
        found = _sounds(checkpoint.processor.sampling_rate)
    else:
        waves = [[math.sin(step / (6 + 2 * channel)) for channel in range(config.num_channels)] for step in range(96)]
        found = {"waves": "\n".join(",".join(f"{value:.3f}" for value in row) for row in waves)}
    if checkpoint.pair:
        values = list(found.values())
        return {f"{name}, twice": (value, value) for name, value in found.items()} | (
            {"two of them": (values[0], values[1])} if len(values) > 1 else {}
        )
    return found


def _texts(tokenizer, head: str) -> dict[str, str]:
    if tokenizer.convert_tokens_to_ids("[MAX") not in (None, tokenizer.unk_token_id):
        return {"an expression": LISTOPS}
    if len(tokenizer) == len(genomes.VOCABULARY):
        return {"where a gene begins": GENE.format(mask=tokenizer.mask_token if head == "ForMaskedLM" else "G")}
    if head == "ForMaskedLM":
        return {"holes": f"a long s{tokenizer.mask_token}quence of {tokenizer.mask_token}ytes"}
    return {"praise": "a film of rare grace, and not a minute too long", "blame": "two hours that nobody gives back"}


def _pictures() -> dict[str, Image.Image]:
    cross, ring = Image.new("RGB", (128, 128)), Image.new("RGB", (128, 128))
    pen = ImageDraw.Draw(cross)
    pen.line((24, 24, 104, 104), fill="white", width=8)
    pen.line((24, 104, 104, 24), fill="white", width=8)
    ImageDraw.Draw(ring).ellipse((28, 28, 100, 100), outline="white", width=8)
    return {"a cross": cross, "a ring": ring}


def _sounds(rate: int) -> dict[str, tuple[int, np.ndarray]]:
    times = np.arange(PLAYED_RATE) / PLAYED_RATE
    chirp = np.sin(2 * math.pi * (rate / 40 * times + rate / 40 * times**2))
    found = {"a rising whistle": (PLAYED_RATE, (chirp * 20000).astype(np.int16))}
    return _recordings() | found if rate == 1000 else found


@functools.cache
def _recordings() -> dict[str, tuple[int, np.ndarray]]:
    """A few of the embedded spoken syllables that no model was trained on, with the tone that was said."""
    splits, spec = load_task("spoken-tones")
    rows, found = splits["test"], {}
    for index in range(0, len(rows), len(rows) // SPOKEN):
        row = rows[index]
        name = f"recording {index}: {spec.labels[int(row['labels'])]} tone"
        levels = torch.as_tensor(np.asarray(row["input_values"])).double()[:, None] - 128
        sound = resample(levels, spec.sampling_rate, PLAYED_RATE)[:, 0]
        found[name] = (PLAYED_RATE, (sound * 255).clamp(-32768, 32767).to(torch.int16).numpy())
    return found
