"""A label for every position, through the metrics and a run."""

import json
import random

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from transformers import AutoModelForTokenClassification
from transformers.trainer_utils import EvalPrediction

from hf_longseq import Recipe, S4Config, evaluate, finetune, predict, pretrain
from hf_longseq.data import byte_text
from hf_longseq.metrics import load_metric
from hf_longseq.metrics.spans import Tags, count_spans, position_scores, span_scores
from hf_longseq.training.eval_metrics import TokenMetrics
from hf_longseq.training.inference import span_answer

NAMES = ("O", "B-a", "I-a")


def write_rows(path, rows=40):
    """Lines of letters in which runs of digits are the spans."""
    draw = random.Random(0)
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(rows):
            words = [draw.choice("ab" if draw.random() < 0.5 else "01") * draw.randint(2, 5) for _ in range(5)]
            text = " ".join(words)
            tags = "".join("N" if letter in "01" else "O" for letter in text)
            file.write(json.dumps({"text": text, "tags": tags}) + "\n")


def scores(metrics, batches):
    """The result over batches of (logits, labels)."""
    for place, (logits, labels) in enumerate(batches):
        last = place == len(batches) - 1
        result = metrics(EvalPrediction(metrics.reduce(logits, labels), labels), compute_result=last)
    return result


def test_scores_of_classes_are_those_of_the_metrics_over_the_scored_positions():
    draw = torch.Generator().manual_seed(0)
    batches, true, given, losses = [], [], [], []
    for length in (7, 12):
        logits = torch.randn(3, length, 3, generator=draw)
        labels = torch.randint(0, 3, (3, length), generator=draw)
        labels[0, 5:] = labels[2, 2] = -100
        batches.append((logits, labels))
        kept = labels != -100
        losses.append(F.cross_entropy(logits[kept], labels[kept], reduction="none"))
        for row in range(3):
            true.append(labels[row][kept[row]].numpy())
            given.append(logits[row].argmax(-1)[kept[row]].numpy())
    result = scores(TokenMetrics("single_label_classification", NAMES), batches)
    confusion = np.zeros((3, 3))
    np.add.at(confusion, (np.concatenate(true), np.concatenate(given)), 1)
    spans = sum(count_spans(one, other, Tags.of(NAMES)) for one, other in zip(given, true, strict=True))
    expected = position_scores(confusion, NAMES) | span_scores(spans)
    expected |= {"loss": float(torch.cat(losses).mean()), "scored_positions": sum(map(len, true))}
    assert result == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("problem", ["multi_label_classification", "regression"])
def test_scores_of_several_labels_and_of_numbers_are_those_of_the_metrics(problem):
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(4, 9, 2, generator=draw)
    labels = torch.randn(4, 9, 2, generator=draw)
    labels = (labels > 0).float() if problem == "multi_label_classification" else labels
    labels[1, 3:] = -100
    kept = labels[..., 0] != -100
    outputs, targets = logits[kept].numpy(), labels[kept].numpy()
    result = scores(TokenMetrics(problem, ("a", "b")), [(logits[:2], labels[:2]), (logits[2:], labels[2:])])
    if problem == "regression":
        names, outputs, targets = ("rmse", "mae", "r2"), outputs.reshape(-1), targets.reshape(-1)
        loss = np.mean((outputs - targets) ** 2)
    else:
        loss = F.binary_cross_entropy_with_logits(torch.tensor(outputs), torch.tensor(targets)).item()
        names, outputs, targets = ("f1",), (outputs > 0).astype(int), targets.astype(int)
    for name in names:
        expected = load_metric(name).compute(predictions=outputs, references=targets)
        assert {key: result[key] for key in expected} == pytest.approx(expected, rel=1e-5)
    assert result["loss"] == pytest.approx(loss, rel=1e-5)


def test_spans_of_an_answer():
    config = S4Config(id2label={0: "O", 1: "gene"}, problem_type="single_label_classification")
    logits = torch.tensor([[[5.0, 0], [0, 2], [0, 2], [5, 0], [0, 2]]])
    mask = torch.tensor([[1, 1, 1, 1, 0]])
    labels = torch.tensor([[0, 1, -100, 1, -100]])
    answer = span_answer(logits[0], labels[0], {"attention_mask": mask[0]}, config)
    assert answer == {
        "spans": [{"start": 1, "end": 3, "label": "gene", "score": round(float(torch.tensor(2.0).sigmoid()), 4)}],
        "label": [{"start": 1, "end": 2, "label": "gene"}, {"start": 3, "end": 4, "label": "gene"}],
    }


