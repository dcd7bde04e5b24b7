# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The fly's chromosome: every base has the class that the files say, and splits share no base."""

import numpy as np
import pytest
from stand_ins import write_fly

from hf_longseq.data.fly import EXON, INTRON, labelled_windows, read_genes, read_sequence
from hf_longseq.data.genomes import BASE_ID, COMPLEMENT
from hf_longseq.data.task import load_task
from hf_longseq.errors import HfLongSeqError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(tmp_path / "cache"))
    (tmp_path / "source").mkdir()
    return write_fly(tmp_path / "source")


def test_exons_and_introns_stand_where_the_regions_are_in_the_chromosome(folder):
    letters = read_sequence(folder / "chr2R.fa")
    labels, stretches = read_genes(folder / "genes.gb", letters)
    assert stretches[:2] == [(3000, 3900), (4000, 4900)] and len(stretches) == 20
    assert (labels[3100:3200] == EXON).all() and (labels[3200:3300] == INTRON).all()
    assert (labels[3300:3390] == EXON).all() and labels[3390] == labels[3099] == 0
    assert (labels != 0).sum() == 20 * 290


def test_a_window_is_read_along_its_strand(folder):
    letters = read_sequence(folder / "chr2R.fa")
    labels, stretches = read_genes(folder / "genes.gb", letters)
    codes = np.array(["ACGT".index(chr(letter)) for letter in letters & 0xDF])
    strands, place = set(), 3000
    for ids_L, labels_L in labelled_windows(letters, labels, stretches, "train", 300):
        here = slice(place, place + 300)
        forward = (ids_L - BASE_ID == codes[here]).all()
        strands.add(bool(forward))
        assert forward or (ids_L - BASE_ID == COMPLEMENT[codes[here][::-1]]).all()
        assert (labels_L == labels[here][:: 1 if forward else -1]).all()
        place += 300 if (place - 3000) % 1000 < 600 else 400
    assert strands == {True, False}


def test_repeats_are_the_lower_case(folder):
    splits, spec = load_task("fly-repeats", length=1000, data_dir=str(folder))
    assert spec.labels == ("O", "repeat") and {len(row) for row in splits["train"]["input_ids"][:]} == {1000}
    assert np.concatenate(list(splits["train"]["labels"][:])).mean() == pytest.approx(0.1)


def test_no_base_is_in_two_splits_and_held_out_ones_are_not_pretrained_on(folder):
    splits, _ = load_task("fly-exons", length=900, data_dir=str(folder))
    assert list(splits) == ["train", "validation", "test", "unlabelled"]
    assert splits["unlabelled"].column_names == ["input_ids"]

    def pieces(split):
        both = [np.asarray(row) - BASE_ID for row in splits[split]["input_ids"][:]]
        both += [COMPLEMENT[row[::-1]] for row in both]
        return {row[place : place + 30].tobytes() for row in map(np.int64, both) for place in range(len(row) - 30)}

    held_out = pieces("validation") | pieces("test")
    assert not held_out & (pieces("train") | pieces("unlabelled"))
    assert not pieces("validation") & pieces("test")


def test_files_that_do_not_belong_together_are_refused(folder):
    text = (folder / "chr2R.fa").read_text()
    (folder / "chr2R.fa").write_text(text.replace("\n", "\nAC", 100))
    with pytest.raises(HfLongSeqError, match="does not fit chr2R.fa at chr2R_"):
        load_task("fly-exons", length=500, data_dir=str(folder))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "apt-get download augustus-doc"),
        ({"data_dir": "/nowhere"}, "lacks chr2R.fa"),
        ({"length": 5}, "length is 5"),
    ],
)
def test_what_is_missing_is_named(options, said, folder):
    with pytest.raises(HfLongSeqError, match=said):
        load_task("fly-exons", **options)


def test_a_cut_file_is_named(folder):
    (folder / "chr2R.fa").write_text("")
    with pytest.raises(HfLongSeqError, match="not a FASTA file with one record"):
        load_task("fly-repeats", length=500, data_dir=str(folder))
