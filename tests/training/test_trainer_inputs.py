"""Both trainers take what transformers' `Trainer` takes: model_init, adapters of peft, streams, several labels."""

import pandas as pd
import pytest
import torch
from datasets import Dataset, DatasetDict, IterableDataset
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


@pytest.mark.parametrize("kind", [int, float])
def test_several_labels_at_once_are_found_in_the_rows(tmp_path, kind):
    data = rows(labels=[[kind(one) for one in cell] for cell in ([1, 0, 1], [0, 0, 1])] * 6)
    trainer = LongSeqTrainer(CONFIG, TrainingArguments(**options(tmp_path)), train_dataset=data, eval_dataset=data)
    assert trainer.model.config.problem_type == "multi_label_classification" and trainer.model.config.num_labels == 3
    trainer.train()
    assert "eval_f1" in trainer.evaluate()


@pytest.mark.parametrize("trainer_class", [LongSeqTrainer, SPTTrainer])
def test_adapters_are_put_around_the_model_that_a_trainer_makes(tmp_path, trainer_class):
    peft = pytest.importorskip("peft")
    settings = peft.LoraConfig(r=2, target_modules=["output_projection"])
    arguments = trainer_class.arguments_class(**options(tmp_path))
    trainer = trainer_class(CONFIG, arguments, train_dataset=rows(), eval_dataset=rows(), peft_config=settings)
    frozen = {name: one.clone() for name, one in trainer.model.named_parameters() if not one.requires_grad}
    trainer.train()
    now = dict(trainer.model.named_parameters())
    assert frozen and all(torch.equal(now[name], one) for name, one in frozen.items())
    assert "eval_loss" in trainer.evaluate()
    with pytest.raises(HfLongSeqError, match="peft_config does not fit the model: .*nothing"):
        wrong = peft.LoraConfig(target_modules=["nothing"])
        trainer_class(CONFIG, arguments, train_dataset=rows(), peft_config=wrong)


def test_every_model_that_is_made_starts_from_the_checkpoint(tmp_path):
    first = SPTTrainer(CONFIG, SPTConfig(**options(tmp_path)), train_dataset=rows())
    first.save_model(tmp_path / "first")
    more = {"init_from": tmp_path / "first", "train_dataset": rows()}
    arguments = TrainingArguments(**options(tmp_path) | {"seed": 7})
    trainer = LongSeqTrainer(args=arguments, model_init=lambda: CONFIG, **more)
    trunk = first.model.model.state_dict()
    assert all(torch.equal(trunk[name], one) for name, one in trainer.model.model.state_dict().items())


def test_named_splits_may_be_evaluated_alone(tmp_path):
    arguments = TrainingArguments(**options(tmp_path))
    scores = LongSeqTrainer(CONFIG, arguments, eval_dataset={"a": rows(), "b": rows()}).evaluate()
    assert {"eval_a_accuracy", "eval_b_accuracy"} <= set(scores)
    with pytest.raises(HfLongSeqError, match="eval_dataset is an empty mapping"):
        LongSeqTrainer(CONFIG, arguments, eval_dataset={})


def test_a_search_gives_its_trial_to_model_init(tmp_path):
    seen = []
    arguments = TrainingArguments(**options(tmp_path))
    LongSeqTrainer(args=arguments, model_init=lambda trial: seen.append(trial) or CONFIG, train_dataset=rows())
    assert seen == [None, None]


def test_a_stream_with_a_spec_is_never_read_ahead(tmp_path):
    read = []

    def endless():
        while True:
            read.append(1)
            yield {"input_ids": [1, 2, 3, 4], "labels": len(read) % 2}

    for kind in (LongSeqTrainer, SPTTrainer):
        del read[:]
        stream = IterableDataset.from_generator(endless)
        kind(CONFIG, kind.arguments_class(**options(tmp_path)), train_dataset=stream, spec=SPEC).train()
        assert len(read) <= 16  # two steps of four rows, and what a loader fetches ahead


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame({"text": ["one", "two"], "label": [0, 1]}),
        [{"text": "one", "label": 0}, {"text": "two", "label": 1}],
    ],
    ids=["frame", "list"],
)
def test_objects_of_python_are_rows(tmp_path, data):
    LongSeqTrainer(CONFIG, TrainingArguments(**options(tmp_path)), train_dataset=data).train()


TEXTS = Dataset.from_dict({"text": ["one", "two"], "label": [0, 1]})
VALUES = TaskSpec("v", "values", 8, num_channels=1, labels=("a", "b"))
MISTAKES = {
    "None": (Dataset.from_dict({"text": ["one", None], "label": [0, 1]}), r"'text' holds an empty cell \(None\)"),
    "numbers": (Dataset.from_dict({"text": [1, 2], "label": [0, 1]}), "'text' holds 1 in the place of a text"),
    "no rows": (Dataset.from_dict({"input_ids": [], "labels": []}), "has no rows"),
    "empty list": ([], "has no rows"),
    "stream": (rows().to_iterable_dataset(), "is a stream"),
    "generator": (IterableDataset.from_generator(lambda: iter([{"text": "one"}])), "is a stream"),
    "None of ids": (Dataset.from_dict({"input_ids": [[1, 2], None], "labels": [0, 1]}), "input_ids is empty in row 2"),
    "words as ids": (Dataset.from_dict({"input_ids": [["a"], ["b"]], "labels": [0, 1]}), r"'input_ids' holds \['a'\]"),
    "None of labels": (Dataset.from_dict({"text": ["one", "two"], "label": [0, None]}), "labels is empty in row 2"),
    "names": (rows(labels=[["x", "y"], ["y"]] * 6), r"labels holds \['x', 'y'\]: give whole numbers"),
    "path": ("rows.csv", "The data set is 'rows.csv': open it by load_task"),
    "splits": (DatasetDict({"train": TEXTS}), "train_dataset is a mapping of train: give one split"),
    "columns": (Dataset.from_dict({"body": ["one"]}), "The data set has columns body: a row needs"),
}


@pytest.mark.parametrize("data, message", MISTAKES.values(), ids=MISTAKES)
def test_what_cannot_be_read_is_said_in_one_sentence(tmp_path, data, message):
    with pytest.raises(HfLongSeqError, match=message) as caught:
        LongSeqTrainer(CONFIG, TrainingArguments(**options(tmp_path)), train_dataset=data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "given, message",
    [
        ({"args": "runs/x"}, "args is str: LongSeqTrainer takes TrainingArguments"),
        ({"spec": {"modality": "tokens"}}, "spec is dict: LongSeqTrainer takes TaskSpec"),
        ({"spec": VALUES}, "column 'text' holds texts, and LongSeqFeatureExtractor reads none"),
        (
            {"eval_dataset": TEXTS.remove_columns("label")},
            "eval_dataset has columns input_ids, and no labels",
        ),
    ],
    ids=["args", "spec", "spec of values", "no labels"],
)
def test_other_arguments_are_said_in_one_sentence(tmp_path, given, message):
    usual = {"args": TrainingArguments(**options(tmp_path)), "train_dataset": TEXTS}
    with pytest.raises(HfLongSeqError, match=message):
        LongSeqTrainer(CONFIG, **usual | given)
