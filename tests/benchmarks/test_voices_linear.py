"""Linear classifiers of voices: tones of their own are told apart, by the command too."""

import sys

import numpy as np

import voices_linear as linear
from data.stand_ins import write_voices


def test_the_spectrum_of_a_tone_has_its_peak_where_the_tone_is():
    tone = np.sin(2 * np.pi * 64 * np.arange(800) / 800)  # 64 Hz: the fifth of the bands of 16 Hz
    assert linear.spectrum(tone[None], 800).argmax() == 4


def test_the_command_tells_voices_of_different_pitch_apart(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(tmp_path / "cache"))
    folder = write_voices(tmp_path / "clips")
    monkeypatch.setattr(sys, "argv", ["x", "--sampling_rate", "800", "--data_dir", str(folder), "--subsets", "1"])
    linear.main()
    row = capsys.readouterr().out.splitlines()[-1]
    assert row.startswith("mean log spectrum") and row.split()[-1] == "100.0"
