"""`import hf_longseq`: cheap, complete, and known to the Auto classes whatever is imported first."""

import doctest
import importlib
import inspect
import json
import subprocess
import sys

import pytest
import transformers

import hf_longseq
from fresh_process import answer, run_fresh
from hf_longseq.models import ARCHITECTURES

OPEN = """
import sys
from transformers import AutoConfig, AutoFeatureExtractor, AutoModel, AutoModelForSequenceClassification
import hf_longseq
assert "hf_longseq.models" not in sys.modules
folder = {folder!r}
print(type(AutoFeatureExtractor.from_pretrained(folder)).__name__)
print(AutoConfig.for_model("longseq_mega").model_type)
print(type(AutoModel.from_pretrained(folder)).__name__)
print(type(AutoModelForSequenceClassification.from_pretrained(folder)).__name__)
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A classifier of sounds with its feature extractor, without the code that would travel with it."""
    folder = tmp_path_factory.mktemp("saved")
    config = hf_longseq.S4Config(input_type="values", hidden_size=8, num_hidden_layers=1, state_size=4)
    hf_longseq.S4ForSequenceClassification(config).save_pretrained(folder)
    hf_longseq.LongSeqFeatureExtractor().save_pretrained(folder)
    for name in ("config.json", "preprocessor_config.json"):
        content = json.loads((folder / name).read_text())
        content.pop("auto_map", None)
        (folder / name).write_text(json.dumps(content))
    return folder


@pytest.mark.slow
def test_auto_classes_open_our_checkpoints_when_the_package_is_imported_last(saved, tmp_path):
    """The tests themselves import it first; tests/cli/test_commands.py starts a command."""
    assert answer(run_fresh(OPEN.format(folder=str(saved)), tmp_path)).split() == [
        "LongSeqFeatureExtractor", "longseq_mega", "S4Model", "S4ForSequenceClassification",
    ]  # fmt: skip


def test_importing_the_package_imports_neither_torch_nor_transformers():
    code = "import sys, hf_longseq; print({'torch', 'transformers', 'datasets', 'numpy'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


def test_every_public_name_is_there():
    for name in [*hf_longseq.__all__, *hf_longseq.__all__]:  # a module that has been imported hides nothing
        assert not inspect.ismodule(getattr(hf_longseq, name)), name
    assert {"LongSeqTrainer", "Recipe", "pretrain", "finetune", "compare", "publish"} <= set(dir(hf_longseq))
    with pytest.raises(AttributeError, match="SPTTrainr"):
        hf_longseq.SPTTrainr  # noqa: B018


def test_the_names_known_without_torch_are_those_of_the_models():
    assert list(hf_longseq.ARCHITECTURES) == list(ARCHITECTURES)
    for name, prefix in hf_longseq.ARCHITECTURES.items():
        config_class, _ = ARCHITECTURES[name]
        assert config_class.__name__ == f"{prefix}Config" and config_class.model_type == f"longseq_{name}"


@pytest.mark.parametrize("module", ["data.task", "training.config", "training.trainer"])
def test_the_examples_of_the_docstrings_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(tmp_path))
    transformers.logging.set_verbosity_warning()  # a command that ran before has set another, which prints scores
    failed, tried = doctest.testmod(importlib.import_module(f"hf_longseq.{module}"))
    assert tried and not failed


SELF_PRETRAINING = """
from datasets import Dataset
from transformers import TrainingArguments, pipeline
from hf_longseq import LongSeqTrainer, S4Config, SPTConfig, SPTTrainer

rows = Dataset.from_dict({"text": ["all is well " * 5, "nothing works " * 5] * 40, "label": [1, 0] * 40})
rows = rows.train_test_split(0.2, seed=0)

config = S4Config(hidden_size=32, num_hidden_layers=2, state_size=16, bidirectional=True)
first = SPTTrainer(config, SPTConfig("runs/spt", max_steps=STEPS), train_dataset=rows["train"])
first.train()
first.save_model("runs/pretrained")

arguments = TrainingArguments("runs/finetune", max_steps=STEPS, learning_rate=1e-3)
second = LongSeqTrainer("runs/pretrained", arguments, train_dataset=rows["train"], eval_dataset=rows["test"])
second.train()
accuracy = second.evaluate()["eval_accuracy"]
second.save_model("runs/classifier")
answer = pipeline("text-classification", "runs/classifier")("all is well")[0]
"""

FROM_A_TASK = """
from hf_longseq import SPTConfig, SPTTrainer, load_task

splits, spec = load_task("spoken-tones")
trainer = SPTTrainer("transformer", SPTConfig("runs/tones", max_steps=STEPS), train_dataset=splits["train"],
                     eval_dataset=splits["validation"].select(range(8)), spec=spec)
trainer.train()
accuracy = trainer.evaluate()["eval_masked_mae"]
"""

STOCK_TRAINER = """
from datasets import Dataset
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments
from hf_longseq import DataCollatorWithLongPadding, S4Config

rows = Dataset.from_dict({"input_ids": [[1, 2, 3], [4, 5]] * 20, "labels": [0, 1] * 20})
model = AutoModelForSequenceClassification.from_config(S4Config(hidden_size=16, num_hidden_layers=1, state_size=8))
arguments = TrainingArguments("runs/stock", max_steps=STEPS, learning_rate=1e-3)
trainer = Trainer(
    model, arguments, DataCollatorWithLongPadding(), train_dataset=rows, eval_dataset=rows,
    optimizer_cls_and_kwargs=model.trainer_optimizer(arguments),  # decays no state-space parameter
    compute_metrics=lambda p: {"accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())},
)
trainer.train()
accuracy = trainer.evaluate()["eval_accuracy"]
"""


@pytest.mark.parametrize("block", [SELF_PRETRAINING, FROM_A_TASK, STOCK_TRAINER], ids=["own rows", "task", "stock"])
def test_what_a_newcomer_types_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(block.replace("STEPS", "3"), names)
    assert 0 <= names["accuracy"] < 10 and names.get("answer", {"score": 1})["score"] > 0
