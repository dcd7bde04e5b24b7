"""Minutes per epoch before a run: the time of a step times the steps, for recipes whose task describes itself."""

from dataclasses import replace

import pytest
import torch
import yaml

from hf_longseq import LongTransformerConfig, LongTransformerForSequenceClassification
from hf_longseq.cli.main import main
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training import epoch_time


def toy_recipe(folder, task: str) -> str:
    model = {"arch": "transformer", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    phase = {"global_batch_size": 4, "per_device_train_batch_size": 2}
    path = folder / f"{task}.yaml"
    path.write_text(yaml.safe_dump({"model": model, "data": {"task": task}, "finetune": phase}))
    return str(path)


@pytest.mark.parametrize("task", ["listops", "retrieval", "scifar"])
def test_minutes_per_epoch_are_the_time_of_a_step_times_the_steps(task, tmp_path, monkeypatch):
    describe = epoch_time.describe_task
    monkeypatch.setattr(epoch_time, "describe_task", lambda name: replace(describe(name), max_length=24))
    (row,) = epoch_time.epoch_times([toy_recipe(tmp_path, task)], repeats=1)
    steps = {"listops": 96_000, "retrieval": 147_086, "scifar": 45_000}[task] / 4
    assert row["batch"] == 4 and row["length"] == 24
    assert row["minutes_per_epoch"] == pytest.approx(row["seconds"] * steps / 60)
    assert "minutes per epoch" in epoch_time.table([row])


def test_accumulation_gives_the_update_of_the_whole_batch(tmp_path):
    inputs = {"input_ids": torch.tensor([[1, 2, 3], [4, 5, 6]]), "labels": torch.tensor([1, 0])}
    updated = []
    for accumulation in (1, 3):
        torch.manual_seed(0)
        config = LongTransformerConfig(vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
        model = LongTransformerForSequenceClassification(config).eval()
        assert epoch_time.seconds_of_a_step(model, inputs, accumulation, "fp32", repeats=1) > 0
        updated.append(model.model.embed_tokens.weight.detach())
    assert torch.allclose(*updated)


def test_other_sizes_than_the_recipes_have_no_minutes_per_epoch(tmp_path):
    (row,) = epoch_time.epoch_times(["listops/s4"], batch=1, length=16, repeats=1)
    assert row["seconds"] > 0 and row["minutes_per_epoch"] is None
    assert "listops/s4" in epoch_time.table([row])


def test_a_task_that_only_its_data_describe_is_refused(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("data: {task: own-data, data: x.csv}")
    with pytest.raises(HfLongSeqError, match="own-data"):
        epoch_time.epoch_times([str(path)])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "benchmark does not know ''"),
        (["ops"], "benchmark does not know 'ops'"),
        (["train", "--recipe", "listops/s5000"], "there is no recipe"),
        (["train", "--recipe", "listops/s4", "--lenght", "5"], "did you mean '--length'"),
    ],
)
def test_a_mistake_is_one_sentence(words, message, capsys):
    assert main(["benchmark", *words]) == 2
    assert message in capsys.readouterr().err
