"""The demo opens checkpoints of every kind, says what they say, and runs no code of theirs."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from huggingface_hub import SpaceCardData
from PIL import Image

import demo_checkpoint
from demo_checkpoint import Unusable, open_checkpoint, reach, read_series, run
from demo_inputs import examples_of
from hf_longseq.models import LongSeqFeatureExtractor
from space_checkpoints import processor_of

ROOT = Path(__file__).parents[2]
RAW = {
    "text": "fine",
    "pairs": "fine",
    "several": "3 1 4, 1 5",
    "masked": "a [MASK] b",
    "causal": "once",
    "image": Image.new("RGB", (20, 10), "white"),
    "pixels": Image.new("L", (8, 8), 77),
    "image-tokens": Image.new("L", (8, 8), 77),
    "series": "x;y\n1;2\n3;4.5\n",
    "forecast": "1,2,3,4",
    "spans": "blé and more",
    "phases": "1,2,3,4,5,6",
}


@pytest.mark.parametrize("name", RAW)
def test_each_kind_of_checkpoint_answers_in_its_own_way(checkpoints, name):
    checkpoint = open_checkpoint(str(checkpoints / name))
    answer = run(checkpoint, RAW[name], RAW[name])
    if name in ("text", "pairs", "image"):
        assert sum(answer.labels.values()) == pytest.approx(1)
    elif name == "several":
        assert len(answer.labels) == 3 and all(0 < share < 1 for share in answer.labels.values())
    elif name == "series":
        with torch.no_grad():
            logits = checkpoint.model(input_values=torch.tensor([[[1.0, 2.0], [3.0, 4.5]]])).logits
        assert float(answer.text) == pytest.approx(logits.item(), rel=1e-3)
    elif name == "masked":
        assert answer.text.startswith("a ") and answer.text.endswith(" b") and "[" not in answer.text
    elif name == "spans":
        assert "".join(piece for piece, _ in answer.pieces) == "blé and more"
        assert {label for _, label in answer.pieces} <= {None, "LABEL_0", "LABEL_1"}
    elif name == "phases":
        assert len(answer.curves["input"]) == 6 and sum(end - start for start, end, _ in answer.shades) == 6
    elif name == "causal":
        assert answer.text.startswith("once")
    else:
        assert all(len(curve) == len(answer.curves["input"]) for curve in answer.curves.values())
    for example, value in examples_of(checkpoint).items():
        first, second = value if checkpoint.pair else (value, None)
        assert run(checkpoint, first, second), example


def test_a_prediction_is_that_of_the_model_and_its_processor(checkpoints):
    checkpoint = open_checkpoint(str(checkpoints / "image"))
    picture = Image.effect_noise((8, 8), 80)
    values = processor_of("image")(picture, return_tensors="pt")["input_values"]
    with torch.no_grad():
        expected = checkpoint.model(input_values=values).logits.softmax(-1)[0]
    torch.testing.assert_close(torch.tensor(list(run(checkpoint, picture).labels.values())), expected)


def test_what_is_hidden_is_restored_and_what_is_seen_stays(checkpoints):
    for name in ("pixels", "image-tokens"):
        curves = run(open_checkpoint(str(checkpoints / name)), RAW[name], hidden_share=0.5).curves
        hidden = curves["seen"].isnan()
        assert 0.3 < hidden.float().mean() < 0.7
        assert torch.equal(curves["restored"][~hidden], curves["input"][~hidden])
    (true, predicted) = run(open_checkpoint(str(checkpoints / "forecast")), "1,2,3,4").curves.values()
    torch.testing.assert_close(true, (torch.tensor([2.0, 3.0, 4.0]) - 2) / 3)
    assert len(predicted) == 3


@pytest.mark.parametrize("name", ["text", "pairs", "causal", "series", "pixels", "image-tokens"])
def test_kernels_of_every_mixer_or_the_reach_of_attention(checkpoints, name):
    title, curves = reach(open_checkpoint(str(checkpoints / name)), RAW[name])
    assert len(curves) == 2 and all(one.ndim == 2 and one.isfinite().all() for one in curves)
    assert title.startswith("Attention" if name == "image-tokens" else "Learned kernels")


def test_the_checkpoint_under_review_hears_the_tones(checkpoints):
    checkpoint = open_checkpoint(str(ROOT / "model_cards" / "transformer-spoken-tones-spt"))
    spoken = {name: raw for name, raw in examples_of(checkpoint).items() if name.startswith("recording")}
    right = [max((labels := run(checkpoint, raw).labels), key=labels.get) in name for name, raw in spoken.items()]
    assert len(right) >= 6 and sum(right) >= 5


def test_code_of_a_checkpoint_is_never_run(checkpoints, tmp_path):
    folder = shutil.copytree(checkpoints / "text", tmp_path / "text")
    for path in folder.glob("*.py"):
        path.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    assert run(open_checkpoint(str(folder)), "fine").labels
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "name, raw, message",
    [
        ("no-such", "", "neither a folder nor a repository"),
        ("base", "", "without a head"),
        ("text", " ", "no input yet"),
        ("image", None, "no input yet"),
        ("masked", "no holes", r"\[MASK\]"),
        ("several", "1 2 999", "from 0 to 29"),
        ("several", "one", "from 0 to 29"),
        ("series", "1,2\n3", "Row 1 of the series is '3'; give 2"),
        ("series", "1,2\nx,y", "Row 1"),
        ("series", "1,nan", "Row 0"),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_sentence(checkpoints, name, raw, message):
    with pytest.raises(Unusable, match=message) as error:
        run(open_checkpoint(str(checkpoints / name)), raw)
    assert "\n" not in str(error.value)


def test_checkpoints_of_others_are_refused(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "architectures": ["BertForMaskedLM"]}))
    with pytest.raises(Unusable, match="bert model"):
        open_checkpoint(str(tmp_path))


@pytest.mark.parametrize(
    "entries, message",
    [
        ({"attn_implementation": "org/kernel"}, "may fetch code from the Hub"),
        ({"quantization_config": {"quant_method": "mxfp4"}}, "may fetch code from the Hub"),
        ({"id2label": {"7": "a", "8": "b"}}, "not numbered from 0"),
        ({"num_hidden_layers": 10**9}, "too large"),
        ({"hidden_size": 10**7}, "too large"),
        ({"architectures": {}}, "without a head"),
        ({"architectures": [["S4ForMaskedLM"]]}, "without a head|neither a folder"),
    ],
)
def test_hostile_configurations_are_said_in_one_sentence(checkpoints, tmp_path, entries, message):
    folder = shutil.copytree(checkpoints / "text", tmp_path / "text")
    held = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(held | entries))
    with pytest.raises(Unusable, match=message):
        open_checkpoint(str(folder))


@pytest.mark.parametrize("rate, samples", [(2**31 - 1, 100), (1, 10**6), (8000, 10**8), (0, 5), (-8000, 5)])
def test_a_sound_of_any_rate_takes_no_memory(checkpoints, tmp_path, rate, samples):
    folder = shutil.copytree(checkpoints / "forecast", tmp_path / "sound")
    LongSeqFeatureExtractor(sampling_rate=16000).save_pretrained(folder)
    sound = np.broadcast_to(np.int16(0), samples)
    with pytest.raises(Unusable, match="give up to 4.1 seconds"):
        run(open_checkpoint(str(folder)), (rate, sound))


def test_series_are_read_as_spreadsheets_write_them():
    assert read_series("1,2,3", 1) == [[1.0], [2.0], [3.0]]
    assert read_series("time\n1\n2\n", 1) == [[1.0], [2.0]]
    assert read_series("1\t2\n\n3\t4", 2) == [[1.0, 2.0], [3.0, 4.0]]


def test_the_space_states_the_tested_version():
    header = (ROOT / "scripts" / "space" / "README.md").read_text().split("---")[1]
    data = SpaceCardData(**yaml.safe_load(header))
    assert (
        data.sdk == "gradio" and data.app_file == "app.py" and (ROOT / "scripts" / "space" / data.app_file).is_file()
    )
    assert f"gradio=={data.sdk_version}" in (ROOT / "constraints.txt").read_text()


def repository(monkeypatch, folder, **files):
    """Make the demo see a folder as a repository; `files` name their sizes. Returns what it downloads."""
    asked = []
    listed = {path.name: path.stat().st_size for path in folder.iterdir()} | files
    siblings = [SimpleNamespace(rfilename=name, size=size) for name, size in listed.items()]

    def download(name, allow_patterns):
        asked.append(allow_patterns)
        return str(folder)

    monkeypatch.setattr(demo_checkpoint, "model_info", lambda *_, **__: SimpleNamespace(siblings=siblings))
    monkeypatch.setattr(demo_checkpoint, "snapshot_download", download)
    return asked


def test_a_repository_is_opened_by_the_files_that_it_needs(checkpoints, monkeypatch):
    more = {"optimizer.safetensors": 1, "sub/model.safetensors": 1, "huge.json": 1, "modeling_s4.py": 1}
    asked = repository(monkeypatch, checkpoints / "text", **more)
    assert open_checkpoint("org/name").head == "ForSequenceClassification"
    assert asked[0] == ["config.json"] and "model.safetensors" in asked[1] and not set(asked[1]) & set(more)


@pytest.mark.parametrize(
    "files, message",
    [
        ({"model.safetensors": 2 << 30}, "2,147 MB of weights; the demo opens up to 1,074 MB"),
        ({"model-00001-of-00002.safetensors": 2 << 30}, "of weights"),
        ({"tokenizer.json": 1 << 30}, "1,074 MB of tokenizer and configuration"),
    ],
)
def test_nothing_is_downloaded_of_a_repository_that_is_too_large(checkpoints, monkeypatch, files, message):
    asked = repository(monkeypatch, checkpoints / "text", **files)
    with pytest.raises(Unusable, match=message):
        open_checkpoint("org/name")
    assert not asked


@pytest.mark.parametrize(
    "entries, message",
    [
        ({"model_type": "bert"}, "holds a bert model"),
        ({"architectures": ["S4Model"]}, "without a head"),
        ({"architectures": ["S4ForEverything"]}, "without a head"),
        ({"hidden_size": 1 << 20}, "too large"),
        ({"vocab_size": 1 << 40}, "too large"),
        ({"num_hidden_layers": 1 << 40}, "too large"),
    ],
)
def test_weights_stay_where_they_are_until_the_configuration_is_known(
    checkpoints, tmp_path, monkeypatch, entries, message
):
    folder = shutil.copytree(checkpoints / "text", tmp_path / "repository")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | entries))
    asked = repository(monkeypatch, folder)
    with pytest.raises(Unusable, match=message):
        open_checkpoint("org/name")
    assert asked == [["config.json"]]


def test_messages_are_plain_text(monkeypatch):
    pytest.importorskip("gradio", reason="gradio is not installed: pip install 'hf-longseq[app]'")
    import app

    def refused(name):
        raise Unusable(f"{name!r} holds a <img src=x onerror=alert(1)> model.")

    monkeypatch.setattr(app, "open_checkpoint", refused)
    with pytest.raises(app.gr.Error) as error:
        app.opened("<b>name</b>")
    assert "<" not in error.value.message and "&lt;img src=x" in error.value.message
