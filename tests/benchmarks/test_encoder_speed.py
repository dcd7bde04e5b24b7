"""`benchmarks/bench.py encoders`: whole models beside transformers' own, one row each and a picture."""

import csv

import pytest

import bench
import encoder_speed

TOY = {"hidden_size": 32, "layers": 2, "s4_state": 4, "dlr_state": 8}


@pytest.mark.parametrize("name", encoder_speed.NAMES)
def test_every_model_takes_a_step_and_predicts(name):
    rows = encoder_speed.benchmark_encoders(lengths=(64,), names=(name,), batch=2, repeats=1, **TOY)
    assert [row["what"] for row in rows] == ["training step", "prediction"]
    assert all(row["op"] == name and row["seconds"] > 0 and row["parameters"] > 0 for row in rows)


def test_batches_share_their_positions_until_one_sequence_has_more(monkeypatch):
    monkeypatch.setattr(encoder_speed, "POSITIONS", 64)
    rows = encoder_speed.benchmark_encoders(lengths=(16, 64, 128), names=("cnn",), repeats=1, **TOY)
    assert [(row["length"], row["batch"]) for row in rows[::2]] == [(16, 4), (64, 1), (128, 1)]


@pytest.mark.parametrize("name", ["s4", "bert"])
def test_what_does_not_fit_is_left_out_with_its_reason(name):
    (step, predicted) = encoder_speed.benchmark_encoders(
        lengths=(64,), names=(name,), batch=2, repeats=1, memory_limit=1, **TOY
    )
    assert "GiB" in step["skipped"] and not predicted["skipped"]


def test_table_file_and_picture(tmp_path, capsys):
    out = tmp_path / "encoders.csv"
    words = ["encoders", "--arch", "cnn", "--length", "16", "--batch_size", "1", "--repeats", "1", "--out", str(out)]
    assert bench.main(words) == 0
    assert "prediction" in capsys.readouterr().out
    with open(out, newline="") as file:
        assert {row["what"] for row in csv.DictReader(file)} == {"training step", "prediction"}
    assert out.with_suffix(".png").stat().st_size > 5000
