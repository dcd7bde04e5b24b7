from typing import Literal

import pytest

from hf_longseq.errors import HfLongSeqError, did_you_mean
from hf_longseq.training.arguments import DataSection, ModelSection, build_section, convert
from hf_longseq.training.config import build_phase


@pytest.mark.parametrize(
    "value, kind, expected",
    [
        ("1e-3", float, 1e-3),  # YAML reads 1e-3 as a string
        (1, float, 1.0),
        (300.0, int, 300),
        ("2e2", int, 200),
        ("none", int | None, None),
        (None, float | None, None),
        (3, float | int, 3),
        ("a,b", list[str], ["a", "b"]),
        (7, list[int], [7]),
        (True, bool, True),
    ],
)
def test_values_of_yaml_and_command_line_become_the_type_of_their_field(value, kind, expected):
    converted = convert(value, kind, "x")
    assert converted == expected and type(converted) is type(expected)


@pytest.mark.parametrize(
    "value, kind",
    [
        (1.5, int),
        ("many", int),
        ("1e999", int),
        (float("nan"), int),
        (True, int),
        (True, float),
        ("yes", bool),
        (3, bool),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_the_name_of_its_field(value, kind):
    with pytest.raises(HfLongSeqError, match=r"pretrain\.thing is .*: give "):
        convert(value, kind, "pretrain.thing")


def test_an_unknown_option_is_refused_with_a_suggestion():
    with pytest.raises(
        HfLongSeqError, match=r"finetune\.learning_rat is not an option \(did you mean 'learning_rate'"
    ):
        build_phase("finetune", {"learning_rat": 1e-3})


def test_a_wrong_choice_is_refused_with_a_suggestion():
    with pytest.raises(HfLongSeqError, match=r"lr_scheduler_type is 'cosin' \(did you mean 'cosine'"):
        build_phase("finetune", {"lr_scheduler_type": "cosin"})


@pytest.mark.parametrize(
    "value, kind, message",
    [
        (1.5, int | Literal["subset", "all"], r"x is 1.5: give a whole number or one of 'subset', 'all'\."),
        ("subst", int | Literal["subset", "all"], r"x is 'subst' \(did you mean 'subset'\?\): give a whole number or"),
        (float("inf"), int | None, r"x is inf: give a whole number\."),
        ("much", float | int, r"x is 'much': give a number\."),
    ],
)
def test_a_field_of_several_types_names_all_of_them(value, kind, message):
    with pytest.raises(HfLongSeqError, match=message):
        convert(value, kind, "x")


def test_free_keys_of_model_and_data_are_kept_for_those_who_know_them():
    assert build_section(ModelSection, {"arch": "dlr", "dt_min": "1e-4"}, "model").fields == {"dt_min": 1e-4}
    assert build_section(DataSection, {"task": "listops", "max_length": 99}, "data").options == {"max_length": 99}


@pytest.mark.parametrize(
    "section, values, message",
    [
        ("pretrain", {"mask_ratio": 0}, "mask_ratio is 0.0"),
        ("pretrain", {"mask_ratio": 1.0}, "mask_ratio is 1.0"),
        ("pretrain", {"num_levels": 1}, "num_levels is 1"),
        ("finetune", {"max_steps": 0}, "max_steps is 0"),
        ("finetune", {"num_train_epochs": 0}, "num_train_epochs is 0"),
        (
            "finetune",
            {"global_batch_size": 10, "per_device_train_batch_size": 4},
            "not a multiple of per_device_train_batch_size=4",
        ),
        ("data", {"train_fraction": 1.5}, "train_fraction is 1.5"),
        ("data", {"train_fraction": 0.5, "num_train_examples": 3}, "only one of them"),
    ],
)
def test_impossible_values_are_refused_before_anything_is_loaded(section, values, message):
    with pytest.raises(HfLongSeqError, match=message):
        build_section(DataSection, values, "data") if section == "data" else build_phase(section, values)


def test_steps_follow_from_epochs_unless_they_are_given():
    section = build_phase("finetune", {"num_train_epochs": 3, "global_batch_size": 10})
    assert section.steps(25) == 9  # the last, smaller batch of each pass is a step too
    assert build_phase("finetune", {"max_steps": 4}).steps(25) == 4
    own = {"num_train_epochs": 3, "global_batch_size": None, "per_device_train_batch_size": 5}
    assert build_phase("finetune", own).steps(25) == 15  # what a device takes at once, as in transformers


def test_nothing_is_suggested_for_a_word_that_resembles_none():
    assert did_you_mean("zzz", ["alpha", "beta"]) == ""
