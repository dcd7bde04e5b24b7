"""`finetune --init_from` starts any checkpoint on any data that its trunk reads: plain files in, plain files out."""

import csv
import json

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

from hf_longseq import S4Config, S4ForMaskedLM, S4ForSequenceClassification
from hf_longseq.cli.main import main

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "state_size": 8}
BRIEF = ["--max_steps", "1", "--finetune.global_batch_size", "8"]


def texts(folder, name="texts.csv", classes=("good", "bad"), rows=40):
    """Short texts with a class each."""
    with (folder / name).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        drawn = [classes[i % len(classes)] for i in range(rows)]
        writer.writerows([f"review {i} is {name}", name] for i, name in enumerate(drawn))
    return folder / name


def finetune(checkpoint, data, folder, *words):
    """What a run says of the weights it took over; its metrics are a file."""
    words = ["finetune", "--init_from", checkpoint, "--data", data, "--output_dir", folder, *BRIEF, *words]
    assert main([str(word) for word in words]) == 0
    return json.loads((folder / "metrics.json").read_text())


@pytest.fixture(scope="module")
def of_texts(tmp_path_factory):
    """A run of pretrain on one file of texts."""
    folder = tmp_path_factory.mktemp("texts")
    words = ["pretrain", "--data", texts(folder), "--tiny", "--max_steps", "1", "--output_dir", folder / "run"]
    assert main([str(word) for word in words]) == 0
    return folder / "run"


def test_a_run_on_one_file_starts_a_classifier_on_another(of_texts, tmp_path, capsys):
    with (tmp_path / "other.csv").open("w") as file:
        file.write("body,stars\n" + "".join(f"text number {i},{i % 3}\n" for i in range(60)))
    words = ["--input_column", "body", "--label_column", "stars"]
    metrics = finetune(of_texts, tmp_path / "other.csv", tmp_path / "run", *words)
    moved = metrics["transfer"]
    assert all(name.startswith("classifier.") for name in moved["new"]) and moved["loaded"] > 10
    assert f"from {of_texts}: {moved['loaded']} tensors loaded" in capsys.readouterr().out
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert set(config["label2id"]) == {"0", "1", "2"} and config["vocab_size"] == 260


def test_a_checkpoint_of_another_task_is_a_note(of_texts, tmp_path, capsys):
    words = ["pretrain", "--task", "listops", "--tiny", "--max_steps", "1", "--output_dir", tmp_path / "first"]
    assert main([str(word) for word in words]) == 0
    metrics = finetune(tmp_path / "first", texts(tmp_path), tmp_path / "second")
    assert metrics["transfer"]["pretrained_on"] == "listops"
    assert "model.embed_tokens.weight" in metrics["transfer"]["new"]  # its ids mean other things
    assert "(pretrained on listops)" in capsys.readouterr().out


def test_a_classifier_of_other_classes_lends_its_trunk(tmp_path):
    config = S4Config(**SMALL, vocab_size=260, num_labels=5, bidirectional=True)
    S4ForSequenceClassification(config).save_pretrained(tmp_path / "five")
    moved = finetune(tmp_path / "five", texts(tmp_path), tmp_path / "run")["transfer"]
    assert {name.split(".")[0] for name in moved["new"]} >= {"classifier"}
    assert any(name.startswith("classifier.") for name in moved["dropped"])
    assert json.loads((tmp_path / "run" / "config.json").read_text())["num_hidden_layers"] == 2


def test_a_causal_checkpoint_without_records_is_opened_to_both_directions(tmp_path):
    S4ForMaskedLM(S4Config(**SMALL, vocab_size=260)).save_pretrained(tmp_path / "causal")
    moved = finetune(tmp_path / "causal", texts(tmp_path), tmp_path / "run")["transfer"]
    assert moved["forward"] and json.loads((tmp_path / "run" / "config.json").read_text())["bidirectional"]


def test_series_of_other_channels_get_a_new_embedding(tmp_path):
    config = S4Config(**SMALL, input_type="values", num_channels=2, bidirectional=True)
    S4ForSequenceClassification(config).save_pretrained(tmp_path / "two")
    x = np.random.default_rng(0).normal(size=(40, 12, 3)).astype(np.float32)
    np.savez(tmp_path / "series.npz", x=x, y=np.arange(40) % 2)
    moved = finetune(tmp_path / "two", tmp_path / "series.npz", tmp_path / "run")["transfer"]
    assert {"model.embed_values.weight", "model.embed_values.bias"} <= set(moved["new"])


def test_rarer_token_ids_keep_the_embedding_of_the_checkpoint_and_new_ones_do_not(tmp_path):
    def ids(name, highest):
        rows = [{"input_ids": [i % 10, i // 10, highest], "label": i % 2} for i in range(40)]
        (tmp_path / name).write_text("\n".join(map(json.dumps, rows)))
        return tmp_path / name

    words = ["pretrain", "--data", ids("many.jsonl", 29), "--tiny", "--max_steps", "1"]
    assert main([str(word) for word in [*words, "--output_dir", tmp_path / "run"]]) == 0
    fewer = finetune(tmp_path / "run", ids("few.jsonl", 9), tmp_path / "fewer")
    assert all(name.startswith("classifier.") for name in fewer["transfer"]["new"])
    assert json.loads((tmp_path / "fewer" / "config.json").read_text())["vocab_size"] == 32
    more = finetune(tmp_path / "run", ids("more.jsonl", 40), tmp_path / "more")
    assert "model.embed_tokens.weight" in more["transfer"]["new"]


def test_a_trunk_of_texts_does_not_read_series(of_texts, tmp_path, capsys):
    np.savez(tmp_path / "series.npz", x=np.random.default_rng(0).normal(size=(40, 12)), y=np.arange(40) % 2)
    words = ["finetune", "--init_from", of_texts, "--data", tmp_path / "series.npz", "--modality", "values"]
    assert main([str(word) for word in [*words, "--output_dir", tmp_path / "run"]]) == 2
    assert "reads tokens, but the data hold values" in capsys.readouterr().err


def test_a_repository_on_the_hub(tmp_path, monkeypatch):
    commit, place = "a" * 40, tmp_path / "hub" / "models--someone--small"
    folder = place / "snapshots" / commit
    S4ForMaskedLM(S4Config(**SMALL, vocab_size=260, bidirectional=True)).save_pretrained(folder)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    metrics = finetune("someone/small", texts(tmp_path), tmp_path / "run")
    assert (metrics["init_from"], metrics["weights_commit"]) == ("someone/small", commit)


def test_a_model_of_transformers(tmp_path):
    torch.manual_seed(0)
    (tmp_path / "bert").mkdir()
    symbols = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz0123456789"]
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(symbols))
    BertTokenizerFast(str(tmp_path / "bert" / "vocab.txt")).save_pretrained(tmp_path / "bert")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertForMaskedLM(BertConfig(vocab_size=len(symbols), **sizes)).save_pretrained(tmp_path / "bert")
    metrics = finetune(tmp_path / "bert", texts(tmp_path), tmp_path / "run")
    assert metrics["transfer"]["loaded"] > 10 and metrics["arch"] == f"hf:{tmp_path / 'bert'}"
    assert metrics["init"] == "pretrained"
