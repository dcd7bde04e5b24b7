# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Rebuilds the embedded genome from the Debian package cct-examples: the same bytes every time.

apt-get download cct-examples && dpkg-deb -x cct-examples_*.deb cct
python scripts/embed_genome.py cct
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hf_longseq.data.genomes import EMBEDDED_FILE, Genome, genome_file, read_genbank


def write_packed(genome: Genome, path: Path) -> None:
    """Write a genome of one record, every base known: four bases to a byte, the first in the highest bits."""
    assert genome.codes.max() < 4 and len(genome.record_ends) == 1, "one record of A, C, G and T"
    quads = np.pad(genome.codes, (0, -len(genome.codes) % 4)).reshape(-1, 4)
    packed = (quads << np.array([6, 4, 2, 0], np.uint8)).sum(axis=1, dtype=np.uint8)
    starts, ends, strands = genome.genes.T
    columns = {
        "name": pa.array([genome.name]),
        "bases": pa.array([len(genome.codes)], pa.int64()),
        "packed": pa.array([packed.tobytes()], pa.binary()),
        "starts": pa.array([starts.tolist()], pa.list_(pa.int32())),
        "ends": pa.array([ends.tolist()], pa.list_(pa.int32())),
        "strands": pa.array([strands.tolist()], pa.list_(pa.int8())),
    }
    encodings = {f"{column}.list.element": "DELTA_BINARY_PACKED" for column in ("starts", "ends")}
    pq.write_table(
        pa.table(columns), path, compression="zstd", use_dictionary=False, column_encoding=encodings,
        write_statistics=False, store_schema=False,
    )  # fmt: skip


if __name__ == "__main__":
    genome = read_genbank(genome_file("NC_004463", sys.argv[1]))
    write_packed(genome, EMBEDDED_FILE)
    size = EMBEDDED_FILE.stat().st_size
    print(f"{EMBEDDED_FILE}: {len(genome.codes):,} bases, {len(genome.genes):,} genes, {size:,} bytes")
