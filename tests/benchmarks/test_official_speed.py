"""`benchmarks/official_speed.py`: the official design computes what ours does, and a row says how they compare."""

import csv

import pytest
import torch
from test_layer_speed import true_readout_to_tilde

import command
from golden_files import relative_error
from layer_speed import PlainS4, build_layers
from official_speed import GRID, OfficialLayer, layer_runs, main, measure, read_shape, step_runs


@torch.no_grad()
def test_official_layer_computes_what_ours_computes():
    mixer = build_layers(("s4",), hidden_size=4, s4_state=8)["s4"].double()
    u_BLH = torch.randn(2, 60, 4, dtype=torch.float64)
    y_BLH = mixer(u_BLH)[0]
    mixer.output_C.copy_(true_readout_to_tilde(mixer, 60))
    official = OfficialLayer(PlainS4(mixer))
    assert relative_error(official(u_BLH.transpose(1, 2)).transpose(1, 2), y_BLH) < 1e-5


@pytest.mark.parametrize("arch", ["s4", "dlr"])
def test_both_sides_run_and_are_compared(arch):
    for runs in (layer_runs(arch, 2, 8, 4), step_runs(arch, batch=2, length=8, hidden_size=4, layers=1)):
        row = measure(runs, pairs=2)
        assert row["pairs"] == 2 and row["ratio_min"] <= row["ratio"] <= row["ratio_max"]


@torch.no_grad()
def test_a_classifier_with_official_mixers_is_the_same_classifier():
    torch.manual_seed(0)
    official, ours = (run.args[0].eval() for run in step_runs("dlr", batch=2, length=8, hidden_size=4, layers=2))
    input_ids = torch.randint(256, (2, 50))
    assert relative_error(official(input_ids).logits, ours(input_ids).logits) < 1e-4


def test_table_and_csv(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "environment", lambda: {"gpu": [], "cpu": "a CPU"})
    out = tmp_path / "layers.csv"
    assert main(["--arch", "dlr", "--shape", "2x8x4", "--pairs", "1", "--out", str(out)]) == 0
    assert "(2, 8, 4)" in capsys.readouterr().out
    with open(out, newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["arch"], row["batch"], row["length"], row["hidden_size"]) == ("dlr", "2", "8", "4")
    assert main(["--out", str(out)]) == 2
    assert "exists" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["32x196", "32x0x64", "axbxc"])
def test_shapes_that_are_none_are_errors(word, capsys):
    assert main(["--shape", word]) == 2
    assert f"--shape {word}" in capsys.readouterr().err


def test_grid_reaches_both_ends():
    assert {b for b, _, _ in GRID} >= {1, 64} and {length for _, length, _ in GRID} >= {64, 65536}
    assert read_shape("32x196x64") == (32, 196, 64)
