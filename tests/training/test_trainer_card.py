"""The card that both trainers write: what they know, how to open the model, and text of others made safe."""

import pytest
import yaml
from datasets import Dataset
from transformers import TrainingArguments

from hf_longseq import LongSeqTrainer, S4Config, SPTConfig, SPTTrainer
from hf_longseq.data.task import TaskSpec

CONFIG = S4Config(hidden_size=8, num_hidden_layers=1, state_size=4, bidirectional=True)
ROWS = Dataset.from_dict({"text": ["good words", "bad words"] * 6, "label": [1, 0] * 6})


def options(folder):
    return dict(
        output_dir=str(folder), max_steps=2, per_device_train_batch_size=4, report_to="none", disable_tqdm=True
    )


def card_of(trainer, folder, **stated):
    trainer.train()
    trainer.evaluate()
    trainer.save_model()
    trainer.create_model_card(**stated)
    text = (folder / "README.md").read_text()
    return yaml.safe_load(text.split("---\n")[1]), text


def test_the_card_of_self_pretraining_says_how_and_opens(tmp_path):
    arguments = SPTConfig(**options(tmp_path), mask_ratio=0.4)
    trainer = SPTTrainer(CONFIG, arguments, train_dataset=ROWS, eval_dataset=ROWS)
    head, text = card_of(trainer, tmp_path, license="mit", tags="mine")
    assert head["license"] == "mit" and {"mine", "hf-longseq", "self-pretraining"} <= set(head["tags"])
    assert "restoring masked inputs, mask ratio 0.4" in text and "started from random weights" in text
    assert "masked_accuracy" in text and "| training examples | 12 |" in text
    assert "model.safetensors" in text and not (tmp_path / "training_args.bin").exists()
    code = text.split("```python\n")[1].split("```")[0].replace(repr(tmp_path.name), repr(str(tmp_path)))
    opened = {}
    exec(code, opened)
    assert type(opened["model"]).__name__ == "S4ForMaskedLM" and opened["processor"].mask_token_id is not None


def test_the_card_of_a_classifier_says_what_it_started_from(tmp_path):
    spt = SPTTrainer(CONFIG, SPTConfig(**options(tmp_path / "first")), train_dataset=ROWS)
    spt.save_model()
    arguments = TrainingArguments(**options(tmp_path / "second"))
    for model, start in ((spt.model, "a S4ForMaskedLM"), (str(tmp_path / "first"), "first")):
        trainer = LongSeqTrainer(model, arguments, train_dataset=ROWS, eval_dataset=ROWS)
        _, text = card_of(trainer, tmp_path / "second")
        assert f"It started from the weights of {start}." in text and str(tmp_path) not in text
        assert "AutoModelForSequenceClassification" in text and "| accuracy |" in text


def test_text_of_others_is_shown_as_text(tmp_path):
    ids = {"vocab_size": 300, "mask_token_id": 1, "pad_token_id": 0}
    evil = "a | b <script>\n---\n# c"
    spec = TaskSpec("own", "tokens", 40, **ids, labels=("x", evil), source=evil, license=evil, note=evil)
    rows = Dataset.from_dict({"input_ids": [[5, 6], [7, 8]] * 4, "labels": [0, 1] * 4})
    arguments = TrainingArguments(**options(tmp_path))
    trainer = LongSeqTrainer(CONFIG, arguments, train_dataset=rows, eval_dataset=rows, spec=spec)
    head, text = card_of(trainer, tmp_path, model_name=evil, tags=[evil])
    assert head["library_name"] == "transformers" and "<script>" not in text.split("---\n", 2)[2]
    assert not any(line.startswith(("# c", "---")) for line in text.split("---\n", 2)[2].splitlines())


def test_adapters_have_the_card_of_peft(tmp_path):
    peft = pytest.importorskip("peft")
    settings = peft.LoraConfig(r=2, target_modules=["output_projection"], modules_to_save=["classifier"])
    arguments = TrainingArguments(**options(tmp_path))
    trainer = LongSeqTrainer(CONFIG, arguments, train_dataset=ROWS, eval_dataset=ROWS, peft_config=settings)
    head, _ = card_of(trainer, tmp_path)
    assert head["library_name"] == "peft"
