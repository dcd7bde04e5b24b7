"""Codons of gene starts: the rule finds stops in frame, the command prints both lines."""

import sys

import numpy as np

import gene_starts_codons as codons
from data.stand_ins import write_genome


def test_stops_are_found_in_frame():
    bases = np.array([[0, 3, 2, 3, 0, 0], [0, 0, 3, 0, 0, 1]])  # ATG TAA, AAT AAC
    assert codons.has_stop(bases).tolist() == [True, False]


def test_the_command_prints_the_rule_and_the_entropies(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(tmp_path / "cache"))
    genome = write_genome(tmp_path, bases=2_000_000)
    monkeypatch.setattr(sys, "argv", ["x", "--length", "128", "--data_dir", str(genome)])
    codons.main()
    rule, entropies = capsys.readouterr().out.splitlines()
    assert rule.startswith("stop in frame, 64 bases upstream") and entropies.startswith(
        "entropy of a base in genes: 1.3"
    )


def test_the_place_in_a_codon_tells_what_it_tells():
    """Genes of AAC and of GAC alone, one on each strand: the second and third places hold no surprise."""
    codes = np.array([0, 0, 1, 2, 0, 1] * 2, np.uint8)
    codes[6:] = codons.COMPLEMENT[codes[6:][::-1]]
    genome = codons.Genome("toy", codes, np.array([[0, 6, 1], [6, 12, -1]]), np.array([12]))
    alone, placed = codons.base_entropies(genome)
    assert np.isclose(placed, np.log(2) / 3)
    assert np.isclose(alone, np.log(2) / 2 + np.log(3) / 3 + np.log(6) / 6)
