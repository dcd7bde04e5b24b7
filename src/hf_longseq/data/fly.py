# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""A chromosome of the fruit fly: which bases are exons and introns, and which are repeats?

Chromosome 2R of *Drosophila melanogaster* (21 million bases, assembly dm3) and 586 annotated regions of it come with
the Debian package `augustus-doc`. Two tasks label every base:

- `fly-exons`: coding exon, intron of a coding sequence, or other, in the annotated regions: 3.3 of 5
  million bases. A region holds one gene, and untranslated ends count as other. The rest of the chromosome is open to
  pretraining, without labels.
- `fly-repeats`: repeat or not, everywhere, from the lower case of the assembly (10 % of the bases).

Training has the first 60 % of the annotated stretch (or of the chromosome), validation the next 10 %, testing the last
28 %: no base is in two splits. Windows lie side by side, and a fixed draw says which strand of each is read.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from datasets import DatasetDict, Features, List, Value

from hf_longseq.data import genomes
from hf_longseq.data.cache import SPLITS, Row, load_converted
from hf_longseq.data.task_spec import TaskSpec, cache_directory, find_file
from hf_longseq.errors import HfLongSeqError

SEQUENCE, GENES = "chr2R.fa", "genes.gb"
PACKAGE = "augustus-doc"
OTHER, EXON, INTRON = range(3)
LABELS = {"fly-exons": ("O", "exon", "intron"), "fly-repeats": ("O", "repeat")}
# a rest of a region below this tells little
SHORTEST = 128
LONGEST = 65_536


def load(
    task: str = "fly-exons", length: int = 1024, data_dir: str | None = None, cache_dir: str | None = None
) -> tuple[DatasetDict, TaskSpec]:
    """Load the windows.

    Args:
        task: "fly-exons" or "fly-repeats".
        length: Bases in a window, 128 to 65,536. Windows of `fly-exons` end where annotated regions end.
        data_dir: A folder that holds `chr2R.fa` and `genes.gb` of the Debian package at any depth.
        cache_dir: Where the windows are kept; default: `cache_directory()`.
    """
    if not SHORTEST <= length <= LONGEST:
        raise HfLongSeqError(f"length is {length}: windows of {task} have {SHORTEST} to {LONGEST:,} bases.")
    folder = data_dir or f"{cache_dir or cache_directory()}/downloads/fly"
    command = f"apt-get download {PACKAGE} && dpkg-deb -x {PACKAGE}_*.deb {folder}"
    files = [find_file(folder, name, command) for name in (SEQUENCE, GENES)]

    def rows() -> Iterator[tuple[str, Row]]:
        letters = read_sequence(files[0])
        labels, stretches = (letters >= ord("a")).astype(np.int16), [(0, len(letters))]
        if task == "fly-exons":
            labels, stretches = read_genes(files[1], letters)
        for split in SPLITS:
            for ids_L, labels_L in labelled_windows(letters, labels, stretches, split, length):
                yield split, {"input_ids": ids_L, "labels": labels_L}
        if task == "fly-exons":
            _, train_end = genomes.part(stretches[0][0], stretches[-1][1], "train")
            codes, free = genomes.CODES[letters], [(0, train_end), (stretches[-1][1], len(letters))]
            for window in genomes.cut(free, length, SHORTEST, seed=len(SPLITS)):
                yield "unlabelled", {"input_ids": genomes.read_along(codes, *window)}

    features = Features({"input_ids": List(Value("int32")), "labels": List(Value("int16"))})
    splits = (*SPLITS, "unlabelled") if task == "fly-exons" else SPLITS
    found = load_converted(task, {"version": 1, "length": length}, files, features, rows, cache_dir, splits)
    return found, task_spec(task, length)


def task_spec(task: str = "fly-exons", length: int = 1024) -> TaskSpec:
    """Description of the windows of `length` bases."""
    return TaskSpec(
        name=task,
        **genomes.SPEC,
        max_length=length,
        eos_token_id=genomes.EOS_ID,
        labels=LABELS[task],
        per_position=True,
        metric="mcc",
        source="chromosome 2R of Drosophila melanogaster (assembly dm3), from the Debian package augustus-doc",
        license="the assembly is a public record; the annotation as augustus-doc states (Artistic)",
        note="Not a task of the paper.",
    )


def labelled_windows(
    letters: np.ndarray, labels: np.ndarray, stretches: list[tuple[int, int]], split: str, length: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Token ids and labels of a split's windows, (L,) each with L at most `length`."""
    low, high = genomes.part(stretches[0][0], stretches[-1][1], split)
    parts = [(max(first, low), min(end, high)) for first, end in stretches if first < high and end > low]
    codes = genomes.CODES[letters]
    for first, end, strand in genomes.cut(parts, length, SHORTEST, seed=SPLITS.index(split)):
        yield genomes.read_along(codes, first, end, strand), labels[first:end][::strand]


def read_sequence(path: Path) -> np.ndarray:
    """Letters of a FASTA file with one record, (bases,) uint8, as they are: repeats in lower case."""
    content = path.read_bytes()
    head, _, body = content.partition(b"\n")
    letters = np.frombuffer(body.replace(b"\n", b""), np.uint8)
    if not head.startswith(b">") or b">" in body or not len(letters):
        raise HfLongSeqError(f"{path} is not a FASTA file with one record: get it again from the package {PACKAGE}.")
    return letters


def read_genes(path: Path, letters: np.ndarray) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Labels of all bases, (bases,) int16, and the annotated stretches (first, end), regions that touch made one."""
    labels, bases = np.zeros(len(letters), np.int16), bytes(letters).lower()
    stretches: list[tuple[int, int]] = []
    offset = None
    regions = re.split(r"^LOCUS +", path.read_text(encoding="ascii", errors="replace"), flags=re.MULTILINE)[1:]
    for region in regions:
        place = re.match(r"\w+_(\d+)-(\d+) ", region)
        location = re.search(r"\n {5}CDS +([^/]+)", region)
        origin = re.sub(r"[\s\d/]", "", region.partition("\nORIGIN")[2]).encode()
        number = int(place[1]) - 1 if place else 0
        if offset is None:  # numbers count from the first base of a piece of the chromosome
            offset = bases.find(origin) - number
        first = offset + number
        end = first + len(origin)
        if not place or not location or not origin or bases[first:end] != origin:
            raise HfLongSeqError(
                f"{path} does not fit {SEQUENCE} at {region.partition(' ')[0]}: take both from {PACKAGE}."
            )
        exons = [(int(a) - 1 + first, int(b) + first) for a, b in re.findall(r"(\d+)\.\.(\d+)", location[1])]
        labels[exons[0][0] : exons[-1][1]] = INTRON
        for low, high in exons:
            labels[low:high] = EXON
        if stretches and stretches[-1][1] == first:
            first = stretches.pop()[0]
        stretches.append((first, end))
    return labels, stretches
