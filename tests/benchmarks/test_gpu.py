"""`benchmarks/gpu.py`: a row per contestant, with its error or the reason why it was not run."""

import torch

import gpu


def test_rows_of_a_small_shape(capsys, monkeypatch):
    monkeypatch.setattr(gpu, "SHAPES", ((2, 16, 4),))
    assert gpu.main(["--device", "cpu", "--repeats", "1"]) == 0
    assert "S4 layer, forward, best" in capsys.readouterr().out


def test_convolutions_agree_and_missing_ones_say_why():
    rows = {row["contestant"]: row for row in gpu.convolution_rows((2, 16, 4), 1, torch.device("cpu"))}
    for name in ("convolution of this package", "torch FFT"):
        assert rows[name]["error"] < 1e-5 and rows[name]["ms"] > 0
    assert "ModuleNotFoundError" in rows["subquadratic-ops-torch"]["skipped"]


def test_without_a_gpu_the_remedy_is_named(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main([]) == 2
    assert "no GPU" in capsys.readouterr().err
