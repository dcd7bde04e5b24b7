"""Genomes: the embedded one is the record of RefSeq, GenBank files are read whole or refused, windows on strands."""

import gzip
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from stand_ins import genbank

from hf_longseq.data import genomes
from hf_longseq.data.genomes import (
    BASES,
    VOCABULARY,
    genome_file,
    read_along,
    read_embedded,
    read_genbank,
    read_genome,
)
from hf_longseq.errors import HfLongSeqError

SCRIPT = Path(__file__).parents[2] / "scripts" / "embed_genome.py"
RECORD = "ACGTACGTACGTRNacgtta"


def letters(codes):
    return "".join(BASES[code] for code in codes)


def written(folder, *records, name="toy.gbk"):
    path = Path(folder) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(genbank(*record) for record in records))
    return path


def test_the_embedded_genome_is_the_record():
    genome = read_embedded()
    assert (genome.name, len(genome.codes), len(genome.genes)) == ("NC_004463", 9_105_828, 8_317)
    # as the record's own table of contents counts them
    assert np.bincount(genome.codes).tolist() == [1_635_170, 2_915_448, 2_917_689, 1_637_521]
    assert genome.genes[0].tolist() == [101, 428, 1] and genome.record_ends.tolist() == [9_105_828]
    assert genomes.EMBEDDED_FILE.stat().st_size < 2.5e6


def test_embedded_genes_are_read_in_their_frame():
    genome = read_embedded()
    starts, stops = set(), 0
    for first, end, strand in genome.genes[:500]:
        gene = "".join(VOCABULARY[i] for i in read_along(genome.codes, first, end, strand))
        starts.add(gene[:3])
        stops += gene[-3:] in ("TAA", "TAG", "TGA")
    assert starts <= {"ATG", "GTG", "TTG"} and stops == 500


def test_a_file_gives_bases_and_whole_genes(tmp_path):
    features = ["3..8", "complement(9..14)", "<1..4", "join(1..3,7..9)", ("2..7", "/pseudo"), "complement(\n10..15)"]
    genome = read_genbank(written(tmp_path, ("toy1", RECORD, features)))
    assert genome.name == "toy1" and letters(genome.codes) == "ACGTACGTACGTNNACGTTA"
    assert genome.genes.tolist() == [[2, 8, 1], [8, 14, -1], [9, 15, -1]]


def test_records_follow_each_other(tmp_path):
    genome = read_genbank(written(tmp_path, ("one", "ACGTACGT", ["1..6"]), ("two", "TTTTGGGG", ["complement(2..4)"])))
    assert genome.name == "one" and genome.record_ends.tolist() == [8, 16]
    assert genome.genes.tolist() == [[0, 6, 1], [9, 12, -1]]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda text: text[: len(text) // 2], "has no end"),
        (lambda text: text.replace(" 20 bp", " 21 bp"), "LOCUS and ORIGIN, whole"),
        (lambda text: text.replace("ORIGIN", "CONTIG"), "LOCUS and ORIGIN, whole"),
        (lambda text: text.replace("     CDS ", "     tRNA"), "has no genes"),
        (lambda text: ">toy\nACGT\n", "has no end"),
        (lambda text: "", "has no end"),
    ],
)
def test_a_damaged_file_is_refused(spoil, message, tmp_path):
    path = tmp_path / "toy.gbk"
    path.write_text(spoil(genbank("toy", RECORD, ["3..8"])))
    with pytest.raises(HfLongSeqError, match=message):
        read_genbank(path)


def test_packed_files_are_read_and_cut_off_ones_refused(tmp_path):
    packed = gzip.compress(genbank("toy", RECORD, ["3..8"]).encode())
    (tmp_path / "toy.gbk.gz").write_bytes(packed)
    assert len(read_genbank(tmp_path / "toy.gbk.gz").codes) == 20
    (tmp_path / "half.gbk.gz").write_bytes(packed[:-10])
    with pytest.raises(HfLongSeqError, match="half.gbk.gz is cut off"):
        read_genbank(tmp_path / "half.gbk.gz")


def test_a_folder_is_asked_by_name(tmp_path):
    written(tmp_path, ("a", RECORD, ["3..8"]), name="deep/NC_1.gbk")
    assert read_genome(genome_file(data_dir=tmp_path)).name == "a"  # the only file
    written(tmp_path, ("b", RECORD, ["3..8"]), name="NC_2.gb")
    assert read_genome(genome_file("NC_2", tmp_path)).name == "b"
    assert read_genome(genome_file(data_dir=tmp_path / "NC_2.gb")).name == "b"
    with pytest.raises(HfLongSeqError, match="genome is not set, but .* holds NC_1, NC_2"):
        genome_file(data_dir=tmp_path)
    with pytest.raises(HfLongSeqError, match="genome is 'NC_3'.*did you mean"):
        genome_file("NC_3", tmp_path)
    with pytest.raises(FileNotFoundError, match="holds no GenBank file"):
        genome_file(data_dir=tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="genome is 'NC_000913'.*apt-get download cct-examples"):
        genome_file("NC_000913")


def test_windows_are_read_along_their_strand(tmp_path):
    genome = read_genbank(written(tmp_path, ("toy", "AACCGGTTTACN", ["1..6"])))
    ids = [read_along(genome.codes, *window) for window in ((2, 6, 1), (3, 7, -1), (8, 12, -1))]
    assert ["".join(VOCABULARY[i] for i in row) for row in ids] == ["CCGG", "ACCG", "NGTA"]


def test_the_script_writes_the_same_bytes_as_the_package_holds(tmp_path):
    spec = importlib.util.spec_from_file_location("embed_genome", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.write_packed(read_embedded(), tmp_path / "again.parquet")
    assert (tmp_path / "again.parquet").read_bytes() == genomes.EMBEDDED_FILE.read_bytes()