def test_spans_of_several_labels_may_overlap_and_numbers_stay_numbers():
    mask = {"attention_mask": torch.ones(3, dtype=torch.long)}
    config = S4Config(id2label={0: "a", 1: "b"}, problem_type="multi_label_classification")
    answer = span_answer(torch.tensor([[1.0, -1], [1, 1], [-1, 1]]), None, mask, config)
    assert [(span["start"], span["end"], span["label"]) for span in answer["spans"]] == [(0, 2, "a"), (1, 3, "b")]
    config = S4Config(id2label={0: "value"}, problem_type="regression")
    answer = span_answer(torch.tensor([[1.0], [2], [3]]), torch.tensor([1.0, -100, 2]), mask, config)
    assert answer == {"prediction": [1.0, 2.0, 3.0], "label": [1.0, None, 2.0]}
    labels = torch.tensor([[1.0, -100], [2, 3], [-100, -100]])
    answer = span_answer(torch.tensor([[1.0, 0], [2, 0], [3, 0]]), labels, mask, config)
    assert answer["label"] == [[1.0, None], [2.0, 3.0], [None, None]]


def test_spans_of_text_are_counted_in_characters():
    config = S4Config(id2label={0: "O", 1: "name"}, problem_type="single_label_classification")
    ids = torch.tensor(byte_text.encode("é Zoë!", 20).astype(int))
    classes = torch.tensor([0, 0, 0, 1, 1, 1, 1, 0, 1])  # é and ë are two bytes, the last one closes the text
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    answer = span_answer(F.one_hot(classes).float(), None, batch, config, reads_bytes=True)
    assert [(span["start"], span["end"], span["text"]) for span in answer["spans"]] == [(2, 5, "Zoë")]


def toy_recipe(tmp_path, **model):
    write_rows(tmp_path / "own.jsonl")
    sections = {"max_steps": 4, "global_batch_size": 8, "learning_rate": 0.01, "eval_steps": 4}
    return Recipe.load(
        {
            "model": {"arch": "s4", "hidden_size": 8, "num_hidden_layers": 1, "state_size": 4, **model},
            "data": {"task": "own-data", "data": str(tmp_path / "own.jsonl"), "cache_dir": str(tmp_path / "cache")},
            "pretrain": sections,
            "finetune": sections,
        }
    )


def test_a_run_from_pretraining_to_scores(tmp_path):
    recipe = toy_recipe(tmp_path, bidirectional=True)
    first = pretrain(recipe, tmp_path / "first")
    second = finetune(recipe, tmp_path / "second", init_from=first.output_dir)
    assert second.metrics["metric"] == "token_f1"
    assert list(second.metrics["transfer"]["new"]) == ["classifier.out_proj.bias", "classifier.out_proj.weight"]
    assert set(second.metrics["test"]) == {
        "loss", "token_accuracy", "token_f1", "mcc", "span_f1", "span_precision", "span_recall", "scored_positions",
    }  # fmt: skip
    again = evaluate(second.output_dir)
    assert again == pytest.approx(second.metrics["test"], abs=1e-6)
    answers = predict(second.output_dir, limit=2)
    assert [answer["index"] for answer in answers] == [0, 1] and set(answers[0]) == {"index", "spans", "label"}
    assert all(set("".join(span["text"] for span in answer["label"])) <= set("01") for answer in answers)
    model = AutoModelForTokenClassification.from_pretrained(second.output_dir)
    assert model.config.id2label == {0: "O", 1: "N"}


@pytest.mark.parametrize("arch", ["hf:bert", "hf:mamba2"])
def test_an_architecture_of_transformers_labels_positions(tmp_path, arch):
    """BERT by its own class, Mamba-2, which has none, by ours around it."""
    recipe = toy_recipe(tmp_path)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1}
    if arch == "hf:bert":
        sizes |= {"num_attention_heads": 2, "intermediate_size": 16}
    else:
        sizes |= {"state_size": 4, "num_heads": 4, "head_dim": 8, "n_groups": 1, "chunk_size": 8}
    raw = recipe.to_dict()
    recipe = Recipe.load({**raw, "model": {"arch": arch, **sizes}})
    result = finetune(recipe, tmp_path / "run")
    kind = type(AutoModelForTokenClassification.from_pretrained(result.output_dir)).__name__
    assert kind == {"hf:bert": "BertForTokenClassification", "hf:mamba2": "AdapterForTokenClassification"}[arch]
    assert 0 <= result.metrics["test"]["token_f1"] <= 1
