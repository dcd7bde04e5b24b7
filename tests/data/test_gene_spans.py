"""Gene spans: every base has the class that its place says, splits share no base."""

import numpy as np
import pytest
from stand_ins import write_genome

from hf_longseq.data import gene_spans
from hf_longseq.data.gene_spans import LABELS, windows
from hf_longseq.data.gene_starts import stretches
from hf_longseq.data.genomes import COMPLEMENT, Genome, read_genbank
from hf_longseq.data.task import load_task
from hf_longseq.errors import HfLongSeqError


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(tmp_path / "cache"))


def test_the_embedded_genome_has_the_stated_windows():
    length, counts = 16384, (333, 55, 155)
    splits, spec = load_task("gene-spans", length=length)
    assert tuple(len(rows) for rows in splits.values()) == counts
    assert spec.per_position and spec.labels == LABELS and spec.max_length == length and spec.metric == "mcc"
    rows = splits["test"][:]
    assert rows["labels"].shape == rows["input_ids"].shape == (counts[2], length)
    shares = np.bincount(rows["labels"].reshape(-1)) / rows["labels"].size
    np.testing.assert_allclose(shares, [0.132, 0.43, 0.438], atol=0.015)  # genes fill most of a bacterium


def test_labels_are_those_of_the_annotation_base_by_base(tmp_path):
    genome = read_genbank(write_genome(tmp_path, bases=60_000))
    for split in ("train", "validation", "test"):
        seen = []
        ((low, high),) = stretches(genome, split)
        for ids_L, labels_L in windows(genome, split, 1024):
            first = low + 1024 * len(seen)
            codes = genome.codes[first : first + 1024]
            strand = 1 if (ids_L - 4 == codes).all() else -1
            assert (ids_L - 4 == (codes if strand > 0 else COMPLEMENT[codes[::-1]])).all()
            seen.append(strand)
            for place in range(0, 1024, 37):
                base = first + (place if strand > 0 else 1023 - place)
                over = {int(s) * strand for start, end, s in genome.genes if start <= base < end}
                assert labels_L[place] == (1 if 1 in over else 2 if -1 in over else 0)
        assert len(seen) == (high - low) // 1024
        assert set(seen) <= {1, -1}


def test_a_base_in_genes_of_both_strands_counts_for_the_strand_that_is_read():
    genome = Genome("toy", np.zeros(4000, np.uint8), np.array([[0, 4000, 1], [0, 4000, -1]]), np.array([4000]))
    assert all((labels_L == 1).all() for _, labels_L in windows(genome, "train", 1024))


def test_windows_stay_within_a_record():
    ends = np.array([1500, 4000])
    genome = Genome("toy", np.arange(4000).astype(np.uint8) % 4, np.array([[0, 90, 1]]), ends)
    # the first record has 1,500 bases, and the 900 behind it are too few
    assert len(list(windows(genome, "train", 1024))) == 1


def test_what_has_no_windows_is_refused(tmp_path):
    with pytest.raises(HfLongSeqError, match="length is 100: gene spans have windows of 1024"):
        load_task("gene-spans", length=100)
    with pytest.raises(HfLongSeqError, match="no 16384 bases in a row"):
        load_task("gene-spans", length=16384, data_dir=str(write_genome(tmp_path)))
    assert gene_spans.task_spec(2048).max_length == 2048
