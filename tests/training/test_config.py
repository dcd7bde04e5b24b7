"""Any field of transformers' TrainingArguments may stand in a phase of a recipe; a few are refused with the reason."""

import dataclasses

import pytest
import yaml
from transformers import TrainingArguments

from hf_longseq import LongSeqTrainer, Recipe, S4Config, pretrain
from hf_longseq.cli.main import main
from hf_longseq.cli.options import Parser, split_dotted
from hf_longseq.comparison.axes import parse_grid
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.architectures import checked_fields
from hf_longseq.training.config import REFUSED, FinetuneConfig, SPTConfig

LISTOPS = {"data": {"task": "listops"}}


def load(**sections):
    return Recipe.load(LISTOPS, sections)


def test_a_field_reaches_the_trainer_and_the_record_of_the_run(tiny, tmp_path):
    recipe = tiny(pretrain={"optim": "adafactor", "adam_beta1": "0.8", "max_steps": 1, "logging_steps": 1})
    arguments = recipe.pretrain.of_run(tmp_path, steps=1, seed=3, metric="loss")
    assert arguments.logging_steps == 1
    assert isinstance(arguments, SPTConfig) and (arguments.optim, arguments.adam_beta1) == ("adafactor", 0.8)
    result = pretrain(recipe, tmp_path / "run")
    recorded = yaml.safe_load((result.output_dir / "resolved.yaml").read_text())
    assert recorded["pretrain"]["optim"] == "adafactor"
    assert Recipe.load(recorded).pretrain == recipe.pretrain


def test_what_is_said_of_finetuning_holds_from_scratch():
    recipe = load(finetune={"optim": "sgd", "adam_beta1": 0.8}, scratch={"optim": "adamw_torch"})
    assert (recipe.scratch.optim, recipe.scratch.adam_beta1) == ("adamw_torch", 0.8)
    assert recipe.to_dict()["scratch"] == {"optim": "adamw_torch"}
    assert Recipe.load(recipe.to_dict()) == recipe


def test_the_last_step_of_an_epoch_takes_what_is_left():
    section = FinetuneConfig(global_batch_size=32)
    assert [section.examples_seen(steps, 100) for steps in (0, 1, 3, 4, 5, 8)] == [0, 32, 96, 100, 132, 200]
    assert [section.steps_that_see(section.examples_seen(steps, 100), 100) for steps in range(30)] == list(range(30))
    assert [section.examples_seen(3, 16), section.steps_that_see(48, 16)] == [48, 3]


def test_every_refused_name_is_a_field_of_transformers():
    assert set(REFUSED) <= {field.name for field in dataclasses.fields(TrainingArguments)}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_run_sets_itself_is_refused_by_name(name):
    with pytest.raises(HfLongSeqError) as caught:
        load(finetune={name: 1})
    assert f"finetune.{name} " in str(caught.value) and ": " in str(caught.value)


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"optm": "sgd"}, "finetune.optm is not an option (did you mean 'optim'?)"),
        ({"lr_schedule_type": "x"}, "did you mean 'lr_scheduler_type'?"),
        ({"optim": "adafactr"}, "finetune.optim is 'adafactr' (did you mean 'adafactor'?)"),
        ({"adam_beta1": "much"}, "finetune.adam_beta1 is 'much': give a number"),
        ({"torch_compile": 3}, "finetune.torch_compile is 3: give true or false"),
        ({"lr_scheduler_type": "cosin"}, "finetune.lr_scheduler_type is 'cosin' (did you mean 'cosine'?)"),
    ],
)
def test_unknown_fields_and_values_are_named_with_what_was_meant(fields, words):
    with pytest.raises(HfLongSeqError) as caught:
        load(finetune=fields)
    assert words in str(caught.value)


def test_what_transformers_refuses_is_said_when_the_recipe_is_read(tiny):
    with pytest.raises(HfLongSeqError, match="the pretrain section does not work: .*fp16"):
        tiny(pretrain={"optim_args": "nonsense", "fp16": True, "bf16": True})


def test_the_command_line_takes_them_with_and_without_the_phase():
    rest, overrides = split_dotted(["--finetune.optim", "adafactor", "--seed", "1"])
    assert rest == ["--seed", "1"] and overrides == {"finetune": {"optim": "adafactor"}}
    words = ["--adam_beta1", "0.8", "--bf16", "--help"]
    rest, overrides = split_dotted(words, phase="pretrain", parser=Parser(prog="hf-longseq pretrain"))
    assert rest == ["--help"] and overrides == {"pretrain": {"adam_beta1": 0.8, "bf16": True}}


@pytest.mark.parametrize(
    "words, message",
    [
        (["--save_steps", "5"], "pretrain.save_steps is set by the run"),
        (["--pretrain.optm", "sgd"], "did you mean 'optim'?"),
        (["--learning_rat", "1"], "unknown option --learning_rat"),
    ],
)
def test_the_command_refuses_by_name(capsys, tmp_path, words, message):
    assert main(["pretrain", "--task", "listops", "--output_dir", str(tmp_path / "run"), *words]) == 2
    assert message in capsys.readouterr().err


def test_a_grid_may_hold_them():
    assert parse_grid(["finetune.optim=adafactor,adamw_torch", "pretrain.adam_beta1=0.8,0.9"]) == {
        "finetune.optim": ("adafactor", "adamw_torch"),
        "pretrain.adam_beta1": (0.8, 0.9),
    }


def test_a_phase_is_a_subclass_of_training_arguments(tiny, tmp_path):
    arguments = tiny().finetune.of_run(tmp_path, steps=7, seed=3, metric="loss")
    assert type(arguments) is FinetuneConfig and isinstance(arguments, TrainingArguments)
    assert arguments.max_steps == 7 and arguments.seed == 3


def test_a_global_batch_is_accumulated_in_python_too(tmp_path):
    rows = [{"input_ids": [1, 2, 3], "labels": index % 2} for index in range(8)]
    arguments = FinetuneConfig(tmp_path, global_batch_size=8, per_device_train_batch_size=2, report_to="none")
    trainer = LongSeqTrainer(S4Config(hidden_size=8, num_hidden_layers=1, state_size=4), arguments, train_dataset=rows)
    assert (trainer.args.per_device_train_batch_size, trainer.args.gradient_accumulation_steps) == (2, 4)
    assert arguments.gradient_accumulation_steps == 1 and trainer.args.max_steps == -1


@pytest.mark.parametrize("fields", [{"hidden_size": -1}, {"num_hidden_layers": 10**308}], ids=["narrow", "deep"])
def test_a_model_section_of_impossible_sizes_is_named(fields):
    with pytest.raises(HfLongSeqError, match="the model section does not work"):
        checked_fields("s4", fields)
