# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""What our kept comparisons showed for data like yours: `spt` and `baselines` end with it.

`kept.csv` has a line for every gain over an equal budget in `results/` (`scripts/keep_gains.py` writes it). Data are
alike if they hold the same kind of input, and have a third to three times as many labels and positions.
"""

from pathlib import Path

import pandas as pd

KEPT = Path(__file__).with_name("kept.csv")
FACTOR = 3
VERDICTS = ("shown", "open", "no gain")


def like(kept: pd.DataFrame, modality: str, labels: int, length: int) -> pd.DataFrame:
    """The kept gains on data of the same kind and of about as many labels and positions."""
    alike = kept["modality"] == modality
    for column, value in (("labels", labels), ("length", length)):
        alike &= kept[column].between(value / FACTOR, value * FACTOR)
    return kept[alike]


def advice(modality: str, labels: int, length: int) -> list[str]:
    """What is known of such data, in lines for the screen; none where no kept comparison has data alike.

    Args:
        modality: "tokens" or "values".
        labels: Labelled training rows.
        length: Positions of the longest row.

    Example:
        >>> advice("values", 4000, 100_000)
        []
    """
    found = like(pd.read_csv(KEPT), modality, labels, length)
    if not len(found):
        return []
    counts = ", ".join(f"{number} {word}" for word in VERDICTS if (number := int((found["verdict"] == word).sum())))
    sets = found["source"].unique()
    on = f"{len(sets)} data set{'s' if len(sets) > 1 else ''}"
    low, middle, high = found["gain"].quantile([0, 0.5, 1])
    said = [
        f"Kept comparisons with {labels / FACTOR:,.0f} to {FACTOR * labels:,} labels and {length / FACTOR:,.0f} to "
        f"{FACTOR * length:,} positions of {modality}: {len(found)} gains over an equal budget on {on}, {counts}; "
        f"from {low:+.1f} to {high:+.1f} points, median {middle:+.1f}."
    ]
    for source in sets:
        mine = found[found["source"] == source].sort_values("gain", ascending=False)
        ends = [mine.iloc[0], *([mine.iloc[-1]] if len(mine) > 1 else [])]
        said.append(
            f"  {source}: " + ", ".join(f"{one['gain']:+.1f} ({one['model']}, {one['verdict']})" for one in ends)
        )
    return said
