"""The nightly fuzzing: sound cases pass, an injected defect is found, and its number repeats it."""

import os

import numpy as np
import pytest

import fuzz
from hf_longseq import ARCHITECTURES
from hf_longseq.data.collators import DataCollatorForMaskedDenoising
from hf_longseq.models import longseq_heads

pytestmark = pytest.mark.skipif(os.name != "posix", reason="cases end by an alarm")


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(tmp_path))  # each case sets its own


def test_every_architecture_is_tried():
    assert set(fuzz.FIELDS) == set(ARCHITECTURES)


def test_sound_cases_pass(capsys):
    assert fuzz.fuzz(seed=0, cases=range(40), kinds=("padding", "collators", "files")) == 0
    assert "40 cases" in capsys.readouterr().out


@pytest.mark.slow
def test_sound_records_pass():
    assert fuzz.fuzz(seed=0, cases=range(10), kinds=("records",)) == 0


def pooling_that_reads_padding(monkeypatch):
    pool = longseq_heads.pool
    monkeypatch.setattr(longseq_heads, "pool", lambda hidden, mask, pooling: pool(hidden, None, pooling))


def masks_that_depend_on_the_moment(monkeypatch):
    draw = np.random.default_rng(0)
    monkeypatch.setattr(
        DataCollatorForMaskedDenoising, "_draw", lambda self, key, valid: draw.random(len(valid)) < 0.5
    )


def readers_that_raise_anything(monkeypatch):
    def broken(*_, **__):
        raise KeyError("column")

    monkeypatch.setattr("hf_longseq.analysis.examples.load_task", broken)


@pytest.mark.parametrize(
    ("kind", "inject"),
    [
        ("padding", pooling_that_reads_padding),
        ("collators", masks_that_depend_on_the_moment),
        ("files", readers_that_raise_anything),
    ],
)
def test_an_injected_defect_is_found_and_repeated(kind, inject, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        inject(patch)
        assert fuzz.fuzz(seed=0, cases=range(40), kinds=(kind,)) > 0
        said = capsys.readouterr().out
        assert f"({kind})" in said and "--seed 0 --only " in said
        number = int(said.split("--only ")[1].split()[0])
        assert fuzz.one_case(0, number, (kind,))[1]
    assert fuzz.one_case(0, number, (kind,))[1] is None


def test_the_time_limit_ends_the_cases(capsys):
    assert fuzz.fuzz(seed=0, cases=range(10**6), minutes=0.01, kinds=("collators",)) == 0
    assert "stopped after 0.01 minutes" in capsys.readouterr().out
