import errno
import json
import math
import os
import signal
import sys
import types
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from hf_longseq import finetune, pretrain
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training import callbacks, checkpoints, run_folder
from hf_longseq.training.trainer import LongSeqTrainer


@pytest.fixture
def recipe(tiny):
    steps = {"max_steps": 9, "eval_steps": 3}
    return tiny(model={"dropout": 0.1}, pretrain=steps, finetune=steps)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """The weights and the validation scores of `recipe` when nothing gets in its way, trained once."""
    done = []

    def run(recipe):
        if not done:
            result = pretrain(recipe, tmp_path_factory.mktemp("straight") / "run")
            done.append(((result.output_dir / "model.safetensors").read_bytes(), result.metrics["validation"]))
        return done[0]

    return run


def send(number, at):
    """A listener that sends this process a signal after a step."""

    def listener(label, step, total, text):
        if step == at and text is None:
            os.kill(os.getpid(), number)

    return listener


def test_the_handler_of_a_signal_tells_nothing_itself_for_the_teller_may_hold_a_lock():
    said = []
    stop = callbacks.StopOnSignal(lambda step, text: said.append(text))
    args = types.SimpleNamespace(world_size=1, output_dir="run")
    state = types.SimpleNamespace(global_step=3, max_steps=9, is_world_process_zero=True)
    control = types.SimpleNamespace(should_save=False)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), stop:
            signal.raise_signal(signal.SIGINT)
            assert not said
            stop.on_step_end(args, state, control)
            assert said == ["SIGINT: stopping with a checkpoint of this step (again: at once)"]
            assert control.should_save
            stop.on_save(args, state, control)
    finally:
        signal.signal(signal.SIGINT, before)
    assert said[1].startswith("stopped at step 3/9, saved in run;")


