import pytest
import torch

from hf_longseq.training.run import load_data
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
