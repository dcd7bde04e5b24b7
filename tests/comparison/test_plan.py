import math
from dataclasses import replace

import pytest

from hf_longseq import Recipe
from hf_longseq.comparison.axes import Axes, grid_points, parse_grid, variant_fields, with_point
from hf_longseq.comparison.plan import Planner
from hf_longseq.errors import HfLongSeqError

RAW = {
    "data": {"task": "waves", "pretrain_inputs": "subset"},
    "pretrain": {"max_steps": 30},
    "variants": {"causal": {"pretrain": {"learning_rate": 2e-3}}},
    "finetune": {"num_train_epochs": 10, "global_batch_size": 10},
}


def plan(
    raw=RAW, *, archs=("s4",), inits=("scratch", "spt"), seeds=(0,), grid=(), fractions=(), tune_seeds=(), **options
):
    """The runs of a plan on 100 training examples, by their names."""
    axes = Axes(archs, inits, seeds, parse_grid(grid), fractions, tune_seeds)
    return {run.name: run for run in planner_of(raw, axes, **options).plan()}


def planner_of(raw, axes, **options):
    def load(arch, objective):
        return Recipe.load(raw, arch=arch, objective=objective)

    def count(section):
        labelled = section.num_train_examples or round(100 * (section.train_fraction or 1))
        inputs = section.pretrain_inputs
        return (inputs if isinstance(inputs, int) else 100 if inputs == "all" else labelled), labelled

    return Planner(axes, load, count, lambda: 100, **options)


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
    assert len(grid_points(grid, "scratch")) == 3 and len(grid_points(grid, "spt")) == 2
    assert len(grid_points(parse_grid(["model.dropout=0,0.1"]), "pretrain")) == 2


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


FULL = ("scratch", "spt", "scratch-tied")
SAME_BATCH = RAW | {"pretrain": {"max_steps": 30, "global_batch_size": 10}}


def steps_of(*args, **options):
    """Supervised steps of each arm, by its label."""
    return {run.init: run.steps for run in plan(*args, **options).values() if run.phase == "finetune"}


def test_scratch_tied_takes_as_much_as_pretraining_and_fine_tuning_together():
    assert steps_of(SAME_BATCH, inits=FULL) == {"scratch": 100, "spt": 100, "scratch-tied": 130}
    # 30 steps of 32 of 100 inputs are seven epochs and 64 more: with 100 steps of 10, 1,764 inputs
    assert steps_of(inits=FULL)["scratch-tied"] == 176
    assert steps_of(inits=("spt", "scratch-tied@steps"))["scratch-tied@steps"] == 130
    costs = {"pretrain": 2.0, "finetune": 4.0, "scratch": 4.0}
    flops = steps_of(inits=("spt", "scratch-tied@flops"), flops=lambda recipe, phase: costs[phase])
    assert flops["scratch-tied@flops"] == round((764 * 2 + 100 * 10 * 4) / (10 * 4))
    by_device = {"global_batch_size": None, "per_device_train_batch_size": 10}
    of_devices = RAW | {"finetune": {"num_train_epochs": 10} | by_device}
    assert steps_of(of_devices, inits=FULL)["scratch-tied"] == 176
    batches = RAW | {"scratch": {"global_batch_size": 20}}
    assert steps_of(batches, inits=FULL) == {"scratch": 50, "spt": 100, "scratch-tied": 88}


def test_arms_with_other_budgets_get_tied_partners_of_their_own():
    inits = ("spt", "spt@span_length=8", "spt@max_steps=60", "spt-causal", "scratch-tied@steps")
    runs = plan(inits=inits)
    tied = {run.init: run for run in runs.values() if run.tie}
    assert {label: run.steps for label, run in tied.items()} == {
        "scratch-tied@steps": 130, "scratch-tied@steps@max_steps=60": 160,
    }  # fmt: skip
    assert runs["s4-spt-s0"].scratch_tied == runs["s4-spt-span_length-8-s0"].scratch_tied == ("scratch-tied@steps",)
    assert runs["s4-spt-max_steps-60-s0"].scratch_tied == ("scratch-tied@steps@max_steps=60",)
    objectives = RAW | {"variants": {"causal": {"pretrain": {"max_steps": 40}}}}
    found = steps_of(objectives, inits=("spt-masked", "spt-causal", "scratch-tied@steps"))
    assert found["scratch-tied@steps@objective=causal"] == 140
    assert steps_of(inits=("scratch", "scratch-tied"))["scratch-tied"] == 176  # the recipe's own pretraining


