"""Gene starts: the embedded genome's counts, pairs that share all but the place, splits that share no base."""

import numpy as np
import pytest
from stand_ins import write_genome
from transformers import AutoTokenizer

from hf_longseq.data import gene_starts
from hf_longseq.data.gene_starts import labelled_windows, random_windows, stretches
from hf_longseq.data.genomes import VOCABULARY, Genome, read_embedded, read_genbank
from hf_longseq.data.processors import task_tokenizer
from hf_longseq.data.task import load_task
from hf_longseq.errors import HfLongSeqError

SPLITS = ("train", "validation", "test")


@pytest.fixture(scope="module")
def embedded():
    return read_embedded()


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return read_genbank(write_genome(tmp_path_factory.mktemp("genome")))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(tmp_path / "cache"))


def text(ids):
    return "".join(VOCABULARY[i] for i in ids)


def test_the_embedded_genome_has_the_stated_windows():
    splits, spec = load_task("gene-starts")
    assert {name: len(rows) for name, rows in splits.items()} == {"train": 7710, "validation": 1268, "test": 3708}
    assert spec.max_length == 256 and spec.labels == ("inside", "start")
    for rows in splits.values():
        labels, ids = rows["labels"][:], rows["input_ids"][:]
        assert labels.mean() == 0.5 and ids.shape == (len(rows), 256) and ids.min() >= 4
        # a pair is one gene's: the same codon in the middle of both windows
        codons = np.array([text(row) for row in ids[:, 128:131]]).reshape(-1, 2)
        assert (codons[:, 0] == codons[:, 1]).all() and set(codons[:, 0]) == {"ATG", "GTG"}


def test_windows_lie_in_their_split(embedded):
    ends = []
    for split in SPLITS:
        lows, highs, *_ = zip(*labelled_windows(embedded, split, 1024), strict=True)
        ends.append((min(lows), max(highs)))
    (low, train), (validation, until), (test, high) = ends
    assert 0 <= low and train <= validation and until <= test and high <= len(embedded.codes)


def test_pairs_are_the_same_at_every_length(toy):
    pairs = [
        {(first + (length // 2 if strand > 0 else length // 2 - 1), strand) for first, _, strand, _ in windows}
        for length in (128, 256)
        for windows in [labelled_windows(toy, "train", length)]
    ]
    assert pairs[1] <= pairs[0] and len(pairs[0]) - len(pairs[1]) <= 4


def test_the_codon_inside_is_in_frame_and_off_the_ends(toy):
    firsts, _, strands, labels = np.array(list(labelled_windows(toy, "train", 128))).T
    assert labels.tolist() == [1, 0] * (len(labels) // 2) and set(strands) == {1, -1}
    distance = (strands * firsts).reshape(-1, 2) @ np.array([-1, 1])
    assert (distance % 3 == 0).all() and distance.min() >= 90 and distance.max() < 510


@pytest.mark.parametrize(
    ("first", "end", "why"),
    [(0, 447, "short"), (0, 601, "a cut frame"), (3, 603, "another codon"), (0, 450, "the codon comes but once")],
)
def test_genes_without_a_pair_are_left_out(first, end, why):
    codes = np.tile(np.array([0, 0, 1], np.uint8), 300)
    codes[:3], codes[540:543] = (0, 3, 2), (0, 3, 2)
    genome = Genome("toy", codes, np.array([[first, end, 1]]), np.array([900]))
    assert gene_starts.codon_inside(genome, first, end, 1) is None, why
    assert gene_starts.codon_inside(genome, 0, 900, 1) == 540


def test_unlabelled_windows_are_of_the_training_stretch_alone(toy):
    splits, _ = load_task("gene-starts", length=128, unlabelled_windows=1200, genome=None, data_dir=None)
    assert list(splits["unlabelled"].features) == ["input_ids"] and len(splits["unlabelled"]) == 1200
    assert set(load_task("gene-starts", length=128)[0]) == set(SPLITS)
    lows, highs, strands = map(np.array, zip(*random_windows(toy, 128, 2000), strict=True))
    ((first, end),) = stretches(toy, "train")
    assert first <= lows.min() < first + 50 and end - 50 < highs.max() <= end and 900 < (strands > 0).sum() < 1100


def test_no_window_crosses_from_record_to_record(toy):
    halves = Genome("two", toy.codes, toy.genes, np.array([9_100, len(toy.codes)]))
    for windows in (random_windows(halves, 128, 2000), labelled_windows(halves, "train", 256)):
        lows, highs, *_ = map(np.array, zip(*windows, strict=True))
        assert not ((lows < 9_100) & (highs > 9_100)).any() and (highs <= 9_100).any() and (lows >= 9_100).any()


def test_other_genomes_are_read_from_files(tmp_path):
    splits, spec = load_task("gene-starts", length=128, data_dir=str(write_genome(tmp_path)))
    assert 15 < len(splits["train"]) / 2 < 30 and "made_up.gbk" in spec.source


def test_the_saved_tokenizer_says_what_the_loader_does(tmp_path):
    splits, spec = load_task("gene-starts", length=128)
    task_tokenizer(spec).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    ids = splits["test"][0]["input_ids"].tolist()
    assert tokenizer(text(ids))["input_ids"] == ids and tokenizer.decode(ids) == text(ids)
    assert tokenizer("acgt\nRyn[MASK]")["input_ids"] == [4, 5, 6, 7, 8, 8, 8, 0]
    assert len(tokenizer) == spec.vocab_size and tokenizer.model_max_length == 128


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 100}, "length is 100: .* 128, 256, 512, 1024"),
        ({"unlabelled_windows": -1}, "unlabelled_windows is -1"),
        ({"genome": "NC_000913"}, "genome is 'NC_000913'.*data_dir"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(HfLongSeqError, match=message):
        load_task("gene-starts", **options)


def test_a_genome_too_short_for_unlabelled_windows_is_named(toy):
    short = Genome("short", toy.codes[:1000], toy.genes[:1], np.array([1000]))
    with pytest.raises(HfLongSeqError, match="training stretch of short has no 1024 bases"):
        random_windows(short, 1024, 10)
