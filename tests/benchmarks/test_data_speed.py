"""Speeds of generators and of the input pipeline are counted right and written whole."""

import csv

import pytest

import data_speed
from bench import main


@pytest.fixture(autouse=True)
def little(monkeypatch, tmp_path):
    monkeypatch.setattr(data_speed, "COUNTS", dict.fromkeys(data_speed.COUNTS, (40, 80)))
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(tmp_path / "cache"))


def test_generated_and_embedded_tasks_are_measured(tmp_path, capsys):
    words = ["data", "--task", "listops", "spoken-tones", "--seconds", "0.05", "--workers", "1"]
    assert main([*words, "--out", str(tmp_path / "data.csv")]) == 0
    rows = list(csv.DictReader((tmp_path / "data.csv").open()))
    stages = [(row["task"], row["stage"]) for row in rows]
    assert stages == [("listops", "generate"), ("listops", "batch"), ("spoken-tones", "batch")]
    assert rows[0]["examples"] == "40" and rows[0]["commit"] and rows[0]["cpu"]
    for row in rows:
        rate = int(row["examples"]) / float(row["seconds"])
        assert float(row["examples_per_second"]) == pytest.approx(rate, rel=0.1)
    lengths = int(rows[1]["steps_per_second"]) / float(rows[1]["examples_per_second"])
    assert 500 < lengths < 2001
    assert "examples/s" in capsys.readouterr().out
    assert main([*words, "--out", str(tmp_path / "data.csv")]) == 2  # nothing is overwritten


def test_only_what_is_at_hand_is_measured_unasked():
    names = data_speed.names_at_hand()
    assert {"listops", "pathfinder", "spoken-tones"} <= set(names) and "speech-commands" not in names
    assert {name for name in names if data_speed.TASKS[name].source == "generated"} == set(data_speed.COUNTS)


def test_an_unknown_task_is_named(capsys):
    assert main(["data", "--task", "listop"]) == 2
    assert "did you mean 'listops'" in capsys.readouterr().err
