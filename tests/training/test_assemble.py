"""One assembly line: a trainer in Python and a run of a recipe train the same weights from the same rows and seed."""

import pytest
import torch
from safetensors.torch import load_file

from hf_longseq import LongSeqTrainer, Recipe, SPTTrainer, finetune, load_task, pretrain
from hf_longseq.models import S4Config
from hf_longseq.training.arguments import ModelSection

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "state_size": 8}
CASES = {
    "masked": ("tags", {"objective": "masked", "span_length": 2}),
    "causal": ("tags", {"objective": "causal"}),
    "values": ("waves", {"objective": "masked", "num_levels": 8}),
    "pairs": ("twins", {"objective": "masked"}),
}


def same_weights(folder, model):
    saved, state = load_file(folder / "model.safetensors"), model.state_dict()
    return all(torch.equal(tensor, state[name]) for name, tensor in saved.items())


@pytest.mark.parametrize("case", CASES)
def test_the_trainer_pretrains_what_the_command_pretrains(case, tmp_path):
    task, settings = CASES[case]
    recipe = Recipe.load(None, {"model": {"arch": "s4"}, "data": {"task": task}, "pretrain": settings}, tiny=True)
    run = pretrain(recipe, tmp_path / "run", seed=3)
    splits, spec = load_task(task, **recipe.data.options)
    config = S4Config(**{**recipe.model.fields, "bidirectional": settings["objective"] == "masked"})
    for model in (recipe.model, config):
        arguments = recipe.pretrain.of_run(tmp_path / "python", steps=4, seed=3, metric="loss")
        trainer = SPTTrainer(model, arguments, train_dataset=splits["train"], eval_dataset=splits["validation"],
                             spec=spec)  # fmt: skip
        trainer.train()
        assert same_weights(run.output_dir, trainer.model)


@pytest.mark.parametrize("task, start", [("waves", True), ("twins", True), ("heights", False), ("tags", False)])
def test_the_trainer_fine_tunes_what_the_command_fine_tunes(task, start, tmp_path):
    recipe = Recipe.load(None, {"model": {"arch": "s4"}, "data": {"task": task}}, tiny=True)
    first = pretrain(recipe, tmp_path / "first", seed=3).output_dir if start else None
    run = finetune(recipe, tmp_path / "run", init_from=first, seed=3)
    splits, spec = load_task(task, **recipe.data.options)
    section = recipe.finetune if start else recipe.scratch
    ways = [{"model": ModelSection("s4", fields=recipe.model.fields), "init_from": first}]
    ways += [{"model": first}] if start else [{"model": S4Config(**recipe.model.fields)}]
    for way in ways:
        arguments = section.of_run(tmp_path / "python", steps=4, seed=3, metric=spec.metric)
        trainer = LongSeqTrainer(args=arguments, train_dataset=splits["train"], eval_dataset=splits["validation"],
                                 spec=spec, **way)  # fmt: skip
        trainer.train()
        assert same_weights(run.output_dir, trainer.model)
