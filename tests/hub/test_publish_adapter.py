"""A run of an architecture of transformers behind the adapter is published with its code and card."""

import pytest

from hf_longseq import Recipe, finetune
from hf_longseq.hub.publish import publish


@pytest.mark.slow
@pytest.mark.parametrize("check", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_trunk_that_reads_both_ways_is_published_with_code(tmp_path, undrawn, check, request):
    if not check:
        request.getfixturevalue("unchecked")
    short = {"max_steps": 1, "eval_steps": 1}
    settings = {"model": {"arch": "hf:rwkv", "bidirectional": True}, "finetune": short, "scratch": short}
    recipe = Recipe.load(None, {**settings, "data": {"task": "spoken-tones"}}, tiny=True)
    run = finetune(recipe, tmp_path / "run")
    publish(run.output_dir, "me/rwkv-tones", dry_run=True, output_dir=tmp_path / "built")
    names = {path.name for path in (tmp_path / "built").iterdir()}
    assert {"modeling_adapter.py", "configuration_adapter.py", "model.safetensors"} <= names
    card = (tmp_path / "built" / "README.md").read_text()
    assert "bidirectional, around transformers' rwkv" in card and "can neither stream nor generate" in card
