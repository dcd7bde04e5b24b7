# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""What linear classifiers make of gene starts: the score to beat, without what biology knows and with it.

    python benchmarks/gene_starts_linear.py --length 512 --genome NC_000913 --data_dir FOLDER

Ridge regression on counts, its penalty chosen on validation, scored on test; mean over subsets of the labels. Counts
of k-mers know nothing of the task. Counts of codons in the frame of the middle codon know that codons exist, and the
rule needs no label: a stop codon in frame, at most 90 bases upstream, cannot be inside a gene.
"""

import argparse

import numpy as np
from scipy.stats import entropy

from hf_longseq.data.gene_starts import LENGTHS
from hf_longseq.data.genomes import BASE_ID, BASES, COMPLEMENT, Genome, genome_file, read_genome
from hf_longseq.data.task import load_task

STOPS = [int(np.array([BASES.index(base) for base in codon]) @ (16, 4, 1)) for codon in ("TAA", "TAG", "TGA")]
PENALTIES = 10.0 ** np.arange(0, 7)
FIRST_SEED = 100


def counts(codes_BN: np.ndarray, kinds: int, parts: int) -> np.ndarray:
    """How often each of the kinds comes in each part of a row: (B, parts * kinds)."""
    columns = []
    for part_BN in np.array_split(codes_BN, parts, axis=1):
        rows = np.arange(len(part_BN))[:, None] * kinds
        flat = np.bincount((rows + part_BN).reshape(-1), minlength=len(part_BN) * kinds)
        columns.append(flat.reshape(len(part_BN), kinds))
    return np.concatenate(columns, axis=1).astype(np.float64)


def words(bases_BL: np.ndarray, k: int, first: int = 0, stride: int = 1) -> np.ndarray:
    """Numbers of the k-mers that begin at `first`, `first + stride`, ...: (B, N)."""
    places = np.arange(first, bases_BL.shape[1] - k + 1, stride)
    return sum(bases_BL[:, places + i] * 4 ** (k - 1 - i) for i in range(k))


def in_frame(bases_BL: np.ndarray) -> np.ndarray:
    """Codons in the frame of the middle codon: (B, N)."""
    return words(bases_BL, 3, first=bases_BL.shape[1] // 2 % 3, stride=3)


FEATURES = {
    "3-mers": lambda bases: counts(words(bases, 3), 64, 1),
    "3-mers of each half": lambda bases: counts(words(bases, 3), 64, 2),
    "4-mers of each quarter": lambda bases: counts(words(bases, 4), 256, 4),
    "codons in frame, each quarter": lambda bases: counts(in_frame(bases), 64, 4),
}


def ridge(x_BF: np.ndarray, targets_BC: np.ndarray, shift: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Weights (penalties, F, C) of standardised features, with the smaller of the two systems."""
    x_BF = (x_BF - shift) / scale
    if len(x_BF) < x_BF.shape[1]:
        values, vectors = np.linalg.eigh(x_BF @ x_BF.T)
        left, right = x_BF.T @ vectors, vectors.T @ targets_BC
    else:
        values, vectors = np.linalg.eigh(x_BF.T @ x_BF)
        left, right = vectors, vectors.T @ (x_BF.T @ targets_BC)
    return np.stack([left @ (right / (values + penalty)[:, None]) for penalty in PENALTIES])


def score(features: dict[str, np.ndarray], labels: dict[str, np.ndarray], amount: int, seed: int) -> float:
    """Test accuracy with a random subset of the labels."""
    chosen = np.random.RandomState(seed).permutation(len(labels["train"]))[:amount]
    train, classes = features["train"][chosen], np.arange(labels["train"].max() + 1)
    shift, scale = train.mean(axis=0), train.std(axis=0) + 1e-6
    targets_BC = (labels["train"][chosen, None] == classes) - 1 / len(classes)
    weights = ridge(train, targets_BC, shift, scale)
    right = {
        split: (((features[split] - shift) / scale @ weights).argmax(axis=-1) == labels[split]).mean(axis=-1)
        for split in ("validation", "test")
    }
    return float(right["test"][right["validation"].argmax()])


def score_cells(features: dict[str, np.ndarray], labels: dict[str, np.ndarray], subsets: int) -> str:
    """Test accuracies in percent as the cells of a row, one per number of labels, each the mean over subsets."""
    cells = []
    for amount in amounts(labels):
        seeds = range(FIRST_SEED, FIRST_SEED + (subsets if amount < len(labels["train"]) else 1))
        cells.append(100 * np.mean([score(features, labels, amount, seed) for seed in seeds]))
    return "".join(f"{cell:>8.1f}" for cell in cells)


def amounts(labels: dict[str, np.ndarray]) -> list[int]:
    """Numbers of labels that are tried, the last of them all."""
    return [50, 100, 300, 1000, len(labels["train"])]


def heading(labels: dict[str, np.ndarray]) -> str:
    """The first line of a table."""
    return f"{'test accuracy, %':<32}" + "".join(f"{f'{amount:,}':>8}" for amount in amounts(labels)) + " labels"


def base_entropies(genome: Genome) -> tuple[float, float]:
    """Entropy of a base inside genes in nats: by its frequency alone, and given its place in the codon."""
    counts_3B = np.zeros((3, 4))
    for first, end, strand in genome.genes:
        codes = genome.codes[first:end] if strand > 0 else COMPLEMENT[genome.codes[first:end][::-1]]
        if len(codes) % 3 == 0:
            counts_3B += [np.bincount(codes[place::3], minlength=5)[:4] for place in range(3)]
    shares_3B = counts_3B / counts_3B.sum(axis=1, keepdims=True)
    return float(entropy(shares_3B.mean(axis=0))), float(entropy(shares_3B, axis=1).mean())


def main() -> None:
    """Print one row per classifier."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--length", type=int, choices=LENGTHS, default=256)
    parser.add_argument("--genome")
    parser.add_argument("--data_dir")
    parser.add_argument("--subsets", type=int, default=5, help="random subsets of the labels")
    options = parser.parse_args()
    splits, _ = load_task("gene-starts", length=options.length, genome=options.genome, data_dir=options.data_dir)
    # N, which is rare, counts as A
    bases = {split: (rows["input_ids"][:].astype(np.int64) - BASE_ID) % 4 for split, rows in splits.items()}
    labels = {split: np.array(rows["labels"][:]) for split, rows in splits.items()}
    print(heading(labels))
    for name, make in FEATURES.items():
        features = {split: make(rows) for split, rows in bases.items()}
        print(f"{name:<32}{score_cells(features, labels, options.subsets)}", flush=True)
    reach = min(90, options.length // 2)
    upstream = bases["test"][:, options.length // 2 - reach // 3 * 3 : options.length // 2]
    stops = np.isin(words(upstream, 3, stride=3), STOPS).any(axis=1)
    right = 100 * (stops == (labels["test"] == 1)).mean()
    print(f"{f'stop in frame, {reach} bases upstream':<32}{right:>8.1f} without labels")
    alone, placed = base_entropies(read_genome(genome_file(options.genome, options.data_dir)))
    print(f"entropy of a base in genes: {alone:.3f} nats, {placed:.3f} given its place in the codon")


if __name__ == "__main__":
    main()
