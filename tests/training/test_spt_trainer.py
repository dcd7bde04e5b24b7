"""`SPTTrainer` and `LongSeqTrainer` from plain rows: head, collator and metrics follow from model and rows."""

import numpy as np
import pytest
import torch
from datasets import ClassLabel, Dataset
from transformers import AutoConfig, AutoModelForMaskedLM, BertConfig, Trainer, TrainerCallback, TrainingArguments

from hf_longseq import DLRConfig, LongSeqTrainer, S4Config, S4ForSequenceClassification, S4Model, SPTConfig, SPTTrainer
from hf_longseq.data.collators import DataCollatorForCausalDenoising, DataCollatorForMaskedDenoising, in_direction
from hf_longseq.data.processors import byte_tokenizer
from hf_longseq.errors import HfLongSeqError
from hf_longseq.models import S4ForMaskedLM

SMALL = {"hidden_size": 8, "num_hidden_layers": 1, "state_size": 4}
BOTH_WAYS = S4Config(**SMALL, bidirectional=True)
LOOKING_BACK = S4Config(**SMALL)


def texts(count=12):
    return Dataset.from_dict({"text": ["one word", "another one"] * (count // 2), "label": [0, 1] * (count // 2)})


def tokens(count=12):
    return Dataset.from_dict({"input_ids": [[1, 2, 3, 4, 5 + i % 2] for i in range(count)], "labels": [0, 1] * 6})


def series(count=12, channels=2):
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(6 + i % 3, channels)).tolist() for i in range(count)]
    return Dataset.from_dict({"input_values": rows, "labels": rng.normal(size=count).tolist()})


def waves(count=12):
    return Dataset.from_dict({"input_values": [[0.1 * i, 0.5, -0.5, 0.0] for i in range(count)]})


def spt(folder, **fields):
    return SPTConfig(folder, max_steps=2, per_device_train_batch_size=4, report_to="none", disable_tqdm=True, **fields)


def supervised(folder, **fields):
    return TrainingArguments(folder, max_steps=2, report_to="none", disable_tqdm=True, **fields)


@pytest.mark.parametrize(
    "model, rows, fields, head",
    [
        (BOTH_WAYS, texts(), {}, "S4ForMaskedLM"),
        ("lru", texts().remove_columns("label"), {}, "LRUForMaskedLM"),
        (LOOKING_BACK, texts(), {"objective": "causal"}, "S4ForCausalLM"),
        (BOTH_WAYS, series(), {}, "S4ForPreTraining"),
        (LOOKING_BACK, waves(), {"objective": "causal"}, "S4ForPreTraining"),
        (S4Model(BOTH_WAYS), tokens(), {}, "S4ForMaskedLM"),
        (S4ForSequenceClassification(BOTH_WAYS), tokens(), {}, "S4ForMaskedLM"),
        (DLRConfig(hidden_size=8, num_hidden_layers=1, state_size=4), tokens(), {"span_length": 3}, "DLRForMaskedLM"),
        (
            BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8),
            tokens(),
            {},
            "BertForMaskedLM",
        ),
    ],
)
def test_pretraining_picks_the_head_and_the_collator(tmp_path, model, rows, fields, head):
    trainer = SPTTrainer(model=model, args=spt(tmp_path, **fields), train_dataset=rows, eval_dataset=rows)
    assert type(trainer.model).__name__ == head
    causal = fields.get("objective") == "causal"
    kind = DataCollatorForCausalDenoising if causal else DataCollatorForMaskedDenoising
    assert type(trainer.data_collator) is kind
    trainer.train()
    scores, again = trainer.evaluate(), trainer.evaluate()
    assert scores["eval_loss"] == again["eval_loss"] and np.isfinite(scores["eval_loss"])  # the masks are fixed
    assert scores["eval_scored_positions"] > 0


@pytest.mark.parametrize("rows", [tokens(), series(), waves()], ids=["tokens", "series", "waves"])
def test_causal_pretraining_goes_in_both_directions_by_turns(tmp_path, rows, monkeypatch):
    fields = {"objective": "causal", "both_directions": True, "gradient_accumulation_steps": 3}
    config = S4Config(**SMALL, bidirectional=True)
    trainer = SPTTrainer(model=config, args=spt(tmp_path, **fields), train_dataset=rows, eval_dataset=rows)
    forward, ways = trainer.model.forward, []
    monkeypatch.setattr(trainer.model, "forward", lambda **batch: ways.append(batch["direction"]) or forward(**batch))
    trainer.train()
    assert ways == ["forward"] * 3 + ["backward"] * 3
    scores = trainer.evaluate()
    assert ways[6:] == ["forward", "backward"] * 3  # 12 rows in batches as large as in training

    batch, losses = trainer.data_collator(list(trainer.eval_dataset)), []
    for direction in ("forward", "backward"):
        one = in_direction(batch, direction)
        with torch.no_grad():
            losses.append(float(forward(**one).loss))
    assert scores["eval_loss"] == pytest.approx(sum(losses) / 2, rel=1e-5)
    assert scores["eval_scored_positions"] == sum(
        int((batch[name] != -100).sum()) for name in batch if "labels" in name
    )


