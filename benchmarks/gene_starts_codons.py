# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""What codons tell of gene starts without a label: a rule, and how much a base's place in its codon says.

    python benchmarks/gene_starts_codons.py --length 128 --genome NC_000913 --data_dir FOLDER

The rule: a stop codon in frame, at most 90 bases upstream, cannot be inside a gene.
"""

import argparse

import numpy as np
from scipy.stats import entropy

from hf_longseq.data.gene_starts import LENGTHS
from hf_longseq.data.genomes import BASE_ID, BASES, COMPLEMENT, Genome, genome_file, read_genome
from hf_longseq.data.task import load_task

STOPS = [[BASES.index(base) for base in codon] for codon in ("TAA", "TAG", "TGA")]


def has_stop(bases_BL: np.ndarray) -> np.ndarray:
    """Whether a stop codon stands among the codons of each row: (B,)."""
    codons_BN3 = bases_BL.reshape(len(bases_BL), -1, 3)
    return np.any([(codons_BN3 == stop).all(axis=2).any(axis=1) for stop in STOPS], axis=0)


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
    """Print the accuracy of the rule and the entropies."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--length", type=int, choices=LENGTHS, default=256)
    parser.add_argument("--genome")
    parser.add_argument("--data_dir")
    options = parser.parse_args()
    splits, _ = load_task("gene-starts", length=options.length, genome=options.genome, data_dir=options.data_dir)
    # N, which is rare, counts as A
    bases = (splits["test"]["input_ids"][:].astype(np.int64) - BASE_ID) % 4
    reach = min(90, options.length // 2)
    stops = has_stop(bases[:, options.length // 2 - reach // 3 * 3 : options.length // 2])
    right = 100 * (stops == (np.array(splits["test"]["labels"][:]) == 1)).mean()
    print(f"{f'stop in frame, {reach} bases upstream':<32}{right:>8.1f} without labels")
    alone, placed = base_entropies(read_genome(genome_file(options.genome, options.data_dir)))
    print(f"entropy of a base in genes: {alone:.3f} nats, {placed:.3f} given its place in the codon")


if __name__ == "__main__":
    main()
