import json
import shutil

import pytest
from transformers import TrainerState, TrainingArguments

from hf_longseq import finetune
from hf_longseq.training import checkpoints
from hf_longseq.training.checkpoints import newest_intact


def make_checkpoint(run, step, best=None, sealed=True):
    folder = run / "checkpoints" / f"checkpoint-{step}"
    (folder / "optimizer_0").mkdir(parents=True)
    for name in ("model.safetensors", "optimizer.pt", "optimizer_0/shard.distcp"):
        (folder / name).write_bytes(bytes([step]) * 1000)
    (folder / "trainer_state.json").write_text(json.dumps({"best_global_step": best}))
    if sealed:
        checkpoints.seal(folder)
    return folder


def test_without_a_seal_a_checkpoint_does_not_count(tmp_path):
    make_checkpoint(tmp_path, 5)
    make_checkpoint(tmp_path, 10)
    make_checkpoint(tmp_path, 15, sealed=False)
    assert newest_intact(tmp_path / "checkpoints").name == "checkpoint-10"  # by number, not as text
    assert newest_intact(tmp_path / "nowhere") is None


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "optimizer_0/shard.distcp", "complete.json"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing", "empty"])
def test_damage_to_any_file_is_found_and_the_checkpoint_before_is_used(tmp_path, name, damage):
    make_checkpoint(tmp_path, 5)
    path = make_checkpoint(tmp_path, 10) / name
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        flipped = bytes([content[0] ^ 1]) + content[1:]
        path.write_bytes({"truncated": content[:-3], "flipped": flipped, "empty": b""}[damage])
    assert newest_intact(tmp_path / "checkpoints").name == "checkpoint-5"


def test_a_checkpoint_whose_best_one_is_damaged_is_passed_over(tmp_path):
    make_checkpoint(tmp_path, 5, best=5)
    make_checkpoint(tmp_path, 10, best=10)
    make_checkpoint(tmp_path, 15, best=10)
    assert newest_intact(tmp_path / "checkpoints").name == "checkpoint-15"
    (tmp_path / "checkpoints" / "checkpoint-10" / "model.safetensors").write_bytes(b"")
    assert newest_intact(tmp_path / "checkpoints").name == "checkpoint-5"


def test_a_best_checkpoint_is_found_where_it_is(tmp_path):
    old, new = (tmp_path / name / "checkpoints" for name in ("old", "new"))
    best = make_checkpoint(tmp_path / "old", 5)
    for folder, recorded, found in [(old, "moved/checkpoint-5", best), (new, str(best), best), (new, "gone", None)]:
        state = TrainerState(best_global_step=5, best_model_checkpoint=recorded)
        checkpoints.OwnBestCheckpoint().on_train_begin(TrainingArguments(folder), state, None)
        assert state.best_model_checkpoint == (found and str(found))


def test_older_checkpoints_go_but_not_the_best_ones_of_those_that_stay(tmp_path):
    for step, best in [(5, 5), (10, 5), (15, 15), (20, 15), (25, 15)]:
        make_checkpoint(tmp_path, step, best)
    make_checkpoint(tmp_path, 22, sealed=False)
    checkpoints.discard_superseded(tmp_path / "checkpoints", keep=2)
    left = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert left == {"checkpoint-15", "checkpoint-20", "checkpoint-25"}


def interrupted_at(step):
    def listener(label, at, total, text):
        if at == step:
            raise KeyboardInterrupt

    return listener


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder for the runs below, each of which is trained once."""
    return tmp_path_factory.mktemp("trained")


@pytest.fixture
def recipe(tiny):
    return tiny(
        model={"dropout": 0.1},
        finetune={
            "max_steps": 12,
            "eval_steps": 2,
            "learning_rate": 0.3,
            "warmup_steps": 0,
            "lr_scheduler_type": "constant_with_warmup",
        },
    )


@pytest.fixture
def interrupted(recipe, trained, tmp_path):
    """A copy of a run that was interrupted after step 11 of 12, and whose best step is 2; the original is gone."""
    if not (trained / "kept").exists():
        with pytest.raises(KeyboardInterrupt):
            finetune(recipe, trained / "run", listener=interrupted_at(11))
        (trained / "run").rename(trained / "kept")
    return shutil.copytree(trained / "kept", tmp_path / "run")


def test_a_run_keeps_two_complete_checkpoints_and_the_best_and_no_pickle_of_the_arguments(interrupted):
    run = interrupted
    best = json.loads((run / "checkpoints" / "checkpoint-10" / "trainer_state.json").read_text())["best_global_step"]
    folders = {path.name: path for path in (run / "checkpoints").iterdir()}
    assert {"checkpoint-8", "checkpoint-10", f"checkpoint-{best}"} == set(folders)
    assert all(checkpoints.is_intact(folder) for folder in folders.values())
    assert not list((run / "checkpoints").rglob("training_args.bin"))


@pytest.mark.parametrize("damaged", [None, "optimizer.pt"])
def test_a_run_goes_on_to_the_same_result_wherever_it_was_moved_and_whatever_was_torn(
    recipe, trained, interrupted, damaged
):
    straight = finetune(recipe, trained / "straight")  # a finished run is not repeated
    if damaged:
        path = interrupted / "checkpoints" / "checkpoint-10" / damaged
        path.write_bytes(path.read_bytes()[:-20])
    steps = []
    result = finetune(recipe, interrupted, listener=lambda label, step, total, text: steps.append(step))
    assert steps[0] == (8 if damaged else 10)
    assert result.metrics["best_step"] == straight.metrics["best_step"]
    assert (interrupted / "model.safetensors").read_bytes() == (straight.output_dir / "model.safetensors").read_bytes()


def test_a_run_killed_after_its_last_step_takes_no_step_more(tiny, tmp_path, monkeypatch):
    recipe = tiny(finetune={"max_steps": 6, "eval_steps": 2})  # in the middle of an epoch
    straight = finetune(recipe, tmp_path / "straight")
    from hf_longseq.training import run

    with monkeypatch.context() as patch:
        patch.setattr(run, "_finish", lambda *parts: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            finetune(recipe, tmp_path / "run")
    result = finetune(recipe, tmp_path / "run")
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (
        straight.output_dir / "model.safetensors"
    ).read_bytes()
    history = json.loads((result.output_dir / "history.json").read_text())
    assert max(entry["step"] for entry in history) == 6
