import pytest

from hf_longseq.comparison.plan import Axes, Planner, grid_points, parse_grid, variant_fields, with_point
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training import Recipe

RAW = {
    "data": {"task": "waves", "pretrain_inputs": "subset"},
    "pretrain": {"max_steps": 30, "causal": {"learning_rate": 2e-3}},
    "finetune": {"num_train_epochs": 10, "global_batch_size": 10},
}


def plan(
    raw=RAW, *, archs=("s4",), inits=("scratch", "spt"), seeds=(0,), grid=(), fractions=(), names=None, **options
):
    """The runs of a plan on 100 training examples, by their names."""

    def load(arch, objective):
        return Recipe.load(raw, arch=arch, objective=objective)

    def count(section):
        labelled = section.num_train_examples or round(100 * (section.train_fraction or 1))
        return (100 if section.pretrain_inputs == "all" else labelled), labelled

    axes = Axes(archs, inits, seeds, parse_grid(grid), fractions, **options)
    return {run.name: run for run in Planner(axes, load, count, 100, names).plan()}


def test_a_run_that_starts_from_another_comes_after_it():
    assert list(plan(seeds=(0, 1))) == [
        "s4-scratch-s0", "s4-pretrain-s0", "s4-spt-s0", "s4-scratch-s1", "s4-pretrain-s1", "s4-spt-s1",
    ]  # fmt: skip


def test_names_tell_apart_what_the_plan_varies_and_nothing_else():
    assert "s4-scratch-lr0.001-s0" in plan(grid=["lr=1e-3,5e-4", "batch=16"])
    runs = plan(grid=["lr=1e-3,5e-4", "batch=10,20"], fractions=(1.0, 0.1))
    assert "s4-spt-f0.1-lr0.0005-b20-s0" in runs and "s4-pretrain-f0.1-s0" in runs
    assert runs["s4-spt-f0.1-lr0.0005-b20-s0"].grid == {"lr": 5e-4, "batch": 20}
    assert "s4-scratch-finetune.weight_decay0.1-s0" in plan(grid=["finetune.weight_decay=0,0.1"])


def test_pretraining_is_shared_by_all_the_runs_that_can_share_it():
    runs = plan(inits=("scratch", "spt-masked", "spt-causal"), grid=["lr=1e-3,5e-4"], fractions=(1.0, 0.5))
    pretraining = [name for name in runs if "pretrain" in name]
    assert pretraining == [
        "s4-pretrain-f1-s0", "s4-pretrain-causal-f1-s0", "s4-pretrain-f0.5-s0", "s4-pretrain-causal-f0.5-s0",
    ]  # fmt: skip
    assert runs["s4-spt-causal-f0.5-lr0.001-s0"].pretrained == "s4-pretrain-causal-f0.5-s0"
    # on all inputs, one pretraining serves every fraction
    everything = plan(RAW | {"data": {"task": "waves", "pretrain_inputs": "all"}}, fractions=(1.0, 0.5))
    assert [name for name in everything if "pretrain" in name] == ["s4-pretrain-s0"]
    some = plan(RAW | {"data": {"task": "waves", "pretrain_inputs": 30}}, fractions=(1.0, 0.5))
    assert [name for name in some if "pretrain" in name] == ["s4-pretrain-s0"]
    # an objective named and the recipe's own are the same pretraining
    assert sum("pretrain" in name for name in plan(inits=("spt", "spt-masked"))) == 1


def test_grid_points_of_pretraining_multiply_pretraining_runs_and_leave_scratch_alone():
    runs = plan(grid=["pretrain.span_length=1,4", "lr=1e-3,5e-4"])
    assert sum("pretrain-" in name and name.startswith("s4-pretrain-pretrain") for name in runs) == 2
    assert sum("scratch" in name for name in runs) == 2 and sum("-spt-" in name for name in runs) == 4
    span = runs["s4-spt-pretrain.span_length4-lr0.001-s0"]
    assert runs[span.pretrained].recipe.pretrain.span_length == 4


def test_a_key_of_scratch_replaces_that_of_finetuning_for_runs_from_scratch():
    grid = parse_grid(["finetune.weight_decay=0,0.1", "scratch.weight_decay=0.2,0.3,0.4"])
    assert len(grid_points(grid, "s4", "scratch")) == 3 and len(grid_points(grid, "s4", "spt")) == 2
    assert len(grid_points(parse_grid(["model.dlr.state_size=8,16"]), "s4", "spt")) == 1
    assert len(grid_points(parse_grid(["model.dlr.state_size=8,16"]), "dlr", "pretrain")) == 2


