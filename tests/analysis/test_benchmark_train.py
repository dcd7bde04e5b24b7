"""Whole training steps and generated tokens: every contestant runs, and plain paths are the same model as ours."""

from dataclasses import replace

import pytest
import torch
import yaml

from golden_files import relative_error
from hf_longseq import recipes
from hf_longseq.analysis import benchmark_epoch, benchmark_generate, benchmark_train
from hf_longseq.cli.benchmark import table
from hf_longseq.errors import HfLongSeqError

TOY = {"hidden_size": 32, "layers": 2, "s4_state": 4, "dlr_state": 8}


@pytest.mark.parametrize("name", benchmark_train.NAMES)
def test_every_model_takes_a_step(name):
    (row,) = benchmark_train.benchmark_train(lengths=(64,), names=(name,), batch=2, repeats=1, **TOY)
    assert row["op"] == name and row["seconds"] > 0 and row["parameters"] > 0


@torch.no_grad()
def test_the_plain_path_of_a_model_is_the_same_model():
    ours, plain = (benchmark_train.build_model(name, **TOY) for name in ("dlr", "dlr_einsum_fft"))
    renamed = {name.replace(".mixer.", ".mixer.plain.mixer."): value for name, value in ours.state_dict().items()}
    plain.load_state_dict(renamed)
    input_ids = torch.randint(256, (2, 50))
    assert relative_error(plain.eval()(input_ids).logits, ours.eval()(input_ids).logits) < 1e-4


@pytest.mark.parametrize("name", benchmark_generate.NAMES)
def test_every_model_reads_a_prompt_and_goes_on(name):
    options = {"lengths": (32, 64), "names": (name,), "repeats": 2, **TOY}
    rows = benchmark_generate.benchmark_generate(**options)
    assert [row["length"] for row in rows] == [32, 64] and all(row["seconds"] > 0 for row in rows)
    if name in ("s4", "dlr", "mamba2"):
        assert rows[0]["cache_mib"] == rows[1]["cache_mib"] > 0
    if name == "attention_kv_cache":
        assert rows[0]["cache_mib"] < rows[1]["cache_mib"]


@torch.no_grad()
def test_a_prompt_in_pieces_chooses_the_same_token(monkeypatch):
    model = benchmark_generate.build_model("s4", **TOY).eval()
    prompt = torch.randint(256, (1, 50))
    monkeypatch.setattr(benchmark_generate, "PIECE", 7)
    reader = benchmark_generate.Reader("s4", model)
    reader.prompt(prompt)
    assert reader.next_B1.item() == model(prompt).logits[0, -1].argmax().item()


def toy_recipe(folder, task: str) -> str:
    model = {"arch": "transformer", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    phase = {"global_batch_size": 4, "micro_batch_size": 2}
    path = folder / f"{task}.yaml"
    path.write_text(yaml.safe_dump({"model": model, "data": {"task": task}, "finetune": phase}))
    return str(path)


@pytest.mark.parametrize("task", ["listops", "retrieval", "scifar"])
def test_minutes_per_epoch_are_the_time_of_a_step_times_the_steps(task, tmp_path, monkeypatch):
    describe = benchmark_epoch.describe_task
    monkeypatch.setattr(benchmark_epoch, "describe_task", lambda name: replace(describe(name), max_length=24))
    (row,) = benchmark_epoch.benchmark_epoch([toy_recipe(tmp_path, task)], repeats=1)
    steps = {"listops": 96_000, "retrieval": 147_086, "scifar": 45_000}[task] / 4
    assert row["batch"] == 4 and row["length"] == 24 and not row["skipped"]
    assert row["minutes_per_epoch"] == pytest.approx(row["seconds"] * steps / 60)
    assert "minutes per epoch" in table([row])


def test_accumulation_gives_the_update_of_the_whole_batch(tmp_path):
    inputs = {"input_ids": torch.tensor([[1, 2, 3], [4, 5, 6]]), "labels": torch.tensor([1, 0])}
    updated = []
    for accumulation in (1, 3):
        torch.manual_seed(0)
        model = benchmark_train.build_model("attention_sdpa", hidden_size=8, layers=1).eval()
        benchmark_epoch.OptimiserStep(model, inputs, accumulation, "fp32")()
        updated.append(model.model.embed_tokens.weight.detach())
    assert torch.allclose(*updated)


def test_other_sizes_than_the_recipes_have_no_official_figure(tmp_path):
    (row,) = benchmark_epoch.benchmark_epoch(["listops/s4"], batch=1, length=16, repeats=1)
    assert row["seconds"] > 0 and row["minutes_per_epoch"] is None and row["official_minutes"] is None
    assert "listops/s4 fp32" in table([row])


def test_official_figures_are_those_of_shipped_recipes():
    assert set(benchmark_epoch.OFFICIAL) <= set(recipes.names())


def test_a_task_that_only_its_data_describe_is_refused(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("data: {task: own-data, data: x.csv}")
    with pytest.raises(HfLongSeqError, match="own-data"):
        benchmark_epoch.benchmark_epoch([str(path)])
