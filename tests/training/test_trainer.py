import numpy as np
import pytest
import torch
from datasets import ClassLabel, Dataset
from peft import LoraConfig
from transformers import BertConfig, BertForSequenceClassification, TrainerCallback, TrainingArguments
from transformers.trainer_utils import HPSearchBackend

from hf_longseq import S4Config
from hf_longseq.data.collators import DataCollatorWithLongPadding
from hf_longseq.data.task_spec import TaskSpec
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.config import SPTConfig
from hf_longseq.training.run import load_data
from hf_longseq.training.sampling import FILLER, FillerCollator
from hf_longseq.training.trainer import LongSeqTrainer, SPTTrainer


@pytest.fixture
def make_trainer(tiny, tmp_path):
    def make(phase, *, eval_batch_size=4, **options):
        recipe = tiny(**options)
        data = load_data(recipe.data)
        section = getattr(recipe, phase)
        section.per_device_eval_batch_size = eval_batch_size
        trainer = (SPTTrainer if phase == "pretrain" else LongSeqTrainer)(
            model=recipe.model,
            args=section.of_run(tmp_path, steps=2, seed=0, metric="loss"),
            train_dataset=data.labelled,
            eval_dataset=data.validation,
            spec=data.spec,
        )
        return trainer, data

    return make


def scores(trainer):
    timing = ("runtime", "per_second", "preparation_time")
    return {key: value for key, value in trainer.evaluate().items() if not key.endswith(timing)}


def test_the_optimizer_uses_the_groups_that_the_model_declares(make_trainer):
    trainer, _ = make_trainer("finetune", finetune={"ssm_learning_rate": 1e-4, "weight_decay": 0.07})
    groups = {group["name"]: group for group in trainer.create_optimizer().param_groups}
    assert (groups["ssm"]["lr"], groups["ssm"]["weight_decay"]) == (1e-4, 0)
    assert (groups["decay"]["lr"], groups["decay"]["weight_decay"]) == (1e-3, 0.07)
    assert groups["no_decay"]["weight_decay"] == 0
    assert sum(len(group["params"]) for group in groups.values()) == len(list(trainer.model.parameters()))


@pytest.mark.parametrize(
    "task, objective",
    [("waves", "masked"), ("tags", "masked"), ("twins", "masked"), ("heights", "causal"), ("tags", "causal")],
)
def test_denoising_scores_do_not_depend_on_the_batch_size(make_trainer, task, objective):
    found = []
    for eval_batch_size in (1, 5, 13):  # 13 examples: 5 leaves an uneven last batch
        torch.manual_seed(0)
        trainer, _ = make_trainer(
            "pretrain", task=task, pretrain={"objective": objective}, eval_batch_size=eval_batch_size
        )
        found.append(scores(trainer))
    assert found[1] == pytest.approx(found[0], abs=1e-5) and found[2] == pytest.approx(found[0], abs=1e-5)
    assert found[0]["eval_scored_positions"] > 0


@pytest.mark.parametrize("task, levels", [("waves", 0), ("waves", 16), ("tags", None)])
@pytest.mark.parametrize("objective", ["masked", "causal"])
def test_the_denoising_loss_is_that_of_the_whole_split_in_one_batch(make_trainer, task, levels, objective):
    trainer, data = make_trainer("pretrain", task=task, pretrain={"objective": objective, "num_levels": levels})
    batch = trainer.eval_data_collator(list(data.validation))
    with torch.no_grad():
        expected = trainer.model.eval()(**batch).loss.item()
    found = scores(trainer)
    assert found["eval_loss"] == pytest.approx(expected, rel=1e-5)
    if task == "waves" and not levels:
        assert found["eval_masked_mae"] == pytest.approx(expected, rel=1e-5)
    else:
        assert 0 <= found["eval_masked_accuracy"] <= 1


def test_masked_accuracy_counts_the_positions_restored(make_trainer):
    trainer, data = make_trainer("pretrain", task="tags")
    batch = trainer.eval_data_collator(list(data.validation))
    with torch.no_grad():
        right = trainer.model.eval()(**batch).logits.argmax(-1) == batch["labels"]
    scored = batch["labels"] != -100
    assert scores(trainer)["eval_masked_accuracy"] == pytest.approx(
        (right & scored).sum().item() / scored.sum().item()
    )


