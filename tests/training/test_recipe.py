from pathlib import Path

import pytest
import yaml

from hf_longseq import Recipe
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.config import build_phase
from hf_longseq.training.recipe import architectures_of, joint_settings, read_recipe, set_dotted

DATA = {"data": {"task": "listops"}}


def test_the_command_line_wins_over_the_recipe_and_the_recipe_over_the_defaults(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("model: {arch: dlr}\ndata: {task: listops}\npretrain: {learning_rate: 3e-3, max_steps: 7}\n")
    recipe = Recipe.load(path, {"pretrain": {"max_steps": 9}})
    assert (recipe.model.arch, recipe.pretrain.learning_rate, recipe.pretrain.max_steps) == ("dlr", 3e-3, 9)
    assert recipe.pretrain.global_batch_size == 32


def test_training_from_scratch_takes_the_settings_of_finetuning_unless_overridden():
    recipe = Recipe.load(
        DATA | {"finetune": {"learning_rate": 1e-4, "weight_decay": 0.1}, "scratch": {"learning_rate": 1e-3}}
    )
    assert (recipe.scratch.learning_rate, recipe.scratch.weight_decay) == (1e-3, 0.1)


VARIED = DATA | {
    "model": {"arch": "s4", "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8},
    "pretrain": {"learning_rate": 1e-3},
    "variants": {
        "transformer": {"model": {"arch": "transformer", "hidden_size": 64}, "pretrain": {"learning_rate": 5e-4}},
        "dlr": {"pretrain": {"ssm_learning_rate": 1e-4}},
        "causal": {"model": {"pooling": "last"}, "pretrain": {"learning_rate": 2e-3}},
        "dlr/causal": {"model": {"pooling": "max"}},
    },
}


def test_variants_are_named_changes_to_a_recipe():
    assert architectures_of(VARIED) == ["s4", "transformer"]  # those with a model of their own are compared
    s4, transformer, dlr, lru = (Recipe.load(VARIED, arch=arch) for arch in ("s4", "transformer", "dlr", "lru"))
    assert s4.model.fields["state_size"] == 8 and s4.pretrain.ssm_learning_rate is None
    assert transformer.model.fields == {"bidirectional": True, "hidden_size": 64}
    assert (s4.pretrain.learning_rate, transformer.pretrain.learning_rate) == (1e-3, 5e-4)
    for other in (dlr, lru):  # another architecture keeps the size alone
        assert other.model.fields == {"bidirectional": True, "hidden_size": 32, "num_hidden_layers": 2}
    assert dlr.pretrain.ssm_learning_rate == 1e-4
    causal = Recipe.load(VARIED, {"pretrain": {"objective": "causal"}}, arch="s4")
    assert causal.model.fields["pooling"] == "last" and causal.pretrain.learning_rate == 2e-3
    assert Recipe.load(VARIED, arch="dlr", objective="causal").model.fields["pooling"] == "max"
    with pytest.raises(HfLongSeqError, match=r"variant 'dlr' of the recipe has no section 'pretran'"):
        Recipe.load(VARIED | {"variants": {"dlr": {"pretran": {}}}})


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[2] / "results").glob("*/resolved.yaml")), ids=str)
def test_kept_records_of_comparisons_are_recipes(path):
    names = architectures_of(read_recipe(path))
    recorded = yaml.safe_load(path.read_text())["run"]["archs"]
    assert names == recorded or [recorded[0].split("@")[0]] == names
    for name in names:
        assert Recipe.load(path, arch=name).data.task


def test_settings_are_changed_without_reading_the_recipe_anew():
    recipe = Recipe.load(VARIED, arch="s4")
    changes = {"pretrain": {"learning_rate": "3e-3"}, "model": {"state_size": 4}, "data": {"max_length": 9}}
    other = recipe.changed(changes)
    assert (other.pretrain.learning_rate, other.model.fields["state_size"]) == (3e-3, 4)
    assert other.data.options["max_length"] == 9 and recipe.pretrain.learning_rate == 1e-3
    assert other.finetune == recipe.finetune and recipe.changed({}) == recipe
    with pytest.raises(HfLongSeqError, match="did you mean 'learning_rate'"):
        recipe.changed({"pretrain": {"learning_rat": 1}})


def test_models_are_fine_tuned_in_both_directions_unless_the_recipe_says_otherwise():
    assert Recipe.load(DATA).model.fields["bidirectional"] is True
    assert Recipe.load(DATA | {"pretrain": {"objective": "causal"}}).model.fields["bidirectional"] is True
    assert Recipe.load(DATA | {"model": {"bidirectional": False}}).model.fields["bidirectional"] is False


