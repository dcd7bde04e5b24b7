# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""What a hidden pixel of Path-X costs who knows only how frequent grey levels are: a masking loss is read beside it.

    python benchmarks/grey_levels.py

Cross-entropies in nats on validation, from the levels of all training pixels, and from those at the pixel's own place
(the mean picture, with the levels of all pixels in the place of half as many pictures).

Axes: B pictures, L pixels, G grey levels.
"""

import numpy as np

from hf_longseq.data.task import load_task

LEVELS = 256


def losses(train_BL: np.ndarray, other_BL: np.ndarray) -> tuple[float, float]:
    """Mean cross-entropy of the levels of other pictures, by the levels of all pixels and by those of their place."""
    counts_LG = np.zeros((train_BL.shape[1], LEVELS))
    places_L = np.arange(train_BL.shape[1])
    for levels_L in train_BL:
        counts_LG[places_L, levels_L] += 1
    all_G = (counts_LG.sum(axis=0) + 1) / (counts_LG.sum() + LEVELS)
    place_LG = (counts_LG + all_G * len(train_BL) / 2) / (1.5 * len(train_BL))
    return float(-np.log(all_G[other_BL]).mean()), float(-np.log(place_LG[places_L, other_BL]).mean())


def main() -> None:
    """Print both for the pictures that `model_cards/s4-pathx-spt` was pretrained on."""
    splits, _ = load_task("pathx", train_examples=5000, eval_examples=200)
    train_BL, other_BL = (
        np.concatenate([np.stack(list(batch["input_values"])) for batch in rows.with_format("numpy").iter(500)])
        for rows in (splits["train"], splits["validation"].select(range(100)))
    )
    by_level, by_place = losses(train_BL, other_BL)
    print(f"grey levels of all pixels: {by_level:.3f} nats a pixel, of the pixel's own place: {by_place:.3f}")


if __name__ == "__main__":
    main()