def test_evaluation_masks_are_fixed_and_training_masks_are_not(make_trainer):
    trainer, data = make_trainer("pretrain", task="waves")
    rows = list(data.validation)
    evaluation = [next(iter(trainer.get_eval_dataloader()))["bool_masked_pos"] for _ in range(2)]
    training = [trainer.data_collator(rows)["bool_masked_pos"] for _ in range(2)]
    assert torch.equal(*evaluation) and not torch.equal(*training)


@pytest.mark.parametrize(
    "task, metric", [("waves", "accuracy"), ("heights", "rmse"), ("tags", "f1"), ("twins", "accuracy")]
)
def test_classification_scores_are_those_of_the_whole_split(make_trainer, task, metric):
    trainer, data = make_trainer("finetune", task=task, eval_batch_size=5)
    batch = trainer.data_collator(list(data.validation))
    with torch.no_grad():
        outputs = trainer.model.eval()(**batch)
    found = scores(trainer)
    assert found["eval_loss"] == pytest.approx(outputs.loss.item(), rel=1e-5)
    if metric == "accuracy":
        right = outputs.logits.argmax(-1) == batch["labels"]
        assert found["eval_accuracy"] == pytest.approx(right.double().mean().item())
    if metric == "rmse":
        scale = trainer.model.config.label_scale[0]  # the loss is that of standardised targets
        assert found["eval_rmse"] == pytest.approx(scale * outputs.loss.sqrt().item(), rel=1e-5)
        assert found["eval_r2"] < 1
    assert f"eval_{metric}" in found


def test_accumulation_follows_from_the_global_batch_size(tiny, tmp_path, monkeypatch):
    section = tiny(finetune={"global_batch_size": 24, "per_device_train_batch_size": 4}).finetune
    arguments = section.of_run(tmp_path, steps=2, seed=0, metric="loss")
    assert (arguments.per_device_train_batch_size, arguments.gradient_accumulation_steps) == (4, 6)


@pytest.mark.parametrize("workers", [0, 1])
def test_each_split_has_its_own_scores_where_workers_persist(make_trainer, workers):
    trainer, data = make_trainer("finetune", finetune={"dataloader_num_workers": workers})
    validation = trainer.evaluate()
    test = trainer.evaluate(data.test, metric_key_prefix="test")
    alone = LongSeqTrainer(trainer.model, trainer.args, eval_dataset=data.test, spec=data.spec).evaluate()
    assert test["test_loss"] == pytest.approx(alone["eval_loss"]) != validation["eval_loss"]


def test_what_an_interrupted_evaluation_left_is_not_scored(make_trainer):
    trainer, _ = make_trainer("pretrain")
    whole = scores(trainer)
    trainer._split_metrics._batches = [np.ones((3, 3))]
    assert scores(trainer) == whole


def test_the_loss_of_evaluation_is_the_one_that_a_subclass_computes(make_trainer):
    class Tenfold(LongSeqTrainer):
        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            loss, outputs = super().compute_loss(model, inputs, return_outputs=True, **kwargs)
            return (10 * loss, outputs) if return_outputs else 10 * loss

    trainer, data = make_trainer("finetune")
    tenfold = Tenfold(trainer.model, trainer.args, eval_dataset=data.validation, spec=data.spec)
    assert tenfold.evaluate()["eval_loss"] > 5 * trainer.evaluate()["eval_loss"]


def test_label_smoothing_is_refused_where_it_would_smooth_other_positions(tmp_path):
    rows = Dataset.from_dict({"input_ids": [[1, 2, 3, 4]] * 4, "labels": [0, 1] * 2})
    args = {"label_smoothing_factor": 0.1, "report_to": "none"}
    with pytest.raises(HfLongSeqError, match="label_smoothing_factor is 0.1"):
        SPTTrainer("s4", SPTConfig(tmp_path, objective="causal", **args), train_dataset=rows)
    LongSeqTrainer("s4", TrainingArguments(tmp_path, **args), train_dataset=rows)


