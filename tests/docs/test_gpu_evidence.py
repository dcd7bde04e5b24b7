"""The comparisons that take a GPU are made of shipped recipes and of options that exist."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from hf_longseq import recipes
from hf_longseq.cli.compare import add_plan_options, listed
from hf_longseq.cli.options import Parser, add_recipe_options, common_overrides, split_dotted
from hf_longseq.comparison.axes import recipe_loader
from hf_longseq.data.task import describe_task
from hf_longseq.training.assemble import configuration

SCRIPT = Path(__file__).parents[2] / "scripts" / "gpu_evidence.sh"
pytestmark = pytest.mark.skipif(os.name == "nt", reason="a script for bash")


def script(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run(["bash", str(SCRIPT), *words], capture_output=True, text=True)


@pytest.mark.parametrize("line", script("--plan").stdout.splitlines(), ids=lambda line: line.split()[7])
def test_a_command_takes_shipped_recipes_and_options_that_exist(line):
    command, name, *words = shlex.split(line)
    assert (command, name) == ("hf-longseq", "compare")
    parser = Parser(prog="hf-longseq compare")
    add_recipe_options(parser, ("pretrain", "finetune", "scratch"))
    add_plan_options(parser, [], "0")
    words, overrides = split_dotted(words)
    options = parser.parse(words)
    overrides = common_overrides(options, overrides)
    assert listed(options.inits) == ["scratch", "scratch-tied@epochs", "spt-masked"]
    load, _ = recipe_loader(options.recipe, overrides, options.tiny)
    for arch in listed(options.arch):
        assert f"{options.task}/{arch}" in recipes.names()
        recipe = load(arch, "masked")
        configuration(recipe.model, recipe.finetune, describe_task(options.task))
        for phase in (recipe.pretrain, recipe.finetune, recipe.scratch):
            assert phase.bf16 and phase.lr_scheduler_type == "cosine" and phase.num_train_epochs <= 5


def test_a_wrong_name_is_answered_with_the_names_before_anything_is_installed():
    ended = script("imdb")
    assert ended.returncode == 2 and "pathfinder-transformer" in ended.stderr
