"""Linear classifiers of gene starts: counts are right, ridge finds what is linear, the command prints every row."""

import sys

import numpy as np
import pytest

import gene_starts_linear as linear
from data.stand_ins import write_genome


def test_words_and_their_counts():
    bases = np.array([[0, 3, 2, 3, 0, 0, 1, 1]])  # ATG TAA CC
    assert linear.words(bases, 3, first=0, stride=3).tolist() == [[14, 48]]
    assert linear.STOPS[0] == 48
    assert linear.in_frame(bases).tolist() == [[14 * 4 % 64 + 3, 1]]  # the middle is position 4: TGT, AAC
    assert linear.counts(np.array([[0, 1, 1, 2]]), 3, 2).tolist() == [[1, 1, 0, 0, 1, 1]]


@pytest.mark.parametrize("labels", [5, 60])
def test_ridge_solves_its_equations_either_way(labels):
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(labels, 12)), generator.normal(size=(labels, 3))
    found = linear.ridge(x, y, np.zeros(12), np.ones(12))
    for weights, penalty in zip(found, linear.PENALTIES, strict=True):
        assert np.allclose(weights, np.linalg.solve(x.T @ x + penalty * np.eye(12), x.T @ y))


def test_the_command_prints_every_classifier(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(tmp_path / "cache"))
    genome = write_genome(tmp_path, bases=2_000_000)
    monkeypatch.setattr(sys, "argv", ["x", "--length", "128", "--data_dir", str(genome), "--subsets", "1"])
    linear.main()
    rows = capsys.readouterr().out.splitlines()
    assert [row[:32].strip() for row in rows[1:5]] == list(linear.FEATURES)
    assert "stop in frame, 64 bases upstream" in rows[5]
    assert rows[6].startswith("entropy of a base in genes: 1.3")


def test_the_place_in_a_codon_tells_what_it_tells():
    """Genes of AAC and of GAC alone, one on each strand: the second and third places hold no surprise."""
    codes = np.array([0, 0, 1, 2, 0, 1] * 2, np.uint8)
    codes[6:] = linear.COMPLEMENT[codes[6:][::-1]]
    genome = linear.Genome("toy", codes, np.array([[0, 6, 1], [6, 12, -1]]), np.array([12]))
    alone, placed = linear.base_entropies(genome)
    assert np.isclose(placed, np.log(2) / 3)
    assert np.isclose(alone, np.log(2) / 2 + np.log(3) / 3 + np.log(6) / 6)