def test_masks_take_the_numbers_of_the_config(tmp_path):
    config = spt(tmp_path, mask_ratio=0.4, span_length=2, seed=7)
    trainer = SPTTrainer(model=BOTH_WAYS, args=config, train_dataset=tokens())
    collator = trainer.data_collator
    assert (collator.mask_ratio, collator.span_length, collator.seed) == (0.4, 2, 7)
    assert collator.mask_token_id == trainer.model.config.mask_token_id == 7  # one above the highest id in the rows


def test_levels_are_predicted_by_cross_entropy(tmp_path):
    pixels = Dataset.from_dict({"input_values": [np.arange(9, dtype=np.uint8) * 20] * 8})
    trainer = SPTTrainer(model=BOTH_WAYS, args=spt(tmp_path, num_levels=16), train_dataset=pixels, eval_dataset=pixels)
    assert trainer.model.config.num_levels == 16 and trainer.data_collator.num_levels == 16
    assert "eval_masked_accuracy" in trainer.evaluate()


def test_a_model_that_was_given_is_the_one_that_is_trained(tmp_path):
    trunk = S4Model(BOTH_WAYS)
    before = trunk.embed_tokens.weight.clone()
    trainer = SPTTrainer(model=trunk, args=spt(tmp_path), train_dataset=tokens())
    assert trainer.model.model is trunk
    trainer.train()
    assert not torch.equal(before, trunk.embed_tokens.weight)


def test_from_rows_to_a_pretrained_model_to_a_classifier(tmp_path):
    rows = texts()
    first = SPTTrainer(model=BOTH_WAYS, args=spt(tmp_path / "first"), train_dataset=rows)
    first.train()
    first.save_model(tmp_path / "pretrained")
    second = LongSeqTrainer(
        model=tmp_path / "pretrained",
        args=supervised(tmp_path / "second"),
        train_dataset=rows.cast_column("label", ClassLabel(names=["calm", "glad"])),
        eval_dataset=rows,
    )
    trunk, taken = first.model.model.state_dict(), second.model.model.state_dict()
    assert trunk.keys() == taken.keys() and all(torch.equal(trunk[name], taken[name]) for name in trunk)
    assert second.model.config.id2label == {0: "calm", 1: "glad"}
    second.train()
    assert 0 <= second.evaluate()["eval_accuracy"] <= 1
    answers = second.predict(rows)
    right = answers.predictions.argmax(-1) == answers.label_ids  # logits, as of every Trainer
    assert right.mean() == answers.metrics["test_accuracy"] and answers.metrics["test_loss"] > 0
    assert np.allclose(second.predict(rows.remove_columns("label")).predictions, answers.predictions)
    second.save_model(tmp_path / "classifier")
    third = SPTTrainer(model=str(tmp_path / "classifier"), args=spt(tmp_path / "third"), train_dataset=rows)
    assert isinstance(third.model, S4ForMaskedLM) and "tokenizer.json" in {
        p.name for p in (tmp_path / "classifier").iterdir()
    }
    assert AutoConfig.from_pretrained(tmp_path / "pretrained").mask_token_id == byte_tokenizer().mask_token_id


def test_a_saved_classifier_is_scored_as_it_is_on_rows_that_lack_a_class_or_have_other_numbers(tmp_path):
    """Its classes, and the scale of its targets, are those of its training, not of the rows to be scored."""
    labels = {"three": [i % 3 for i in range(24)], "numbers": [100.0 + i for i in range(24)]}
    for name, values in labels.items():
        rows = Dataset.from_dict({"input_ids": [[1 + i % 3] * 9 for i in range(24)], "labels": values})
        first = LongSeqTrainer(BOTH_WAYS, supervised(tmp_path / name), train_dataset=rows)
        first.save_model(tmp_path / name)
        some = rows.select([0, 3, 6, 9])
        expected = first.evaluate(some)["eval_loss"]
        for model in (str(tmp_path / name), first.model):
            again = LongSeqTrainer(model, supervised(tmp_path / "again"), eval_dataset=some)
            assert again.evaluate()["eval_loss"] == pytest.approx(expected, rel=1e-5), name