def test_data_scarce_and_labels_scarce_in_one_plan():
    runs = plan(RAW | {"data": {"task": "waves", "num_train_examples": 20}},
                inits=("spt@pretrain_inputs=subset", "spt@pretrain_inputs=all", "scratch-tied"))  # fmt: skip
    assert runs["s4-spt-pretrain_inputs-subset-s0"].protocol == "data scarce"
    assert runs["s4-spt-pretrain_inputs-all-s0"].protocol == "labels scarce"
    few = plan(RAW | {"data": {"task": "waves", "pretrain_inputs": 30}})
    assert few["s4-spt-s0"].protocol == "inputs scarce", "of 100 labels"
    assert plan()["s4-spt-s0"].protocol == "full" and plan()["s4-scratch-s0"].protocol is None


def test_causal_pretraining_is_fine_tuned_with_the_architecture_of_its_partner_from_scratch():
    runs = plan(inits=("scratch", "spt-causal", "spt-causal@direction=one", "scratch-tied"))
    looks_ahead = {run.init: run.recipe.model.fields["bidirectional"] for run in runs.values()}
    assert looks_ahead == {
        "scratch": True, "scratch@direction=one": False, "pretrain": False, "spt-causal": True,
        "spt-causal@direction=one": False, "scratch-tied": True, "scratch-tied@direction=one": False,
    }  # fmt: skip
    one = runs["s4-spt-causal-direction-one-s0"]
    assert (one.scratch, one.scratch_tied) == ("scratch@direction=one", ("scratch-tied@direction=one",))
    assert one.pretrained == runs["s4-spt-causal-s0"].pretrained == "s4-pretrain-causal-s0"
    assert runs["s4-spt-causal-s0"].scratch == "scratch"


def test_causal_pretraining_in_both_directions_is_a_run_of_its_own_with_the_partner_of_the_others():
    runs = plan(inits=("scratch", "spt-masked", "spt-causal", "spt-causal@direction=both", "scratch-tied"))
    both, other = runs["s4-spt-causal-direction-both-s0"], runs["s4-spt-causal-s0"]
    assert both.pretrained == "s4-pretrain-causal-direction-both-s0" != other.pretrained
    for name in (both.pretrained, both.name):
        assert runs[name].recipe.model.fields["bidirectional"] and runs[name].recipe.pretrain.both_directions
    assert not runs[other.pretrained].recipe.pretrain.both_directions
    assert (both.scratch, both.scratch_tied) == (other.scratch, other.scratch_tied) == ("scratch", ("scratch-tied",))


def test_a_head_that_differs_by_objective_has_a_partner_from_scratch():
    raw = RAW | {"variants": {"causal": {"model": {"pooling": "last"}}}}
    runs = plan(raw, inits=("scratch", "spt-masked", "spt-causal"))
    assert runs["s4-spt-causal-s0"].scratch == "scratch@pooling=last" and runs["s4-spt-masked-s0"].scratch == "scratch"
    assert runs["s4-scratch-pooling-last-s0"].recipe.model.fields["pooling"] == "last"


@pytest.mark.parametrize("eval_steps", [None, 7, 20, 1000])
def test_all_arms_choose_among_the_same_number_of_evaluations(eval_steps):
    raw = RAW | {"finetune": RAW["finetune"] | {"eval_steps": eval_steps}, "scratch": {"global_batch_size": 7}}
    counts = set()
    for run in plan(raw, inits=FULL).values():
        if run.phase == "finetune":
            section = run.recipe.finetune if run.pretrained else run.recipe.scratch
            counts.add(math.ceil(run.steps / section.eval_steps))
    assert counts == {{None: 10, 7: 13, 20: 5, 1000: 1}[eval_steps]}