@pytest.mark.parametrize("number, at", [(signal.SIGINT, 4), (signal.SIGTERM, 6)])
def test_a_signal_saves_the_step_under_way_and_the_run_goes_on_from_it(recipe, straight, tmp_path, number, at):
    class Terminated(Exception):
        pass

    def terminate(number, frame):
        raise Terminated

    before = {name: signal.signal(name, terminate) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        with pytest.raises(Terminated):
            pretrain(recipe, tmp_path / "run", listener=send(number, at))
        assert signal.getsignal(number) is terminate
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
    assert checkpoints.newest_intact(tmp_path / "run" / "checkpoints").name == f"checkpoint-{at}"
    told = []
    resumed = pretrain(recipe, tmp_path / "run", listener=lambda label, step, total, text: told.append((step, text)))
    step, text = told[0]
    batch, examples = recipe.pretrain.global_batch_size, resumed.metrics["train_examples"]
    assert step == at and f"9 steps of {batch} of {examples} examples" in text
    weights = (resumed.output_dir / "model.safetensors").read_bytes()
    assert (weights, resumed.metrics["validation"]) == straight(recipe)


def test_gradients_that_are_no_numbers_end_the_run_before_they_are_saved(recipe, tmp_path, monkeypatch):
    stock = LongSeqTrainer.training_step

    def poisoned(trainer, model, *arguments, **options):
        loss = stock(trainer, model, *arguments, **options)
        if trainer.state.global_step == 5:  # the sixth step, after which a checkpoint is due
            next(model.parameters()).grad.fill_(math.nan)
        return loss

    monkeypatch.setattr(LongSeqTrainer, "training_step", poisoned)
    with pytest.raises(
        HfLongSeqError,
        match="norm of the gradient is nan at step 6: lower pretrain.learning_rate.* weights of checkpoint-3",
    ):
        pretrain(recipe, tmp_path / "run")
    kept = checkpoints.newest_intact(tmp_path / "run" / "checkpoints")
    assert kept.name == "checkpoint-3"
    assert all(tensor.isfinite().all() for tensor in load_file(kept / "model.safetensors").values())


def test_a_validation_loss_that_is_no_number_ends_the_run(tmp_path):
    args = types.SimpleNamespace(learning_rate=1e-3, max_grad_norm=1.0, output_dir=str(tmp_path))
    state = types.SimpleNamespace(global_step=7)
    with pytest.raises(HfLongSeqError, match="validation loss is inf at step 7"):
        callbacks.StopOnNaN("finetune").on_evaluate(args, state, None, metrics={"eval_loss": math.inf})


def full_disk(*arguments, **options):
    raise OSError(errno.ENOSPC, "No space left on device")


def torn_archive(*arguments, **options):
    raise RuntimeError("[enforce fail at inline_container.cc:664] . unexpected pos 64 vs 0")


@pytest.mark.parametrize("module, name, failure", [(checkpoints, "sync", full_disk), (torch, "save", torn_archive)])
def test_a_full_disk_ends_the_run_with_the_checkpoint_before_it_kept(
    recipe, straight, tmp_path, monkeypatch, module, name, failure
):
    stock = getattr(module, name)

    def fails(*arguments, **options):
        full = any("checkpoint-6" in str(argument) for argument in arguments)
        return failure() if full else stock(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(module, name, fails)
        with pytest.raises((OSError, RuntimeError), match="No space left|enforce fail"):
            pretrain(recipe, tmp_path / "run")
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["checkpoint-3"]
    resumed = pretrain(recipe, tmp_path / "run")
    assert (resumed.output_dir / "model.safetensors").read_bytes() == straight(recipe)[0]


@pytest.mark.parametrize("name", ["model.safetensors", "history.json", "metrics.json"])
def test_a_disk_that_fills_while_the_result_is_written_loses_nothing(recipe, straight, tmp_path, monkeypatch, name):
    run, stock, held = tmp_path / "run", run_folder.sync, []

    def fails(path):
        # of the final files, not of those below checkpoints/
        if Path(path).parent == run and name in Path(path).name:
            held.append(path)
            full_disk()
        return stock(path)

    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "sync", fails)
        with pytest.raises(OSError, match="No space left"):
            pretrain(recipe, run)
    assert held and not (run / "metrics.json").exists()
    assert (pretrain(recipe, run).output_dir / "model.safetensors").read_bytes() == straight(recipe)[0]


def test_chance_is_left_behind_by_two_standard_errors():
    assert callbacks.at_chance(0.507, 0.5, 20_000) and not callbacks.at_chance(0.508, 0.5, 20_000)
    assert callbacks.at_chance(0.7, 0.5, 13) and not callbacks.at_chance(0.8, 0.5, 13)
    assert callbacks.at_chance(1.0, 1.0, 13)


def test_a_classifier_that_learned_nothing_says_so(tiny, tmp_path):
    said = []
    result = finetune(
        tiny(finetune={"learning_rate": 0.0, "max_steps": 11}),
        tmp_path / "run",
        listener=lambda label, step, total, text: said.append(text or ""),
    )
    assert result.metrics["stuck_at_chance"] and 0.5 <= result.metrics["chance"] < 1
    assert any("stuck at chance" in text and "pretrain first" in text for text in said)
    assert "chance" not in finetune(tiny(task="heights"), tmp_path / "regression").metrics
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["stuck_at_chance"] is True


def test_a_tracker_that_is_not_installed_is_said_before_anything_is_written(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(HfLongSeqError, match="finetune.report_to is 'trackio', .* pip install trackio"):
        finetune(tiny(finetune={"report_to": "trackio"}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_tracker_writes_below_the_run_folder_and_may_change_when_a_run_goes_on(tiny, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    environment = dict(os.environ)
    options = {"max_steps": 6, "eval_steps": 2}
    # A process that a shell started in the background ignores Ctrl-C, and so would the run.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            finetune(tiny(finetune=options), tmp_path / "run", listener=send(signal.SIGINT, 3))
    finally:
        signal.signal(signal.SIGINT, before)
    assert not (tmp_path / "run" / "tensorboard").exists()  # nothing unless asked for
    finetune(tiny(finetune={**options, "report_to": "tensorboard"}), tmp_path / "run")
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    assert {"train/loss", "eval/loss", "eval/accuracy"} <= set(events.Tags()["scalars"])
    assert [event.step for event in events.Scalars("eval/loss")] == [4, 6]
    assert dict(os.environ) == environment


def test_each_run_of_wandb_is_closed_so_that_the_next_gets_its_own(tiny, tmp_path, monkeypatch):
    from hf_longseq.training.callbacks import tracker

    finished = []
    fake = types.SimpleNamespace(run=object(), finish=lambda: finished.append(os.environ.get("WANDB_DIR")))
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    with tracker(["wandb"], "finetune", tmp_path / "run"):
        assert os.environ["WANDB_DIR"] == str(tmp_path / "run") and not finished
    assert len(finished) == 1
