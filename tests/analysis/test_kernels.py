"""Kernel analysis: lengths and frequencies of kernels that are known, fields that respect causality, tidy CSV."""

import csv
import json

import numpy as np
import pytest
import torch

from hf_longseq.analysis import kernel_figures, kernel_measures, kernels, receptive_field
from hf_longseq.cli.main import main
from hf_longseq.errors import HfLongSeqError
from toy_models import VARIANTS, make_inputs, make_model

LENGTH = 24


def save(folder, variant, **options):
    make_model(variant, "ForSequenceClassification", **options).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("pole", [0.5, 0.9, 0.98])
def test_decay_length_of_a_known_pole(pole):
    kernel = pole ** np.arange(500)
    expected = int(np.floor(np.log(0.01) / np.log(pole))) + 1
    assert kernel_measures.decay_length(kernel[None])[0] == expected
    oscillating = kernel * np.cos(np.pi * np.arange(500))
    assert kernel_measures.decay_length(oscillating[None])[0] == expected


def test_decay_length_of_kernels_that_last_and_of_nothing():
    assert kernel_measures.decay_length(np.ones((1, 30))).tolist() == [30]
    assert kernel_measures.decay_length(np.zeros((1, 30))).tolist() == [0]


def test_frequency_of_a_resonance():
    steps = np.arange(400)
    values = kernel_measures.measures((0.97**steps * np.cos(2 * np.pi * 0.125 * steps))[None])
    assert values["peak_frequency"][0] == pytest.approx(0.125, abs=2e-3)


def test_both_directions_meet_in_the_present():
    both = kernel_measures.two_sided(np.array([[[1.0, 2.0, 3.0]], [[10.0, 20.0, 30.0]]]))
    assert both.tolist() == [[3.0, 2.0, 11.0, 20.0, 30.0]]


@pytest.mark.parametrize("length", [1, 7, 1000])
def test_bins_cover_every_offset_once(length):
    edges, firsts = kernel_measures.offset_bins(length)
    assert firsts[0] == 0 and len(firsts) == len(edges) - 1
    assert edges[0] == 0.5 - length and edges[-1] == length - 0.5 and (np.diff(edges) >= 1).all()
    assert (edges == -edges[::-1]).all()


