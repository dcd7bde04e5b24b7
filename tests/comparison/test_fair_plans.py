"""Every shipped recipe, arm and tie: the arms of a plan differ in one thing only."""

import functools
import itertools
import math

import pytest
import torch

from hf_longseq import Recipe, recipes
from hf_longseq.comparison.axes import TIES, Axes, parse_grid
from hf_longseq.comparison.plan import Planner
from hf_longseq.data.task import describe_task
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.architectures import is_hf
from hf_longseq.training.assemble import configuration, fresh_model, head_class
from hf_longseq.training.recipe import architectures_of, read_recipe

TRAIN, SUBSET = 20_000, 190
ARMS = ("scratch", "spt-masked", "spt-masked@pretrain_inputs=all", "spt-causal", "spt-causal@direction=one",
        "spt-causal@direction=both")  # fmt: skip
CASES = [(name, arch) for name in recipes.names() for arch in architectures_of(read_recipe(name))]


def num_parameters(recipe):
    """Parameters of the classifier that a recipe describes."""
    spec = describe_task(recipe.data.task)
    with torch.device("meta"):
        config = configuration(recipe.model, recipe.finetune, spec)
        return fresh_model(head_class(recipe.finetune, spec), config).num_parameters()


def count(section):
    return {"subset": SUBSET, "all": TRAIN}.get(section.pretrain_inputs, section.pretrain_inputs), SUBSET


def flops(recipe, phase):
    """Stand-in for the counter: a head of its own for each phase, and half the work in one direction."""
    pretraining = recipe.pretrain
    causal = phase == "pretrain" and pretraining.objective == "causal" and not pretraining.both_directions
    return {"pretrain": 130.0, "finetune": 101.0, "scratch": 101.0}[phase] / (1 + causal)


def plan(name, arch, ties):
    """All runs of a plan whose arms from scratch are tied in each way of `ties`, by name."""

    @functools.cache
    def load(_, objective):
        random = {"model": {"pretrained": False}} if is_hf(arch) else {}
        return Recipe.load(name, {"data": {"pretrain_inputs": "subset"}, **random}, arch=arch, objective=objective)

    arms = (*arms_of(name, arch), *(f"scratch-tied@{tie}" for tie in ties))
    axes = Axes((arch,), arms, (0,), parse_grid(["lr=1e-3,1e-4"]), (), (1000,))
    return {run.name: run for run in Planner(axes, load, count, lambda: TRAIN, flops=flops).plan({})}


def arms_of(name, arch):
    """The arms that an architecture can have: those of transformers have one objective and direction."""
    if not is_hf(arch):
        return ARMS
    objective = Recipe.load(name, arch=arch).pretrain.objective
    return tuple(arm for arm in ARMS if arm == "scratch" or (objective in arm and "direction" not in arm))


def taken(run, runs, tie):
    """What a run and its pretraining take, in the tied quantity, batch by batch."""
    total = 0.0
    for one in (run, *([runs[run.pretrained]] if run.pretrained else [])):
        section = one.phase if one.pretrained or one.phase == "pretrain" else "scratch"
        batch, rows = getattr(one.recipe, section).global_batch_size, one.train_examples
        batches = [len(range(rows)[start : start + batch]) for start in range(0, rows, batch)]
        examples = sum(itertools.islice(itertools.cycle(batches), one.steps))
        total += {"steps": one.steps, "epochs": examples / SUBSET, "flops": examples * flops(one.recipe, section)}[tie]
    return total


@pytest.mark.parametrize("name, arch", CASES)
def test_arms_share_architecture_evaluations_and_budget(name, arch):
    ties = tuple(TIES)
    try:
        runs = plan(name, arch, ties)
    except HfLongSeqError as error:  # batches so different that equal steps would be fewer than scratch has
        assert "scratch-tied@steps" in str(error) and "adds nothing" in str(error)
        ties = tuple(tie for tie in ties if tie != "steps")
        runs = plan(name, arch, ties)
    supervised = [run for run in runs.values() if run.phase == "finetune"]
    rows = {(run.seed, run.init): run for run in supervised if run.grid["lr"] == 1e-3}
    for run in filter(lambda run: run.pretrained, rows.values()):
        tied_runs = [rows[run.seed, label] for label in run.scratch_tied]
        assert sorted(tied.tie for tied in tied_runs) == sorted(ties)
        for tied in tied_runs:
            assert rows[run.seed, run.scratch].recipe.model == tied.recipe.model == run.recipe.model
            assert taken(tied, runs, tied.tie) == pytest.approx(taken(run, runs, tied.tie), rel=0.01)
    assert len({evaluations(run) for run in supervised}) == 1
    tuned = [run.init for run in supervised if run.tuning]
    assert {tuned.count(init) for init in tuned} == {2}


@pytest.mark.parametrize("name, arch", {arch: (name, arch) for name, arch in reversed(CASES)}.values())
def test_classifiers_after_every_objective_have_as_many_parameters(name, arch):
    runs = plan(name, arch, ("flops",)).values()
    by_model = {}
    for run in runs:
        objective = run.recipe.pretrain.objective
        by_model.setdefault(repr(run.recipe.model), {})[objective] = run.recipe
    for recipes_by_objective in by_model.values():
        assert len({num_parameters(recipe) for recipe in recipes_by_objective.values()}) == 1


def evaluations(run):
    """Evaluations of a supervised run, the last step among them."""
    section = run.recipe.finetune if run.pretrained else run.recipe.scratch
    return math.ceil(run.steps / section.eval_steps)
