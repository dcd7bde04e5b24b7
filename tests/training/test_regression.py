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


@pytest.fixture(autouse=True)
def task(monkeypatch):
    monkeypatch.setitem(TASKS, "rates", TaskEntry("test_regression:rates", "toy", "generated", "32 rows"))


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
