import re

import pytest

from hf_longseq.cli.main import main
from hf_longseq.cli.options import (
    Parser,
    add_recipe_options,
    common_overrides,
    normalise,
    numbers,
    split_dotted,
)
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training import run_folder
from hf_longseq.training.arguments import DataSection, section_options
from hf_longseq.training.config import DENOISING, USUAL
from hf_longseq.training.recipe import Recipe


def test_dashes_and_equals_signs_are_welcome():
    assert normalise(["--output-dir=a-b", "--max_steps", "2"]) == ["--output_dir", "a-b", "--max_steps", "2"]


def test_options_of_sections_are_taken_out():
    words = [
        "--task",
        "listops",
        "--model.hidden_size",
        "64",
        "--pretrain.learning_rate",
        "1e-3",
        "--tiny",
        "--data.tokens",
    ]
    rest, overrides = split_dotted(words)
    assert rest == ["--task", "listops", "--tiny"]
    assert overrides == {"model": {"hidden_size": 64}, "pretrain": {"learning_rate": 1e-3}, "data": {"tokens": True}}


def test_a_word_that_is_no_yaml_is_itself():
    words = ["--data.label_column", "*", "--model.hidden_act", "{", "--data.input_column", "@x: ["]
    _, overrides = split_dotted(words)
    assert overrides == {"data": {"label_column": "*", "input_column": "@x: ["}, "model": {"hidden_act": "{"}}


def test_a_command_with_one_phase_needs_no_section_name():
    parser = Parser(prog="x")
    parser.add_argument("--seed")
    words = ["--learning_rate", "1e-3", "--mask_ratio", "0.2", "--seed", "1"]
    rest, overrides = split_dotted(words, phase="pretrain", parser=parser)
    assert overrides == {"pretrain": {"learning_rate": 1e-3, "mask_ratio": 0.2}} and rest == ["--seed", "1"]


def test_an_unknown_option_is_an_error_with_a_suggestion():
    parser = Parser(prog="x")
    parser.add_argument("--overwrite", action="store_true")
    with pytest.raises(HfLongSeqError, match=r"unknown option --overwrit \(did you mean '--overwrite'\?\)"):
        parser.parse(["--overwrit"])


def test_lists_may_be_separated_by_spaces_or_commas():
    assert numbers(["0", "1,2"], int, "seeds") == [0, 1, 2]
    with pytest.raises(HfLongSeqError, match="seeds is 'x'"):
        numbers(["x"], int, "seeds")


def test_help_fits_two_screens_and_help_all_says_every_option_once(capsys):
    pages = {}
    for option in ("--help", "--help-all"):
        with pytest.raises(SystemExit):
            main(["spt", option])
        pages[option] = capsys.readouterr().out
    assert len(pages["--help"].splitlines()) <= 80
    assert "--help-all" in pages["--help"] and "warmup_steps" not in pages["--help"]
    for name in (*(field.name for field in section_options(DataSection)), *USUAL, *DENOISING):
        assert len(re.findall(rf"^  {name}\b", pages["--help-all"], re.MULTILINE)) == 1, name
    for option in ("--resume", "--label_column", "--num_processes"):
        assert option in pages["--help-all"] and option not in pages["--help"]
    assert "phases: --{pretrain,finetune,scratch}.FIELD" in pages["--help"]


def test_what_is_said_of_one_phase_wins_over_what_is_said_of_all(tmp_path):
    parser = Parser(prog="test")
    add_recipe_options(parser, ("pretrain", "finetune", "scratch"))
    words, overrides = split_dotted(["--max_steps", "3", "--pretrain.max_steps", "1", "--output_dir", str(tmp_path)])
    overrides = common_overrides(parser.parse(words), overrides)
    steps = {phase: int(overrides[phase]["max_steps"]) for phase in ("pretrain", "finetune", "scratch")}
    assert steps == {"pretrain": 1, "finetune": 3, "scratch": 3}


@pytest.mark.parametrize("words", [[], ["--finetune.trackio_space_id", "me/own"]])
def test_a_space_of_trackio_reaches_the_trainer_and_may_change_when_a_run_goes_on(tmp_path, words):
    words = [
        "--task",
        "listops",
        "--report_to",
        "trackio",
        "--trackio_space_id",
        "me/runs",
        "--output_dir",
        "x",
        *words,
    ]
    parser = Parser(prog="x")
    add_recipe_options(parser, ("pretrain", "finetune", "scratch"))
    rest, overrides = split_dotted([*words, "--output_dir", "x"])
    recipe = Recipe.load(None, common_overrides(parser.parse(rest), overrides), arch="s4")
    spaces = {"pretrain": "me/runs", "finetune": words[-1] if "me/own" in words else "me/runs"}
    for section, space in {**spaces, "scratch": spaces["finetune"]}.items():
        arguments = getattr(recipe, section).of_run(tmp_path, steps=2, seed=0, metric="accuracy")
        assert (arguments.report_to, arguments.trackio_space_id) == (["trackio"], space)
    settings = recipe.to_dict()
    moved = {**settings, "pretrain": {**settings["pretrain"], "trackio_space_id": "me/others"}}
    assert run_folder.first_difference(settings, moved) is None