@pytest.mark.parametrize(
    "raw, message",
    [
        ({"modle": {}}, r"no section 'modle' \(did you mean 'model'\?\)"),
        ({"model": {"hiden_size": 3}}, r"model\.hiden_size is not a field .*did you mean 'hidden_size'"),
        ({"model": {"vocab_size": 3}}, "set from the task"),
        ({"model": {"position_embedding": "none"}}, r"model\.position_embedding is not a field of architecture 's4'"),
        ({"model": {"hidden_size": "wide"}}, r"model\.hidden_size is 'wide': give a whole number"),
        ({"model": {"arch": "transfomer"}}, r"model\.arch is 'transfomer' \(did you mean 'transformer'\?\)"),
        ({"pretrain": 3}, "give a mapping"),
        ({"data": {}}, "data.task is not set"),
        ({"model": {"arch": ["s4", "dlr"]}}, "names s4, dlr, but this takes one architecture"),
    ],
)
def test_a_wrong_recipe_is_refused_in_one_sentence(raw, message):
    with pytest.raises(HfLongSeqError, match=message) as caught:
        Recipe.load(DATA | raw)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_recipe_is_refused(tmp_path):
    for content, message in [("a: [", "not valid YAML"), ("just words", "no sections")]:
        (tmp_path / "r.yaml").write_text(content)
        with pytest.raises(HfLongSeqError, match=message):
            Recipe.load(tmp_path / "r.yaml")
    with pytest.raises(HfLongSeqError, match="did you mean 'listops-tiny'"):
        Recipe.load("listops-tny")
    with pytest.raises(HfLongSeqError, match="does not exist"):
        Recipe.load("nowhere.yaml")


def test_resolved_settings_are_a_recipe_that_gives_the_same_settings(tmp_path):
    recipe = Recipe.load("listops-tiny", {"scratch": {"learning_rate": 5e-4}}, arch="s4")
    text = yaml.safe_dump({**recipe.to_dict(), "run": {"seed": 3}})
    (tmp_path / "resolved.yaml").write_text(text)
    assert Recipe.load(tmp_path / "resolved.yaml") == recipe


def test_settings_of_a_comparison_are_a_recipe_for_each_of_its_architectures():
    together = [Recipe.load("listops-tiny", arch=arch) for arch in ("s4", "dlr", "transformer")]
    joint = joint_settings({(recipe.model.arch, None): recipe for recipe in together})
    assert [Recipe.load(joint, arch=arch) for arch in architectures_of(joint)] == together


BOTH_OBJECTIVES = DATA | {
    "model": {"arch": "s4"},
    "pretrain": {"learning_rate": 1e-3},
    "scratch": {"weight_decay": 0.0},
    "variants": {
        "s4": {"pretrain": {"learning_rate": 3e-3}},
        "transformer": {"model": {"arch": "transformer", "pooling": "first"}},
        "transformer/causal": {"model": {"pooling": "last"}},
        "masked": {"finetune": {"weight_decay": 0.2}},
        "causal": {
            "pretrain": {"learning_rate": 2e-3},
            "finetune": {"learning_rate": 5e-4},
            "scratch": {"learning_rate": 7e-4},
        },
    },
}


def test_a_variant_named_after_an_objective_holds_for_it_alone():
    masked = Recipe.load(BOTH_OBJECTIVES, arch="transformer")
    assert (masked.model.fields["pooling"], masked.model.fields["bidirectional"]) == ("first", True)
    assert (masked.pretrain.learning_rate, masked.finetune.learning_rate) == (1e-3, 1e-3)
    assert (masked.finetune.weight_decay, masked.scratch.weight_decay) == (0.2, 0.0)
    causal = Recipe.load(BOTH_OBJECTIVES, arch="transformer", objective="causal")
    assert (causal.model.fields["pooling"], causal.model.fields["bidirectional"]) == ("last", True)
    assert causal.pretrain.objective == "causal"
    assert (causal.pretrain.learning_rate, causal.finetune.learning_rate) == (2e-3, 5e-4)
    assert (causal.finetune.weight_decay, causal.scratch.learning_rate) == (0.05, 7e-4)
    # what is said for the architecture wins over what is said for the objective
    assert Recipe.load(BOTH_OBJECTIVES, arch="s4", objective="causal").pretrain.learning_rate == 3e-3
    named = Recipe.load(BOTH_OBJECTIVES, {"pretrain": {"objective": "causal"}}, arch="transformer")
    assert named == causal


