"""A comparison is one process that hands out runs: whatever is killed, each is done once, with the same result."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import psutil
import pytest
import torch

from hf_longseq import Recipe
from hf_longseq.comparison import compare, workers
from hf_longseq.comparison.execute import clear_leftovers
from hf_longseq.comparison.plan import Run
from hf_longseq.comparison.workers import Task, launch
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training import run_folder
from hf_longseq.training.progress import silent
from results_folders import arms_of

OVERRIDES = {"pretrain": {"max_steps": 2}, "finetune": {"max_steps": 2}}
RAW = {"data": {"task": "waves"}, "model": {"arch": "s4", "hidden_size": 8, "num_hidden_layers": 1}}


def do(out, **options):
    return compare(RAW, out, overrides=OVERRIDES, tiny=True, **options)


@pytest.mark.parametrize("options", [{}, {"seeds": [1]}, {"overwrite": True}])
def test_a_second_command_in_the_folder_is_refused_while_one_works_there(toy_tasks, tmp_path, monkeypatch, options):
    monkeypatch.setattr(run_folder, "SECONDS_TO_DIE", 0.1)
    do(tmp_path / "out", inits=["scratch"])
    before = (tmp_path / "out" / "results.json").read_text()
    with run_folder.holding(tmp_path / "out"):
        with pytest.raises(HfLongSeqError, match="is in use by another command .process .*: let it end"):
            do(tmp_path / "out", inits=["scratch"], **options)
    assert (tmp_path / "out" / "results.json").read_text() == before


def test_processes_that_a_launcher_started_together_are_refused(toy_tasks, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(HfLongSeqError, match="a launcher started 2: start it alone, with --num_processes N"):
        do(tmp_path / "out", inits=["scratch"])
    assert not (tmp_path / "out").exists()


def test_runs_of_machines_that_share_nothing_are_put_together(toy_tasks, tmp_path):
    """As jobs on rented machines: each does some seeds, and the whole command finds them all done."""
    for seed in (0, 1):
        do(tmp_path / f"job{seed}", seeds=[seed], inits=["scratch"])
        shutil.copytree(tmp_path / f"job{seed}", tmp_path / "all", dirs_exist_ok=True)
    said = []
    do(tmp_path / "all", seeds=[0, 1], inits=["scratch"], listener=lambda *words: said.append(words))
    assert not any(text for _, _, _, text in said)
    values = [arms_of(tmp_path / name)[0]["values"] for name in ("job0", "job1", "all")]
    assert values[2] == values[0] + values[1]


@pytest.mark.parametrize("visible, found, jobs, gpus, names", [
    (None, 0, 2, 1, ["", ""]),
    (None, 2, 3, 1, ["0", "1", "0"]),
    ("4,6", 2, 2, 1, ["4", "6"]),
    ("4,6", 1, 2, 1, ["4", "4"]),
    (None, 4, 2, 2, ["0,1", "2,3"]),
])  # fmt: skip
def test_every_worker_has_gpus_of_its_own(monkeypatch, visible, found, jobs, gpus, names):
    monkeypatch.setattr("torch.cuda.device_count", lambda: found)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible or "")
    assert workers.devices_of_workers(jobs, gpus) == names
    assert workers.usual_jobs(gpus) == max(1, found // gpus)


def test_what_a_kill_left_of_runs_is_cleared_away(tmp_path):
    finished, begun = tmp_path / "runs" / "a", tmp_path / "runs" / "b"
    for folder in (finished, begun):
        (folder / "checkpoints" / "checkpoint-2").mkdir(parents=True)
        (folder / ".lock").write_text("process 7 on node3")
    (finished / "metrics.json").write_text("{}")
    clear_leftovers(tmp_path)
    assert [path.name for path in finished.iterdir()] == ["metrics.json"]
    assert [path.name for path in begun.iterdir()] == ["checkpoints"]


def test_a_run_that_a_living_process_still_writes_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder, "SECONDS_TO_DIE", 0)
    with run_folder.holding(tmp_path / "runs" / "a"):
        with pytest.raises(HfLongSeqError, match="a is in use by another command"):
            clear_leftovers(tmp_path)


def test_a_task_is_read_as_it_was_written(toy_tasks, tmp_path):
    recipe = Recipe.load(RAW, {"finetune": {"max_steps": 3}, "pretrain": {"objective": "causal"}})
    run = Run("s4-spt-s1", "finetune", "s4", "spt", 1, None, {"lr": 1e-3}, recipe, 3, 64, "s4-pretrain-s1")
    Task("train", run, tmp_path, 2, "fsdp2").write(tmp_path / "task.json")
    assert Task.read(tmp_path / "task.json") == Task("train", run, tmp_path)


# Processes of their own know the tasks of the package alone.
STEPS = {phase: {"max_steps": 4} for phase in ("pretrain", "finetune")}
LISTOPS = {"archs": ["s4"], "inits": ["scratch", "spt"], "seeds": [0], "overrides": STEPS, "tiny": True}
LISTOPS["baselines"] = False  # said here, for a fixture of the module and other processes know no monkeypatch


def weights(folder):
    return {path.parent.name: path.read_bytes() for path in folder.glob("runs/*/model.safetensors")}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What one process gives, on one thread as the workers have."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield compare("listops-tiny", tmp_path_factory.mktemp("alone") / "out", **LISTOPS)
    torch.set_num_threads(threads)


def untimed(folder):
    """The scores of a comparison, without what differs from run to run."""
    return pd.read_csv(folder / "scores.csv").drop(columns=["seconds", "folder"], errors="ignore")


class Blow:
    """A listener that strikes once, as soon as a run has evaluated."""

    def __init__(self, strike):
        self.strike = strike

    def __call__(self, label, step, total, text):
        if self.strike and text and step:
            strike, self.strike = self.strike, None
            strike()


def processes_of_runs() -> list[psutil.Process]:
    """The processes of runs that this one has started."""
    return [child for child in psutil.Process().children() if "one_run" in child.cmdline()]


def kill_a_worker():
    processes_of_runs()[0].kill()


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_nothing_but_time(alone, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0}, raising=False)
    compare("listops-tiny", tmp_path / "out", jobs=2, listener=Blow(kill_a_worker), **LISTOPS)
    assert weights(tmp_path / "out") == weights(alone.output_dir)
    pd.testing.assert_frame_equal(untimed(alone.output_dir), untimed(tmp_path / "out"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_each_run_save_its_step_and_the_command_goes_on_from_it(alone, tmp_path, monkeypatch, number):
    def interrupt():
        if number == signal.SIGINT:  # which a process in the background ignores
            raise KeyboardInterrupt
        signal.raise_signal(number)

    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0}, raising=False)
    with pytest.raises(KeyboardInterrupt):
        compare("listops-tiny", tmp_path / "out", jobs=2, listener=Blow(interrupt), **LISTOPS)
    assert not processes_of_runs()
    assert list((tmp_path / "out").glob("runs/*/checkpoints/*/complete.json"))
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    compare("listops-tiny", tmp_path / "out", **LISTOPS)
    assert weights(tmp_path / "out") == weights(alone.output_dir)


@pytest.mark.slow
def test_a_node_of_a_ray_cluster_that_is_killed_changes_no_number(alone, tmp_path):
    pytest.importorskip("ray")
    script, steps = Path(__file__).with_name("on_ray.py"), {phase: {"max_steps": 40} for phase in STEPS}
    options = {**LISTOPS, "overrides": steps}
    compare("listops-tiny", tmp_path / "one", **options)
    words = [sys.executable, script, tmp_path / "two", json.dumps(options)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-3000:]
    began = json.loads(done.stdout.splitlines()[-1])
    assert len(began) == 4 and set(began) == {"s4-pretrain-s0", "s4-scratch-s0", "s4-spt-s0"}
    assert weights(tmp_path / "two") == weights(tmp_path / "one")
    pd.testing.assert_frame_equal(untimed(tmp_path / "two"), untimed(tmp_path / "one"))


def test_a_process_that_is_killed_again_ends_the_comparison(toy_tasks, tmp_path):
    run = Run("s4-scratch-s0", "finetune", "s4", "scratch", 0, None, {}, Recipe.load(RAW), 2, 64)
    begun = []

    def start(words, **options):
        begun.append(words)
        return subprocess.Popen([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], **options)

    with pytest.raises(HfLongSeqError, match="s4-scratch-s0 ended with exit code -9: .* with a smaller --jobs"):
        launch(Task("train", run, tmp_path), silent, start)
    assert len(begun) == 2


@pytest.mark.slow
def test_processes_that_train_a_run_together_give_its_result(alone, tmp_path):
    said: list[tuple] = []
    options = {**LISTOPS, "inits": ["scratch"], "listener": lambda *report: said.append(report)}
    together = compare("listops-tiny", tmp_path / "out", num_processes=2, **options)
    assert {label for label, *_ in said if label} == {"s4-scratch-s0"}
    assert any("processes 2" in text for *_, text in said if text)
    one, two = (json.loads((folder / "runs/s4-scratch-s0/metrics.json").read_text())["validation"]["loss"]
                for folder in (alone.output_dir, together.output_dir))  # fmt: skip
    assert two == pytest.approx(one, rel=0.02)
    assert together.results["failed"] == together.results["unfinished"] == []