def test_lr_and_batch_hold_for_runs_from_scratch_too():
    recipe = with_point(Recipe.load(RAW | {"scratch": {"learning_rate": 9e-3}}), {"lr": 5e-4, "batch": 16})
    for section in (recipe.finetune, recipe.scratch):
        assert (section.learning_rate, section.global_batch_size) == (5e-4, 16)
    assert recipe.pretrain.global_batch_size == 32
    large = Recipe.load(RAW, {"finetune": {"global_batch_size": 64, "per_device_train_batch_size": 32}})
    assert with_point(large, {"batch": 16}).finetune.per_device_train_batch_size == 16


def test_epochs_are_shorter_on_a_fraction_and_fixed_steps_stay():
    runs = plan(fractions=(1.0, 0.1))
    assert (runs["s4-scratch-f1-s0"].steps, runs["s4-scratch-f0.1-s0"].steps) == (100, 10)
    assert {run.steps for run in runs.values() if run.phase == "pretrain"} == {30}
    few = plan(RAW | {"data": {"task": "waves", "num_train_examples": 50}}, fractions=(1.0, 0.5))
    assert few["s4-spt-f0.5-s0"].recipe.data.num_train_examples == 25


def test_budgets():
    runs = plan(inits=("scratch", "spt", "scratch-tied"))
    assert [runs[f"s4-{init}-s0"].steps for init in ("scratch", "spt", "scratch-tied")] == [100, 100, 130]
    tied = plan(inits=("scratch", "spt", "scratch-tied"), compute_tied=True)
    assert [tied[f"s4-{init}-s0"].steps for init in ("scratch", "spt", "scratch-tied")] == [100, 70, 130]
    assert tied["s4-spt-s0"].recipe.finetune.max_steps == 70
    with pytest.raises(HfLongSeqError, match="30 steps of pretraining out of the 10 of fine-tuning of s4"):
        plan(compute_tied=True, fractions=(1.0, 0.1))
    # more pretraining is more for scratch-tied as well
    grid = ["pretrain.max_steps=10,20", "pretrain.span_length=1,2"]
    several = plan(inits=("spt", "scratch-tied"), grid=grid)
    assert sorted(run.steps for run in several.values() if run.init == "scratch-tied") == [110, 120]


def test_scratch_tied_stands_beside_arms_of_the_steps_that_it_adds():
    inits = ("spt", "spt@span_length=8", "spt@max_steps=30", "spt@pretrain_inputs=20", "spt-causal", "scratch-tied")
    assert plan(inits=inits, fractions=(1.0, 0.1))["s4-scratch-tied-f1-s0"].steps == 130
    assert "s4-spt-max_steps-60-s0" in plan(inits=("scratch", "spt@max_steps=60"))
    with pytest.raises(HfLongSeqError, match="'spt@max_steps=60', which pretrains s4 for 60 steps, .* adds 30: leave"):
        plan(inits=("spt", "spt@max_steps=60", "scratch-tied"))
    with pytest.raises(HfLongSeqError, match="'spt-causal', which pretrains s4 for 40 steps"):
        plan(RAW | {"pretrain": {"max_steps": 30, "causal": {"max_steps": 40}}}, inits=("spt-causal", "scratch-tied"))
    epochs = RAW | {"pretrain": {"num_train_epochs": 10, "global_batch_size": 10}}
    with pytest.raises(
        HfLongSeqError, match="'spt@pretrain_inputs=all', which pretrains s4 for 100 steps, .* adds 10"
    ):
        plan(epochs, inits=("spt@pretrain_inputs=all", "scratch-tied"), fractions=(0.1,))


def test_only_runs_without_a_choice_are_scored_at_once():
    runs = plan(grid=["pretrain.span_length=1,4"])
    assert runs["s4-scratch-s0"].score_test
    assert not any(run.score_test for name, run in runs.items() if name.startswith("s4-spt"))


def test_a_larger_plan_finds_the_runs_of_a_smaller_one_by_what_they_do():
    small = plan()
    names = {run.identity(): run.name for run in small.values()}
    large = plan(grid=["lr=1e-3,5e-4"], fractions=(1.0, 0.1), seeds=(0, 1), names=names)
    assert large["s4-scratch-s0"].grid == {"lr": 1e-3} and large["s4-scratch-s0"].fraction == 1.0
    assert large["s4-scratch-s0"].identity() == small["s4-scratch-s0"].identity()
    assert {"s4-scratch-f1-lr0.0005-s0", "s4-spt-s0", "s4-pretrain-s0", "s4-pretrain-f0.1-s0"} < set(large)
    assert "s4-scratch-f1-lr0.001-s0" not in large and "s4-scratch-f1-lr0.001-s1" in large