def test_classes_that_are_numbered_otherwise_and_streams_are_refused(tmp_path):
    rows = texts()
    named, turned = (rows.cast_column("label", ClassLabel(names=names)) for names in (["a", "b"], ["b", "a"]))
    with pytest.raises(HfLongSeqError, match="eval_dataset numbers its classes in the order b, a, but the model"):
        LongSeqTrainer(BOTH_WAYS, supervised(tmp_path), train_dataset=named, eval_dataset=turned)
    with pytest.raises(HfLongSeqError, match="is a stream"):
        LongSeqTrainer(BOTH_WAYS, supervised(tmp_path), train_dataset=rows.to_iterable_dataset())
    with pytest.raises(HfLongSeqError, match="model is str, and rows say which head it gets"):
        LongSeqTrainer("s4", supervised(tmp_path))


def test_numbers_are_regressed_in_their_own_units(tmp_path):
    rows = series()
    trainer = LongSeqTrainer(model="s4", args=supervised(tmp_path), train_dataset=rows, eval_dataset=rows)
    config = trainer.model.config
    assert config.problem_type == "regression" and config.label_mean == pytest.approx([np.mean(rows["labels"])])
    assert {"eval_rmse", "eval_mae", "eval_r2"} <= set(trainer.evaluate())


@pytest.mark.parametrize("shape", [(2,), (5,), (5, 2)], ids=["row", "position", "several per position"])
def test_several_numbers_are_regressed_for_a_row_or_for_each_position(tmp_path, shape):
    draw, kind = np.random.default_rng(0), "Sequence" if shape == (2,) else "Token"
    count, labels = shape[-1] if shape != (5,) else 1, draw.normal(3, 2, size=(12, *shape))
    rows = tokens().remove_columns("labels").add_column("labels", labels.tolist())
    SPTTrainer(BOTH_WAYS, spt(tmp_path / "first"), train_dataset=rows).save_model(tmp_path / "first")
    args = supervised(tmp_path / "run")
    trainer = LongSeqTrainer(str(tmp_path / "first"), args, train_dataset=rows, eval_dataset=rows)
    assert type(trainer.model).__name__ == f"S4For{kind}Classification"
    config = trainer.model.config
    assert config.num_labels == count and config.problem_type == "regression"
    assert config.label_mean == pytest.approx(labels.reshape(-1, count).mean(0))
    assert config.label_scale == pytest.approx(labels.reshape(-1, count).std(0))
    trainer.train()
    trainer.save_model(tmp_path / "run")
    again = LongSeqTrainer(str(tmp_path / "run"), args, eval_dataset=rows)
    assert again.evaluate()["eval_rmse"] == pytest.approx(trainer.evaluate()["eval_rmse"])
    assert again.predict(rows).predictions.shape == (12, *shape[: kind == "Token"], count)


def test_outputs_that_a_configuration_names_keep_their_names(tmp_path):
    rows = tokens().remove_columns("labels").add_column("labels", [[60.0 + i, 0.9] for i in range(12)])
    names = {0: "pulse", 1: "oxygen"}
    trainer = LongSeqTrainer(S4Config(**SMALL, id2label=names), supervised(tmp_path), train_dataset=rows)
    assert trainer.model.config.id2label == names
    unnamed = LongSeqTrainer("s4", supervised(tmp_path), train_dataset=rows).model.config
    assert unnamed.id2label == {0: "value_0", 1: "value_1"}


def test_as_many_numbers_as_positions_are_those_of_the_row_for_a_head_of_rows(tmp_path):
    rows = Dataset.from_dict({"input_ids": [[1, 2, 3]] * 6, "labels": [[0.5, 1.5, float(i)] for i in range(6)]})
    given = S4ForSequenceClassification(S4Config(**SMALL, num_labels=3, problem_type="regression"))
    assert LongSeqTrainer(given, supervised(tmp_path), train_dataset=rows).model is given
    fresh = LongSeqTrainer("s4", supervised(tmp_path), train_dataset=rows).model
    assert type(fresh).__name__ == "S4ForTokenClassification" and fresh.config.num_labels == 1


def test_a_list_of_labels_is_one_for_each_position(tmp_path):
    rows = Dataset.from_dict({"input_ids": [[1, 2, 3], [3, 4]] * 4, "labels": [[0, 1, -100], [2, 2]] * 4})
    trainer = LongSeqTrainer(model=BOTH_WAYS, args=supervised(tmp_path), train_dataset=rows, eval_dataset=rows)
    assert type(trainer.model).__name__ == "S4ForTokenClassification" and trainer.model.config.num_labels == 3
    trainer.train()
    assert "eval_token_f1" in trainer.evaluate()