@pytest.mark.parametrize("variant", [name for name in VARIANTS if "batch" not in name])
def test_a_causal_model_has_a_causal_field(variant, monkeypatch):
    model = make_model(variant, "Model")
    inputs = [make_inputs(model, batch=1, length=LENGTH)]
    monkeypatch.setattr(receptive_field, "probe_position", lambda length, bidirectional: length // 2)
    for share_O in receptive_field.receptive_fields(model, inputs, LENGTH).values():
        assert share_O.sum() == pytest.approx(1)
        assert share_O[LENGTH:].max() < 1e-6  # inputs behind the output


def test_a_bidirectional_model_sees_both_sides():
    model = make_model("s4", "Model", bidirectional=True)
    share_O = receptive_field.receptive_fields(model, [make_inputs(model, batch=1, length=LENGTH)], LENGTH)["network"]
    assert share_O[: LENGTH - 1].sum() > 0.05 and share_O[LENGTH:].sum() > 0.05


def test_reach_counts_both_sides():
    share_O = np.array([0.1, 0.1, 0.4, 0.2, 0.2])
    assert [receptive_field.field_reach(share_O, share) for share in (0.4, 0.7, 1.0)] == [0, 1, 2]


@pytest.mark.parametrize("variant", ["transformer", "transformer-window", "mega", "mega-chunk-rotary"])
@pytest.mark.parametrize("bidirectional", [False, True])
@torch.no_grad()
def test_attention_by_offset_counts_real_distances(variant, bidirectional):
    model = make_model(variant, "Model", bidirectional=bidirectional)
    model.set_attn_implementation("eager")
    inputs = [make_inputs(model, batch=1, length=11)]
    shares, equal = receptive_field.attention_by_offset(model, inputs, LENGTH)
    assert np.allclose(shares.sum(-1), 1) and equal.sum() == pytest.approx(1)
    if not bidirectional:
        assert shares[..., LENGTH:].max() == 0
    if variant == "transformer":
        weights = model(**inputs[0], output_attentions=True).attentions
        distance = (torch.arange(11) - torch.arange(11)[:, None]).abs()
        expected = torch.stack([(layer[0] * distance).sum(-1).mean(-1) for layer in weights])
        assert np.allclose(receptive_field.mean_distance(shares), expected.numpy(), atol=1e-5)
    if "chunk" in variant:
        assert shares[..., : LENGTH - 3].max() == 0 and shares[..., LENGTH + 2 :].max() == 0


def test_scratch_beside_spt(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    first, second = save(tmp_path / "a", "s4"), save(tmp_path / "b", "lru", bidirectional=True)
    out = tmp_path / "out"
    words = ["kernels", str(first), str(second), "--labels", "scratch,SPT", "--length", str(LENGTH)]
    assert main([*words, "--examples", "2", "--output_dir", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "scratch" in printed and "network" in printed
    with open(out / "kernels.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == kernels.MEASURE_COLUMNS

    def count(**wanted):
        return sum(all(row[key] == value for key, value in wanted.items()) for row in rows)

    assert count(checkpoint="scratch", measure="decay_length") == 2 * 16  # layers x channels, one direction
    assert count(checkpoint="SPT", measure="decay_length", direction="future") == 2 * 16
    assert count(checkpoint="SPT", measure="receptive_field_90", layer="network") == 1
    mixer = make_model("s4", "ForSequenceClassification").model.layers[1].mixer
    with torch.no_grad():
        expected = kernel_measures.decay_length(mixer.kernel(LENGTH)[0].double().numpy())
    found = [
        int(row["value"])
        for row in rows
        if (row["checkpoint"], row["layer"], row["measure"]) == ("scratch", "1", "decay_length")
    ]
    assert found == expected.tolist()
    names = {path.name for path in out.iterdir()}
    assert names == {"kernels.png", "receptive_field.png", "kernels.csv", "curves.csv"}
    assert main([*words, "--output_dir", str(out)]) == 2 and "not empty" in capsys.readouterr().err


def test_attention_is_drawn(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(kernel_figures, "save_figure", lambda figure, path: path)  # most of the time
    folders = [save(tmp_path / "a", "transformer"), save(tmp_path / "b", "mega")]
    found = kernels.analyse(folders, length=LENGTH, examples=1)
    (tmp_path / "out").mkdir()
    drawn = {path.name for path in kernel_figures.draw(found, tmp_path / "out")}
    assert drawn == {"attention.png", "kernels.png", "receptive_field.png"}
    assert (kernels.measure_rows(found)["measure"] == "attention_distance").sum() == 2 * 4 + 2 * 1
    curves = set(kernels.curve_rows(found)["curve"])
    assert {"attention_by_offset", "influence_by_offset", "kernel_median_db_by_offset"} <= curves


def test_examples_of_the_task_that_a_run_names(tmp_path):
    folder = save(tmp_path / "run", "s4", input_type="values")
    settings = {"model": {"arch": "s4"}, "data": {"task": "spoken-tones"}}
    (folder / "resolved.yaml").write_text(json.dumps(settings))
    found = kernels.analyse([folder], length=LENGTH, examples=1)
    assert found[0].inputs == "1 examples of spoken-tones"


def test_mistakes_are_one_sentence(tmp_path, capsys):
    good, windowed = save(tmp_path / "run", "s4"), save(tmp_path / "windowed", "s4", window=8, bidirectional=True)
    foreign, broken, comparison = tmp_path / "bert", tmp_path / "broken", tmp_path / "comparison"
    for folder, text in ((foreign, '{"model_type": "bert"}'), (broken, "{"), (comparison / "best", "{}")):
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(text)
    capsys.readouterr()  # a progress bar of saving
    out = ["--output_dir", str(tmp_path / "out")]
    for words, expected in (
        ([str(tmp_path / "nothing")], "holds no config.json"),
        ([str(comparison)], "holds no config.json"),
        ([str(foreign)], "type 'bert'"),
        ([str(broken)], "not readable as JSON"),
        ([str(good), "--labels", "a,b"], "do not tell 1 checkpoints apart"),
        ([str(good), str(good), "--labels", "a"], "do not tell 2 checkpoints apart"),
        ([str(good), "--task", "listop"], "did you mean"),
        ([str(good), "--task", "spoken-tones"], "gives values"),
        ([str(windowed)], "windowed has window=8"),
        ([str(good), "--length", "0"], "length is 0"),
        ([], "checkpoints"),
    ):
        assert main(["kernels", *words, *out]) == 2, words
        error = capsys.readouterr().err
        assert expected in error and error.count("\n") == 1, error
    assert not (tmp_path / "out").exists()


def test_equal_folder_names_get_different_labels(tmp_path):
    folders = [tmp_path / "x" / "best", tmp_path / "y" / "best"]
    assert kernels.unique_labels(folders, None) == ["x-best", "y-best"]
    with pytest.raises(HfLongSeqError, match="do not tell 2 checkpoints apart"):
        kernels.unique_labels(folders, ["a", "a"])
