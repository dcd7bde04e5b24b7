# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""What linear classifiers make of voices: the score to beat, from how loud each frequency is.

    python benchmarks/voices_linear.py --sampling_rate 500 --data_dir FOLDER

Ridge regression on a piece's mean log spectrum, its penalty chosen on validation, scored on test; mean over subsets of
the labels.
"""

import argparse

import numpy as np
from scipy.signal import welch

from gene_starts_linear import heading, score_cells
from hf_longseq.data.task import load_task


def spectrum(pieces_BL: np.ndarray, rate: int) -> np.ndarray:
    """Log of the power in bands of 16 Hz, the mean over windows of a sixteenth of a second: (B, F)."""
    _, power_BF = welch(pieces_BL, fs=rate, nperseg=rate // 16, axis=-1)
    return np.log(power_BF + 1e-9)


def main() -> None:
    """Print one row."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sampling_rate", type=int, default=2000)
    parser.add_argument("--data_dir")
    parser.add_argument("--subsets", type=int, default=5, help="random subsets of the labels")
    options = parser.parse_args()
    splits, _ = load_task("voices", sampling_rate=options.sampling_rate, data_dir=options.data_dir)
    features = {split: spectrum(rows["input_values"][:], options.sampling_rate) for split, rows in splits.items()}
    labels = {split: np.array(rows["labels"][:]) for split, rows in splits.items()}
    print(heading(labels))
    print(f"{'mean log spectrum':<32}{score_cells(features, labels, options.subsets)}")


if __name__ == "__main__":
    main()