def test_the_fields_of_a_variant():
    assert variant_fields("s4@init_normal=0.1@bidirectional=false") == {"init_normal": 0.1, "bidirectional": False}
    with pytest.raises(HfLongSeqError, match="NAME@FIELD=VALUE"):
        variant_fields("s4@init_normal")


def test_an_arm_has_variants_in_what_pretraining_does_and_reads():
    runs = plan(inits=("scratch", "spt-masked", "spt-masked@span_length=8@mask_ratio=0.4", "spt@pretrain_inputs=30"))
    assert list(runs) == [
        "s4-scratch-s0", "s4-pretrain-s0", "s4-spt-masked-s0",
        "s4-pretrain-span_length-8-mask_ratio-0.4-s0", "s4-spt-masked-span_length-8-mask_ratio-0.4-s0",
        "s4-pretrain-pretrain_inputs-30-s0", "s4-spt-pretrain_inputs-30-s0",
    ]  # fmt: skip
    spans = runs["s4-pretrain-span_length-8-mask_ratio-0.4-s0"].recipe.pretrain
    assert (spans.span_length, spans.mask_ratio) == (8, 0.4)
    assert runs["s4-spt-pretrain_inputs-30-s0"].recipe.data.pretrain_inputs == 30
    assert runs["s4-spt-pretrain_inputs-30-s0"].pretrained == "s4-pretrain-pretrain_inputs-30-s0"
    # a variant that changes nothing starts from the same pretraining
    assert sum("pretrain-" in name for name in plan(inits=("spt", "spt@span_length=1"))) == 1
    assert runs["s4-scratch-s0"].identity() == plan()["s4-scratch-s0"].identity()


@pytest.mark.parametrize(
    "grid, message",
    [
        (["lr"], "KEY=VALUE"),
        (["learning_rat=1"], "did you mean 'finetune.learning_rate'"),
        (["finetune.learning_rat=1"], "did you mean 'finetune.learning_rate'"),
        (["batch=many"], "grid batch is 'many': give a whole number"),
        (["lr=1e-3,1e-3"], "give different values"),
        (["lr="], "give different values"),
        (["lr=1e-3", "lr=1e-4"], "named twice"),
        (["lr=1e-3", "finetune.learning_rate=1e-4"], "the same setting"),
        (["pretrain.objective=causal"], "--inits spt-masked,spt-causal"),
        (["data.train_fraction=0.1"], "--train_fractions"),
        (["model.dropuot=0.1"], "did you mean 'dropout'"),
        (["model.s5.state_size=8,16"], "'model.s5.state_size' changes no run of s4 from scratch, spt: leave it out"),
        (["model..dropout=0.1"], "changes no run"),
        (["model.init_normal=0"], "init_normal is 0"),
    ],
)
def test_a_wrong_grid_is_refused(grid, message):
    with pytest.raises(HfLongSeqError, match=message) as caught:
        plan(grid=grid)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "axes, message",
    [
        ({"inits": ("spt-maskd",)}, "did you mean 'spt-masked'"),
        ({"inits": ("scratch@span_length=8",)}, "only arms that pretrain have variants"),
        ({"inits": ("spt@spanlength=8",)}, "did you mean 'span_length'"),
        ({"inits": ("spt@objective=causal",)}, "objective is no option"),
        ({"inits": ("spt@span_length",)}, "NAME@FIELD=VALUE"),
        ({"inits": ("spt@span_length=8@span_length=4",)}, "each field once"),
        ({"inits": ("spt@span_length=8",), "grid": {"pretrain.span_length": (1, 4)}}, "would undo what 'spt@span"),
        ({"archs": ("s4@state_size=8",), "grid": {"model.s4.state_size": (8, 16)}}, "would undo what 's4@state"),
        ({"inits": ("scratch",), "grid": {"pretrain.span_length": (1, 4)}}, "changes no run of s4 from scratch"),
        ({"inits": ("spt",), "grid": {"scratch.weight_decay": (0.0, 0.1)}}, "changes no run of s4 from spt"),
        ({"inits": ("spt@span_length=0",)}, "span_length is 0"),
        ({"inits": ("spt@pretrain_inputs=many",)}, "is 'many': give a whole number or one of 'subset', 'all'"),
        ({"archs": ()}, "at least one"),
        ({"archs": ("s4", "s4")}, "named twice"),
        ({"seeds": (1, 1)}, "named twice"),
        ({"fractions": (0.0,)}, r"shares in \(0, 1\]"),
        ({"fractions": (1.5,)}, r"shares in \(0, 1\]"),
        ({"fractions": (1.0, 0.001)}, "leave out fractions that hold none"),
    ],
)
def test_wrong_axes_are_refused(axes, message):
    with pytest.raises(HfLongSeqError, match=message):
        plan(**axes)
