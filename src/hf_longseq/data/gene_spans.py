# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Gene spans: which bases of a stretch of DNA lie in a gene, and on which strand? Real data with the package.

Every base of a window is between genes ("O"), in a gene on the strand that is read, or in one on the other strand. In
bacteria a gene is one whole stretch, some thousand bases long, so that the answer at a base depends on where the
reading frame opened and where it closes: longer windows hold more whole genes. A base in genes of both strands counts
for the strand that is read.

Windows lie side by side, and a fixed draw says which strand of each is read. Training has the first 60 % of the
genome, validation the next 10 %, testing the last 28 %, as in gene-starts: no base is in two splits.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from datasets import DatasetDict, Features, List, Value

from hf_longseq.data import gene_starts, genomes
from hf_longseq.data.cache import SPLITS, Row, load_converted
from hf_longseq.data.genomes import Genome
from hf_longseq.data.task_spec import TaskSpec
from hf_longseq.errors import HfLongSeqError

LENGTHS = (1024, 2048, 4096, 8192, 16384)
LABELS = ("O", "gene on this strand", "gene on the other strand")
BETWEEN, THIS, OTHER = range(3)


def load(
    length: int = 1024, genome: str | None = None, data_dir: str | None = None, cache_dir: str | None = None
) -> tuple[DatasetDict, TaskSpec]:
    """Load the windows.

    Args:
        length: Bases in a window: 1024, 2048, 4096, 8192 or 16384.
        genome: Name of a GenBank file in `data_dir` without its ending, such as NC_000913; default: the embedded
            genome, or the only file in `data_dir`.
        data_dir: A GenBank file, packed or not, or a folder with such files; default: the embedded genome.
        cache_dir: Where the windows are kept; default: `cache_directory()`.
    """
    if length not in LENGTHS:
        raise HfLongSeqError(f"length is {length}: gene spans have windows of {', '.join(map(str, LENGTHS))} bases.")
    file = genomes.genome_file(genome, data_dir)

    def rows() -> Iterator[tuple[str, Row]]:
        whole = genomes.read_genome(file)
        for split in SPLITS:
            for ids_L, labels_L in windows(whole, split, length):
                yield split, {"input_ids": ids_L, "labels": labels_L}

    features = Features({"input_ids": List(Value("int32")), "labels": List(Value("int16"))})
    splits = load_converted("gene-spans", {"version": 2, "length": length}, [file], features, rows, cache_dir)
    return splits, genomes.with_origin(task_spec(length), file)


def task_spec(length: int = 1024) -> TaskSpec:
    """Description of the embedded genome's windows of `length` bases."""
    return replace(
        gene_starts.task_spec(),
        name="gene-spans",
        max_length=length,
        labels=LABELS,
        per_position=True,
        metric="mcc",
        note="Not a task of the paper. The annotation is of 2004, and most of its genes were predicted.",
    )


def windows(genome: Genome, split: str, length: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Token ids and labels of a split's windows of `length` bases, (L,) each, one after the other."""
    places = list(genomes.cut(gene_starts.stretches(genome, split), length, length, seed=SPLITS.index(split)))
    if not places:
        raise HfLongSeqError(
            f"The {split} stretch of {genome.name} has no {length} bases in a row: take a longer genome."
        )
    covers = np.zeros((2, len(genome.codes)), bool)  # bases in a gene of the forward strand, of the backward strand
    for first, end, strand in genome.genes.tolist():
        covers[int(strand < 0), first:end] = True
    for first, end, strand in places:
        this_L, other_L = (cover[first:end][::strand] for cover in covers[::strand])
        labels_L = np.where(this_L, THIS, np.where(other_L, OTHER, BETWEEN))
        yield genomes.read_along(genome.codes, first, end, strand), labels_L
