# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Genomes with their genes: GenBank flat files, and one bacterial genome that travels with the package.

Bases are codes 0..4 for A, C, G, T and N (any other letter), one byte each; `VOCABULARY` puts the four special tokens
before them. Positions count from 0, and an end is exclusive.
"""

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from hf_longseq.data import task_spec
from hf_longseq.data.task_spec import MissingDataError
from hf_longseq.errors import HfLongSeqError, did_you_mean, explained

BASES = "ACGTN"
VOCABULARY = ("[MASK]", "[PAD]", "[UNK]", "[EOS]", *BASES)
MASK_ID, PAD_ID, UNK_ID, EOS_ID, BASE_ID = range(5)
# what every task of DNA says in its `TaskSpec`
SPEC: dict[str, Any] = {"modality": "tokens", "vocab_size": len(VOCABULARY), "vocabulary": VOCABULARY}
SPEC |= {"mask_ratio": 0.25, "pad_token_id": PAD_ID, "mask_token_id": MASK_ID}
COMPLEMENT = np.array([3, 2, 1, 0, 4], np.uint8)
# where each split begins and ends, as shares of a stretch; 2 % between validation and test are in none
PARTS = {"train": (0.0, 0.6), "validation": (0.6, 0.7), "test": (0.72, 1.0)}

EMBEDDED = "bradyrhizobium"
EMBEDDED_FILE = task_spec.EMBEDDED / f"{EMBEDDED}.parquet"
ENDINGS = (".gbk", ".gb", ".gbff", ".gbk.gz", ".gb.gz", ".gbff.gz")
PACKAGE = "cct-examples"

CODES = np.full(256, 4, np.uint8)  # of letters in ASCII, upper or lower case
CODES[np.frombuffer(b"ACGTacgt", np.uint8)] = [0, 1, 2, 3] * 2
_CDS = re.compile(r"\n {5}CDS {13}(.*(?:\n {21}[^/\n].*)*)((?:\n {21}.*)*)")


@dataclass(frozen=True)
class Genome:
    """A sequence and its protein-coding genes.

    Args:
        codes: Bases of all records one after the other, (bases,) uint8 with values 0..4.
        genes: First base, end and strand (1 or -1) of every gene that is one whole stretch, (genes, 3) int64, sorted.
        record_ends: Ends of the records in `codes`, (records,) int64.
    """

    name: str
    codes: np.ndarray
    genes: np.ndarray
    record_ends: np.ndarray


def genome_file(genome: str | None = None, data_dir: str | Path | None = None) -> Path:
    """The file of the embedded genome, or a GenBank file.

    Args:
        genome: Name of a file without its ending; default: the embedded genome, or the only file in `data_dir`.
        data_dir: A GenBank file (.gbk, .gb, .gbff, packed or not) or a folder with such files at any depth.

    Raises:
        HfLongSeqError: If the name is unknown or ambiguous.
        MissingDataError: If the file is missing.
    """
    if data_dir is None:
        if genome not in (None, EMBEDDED):
            raise MissingDataError(
                f"genome is {genome!r}, but only {EMBEDDED!r} travels with the package: name a folder with GenBank "
                f"files by data_dir; `apt-get download {PACKAGE} && dpkg-deb -x {PACKAGE}_*.deb genomes` gets eight."
            )
        return EMBEDDED_FILE
    place = Path(data_dir)
    files = [place] if place.is_file() else sorted(file for file in place.rglob("*") if file.name.endswith(ENDINGS))
    if not files:
        raise MissingDataError(f"{place} holds no GenBank file ({', '.join(ENDINGS)}): name a folder with one.")
    # a folder may hold a file twice
    by_name = {re.sub(r"\.(gbk|gb|gbff)(\.gz)?$", "", file.name): file for file in reversed(files)}
    if genome is None and len(by_name) == 1:
        return files[0]
    if genome not in by_name:
        asked = "genome is not set" if genome is None else f"genome is {genome!r}{did_you_mean(genome, by_name)}"
        raise HfLongSeqError(f"{asked}, but {place} holds {', '.join(sorted(by_name))}: choose one of them.")
    return by_name[genome]


def with_origin(spec: task_spec.TaskSpec, file: Path) -> task_spec.TaskSpec:
    """The description of a task on the embedded genome, with the origin of the one that was read."""
    if file == EMBEDDED_FILE:
        return spec
    return replace(spec, source=f"genes and sequence of {file.name}", license="as stated where the record is from")


def read_genome(file: Path) -> Genome:
    """The genome in a file that `genome_file` gave."""
    return read_embedded() if file == EMBEDDED_FILE else read_genbank(file)


def read_embedded() -> Genome:
    """Bradyrhizobium japonicum USDA 110, 9,105,828 bases; in the file four to a byte, the first in the high bits."""
    row = pq.read_table(EMBEDDED_FILE).to_pylist()[0]
    packed = np.frombuffer(row["packed"], np.uint8)
    codes = (packed[:, None] >> np.array([6, 4, 2, 0], np.uint8) & 3).reshape(-1)[: row["bases"]]
    genes = np.stack([row["starts"], row["ends"], row["strands"]], axis=1).astype(np.int64)
    return Genome(row["name"], codes, genes, np.array([len(codes)]))


def read_genbank(path: str | Path) -> Genome:
    """A GenBank flat file, packed or not, with one record or several (contigs, plasmids).

    Genes are the features `CDS` whose location is one whole stretch; joined and partial ones and pseudogenes are left
    out.

    Raises:
        HfLongSeqError: If the file is cut off, or no GenBank file.
    """
    path = Path(path)
    records, genes, offset, name = [], [], 0, ""
    kinds = (OSError, EOFError, ValueError)
    with explained(f"{path} is cut off or no GenBank file", *kinds, remedy="get it again"):
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            *texts, rest = re.split(r"^//.*\n?", file.read(), flags=re.MULTILINE)
        if rest.strip() or not texts:
            raise ValueError("its last record has no end, //")
        for text in texts:
            head = re.match(r"\n*LOCUS +(\S+) +(\d+) bp", text)
            features, marker, origin = text.partition("\nORIGIN")
            letters = re.sub(r"[\s\d]", "", origin.partition("\n")[2])
            if head is None or not marker or len(letters) != int(head[2]):
                raise ValueError("its records need LOCUS and ORIGIN, whole")
            records.append(CODES[np.frombuffer(letters.encode("ascii", "replace"), np.uint8)])
            genes += [(first + offset, end + offset, strand) for first, end, strand in _genes(features)]
            offset, name = offset + len(letters), name or head[1]
    if not genes:
        raise HfLongSeqError(f"{path} has no genes (features CDS): get the record with its annotation.")
    ends = np.cumsum([len(record) for record in records])
    return Genome(name, np.concatenate(records), np.array(sorted(genes), np.int64), ends)


def _genes(features: str) -> Iterator[tuple[int, int, int]]:
    for location, qualifiers in _CDS.findall(features):
        simple = re.fullmatch(r"(complement\()?(\d+)\.\.(\d+)\)?", re.sub(r"\s", "", location))
        if simple and not re.search(r"\n {21}/pseudo\b", qualifiers):
            yield int(simple[2]) - 1, int(simple[3]), -1 if simple[1] else 1


def part(first: int, end: int, split: str) -> tuple[int, int]:
    """First base and end of a split, in a stretch of DNA."""
    low, high = (round(first + share * (end - first)) for share in PARTS[split])
    return low, high


def cut(stretches: list[tuple[int, int]], length: int, shortest: int, seed: int) -> Iterator[tuple[int, int, int]]:
    """First base, end and drawn strand of windows side by side; a rest of at least `shortest` bases is one, too."""
    generator = np.random.default_rng(seed)
    for low, high in stretches:
        for first in range(low, high - shortest + 1, length):
            yield first, min(first + length, high), int(generator.choice([1, -1]))


def read_along(codes: np.ndarray, first: int, end: int, strand: int) -> np.ndarray:
    """Token ids (L,) uint8 of the bases from `first` to `end`; of strand -1 the reverse complement."""
    codes_L = codes[first:end]
    return BASE_ID + (codes_L if strand > 0 else COMPLEMENT[codes_L[::-1]])
