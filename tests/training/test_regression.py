"""A regression is trained on standardised targets and answers, and is scored, in the targets' own units."""

import json

import numpy as np
import pytest
import torch
from datasets import Dataset, DatasetDict
from huggingface_hub.errors import StrictDataclassError
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification

from hf_longseq import Recipe, evaluate, finetune, predict, pretrain
from hf_longseq.data.task import TASKS, TaskEntry, TaskSpec
from hf_longseq.models import S4Config, S4ForSequenceClassification
from hf_longseq.training.run import load_data


def rates(scale: float = 1.0):
    """Beats per minute, around 80, of a noisy wave."""

    def row(generator):
        rate = generator.uniform(60, 100)
        values = np.sin(np.arange(16) * rate / 60) + generator.normal(size=16) / 10
        return {"input_values": values.astype(np.float32).tolist(), "labels": scale * rate}

    sizes = {"train": 32, "validation": 12, "test": 12}
    rows = {name: [row(np.random.default_rng([i, size])) for i in range(size)] for name, size in sizes.items()}
    spec = TaskSpec(
        "rates", "values", 16, num_channels=1, problem_type="regression", metric="rmse", unit="beats per minute"
    )
    return DatasetDict({name: Dataset.from_list(some) for name, some in rows.items()}), spec


def two_rates():
    """Beats per minute and per second."""
    splits, spec = rates()
    return splits.map(lambda row: {"labels": [row["labels"], row["labels"] / 60]}), spec


@pytest.fixture(autouse=True)
def task(monkeypatch):
    for name in ("rates", "two_rates"):
        monkeypatch.setitem(TASKS, name, TaskEntry(f"test_regression:{name}", "toy", "generated", "32 rows"))


def test_the_scale_is_that_of_the_labelled_training_examples(tiny, tmp_path):
    recipe = tiny("rates", data={"num_train_examples": 20})
    result = finetune(recipe, tmp_path / "run")
    labels = np.asarray(load_data(recipe.data).labelled["labels"][:])
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert np.allclose([config["label_mean"], config["label_scale"]], [[labels.mean()], [labels.std()]])
    assert result.metrics["label_mean"] == config["label_mean"] and result.metrics["unit"] == "beats per minute"


def test_scores_and_predictions_are_in_units(tiny, tmp_path):
    run = finetune(tiny("rates"), tmp_path / "run")
    answers = predict(run.output_dir)
    errors = np.array([answer["prediction"] - answer["label"] for answer in answers])
    assert all(50 < answer["prediction"] < 110 for answer in answers)
    test = run.metrics["test"]
    assert np.isclose(test["rmse"], np.sqrt((errors**2).mean()), rtol=1e-3)
    assert np.isclose(test["loss"], (errors**2).mean() / run.metrics["label_scale"][0] ** 2, rtol=1e-3)
    assert evaluate(run.output_dir) == pytest.approx(test, rel=1e-5)
    model = AutoModelForSequenceClassification.from_pretrained(run.output_dir)
    row = load_data(Recipe.load(str(run.output_dir / "resolved.yaml")).data).test[0]
    logits = model(input_values=torch.as_tensor(row["input_values"])[None], labels=torch.tensor([80.0])).logits
    assert np.isclose(logits.item(), answers[0]["prediction"], rtol=1e-4)


def test_the_unit_of_the_targets_does_not_change_training(tiny, tmp_path):
    small, large = (finetune(tiny("rates", data={"scale": scale}), tmp_path / str(scale)) for scale in (1.0, 1000.0))
    one, other = (load_file(run.output_dir / "model.safetensors") for run in (small, large))
    for name, tensor in one.items():
        torch.testing.assert_close(other[name], tensor, rtol=1e-3, atol=1e-5)
    assert large.metrics["test"]["rmse"] == pytest.approx(1000 * small.metrics["test"]["rmse"], rel=1e-3)


def test_a_regression_starts_from_a_pretrained_model(tiny, tmp_path):
    recipe = tiny("rates")
    first = pretrain(recipe, tmp_path / "first")
    second = finetune(recipe, tmp_path / "second", init_from=first.output_dir)
    assert second.metrics["label_scale"][0] > 1


@pytest.mark.parametrize("fields", [{"label_mean": [1.0]}, {"label_mean": [1.0], "label_scale": [0.0]}])
def test_half_a_scale_is_refused(fields):
    with pytest.raises(StrictDataclassError, match="label_mean is .* and label_scale"):
        S4Config(**fields)


def test_several_targets_have_a_scale_each():
    fields = {"input_type": "values", "num_labels": 2, "problem_type": "regression", "hidden_size": 4}
    config = S4Config(num_hidden_layers=1, state_size=4, label_mean=[1.0, -50.0], label_scale=[2.0, 10.0], **fields)
    model = S4ForSequenceClassification(config).eval()
    targets = torch.tensor([[3.0, -40.0], [1.0, -60.0]])
    out = model(input_values=torch.randn(2, 5), labels=targets)
    scale, shift = torch.tensor([2.0, 10.0]), torch.tensor([1.0, -50.0])
    torch.testing.assert_close(out.loss, (((out.logits - targets) / scale) ** 2).mean())
    config.label_mean = config.label_scale = None
    raw = model(input_values=torch.zeros(2, 5)).logits
    config.label_mean, config.label_scale = [1.0, -50.0], [2.0, 10.0]
    torch.testing.assert_close(model(input_values=torch.zeros(2, 5)).logits, raw * scale + shift)


def test_two_numbers_for_a_row_are_learned_scored_and_predicted(tiny, tmp_path):
    recipe = tiny("two_rates")
    run = finetune(recipe, tmp_path / "run", init_from=pretrain(recipe, tmp_path / "first").output_dir)
    mean, scale = (np.array(run.metrics[name]) for name in ("label_mean", "label_scale"))
    assert np.allclose(mean, [60 * mean[1], mean[1]]) and np.allclose(scale, [60 * scale[1], scale[1]])
    errors = np.array([np.subtract(one["prediction"], one["label"]) for one in predict(run.output_dir)])
    assert errors.shape == (12, 2)
    assert run.metrics["test"]["rmse"] == pytest.approx(np.sqrt((errors**2).mean()), rel=1e-3)
    assert evaluate(run.output_dir) == pytest.approx(run.metrics["test"], rel=1e-5)


def test_two_numbers_for_a_position_may_be_known_one_without_the_other(tiny, tmp_path):
    series = [[0.01 * i * j for j in range(8 + i % 3)] for i in range(30)]
    lines = [{"x": x, "y": [[50 + value, None if j % 2 else -value] for j, value in enumerate(x)]} for x in series]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, lines)))
    columns = {"input_column": "x", "label_column": "y", "problem_type": "regression"}
    data = {"data": str(tmp_path / "own.jsonl"), "cache_dir": str(tmp_path / "cache"), **columns}
    run = finetune(tiny("own-data", data=data), tmp_path / "run")
    assert run.metrics["label_mean"][0] > 50 and -2 < run.metrics["label_mean"][1] < 0
    answer = predict(run.output_dir, limit=1)[0]
    assert np.shape(answer["prediction"]) == np.shape(answer["label"]) and answer["label"][1][1] is None
    assert evaluate(run.output_dir) == pytest.approx(run.metrics["test"], rel=1e-5)