def test_settings_are_tuned_by_seeds_of_their_own_on_the_same_number_of_points():
    raw = RAW | {"finetune": {"num_train_epochs": 10, "global_batch_size": 10, "learning_rate": 3e-3},
                 "scratch": {"learning_rate": 5e-3}}  # fmt: skip
    axes = Axes(("s4",), FULL, (0,), {}, (), (1000, 1001))
    planner = planner_of(raw, axes)
    tuning = planner.plan()
    assert {run.seed for run in tuning} == {1000, 1001} and not any(run.score_test for run in tuning)
    rates = {init: {run.grid["lr"] for run in tuning if run.init == init} for init in FULL}
    assert rates == dict.fromkeys(FULL, {1e-3, 3e-3, 5e-3, 9e-3})
    chosen = {("s4", init, None): {"lr": rate} for init, rate in zip(FULL, (1e-3, 5e-3, 9e-3), strict=True)}
    reported = [run for run in planner.plan(chosen) if run.phase == "finetune" and not run.tuning]
    assert {run.init: (run.seed, run.grid["lr"], run.score_test) for run in reported} == {
        "scratch": (0, 1e-3, True), "spt": (0, 5e-3, True), "scratch-tied": (0, 9e-3, True),
    }  # fmt: skip


def test_the_labelled_subset_can_vary_with_the_seed():
    raw = RAW | {"data": {"task": "waves", "num_train_examples": 20}}
    base = Recipe.load(raw)
    planner = planner_of(raw, Axes(("s4",), ("scratch", "spt"), (3, 4)))
    planner.load = lambda arch, objective: replace(base, data=replace(base.data, subset_seed="run"))
    assert {(run.seed, run.record()["subset_seed"]) for run in planner.plan()} == {(3, 3), (4, 4)}


@pytest.mark.parametrize(
    "options, message",
    [
        ({"raw": RAW | {"pretrain": {"max_steps": 0}}, "inits": FULL}, "scratch-tied would take 100 .* adds nothing"),
        ({"inits": ("spt", "scratch-tied@flops")}, "operations, which cannot be counted"),
        ({"inits": ("scratch-tied@epoch",)}, "did you mean 'epochs'"),
        ({"inits": ("scratch-tied@steps@epochs",)}, "tie one quantity"),
        ({"inits": FULL, "grid": ["pretrain.max_steps=10,20"]}, "differ from grid point to grid point"),
        ({"inits": ("spt", "scratch-tied@steps"), "grid": ["batch=10,20"]}, "differ from grid point to grid point"),
        ({"inits": ("spt-causal@direction=two",)}, "direction is one, both, or left out"),
        ({"inits": ("spt-masked@direction=one",)}, "only causal pretraining has directions"),
        ({"inits": ("spt@direction=one",)}, "the recipe pretrains masked"),
        ({"inits": ("spt@direction=both",)}, "the recipe pretrains masked"),
        (
            {"inits": ("spt-masked@both_directions=true",)},
            "both_directions is true, but pretrain.objective is 'masked'",
        ),
        ({"inits": ("spt-causal@direction=both",), "raw": RAW | {"model": {"bidirectional": False}}}, "already"),
        ({"inits": ("spt-causal@direction=one",), "raw": RAW | {"model": {"bidirectional": False}}}, "already"),
        ({"inits": FULL, "grid": ["pretrain.span_length=1,2"], "tune_seeds": (9,)}, "grids of different sizes"),
        ({"tune_seeds": (0, 9)}, "seed 0 would both choose the settings and report them"),
        ({"grid": ["model.state_size=8,16"]}, "as variants, --arch NAME@state_size=VALUE"),
    ],
)
def test_arms_that_could_not_be_compared_are_refused(options, message):
    with pytest.raises(HfLongSeqError, match=message) as caught:
        plan(**options)
    assert "\n" not in str(caught.value)


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


def test_another_tracker_leaves_the_runs_what_they_are():
    tracked = {**RAW, "pretrain": {**RAW["pretrain"], "report_to": "tensorboard"}}
    assert plan(tracked)["s4-pretrain-s0"].identity() == plan()["s4-pretrain-s0"].identity()


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
        (["finetune.weight_decay=-1"], "weight_decay is -1"),
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
        ({"inits": ("spt@objective=causal",)}, "objective is not an option"),
        ({"inits": ("spt@span_length",)}, "NAME@FIELD=VALUE"),
        ({"inits": ("spt@span_length=8@span_length=4",)}, "each field once"),
        ({"inits": ("spt@span_length=8",), "grid": {"pretrain.span_length": (1, 4)}}, "would undo what 'spt@span"),
        ({"archs": ("s4@state_size=8",), "grid": {"model.state_size": (8, 16)}}, "would undo what 's4@state"),
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
