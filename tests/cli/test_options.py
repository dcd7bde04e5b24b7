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
        assert len(re.findall(rf"^  --\w+\.{name}\b", pages["--help-all"], re.MULTILINE)) == 1, name
    for option in ("--report_to", "--label_column", "--num_processes"):
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


FLAGS = "--learning_rate 3e-4 --num_train_epochs 2 --batch_size 4 --per_device_train_batch_size 2 --device cpu".split()


def test_flags_of_every_phase_reach_all_of_them_unless_one_says_otherwise():
    parser = Parser(prog="x")
    add_recipe_options(parser, ("pretrain", "finetune", "scratch"))
    words = ["--task", "listops", "--output_dir", "x", *FLAGS, "--pretrain.learning_rate", "1e-2"]
    rest, overrides = split_dotted(words)
    recipe = Recipe.load("listops/s4", common_overrides(parser.parse(rest), overrides))
    rates = {"pretrain": 1e-2, "finetune": 3e-4, "scratch": 3e-4}
    for phase, rate in rates.items():
        section = getattr(recipe, phase)
        assert (section.learning_rate, section.num_train_epochs, section.max_steps) == (rate, 2, None)
        assert (section.global_batch_size, section.per_device_train_batch_size, section.use_cpu) == (4, 2, True)


@pytest.mark.parametrize(
    ("command", "words"), [("pretrain", []), ("finetune", ["--from_scratch"])], ids=["pretrain", "finetune"]
)
def test_flags_of_every_phase_train_a_model(command, words, tmp_path):
    words = [command, "--task", "listops", "--arch", "s4", "--tiny", "--data.num_train_examples", "16", *words, *FLAGS]
    assert main([*words, "--output_dir", str(tmp_path / "run")]) == 0
    found = run_folder.read_resolved(tmp_path / "run")[command]
    assert found["learning_rate"] == 3e-4 and found["global_batch_size"] == 4
    assert run_folder.read_json(tmp_path / "run" / "metrics.json")["steps"] in (8, 32)  # 16 examples, or all 64


@pytest.mark.parametrize("command", ["spt", "pretrain", "finetune"])
def test_the_help_shows_the_flags_of_every_phase(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    shown = capsys.readouterr().out
    assert all(flag in shown for flag in FLAGS if flag.startswith("--"))


def test_a_device_that_is_not_there_is_named(capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["pretrain", "--task", "listops", "--tiny", "--device", "cuda"]) == 2
    assert "--device is cuda, which this machine lacks (it has cpu): leave it out." in capsys.readouterr().err
    assert main(["pretrain", "--task", "listops", "--tiny", "--device", "tpu"]) == 2
    assert "invalid choice: 'tpu'" in capsys.readouterr().err
