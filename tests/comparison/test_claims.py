"""Workers on several machines divide the runs of a plan: each is done once, and those of the dead are done again."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest

from hf_longseq.comparison import compare, workers
from hf_longseq.comparison.claims import STILL_SECONDS, Claims
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training import run_folder

OVERRIDES = {"pretrain": {"max_steps": 2}, "finetune": {"max_steps": 2}}
RAW = {"data": {"task": "waves"}, "model": {"arch": "s4", "hidden_size": 8, "num_hidden_layers": 1}}
TAKE = """
import sys
from hf_longseq.comparison.claims import Claims
with Claims(sys.argv[1]) as claims:
    sys.stdin.readline()
    print(*[name for name in map(str, range(200)) if claims.take(name)], flush=True)
    sys.stdin.readline()
"""

OTHER = """
import json, sys
from hf_longseq.comparison import compare
from hf_longseq.data.task import TASKS, TaskEntry
import torch

torch.set_num_threads(1)
TASKS["waves"] = TaskEntry("toy_tasks:waves", "toy", "generated", "32 rows")
said = set()
def listener(label, step, total, text):
    if label and text and label not in said:
        said.add(label)
        print(label, flush=True)
        if len(said) == 1:
            sys.stdin.readline()
raw, out, options = sys.argv[1:]
overrides = {"pretrain": {"max_steps": 2}, "finetune": {"max_steps": 2}}
compare(json.loads(raw), out, overrides=overrides, tiny=True, listener=listener, **json.loads(options))
"""


@pytest.fixture
def claims(tmp_path):
    with Claims(tmp_path / "out") as claims:
        yield claims


def elsewhere(claims, name, seconds):
    """A claim of a process on another machine, that lived `seconds` ago."""
    path = claims.folder / f"{name}.1"
    path.write_text("process 7 on node3")
    os.utime(path, (time.time() - seconds,) * 2)


def do(out, **options):
    return compare(RAW, out, overrides=OVERRIDES, tiny=True, **options)


def test_two_processes_never_take_the_same_run(tmp_path):
    command = [sys.executable, "-c", TAKE, str(tmp_path)]
    both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in both:
        process.stdin.write("go\n")
        process.stdin.flush()
    taken = [process.stdout.readline().split() for process in both]
    for process in both:
        process.communicate("end\n")
    assert sorted(taken[0] + taken[1], key=int) == [str(number) for number in range(200)]
    assert not (tmp_path / ".claims").exists()


def test_a_claim_is_given_back_and_that_of_a_dead_process_is_taken_over(claims, tmp_path):
    with Claims(tmp_path / "out") as other:
        assert claims.take("a") and not other.take("a") and other.holder("a") == claims.owner
        assert claims.others() == [other.owner]
        claims.release("a")
        assert other.take("a")
    assert claims.others() == []
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (claims.folder / "b.1").write_text(claims.owner.replace(str(os.getpid()), str(ended.pid)))
    assert claims.take("b") and sorted(path.name for path in claims.folder.glob("b.*")) == ["b.1", "b.2"]
    claims.release("b")
    assert not list(claims.folder.glob("b.*"))


@pytest.mark.parametrize("seconds, taken", [(STILL_SECONDS - 60, False), (STILL_SECONDS + 60, True)])
def test_a_claim_of_another_machine_counts_while_it_gives_signs_of_life(claims, seconds, taken):
    elsewhere(claims, "a", seconds)
    assert claims.take("a") is taken


def test_of_many_that_find_a_dead_claim_one_takes_it_over(claims):
    elsewhere(claims, "a", STILL_SECONDS + 60)
    found, start = [], threading.Barrier(8)

    def take():
        start.wait()
        found.append(claims.take("a"))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(found)[True] >= 1 and len(list(claims.folder.glob("a.*"))) == 2


def test_who_lost_a_run_says_so_and_stops(tmp_path, monkeypatch):
    monkeypatch.setattr("hf_longseq.comparison.claims.BEAT_SECONDS", 0.01)
    with Claims(tmp_path / "out") as claims:
        assert claims.take("s4-spt-s0")
        with monkeypatch.context() as away:  # the file server, for a while
            away.setattr(os, "listdir", lambda folder: (_ for _ in ()).throw(OSError("stale file handle")))
            time.sleep(0.1)
        claims.check()
        (claims.folder / "s4-spt-s0.2").write_text("process 7 on node3")
        with pytest.raises(HfLongSeqError, match="s4-spt-s0 had no sign of life of this process for 10 minutes"):
            for _ in range(500):
                time.sleep(0.02)
                claims.check()


def test_a_run_that_another_process_has_taken_is_left_to_it(toy_tasks, tmp_path):
    options = {"seeds": [0, 1], "inits": ["scratch"]}
    alone = do(tmp_path / "one", **options).results
    shutil.copytree(tmp_path / "one", tmp_path / "two", ignore=shutil.ignore_patterns("runs", "results.json"))
    mine = []
    with Claims(tmp_path / "two") as other:
        assert other.take("s4-scratch-s0")

        def listener(label, step, total, text):
            if label and text and not mine:  # meanwhile the other one has done its own
                shutil.copytree(tmp_path / "one/runs/s4-scratch-s0", tmp_path / "two/runs/s4-scratch-s0")
                other.release("s4-scratch-s0")
            if label and text:
                mine.append(label)

        results = do(tmp_path / "two", listener=listener, **options).results
    assert set(mine) == {"s4-scratch-s1"}
    assert results["rows"][0]["values"] == alone["rows"][0]["values"]


@pytest.mark.slow
def test_two_processes_in_one_folder_divide_the_runs_and_give_the_results_of_one(toy_tasks, tmp_path):
    options = {"seeds": [0, 1], "inits": ["scratch", "spt"]}
    alone = do(tmp_path / "one", **options).results
    words = [sys.executable, "-c", OTHER, json.dumps(RAW), str(tmp_path / "two"), json.dumps(options)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    other = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    first = other.stdout.readline().split()[0]  # it has taken a run, and waits
    mine = []

    def listener(label, step, total, text):
        if label and text and not mine:
            other.stdin.write("go on\n")
            other.stdin.flush()
        if label and text:
            mine.append(label)

    results = do(tmp_path / "two", listener=listener, **options).results
    theirs = {first, *other.communicate()[0].split()}
    assert [row["values"] for row in results["rows"]] == [row["values"] for row in alone["rows"]]
    assert mine and not theirs & set(mine)
    assert theirs | set(mine) == {path.name for path in (tmp_path / "one" / "runs").iterdir()}
    assert not (tmp_path / "two" / ".claims").exists()


@pytest.mark.parametrize("options", [{"seeds": [1]}, {"overwrite": True}])
def test_another_command_in_the_folder_is_refused_while_one_works_there(toy_tasks, tmp_path, options):
    do(tmp_path / "out", inits=["scratch"])
    before = (tmp_path / "out" / "results.json").read_text()
    with Claims(tmp_path / "out") as claims:
        with pytest.raises(HfLongSeqError, match="is in use by another command .process .*give the same settings"):
            do(tmp_path / "out", inits=["scratch"], **options)
        assert claims.others() == [] and (tmp_path / "out" / "results.json").read_text() == before
        do(tmp_path / "out", inits=["scratch"])  # the same one joins


def test_runs_of_machines_that_share_nothing_are_put_together(toy_tasks, tmp_path):
    """As jobs on rented machines: each does some seeds, and the whole command finds them all done."""
    for seed in (0, 1):
        do(tmp_path / f"job{seed}", seeds=[seed], inits=["scratch"])
        shutil.copytree(tmp_path / f"job{seed}", tmp_path / "all", dirs_exist_ok=True)
    said = []
    results = do(tmp_path / "all", seeds=[0, 1], inits=["scratch"], listener=lambda *words: said.append(words)).results
    assert not any(text for _, _, _, text in said)
    values = [json.loads((tmp_path / f"job{seed}/results.json").read_text())["rows"][0]["values"] for seed in (0, 1)]
    assert results["rows"][0]["values"] == values[0] + values[1]


@pytest.mark.parametrize("visible, found, jobs, names", [
    (None, 0, 2, [None, None]),
    (None, 2, 3, ["0", "1", "0"]),
    ("4,6", 2, 2, ["4", "6"]),
    ("4,6", 1, 2, ["4", "4"]),
])  # fmt: skip
def test_every_worker_has_a_gpu_of_its_own(monkeypatch, visible, found, jobs, names):
    monkeypatch.setattr("torch.cuda.device_count", lambda: found)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible or "")
    assert workers._devices(jobs) == names
    assert workers.usual_jobs() == max(1, found)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert workers.usual_jobs() == 1


def test_the_claims_are_no_content_of_the_folder(tmp_path):
    with Claims(tmp_path / "run"):
        assert run_folder.claim_folder(tmp_path / "run", {"run": {"seed": 0}}) == "new"
        run_folder.empty_folder(tmp_path / "run")
        assert (tmp_path / "run" / ".claims").is_dir()