def test_settings_of_a_comparison_hold_both_objectives():
    cases = [(arch, objective) for arch in ("s4", "transformer") for objective in ("masked", "causal")]
    together = [Recipe.load(BOTH_OBJECTIVES, arch=arch, objective=objective) for arch, objective in cases]
    joint = yaml.safe_load(yaml.safe_dump(joint_settings(dict(zip(cases, together, strict=True)))))
    assert [Recipe.load(joint, arch=arch, objective=objective) for arch, objective in cases] == together


def test_tiny_shrinks_everything_but_yields_to_the_command_line():
    recipe = Recipe.load(
        "listops-tiny", {"finetune": {"max_steps": 2}, "model": {"hidden_size": 24}}, arch="s4", tiny=True
    )
    assert recipe.model.fields["hidden_size"] == 24 and recipe.model.fields["state_size"] == 8
    assert (recipe.pretrain.max_steps, recipe.finetune.max_steps, recipe.scratch.max_steps) == (4, 2, 2)
    assert recipe.data.options["max_length"] == 64 and recipe.data.num_test_examples == 32


def test_the_random_initialisation_is_an_option_of_the_model_section():
    recipe = Recipe.load(DATA, {"model": {"init_normal": "0.1"}})
    assert recipe.model.init_normal == 0.1 and recipe.to_dict()["model"]["init_normal"] == 0.1
    assert Recipe.load(recipe.to_dict()) == recipe
    assert recipe.changed({"model": {"init_normal": "none"}}).model.init_normal is None
    with pytest.raises(HfLongSeqError, match="init_normal is 0"):
        Recipe.load(DATA, {"model": {"init_normal": 0}})


def test_dotted_options_become_a_nested_mapping():
    nested = {}
    set_dotted(nested, "pretrain.learning_rate", "1e-3")
    set_dotted(nested, "model.state_size", "16")
    set_dotted(nested, "data.tokens", "true")
    assert nested == {
        "pretrain": {"learning_rate": 1e-3},
        "model": {"state_size": 16},
        "data": {"tokens": "true"},  # until the task's loader says what it is
    }
    with pytest.raises(HfLongSeqError, match="did you mean 'pretrain'"):
        set_dotted(nested, "pretran.learning_rate", "1")
    with pytest.raises(HfLongSeqError, match="--arch ARCH@NAME=VALUE"):
        set_dotted(nested, "model.s4.state_size", "16")


@pytest.mark.parametrize("column", ["3", 3, "007", "1e3"])
def test_a_column_may_be_named_by_a_number(column):
    nested = {"data": {"task": "own-data", "data": "x.csv"}}
    set_dotted(nested, "data.label_column", column)
    set_dotted(nested, "data.max_length", "2e2")
    options = Recipe.load(None, nested).data.options
    assert options["label_column"] == str(column) and options["max_length"] == 200


def test_an_option_of_a_loader_is_checked_before_any_data_are_read():
    with pytest.raises(HfLongSeqError, match="data.max_length is 'long': give a whole number"):
        Recipe.load(DATA, {"data": {"max_length": "long"}})


def test_a_recipe_lends_its_model_to_another_task():
    recipe = Recipe.load("listops-tiny", {"data": {"task": "own-data", "data": "x.csv"}}, arch="s4")
    assert recipe.model.fields["state_size"] == 16 and recipe.pretrain.max_steps == 300
    assert recipe.data.options == {"data": "x.csv"}
    same = Recipe.load("listops-tiny", {"data": {"task": "listops"}}, arch="s4")
    assert same.data.options["max_length"] == 100


def test_epochs_take_the_place_of_the_steps_of_a_recipe():
    assert Recipe.load("demo").finetune.max_steps == 100
    found = Recipe.load("demo", {"finetune": {"num_train_epochs": 3}})
    assert (found.finetune.max_steps, found.finetune.steps(64), found.pretrain.max_steps) == (None, 6, 1000)
    at_a_point = build_phase("finetune", {"num_train_epochs": 2}, Recipe.load("demo").finetune)
    assert at_a_point.steps(64) == 4
    both = Recipe.load("demo", {"finetune": {"num_train_epochs": 3, "max_steps": 5}})
    assert both.finetune.steps(64) == 5
