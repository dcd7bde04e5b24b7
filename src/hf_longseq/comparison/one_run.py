# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""What is done with one run of a comparison: it is trained, or scored on the test split.

A run is a whole: a call of `pretrain` or `finetune`, in this process or in processes of its own (`hf-longseq one_run
FILE`, a command that comparisons give).
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hf_longseq.comparison.plan import Run
from hf_longseq.comparison.prepare import DataCache
from hf_longseq.comparison.results import FAILED
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training import distributed, own_architectures, run_folder
from hf_longseq.training.callbacks import Diverged
from hf_longseq.training.inference import evaluate
from hf_longseq.training.progress import Listener
from hf_longseq.training.recipe import Recipe
from hf_longseq.training.run import finetune, pretrain
from hf_longseq.training.run_folder import RUNS

# A network file system may show a file to another machine only after a while.
SECONDS_TO_APPEAR = 60


@dataclass(frozen=True)
class Task:
    """Something to do with a run: `action` is "train", by so many processes together, or "score"."""

    action: str
    run: Run
    output_dir: Path
    processes: int = 1
    launch_config: str = "ddp"

    def folder(self, name: str) -> Path:
        return self.output_dir / RUNS / name

    def write(self, path: Path) -> None:
        """Write down what `read` gives back in another process."""
        run = {**vars(self.run), "recipe": self.run.recipe.to_dict()}
        path.write_text(json.dumps({"action": self.action, "run": run, "output_dir": str(self.output_dir)}))

    @classmethod
    def read(cls, path: Path) -> "Task":
        said = json.loads(path.read_text(encoding="utf-8"))
        run = said["run"]
        run |= {"recipe": Recipe.load(run["recipe"]), "scratch_tied": tuple(run["scratch_tied"])}
        return cls(said["action"], Run(**run), Path(said["output_dir"]))


def perform(task: Task, listener: Listener, data: DataCache) -> Path:
    """Do a task, and give the file that it leaves.

    What the settings of a run bring about, numbers that overflow and too little memory, is written down. A full disk,
    data that changed or a lost connection would fail every run: those are raised.
    """
    run, folder = task.run, task.folder(task.run.name)
    if task.action == "score":
        return _score(task, data)
    try:
        _train(task, listener, data)
    except (Diverged, torch.OutOfMemoryError) as error:
        if distributed.count() > 1 and not isinstance(error, Diverged):
            raise  # of several processes one fails alone, and its end is what ends the others
        sentence = " ".join(str(error).split())
        if distributed.is_main():
            run_folder.write_json(folder / FAILED, {"error": sentence, "step": getattr(error, "step", None)})
        listener(run.name, run.steps, run.steps, f"failed: {sentence}")
    return _outcome(task)


def _outcome(task: Task) -> Path:
    failed = task.folder(task.run.name) / FAILED
    return failed if failed.is_file() else failed.with_name(run_folder.METRICS)


def _train(task: Task, listener: Listener, data: DataCache) -> None:
    run, folder = task.run, task.folder(task.run.name)
    loaded = data.load(run.recipe.data) if distributed.count() == 1 else None  # else each waits for its turn
    common: dict[str, Any] = {"seed": run.seed, "listener": listener, "data": loaded}
    if run.phase == "pretrain":
        pretrain(run.recipe, folder, **common)
    else:
        start = task.folder(run.pretrained) if run.pretrained else None
        finetune(run.recipe, folder, init_from=start, init=run.init, score_test=run.score_test, **common)


def _score(task: Task, data: DataCache) -> Path:
    run, path = task.run, task.folder(task.run.name) / run_folder.METRICS
    section: Any = run.recipe.finetune if run.pretrained else run.recipe.scratch
    batch = section.per_device_eval_batch_size or section.per_device_train_batch_size or section.global_batch_size
    scores = evaluate(path.parent, data=data.load(run.recipe.data), batch_size=batch)
    run_folder.write_json(path, {**run_folder.read_json(path), "test": scores})
    return path


def launch(
    task: Task,
    listener: Listener,
    start: Callable[..., subprocess.Popen] = subprocess.Popen,
    environment: dict[str, str] | None = None,
) -> Path:
    """Do a task in processes of its own; the main one of them prints its reports as lines of JSON.

    Gives the file that it leaves. A process that is killed is started once more, and goes on from its checkpoint.
    """
    number = task.processes if task.action == "train" else 1
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "task.json")
        task.write(path)
        words = [sys.executable, "-m", "hf_longseq", "one_run", str(path)]
        words += ["--num_processes", str(number), "--launch_config", task.launch_config]
        words += ["--arch", *own_architectures.files()] if own_architectures.files() else []
        # a session of its own: Ctrl-C is for the parent, who ends it
        more = {"stdout": subprocess.PIPE, "text": True, "start_new_session": True}
        for _ in range(2):
            with start(words, **more, env=os.environ | (environment or {})) as process:
                try:
                    for line in process.stdout or ():
                        listener(*json.loads(line))
                except BaseException:
                    process.terminate()
                    raise
            if process.returncode >= 0:
                break
    if process.returncode:
        raise HfLongSeqError(
            f"{task.run.name} ended with exit code {process.returncode}: see above what it said, and rerun the "
            "command to go on, with a smaller --jobs if memory was short."
        )
    return _outcome(task)


def wait_for_file(path: Path, where: str) -> None:
    """Raise if a file that another machine wrote is not seen here, `where`."""
    started = time.monotonic()
    while not path.is_file():
        if time.monotonic() - started > SECONDS_TO_APPEAR:
            raise HfLongSeqError(
                f"{path}, which the comparison wrote, is not there {where}: name an output_dir that all machines "
                "share, under the same path."
            )
        time.sleep(0.2)
