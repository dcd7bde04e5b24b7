# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Gene starts: is the codon in the middle of a stretch of DNA where a gene begins? Real data with the package.

A bacterial gene begins with ATG or GTG, and the same codon comes again inside most genes. One window is centred on the
annotated start, the other on the same codon in the same reading frame of the same gene, so that codon, frame, strand
and gene tell nothing. What tells is around the codon: how bases are used inside genes and between them, and the place
where the ribosome binds, some ten bases before a start.

Linear models are the score to beat (`hf-longseq baselines`; 128 bases, 300 labels): 77 % from counts of 4-mers, whole
or by quarter. Told where codons begin, ridge on 3-mers in frame reaches 88 %, and "a stop codon in frame upstream"
77 % without a label: what a model reaches says how much of that it has found by itself.

Genes have at least 450 bases, and the codon inside is at least 90 bases away from both ends of its gene; both windows
are read along the gene's strand. Training has the first 60 % of the genome, validation the next 10 %, testing the last
28 %: no base is in two splits. Genomes hold repeats: 1 % of the windows of test are for the greater part copies
of something in the training stretch. The pairs are the same at every length, except for genes at the edge of a split.
"""

import random
from collections.abc import Iterator

import numpy as np
from datasets import ClassLabel, DatasetDict, Features, List, Value

from hf_longseq.data import genomes
from hf_longseq.data.cache import SPLITS, Row, load_converted
from hf_longseq.data.genomes import Genome
from hf_longseq.data.task_spec import TaskSpec
from hf_longseq.errors import HfLongSeqError

LENGTHS = (128, 256, 512, 1024)
LABELS = ("inside", "start")
STARTS = ("ATG", "GTG")
SHORTEST_GENE, MARGIN = 450, 90
FEATURES = Features({"input_ids": List(Value("int32")), "labels": ClassLabel(names=list(LABELS))})


def load(
    length: int = 256,
    genome: str | None = None,
    unlabelled_windows: int = 0,
    data_dir: str | None = None,
    cache_dir: str | None = None,
) -> tuple[DatasetDict, TaskSpec]:
    """Load the windows.

    Args:
        length: Bases in a window: 128, 256, 512 or 1024.
        genome: Name of a GenBank file in `data_dir` without its ending, such as NC_000913; default: the embedded
            genome, or the only file in `data_dir`.
        unlabelled_windows: Windows in a further split `unlabelled` without labels, for pretraining: from anywhere in
            the training stretch, of both strands.
        data_dir: A GenBank file, packed or not, or a folder with such files; default: the embedded genome.
        cache_dir: Where the windows are kept; default: `cache_directory()`.
    """
    if length not in LENGTHS:
        raise HfLongSeqError(f"length is {length}: gene starts have windows of {', '.join(map(str, LENGTHS))} bases.")
    if unlabelled_windows < 0:
        raise HfLongSeqError(f"unlabelled_windows is {unlabelled_windows}: use 0 for none, or a number of windows.")
    file = genomes.genome_file(genome, data_dir)

    def rows() -> Iterator[tuple[str, Row]]:
        whole = genomes.read_genome(file)
        for split in SPLITS:
            for *window, label in labelled_windows(whole, split, length):
                yield split, {"input_ids": genomes.read_along(whole.codes, *window), "labels": label}
        if unlabelled_windows:
            for place in random_windows(whole, length, unlabelled_windows):
                yield "unlabelled", {"input_ids": genomes.read_along(whole.codes, *place)}

    splits = (*SPLITS, "unlabelled") if unlabelled_windows else SPLITS
    options = {"version": 2, "length": length, "unlabelled_windows": unlabelled_windows}
    splits = load_converted("gene-starts", options, [file], FEATURES, rows, cache_dir, splits)
    return splits, genomes.with_origin(task_spec(length), file)


def task_spec(length: int = 256) -> TaskSpec:
    """Description of the embedded genome's windows of `length` bases."""
    return TaskSpec(
        name="gene-starts",
        **genomes.SPEC,
        max_length=length,
        labels=LABELS,
        source="NCBI RefSeq NC_004463.1, Bradyrhizobium japonicum USDA 110, embedded",
        license="none needed: NCBI places no restriction on the use of RefSeq records",
        note="Not a task of the paper. The annotation is of 2004, and its starts were mostly predicted.",
    )


def stretches(genome: Genome, split: str) -> list[tuple[int, int]]:
    """First base and end of the parts of a split, one for each record that it reaches into."""
    low, high = genomes.part(0, len(genome.codes), split)
    cuts = [low, *(int(end) for end in genome.record_ends if low < end < high), high]
    return list(zip(cuts[:-1], cuts[1:], strict=True))


def labelled_windows(genome: Genome, split: str, length: int) -> Iterator[tuple[int, int, int, int]]:
    """First base, end, strand and label of a split's windows: every gene's start, then its codon inside."""
    parts = stretches(genome, split)
    for first, end, strand in genome.genes.tolist():
        if not any(low <= first < high for low, high in parts):
            continue
        inside = codon_inside(genome, first, end, strand)
        if inside is None:
            continue
        start = first if strand > 0 else end - 1
        # the base at the centre has the position length // 2 along the strand
        before = length // 2 if strand > 0 else length - length // 2 - 1
        firsts = [start - before, start + strand * inside - before]
        if any(low <= min(firsts) and max(firsts) + length <= high for low, high in parts):
            for place, label in zip(firsts, (1, 0), strict=True):
                yield place, place + length, strand, label


def codon_inside(genome: Genome, first: int, end: int, strand: int) -> int | None:
    """Where the start codon comes again in frame, in bases from the start of the gene; None for genes left out.

    Drawn from all places at least `MARGIN` bases from both ends; the same one at any length of the windows.
    """
    if end - first < SHORTEST_GENE or (end - first) % 3:
        return None
    codes = genome.codes[first:end]
    codons = (codes if strand > 0 else genomes.COMPLEMENT[codes[::-1]]).reshape(-1, 3)
    if "".join(genomes.BASES[code] for code in codons[0]) not in STARTS:
        return None
    places = np.flatnonzero((codons == codons[0]).all(axis=1)) * 3
    places = places[(places >= MARGIN) & (places < end - first - MARGIN)]
    # Python hashes a seed string with SHA-512: genes do not share their draws
    return int(random.Random(f"gene-starts/{genome.name}/{first}").choice(places)) if len(places) else None


def random_windows(genome: Genome, length: int, count: int) -> Iterator[tuple[int, int, int]]:
    """First base, end and strand of windows from anywhere in the training stretch."""
    lows, highs = np.array(stretches(genome, "train")).T
    room = np.maximum(highs - lows - length + 1, 0)  # windows that begin in each part
    if not room.sum():
        raise HfLongSeqError(
            f"The training stretch of {genome.name} has no {length} bases in a row: take a longer one."
        )
    generator = np.random.default_rng(0)
    draws = generator.integers(0, room.sum(), count)
    strands = generator.choice([1, -1], count)
    part = np.searchsorted(np.cumsum(room), draws, side="right")
    firsts = lows[part] + draws - (np.cumsum(room) - room)[part]
    return zip(firsts, firsts + length, strands, strict=True)