@pytest.mark.parametrize("labels", [[0.5, 1.5] * 2, [[1.0, 0.0], [1.0, 1.0]] * 2], ids=["numbers", "several"])
def test_label_smoothing_is_refused_where_labels_are_numbers(tmp_path, labels):
    rows = Dataset.from_dict({"input_values": [[0.1, 0.2, 0.3]] * 4, "labels": labels})
    args = {"label_smoothing_factor": 0.1, "report_to": "none"}
    with pytest.raises(HfLongSeqError, match="label_smoothing_factor is 0.1"):
        LongSeqTrainer("s4", TrainingArguments(tmp_path, **args), train_dataset=rows)
    with pytest.raises(HfLongSeqError, match="label_smoothing_factor is 0.1"):
        SPTTrainer("s4", SPTConfig(tmp_path, **args), train_dataset=rows)
    levels = TaskSpec("own", "values", 3, num_channels=1, num_levels=4, value_range=(0.0, 1.0), problem_type=None)
    SPTTrainer("s4", SPTConfig(tmp_path, **args), train_dataset=rows, spec=levels)


@pytest.mark.parametrize("given", ["model", "model_init"])
@pytest.mark.parametrize("adapters", [False, True])
def test_a_model_of_transformers_accumulates_the_gradient_of_the_whole_batch(tmp_path, given, adapters):
    config = BertConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    rows = Dataset.from_dict({"input_ids": [[1, 2, 3, 4 + i % 3] for i in range(8)], "labels": [0, 1] * 4})
    lora = LoraConfig(r=2, target_modules=["query"], modules_to_save=["classifier"]) if adapters else None
    norms = []

    def build():
        torch.manual_seed(0)
        return BertForSequenceClassification(config)

    for batch, accumulated in ((8, 1), (2, 4)):
        args = TrainingArguments(
            tmp_path, per_device_train_batch_size=batch, gradient_accumulation_steps=accumulated, max_steps=1,
            logging_steps=1, report_to="none", save_strategy="no", max_grad_norm=1e9,
        )  # fmt: skip
        made = {given: build if given == "model_init" else build()}
        trainer = LongSeqTrainer(args=args, train_dataset=rows, peft_config=lora, **made)
        trainer.train()
        norms.append(trainer.state.log_history[0]["grad_norm"])
    assert norms[1] == pytest.approx(norms[0], rel=1e-3)


class FewEpochs(TrainerCallback):
    def on_epoch_begin(self, args, state, control, **kwargs):
        self.begun = getattr(self, "begun", 0) + 1
        assert self.begun < 5, "epochs begin without end"


def test_a_finished_run_on_a_stream_ends_when_it_is_resumed(tmp_path):
    rows = Dataset.from_dict({"input_ids": [[1, 2, 3, 4]] * 8, "labels": [0, 1] * 4}).to_iterable_dataset()
    spec = TaskSpec("own", "tokens", 4, vocab_size=6, labels=("a", "b"), problem_type="single_label_classification")
    args = TrainingArguments(tmp_path, max_steps=2, save_steps=2, per_device_train_batch_size=4, report_to="none")
    for resumed in (False, True):
        trainer = LongSeqTrainer("s4", args, train_dataset=rows, spec=spec, callbacks=[FewEpochs()])
        trainer.train(resume_from_checkpoint=resumed)
        assert trainer.state.global_step == 2


TOKENS = Dataset.from_dict({"input_ids": [[1, 2, 3, 4, 5, 6]] * 8, "labels": [0, 1] * 4})


def test_resuming_takes_the_newest_checkpoint_that_is_complete(tmp_path):
    args = SPTConfig(tmp_path, max_steps=3, save_steps=1, report_to="none", use_cpu=True)
    SPTTrainer("s4", args, train_dataset=TOKENS).train()
    (tmp_path / "checkpoint-3" / "optimizer.pt").unlink()
    again = SPTTrainer("s4", args, train_dataset=TOKENS, callbacks=[counted := Steps()])
    again.train(resume_from_checkpoint=True)
    assert (counted.steps, again.state.global_step) == (1, 3)
    for step in (1, 2, 3):
        (tmp_path / f"checkpoint-{step}" / "model.safetensors").write_bytes(b"")
    with pytest.raises(HfLongSeqError, match="checkpoint-3 is not complete, nor is an older checkpoint"):
        SPTTrainer("s4", args, train_dataset=TOKENS).train(resume_from_checkpoint=True)


