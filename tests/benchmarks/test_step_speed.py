"""Whole training steps and generated tokens: every contestant runs, and plain paths are the same model as ours."""

import pytest
import torch

import step_speed
import token_speed
from golden_files import relative_error

TOY = {"hidden_size": 32, "layers": 2, "s4_state": 4, "dlr_state": 8}


@pytest.mark.parametrize("name", step_speed.NAMES)
def test_every_model_takes_a_step(name):
    (row,) = step_speed.benchmark_train(lengths=(64,), names=(name,), batch=2, repeats=1, **TOY)
    assert row["op"] == name and row["seconds"] > 0 and row["parameters"] > 0


@torch.no_grad()
def test_the_plain_path_of_a_model_is_the_same_model():
    ours, plain = (step_speed.build_model(name, **TOY) for name in ("dlr", "dlr_einsum_fft"))
    renamed = {name.replace(".mixer.", ".mixer.plain.mixer."): value for name, value in ours.state_dict().items()}
    plain.load_state_dict(renamed)
    input_ids = torch.randint(256, (2, 50))
    assert relative_error(plain.eval()(input_ids).logits, ours.eval()(input_ids).logits) < 1e-4


@pytest.mark.parametrize("name", token_speed.NAMES)
def test_every_model_reads_a_prompt_and_goes_on(name):
    options = {"lengths": (32, 64), "names": (name,), "repeats": 2, **TOY}
    rows = token_speed.benchmark_generate(**options)
    assert [row["length"] for row in rows] == [32, 64] and all(row["seconds"] > 0 for row in rows)
    if name in ("s4", "dlr", "mamba2"):
        assert rows[0]["cache_mib"] == rows[1]["cache_mib"] > 0
    if name == "attention_kv_cache":
        assert rows[0]["cache_mib"] < rows[1]["cache_mib"]


@torch.no_grad()
def test_a_prompt_in_pieces_chooses_the_same_token(monkeypatch):
    model = token_speed.build_model("s4", **TOY).eval()
    prompt = torch.randint(256, (1, 50))
    monkeypatch.setattr(token_speed, "PIECE", 7)
    reader = token_speed.Reader("s4", model)
    reader.prompt(prompt)
    assert reader.next_B1.item() == model(prompt).logits[0, -1].argmax().item()
