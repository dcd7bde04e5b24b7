"""Generated tokens: every contestant reads a prompt and goes on."""

import pytest
import torch

import token_speed

TOY = {"hidden_size": 32, "layers": 2, "s4_state": 4, "dlr_state": 8}


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