class Steps(TrainerCallback):
    steps = 0

    def on_step_end(self, args, state, control, **kwargs):
        self.steps += 1


def test_a_trial_of_a_search_shares_its_batch_and_masks_as_it_says(tmp_path):
    args = SPTConfig(tmp_path, max_steps=1, mask_ratio=0.2, global_batch_size=8, report_to="none", use_cpu=True)
    trainer = SPTTrainer(args=args, train_dataset=TOKENS, model_init=lambda: S4Config(hidden_size=8))
    trainer.hp_search_backend = HPSearchBackend.RAY
    for batch, ratio in ((4, 0.5), (6, 0.4)):
        trainer._hp_search_setup({"global_batch_size": batch, "mask_ratio": ratio})
        found = trainer.args
        assert found.per_device_train_batch_size * found.gradient_accumulation_steps == batch
        assert (trainer.data_collator.mask_ratio, trainer.eval_data_collator.mask_ratio) == (ratio, 0.2)
    with pytest.raises(HfLongSeqError, match="a trial changes objective"):
        trainer._hp_search_setup({"objective": "causal"})


def test_classes_in_another_order_are_refused_when_they_are_scored(tmp_path):
    def rows(*names):
        return TOKENS.cast_column("labels", ClassLabel(names=list(names)))

    args = TrainingArguments(tmp_path, max_steps=1, report_to="none", use_cpu=True)
    trainer = LongSeqTrainer("s4", args, train_dataset=rows("a", "b"))
    trainer.evaluate(rows("a", "b"))
    with pytest.raises(HfLongSeqError, match="numbers its classes in the order b, a, but the model in the order a, b"):
        trainer.evaluate(rows("b", "a"))


def test_outputs_are_prepared_for_metrics_that_are_given(tmp_path):
    with pytest.raises(HfLongSeqError, match="preprocess_logits_for_metrics has no compute_metrics"):
        LongSeqTrainer("s4", TrainingArguments(tmp_path), train_dataset=TOKENS,
                       preprocess_logits_for_metrics=lambda logits, labels: logits)  # fmt: skip


def test_a_collator_of_ones_own_sees_which_rows_fill(tmp_path):
    model = LongSeqTrainer("s4", TrainingArguments(tmp_path), train_dataset=TOKENS).model
    collator = DataCollatorWithLongPadding()
    trainer = LongSeqTrainer(model, TrainingArguments(tmp_path), collator, train_dataset=TOKENS)
    assert trainer.args.remove_unused_columns
    read = trainer._get_collator_with_removed_columns(FillerCollator(collator))
    rows = [{**TOKENS[0], "more": 1}, {**TOKENS[1], "more": 1, FILLER: True}]
    assert read(rows)["labels"].tolist() == [0, -100]


def test_a_regression_of_a_model_of_transformers_accumulates(tmp_path):
    rows = Dataset.from_dict({"input_ids": [[1, 2, 3]] * 8, "labels": [0.5, 1.5] * 4})
    config = BertConfig(vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8,
                        num_labels=1)  # fmt: skip
    args = TrainingArguments(tmp_path, max_steps=1, gradient_accumulation_steps=2, report_to="none", use_cpu=True)
    trainer = LongSeqTrainer(BertForSequenceClassification(config), args, train_dataset=rows)
    assert trainer.train().training_loss > 0


def test_masks_of_a_stream_are_fresh_in_every_pass(tmp_path):
    spec = TaskSpec("own", "tokens", 6, vocab_size=8, mask_token_id=7, mask_ratio=0.5, problem_type=None)
    args = SPTConfig(tmp_path, max_steps=4, per_device_train_batch_size=8, report_to="none", use_cpu=True)
    stream = TOKENS.select_columns(["input_ids"]).to_iterable_dataset()
    trainer = SPTTrainer("s4", args, train_dataset=stream, spec=spec, callbacks=[seen := Epochs()])
    seen.collator = trainer.data_collator
    trainer.train()
    assert seen.epochs == [0, 1, 2, 3]


class Epochs(TrainerCallback):
    def __init__(self):
        self.epochs = []

    def on_step_begin(self, args, state, control, **kwargs):
        self.epochs.append(int(self.collator._epoch))
