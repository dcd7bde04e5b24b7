"""Both trainers take what transformers' `Trainer` takes: model_init, adapters of peft, streams, several labels."""

import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForSequenceClassification, TrainingArguments

from hf_longseq import LongSeqTrainer, S4Config, SPTConfig, SPTTrainer
from hf_longseq.data.task import TaskSpec
from hf_longseq.errors import HfLongSeqError

CONFIG = S4Config(hidden_size=8, num_hidden_layers=1, state_size=4, bidirectional=True)
IDS = {"vocab_size": 12, "mask_token_id": 10, "pad_token_id": 11}
SPEC = TaskSpec("own", "tokens", 8, **IDS, mask_ratio=0.3, labels=("a", "b"))


def rows(**more):
    return Dataset.from_dict({"input_ids": [[1, 2, 3, 4 + i % 3] for i in range(12)], "labels": [0, 1] * 6} | more)


def options(folder):
    return dict(output_dir=folder, max_steps=2, per_device_train_batch_size=4, report_to="none", disable_tqdm=True)


def test_a_model_is_made_anew_for_every_training(tmp_path):
    made = []

    def model_init():
        made.append(1)
        return CONFIG

    data = {"train_dataset": rows(), "eval_dataset": rows()}
    trainer = LongSeqTrainer(args=TrainingArguments(**options(tmp_path)), model_init=model_init, **data)
    trainer.train()
    once = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    trainer.train()
    assert len(made) > 2 and all(torch.equal(once[name], new) for name, new in trainer.model.state_dict().items())
    straight = LongSeqTrainer(CONFIG, TrainingArguments(**options(tmp_path)), **data)
    straight.train()
    assert all(torch.equal(once[name], tensor) for name, tensor in straight.model.state_dict().items())


def test_adapters_of_peft_are_trained_from_plain_rows(tmp_path):
    peft = pytest.importorskip("peft")
    settings = peft.LoraConfig(r=2, target_modules=["output_projection"], modules_to_save=["classifier"])
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "state_size": 4}
    base = AutoModelForSequenceClassification.from_config(S4Config(**sizes, **IDS, bidirectional=True))
    model = peft.get_peft_model(base, settings)
    trainer = LongSeqTrainer(model, TrainingArguments(**options(tmp_path)), train_dataset=rows(), eval_dataset=rows())
    trainer.train()
    assert trainer.model is model and "eval_accuracy" in trainer.evaluate()
    with pytest.raises(HfLongSeqError, match="the adapters are around a S4ForSequenceClassification"):
        SPTTrainer(model, SPTConfig(**options(tmp_path)), train_dataset=rows())


def test_a_stream_is_read_with_its_spec(tmp_path):
    stream = rows().to_iterable_dataset()
    trainer = SPTTrainer(CONFIG, SPTConfig(**options(tmp_path)), train_dataset=stream, spec=SPEC)
    trainer.train()
    assert trainer.state.global_step == 2
    trainer = LongSeqTrainer(CONFIG, TrainingArguments(**options(tmp_path)), train_dataset=stream, spec=SPEC)
    trainer.train()
    assert trainer.state.global_step == 2


def test_several_labels_at_once_are_found_in_the_rows(tmp_path):
    data = rows(labels=[[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]] * 6)
    trainer = LongSeqTrainer(CONFIG, TrainingArguments(**options(tmp_path)), train_dataset=data, eval_dataset=data)
    assert trainer.model.config.problem_type == "multi_label_classification" and trainer.model.config.num_labels == 3
    trainer.train()
    assert "eval_f1" in trainer.evaluate()


@pytest.mark.parametrize(
    "data, message",
    [
        (Dataset.from_dict({"text": ["one", None], "label": [0, 1]}), r"'text' holds an empty cell \(None\)"),
        (Dataset.from_dict({"input_ids": [], "labels": []}), "has no rows"),
        (rows().to_iterable_dataset(), "is a stream"),
    ],
    ids=["none", "empty", "stream"],
)
def test_what_cannot_be_read_is_said_in_one_sentence(tmp_path, data, message):
    with pytest.raises(HfLongSeqError, match=message) as caught:
        LongSeqTrainer(CONFIG, TrainingArguments(**options(tmp_path)), train_dataset=data)
    assert "\n" not in str(caught.value)