def test_everything_of_training_arguments_and_of_the_trainer_is_there(tmp_path):
    seen = []

    class Watch(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            seen.append(state.global_step)

    trainer = SPTTrainer(
        model=BOTH_WAYS,
        args=spt(tmp_path, optim="adafactor", ssm_learning_rate=1e-4, train_sampling_strategy="group_by_length"),
        train_dataset=series(),
        callbacks=[Watch()],
        compute_metrics=None,
    )
    trainer.train()
    assert seen == [1, 2] and type(trainer.optimizer.optimizer).__name__ == "Adafactor"
    groups = {group["name"]: group for group in trainer.optimizer.param_groups}
    assert groups["ssm"]["weight_decay"] == 0 and groups["ssm"]["initial_lr"] == 1e-4
    assert groups["decay"]["weight_decay"] == 0.05
    assert trainer.group_by_length


def test_own_metrics_replace_ours(tmp_path):
    rows = texts()
    trainer = LongSeqTrainer(
        model=BOTH_WAYS,
        args=supervised(tmp_path),
        train_dataset=rows,
        eval_dataset=rows,
        compute_metrics=lambda prediction: {"shape": prediction.predictions.shape[1]},
    )
    assert trainer.evaluate()["eval_shape"] == 2


@pytest.mark.parametrize(
    "change, words",
    [
        ({"args": "plain"}, ["TrainingArguments", "SPTConfig"]),
        ({"model": "s5x"}, ["s5x"]),
        ({"model": 7}, ["int", "hf:TYPE"]),
        ({"train_dataset": Dataset.from_dict({"pixels": [[1]]})}, ["pixels", "input_ids", "load_task"]),
        ({"model": S4Model(S4Config(**SMALL, input_type="values"))}, ["reads values", "tokens"]),
        ({"model": BOTH_WAYS, "objective": "causal"}, ["bidirectional"]),
        (
            {"model": LOOKING_BACK, "objective": "causal", "both_directions": True},
            ["both_directions", "bidirectional"],
        ),
        ({"model": "hf:gpt_neox", "objective": "causal", "both_directions": True}, ["both_directions"]),
        ({"both_directions": True}, ["both_directions", "set the objective to 'causal'"]),
        ({"objective": "maskd"}, ["maskd", "did you mean 'masked'"]),
        ({"mask_ratio": 1.0}, ["mask_ratio", "1.0"]),
        ({"span_length": 0}, ["span_length", "0"]),
        ({"num_levels": 1}, ["num_levels", "1"]),
    ],
)
def test_what_cannot_be_pretrained_is_named(tmp_path, change, words):
    own = ("objective", "both_directions", "mask_ratio", "span_length", "num_levels")
    fields = {name: change.pop(name) for name in own if name in change}
    with pytest.raises((HfLongSeqError, OSError)) as caught:
        arguments = supervised(tmp_path) if change.pop("args", None) else spt(tmp_path, **fields)
        SPTTrainer(**({"model": BOTH_WAYS, "train_dataset": tokens()} | change), args=arguments)
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize(
    "labels, words", [(None, ["labels"]), (["a", "b"], ["'a'", "class_encode_column"])], ids=["none", "words"]
)
def test_what_cannot_be_classified_is_named(tmp_path, labels, words):
    rows = Dataset.from_dict({"input_ids": [[1, 2], [3, 4]], **({"label": labels} if labels else {})})
    with pytest.raises(HfLongSeqError) as caught:
        LongSeqTrainer(model=BOTH_WAYS, args=supervised(tmp_path), train_dataset=rows)
    assert all(word in str(caught.value) for word in words)


def test_the_stock_trainer_decays_no_state_space_parameter_when_the_model_makes_its_optimizer(tmp_path):
    model = AutoModelForMaskedLM.from_config(BOTH_WAYS)
    arguments = supervised(tmp_path, weight_decay=0.1, learning_rate=1e-3)
    trainer = Trainer(model, arguments, optimizer_cls_and_kwargs=model.trainer_optimizer(arguments, 1e-4))
    groups = {group["name"]: group for group in trainer.create_optimizer().param_groups}
    assert (groups["ssm"]["weight_decay"], groups["ssm"]["lr"]) == (0, 1e-4)
    assert groups["decay"]["weight_decay"] == 0.1
    assert sum(len(group["params"]) for group in groups.values()) == len(list(model.parameters()))
