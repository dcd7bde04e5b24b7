# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Does the runs of a comparison: in this process, in processes of this machine, or on a Ray cluster.

A run is a whole: a call of `pretrain` or `finetune`, in this process or in processes of its own (`hf-longseq one_run
FILE`, a command that comparisons give), or its score on the test split.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import joblib
import torch

from hf_longseq.comparison.plan import Run
from hf_longseq.comparison.prepare import DataCache
from hf_longseq.comparison.results import FAILED, PLAN
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training import distributed, own_architectures, run_folder
from hf_longseq.training.callbacks import Diverged
from hf_longseq.training.inference import evaluate
from hf_longseq.training.progress import Listener, quiet_libraries
from hf_longseq.training.recipe import Recipe
from hf_longseq.training.run import finetune, pretrain
from hf_longseq.training.run_folder import RUNS

POLL_SECONDS = 0.2
# Times that Ray starts a task again whose machine or process was lost.
RAY_RETRIES = 5
# A cluster's network carries at most one report of a run in this time, besides lines of text.
SECONDS_BETWEEN_REPORTS = 1.0
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
    section = run.recipe.finetune if run.pretrained else run.recipe.scratch
    batch = section.per_device_eval_batch_size or section.per_device_train_batch_size or section.examples_per_step
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


class Workers:
    """A context that does tasks, here as they are submitted, in this process. `listener` is told what they report."""

    def __init__(self, listener: Listener, data: DataCache | None = None):
        self.listener, self.data = listener, data or DataCache()

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        pass

    def submit(self, task: Task) -> Future:
        """Do a task, start it, or put it into the queue."""
        future: Future = Future()
        future.set_result(perform(task, self.listener, self.data))
        return future

    def reports(self) -> Iterable[tuple]:
        """What the tasks have reported since the last call."""
        return ()

    def wait(self, futures: Collection[Future]) -> Collection[Future]:
        """Those of the tasks that have ended, one at least."""
        done: Collection[Future] = ()
        while not done:
            done = wait(futures, POLL_SECONDS, FIRST_COMPLETED).done
            for report in self.reports():
                self.listener(*report)
        return done

    def check(self, future: Future) -> None:
        """Raise the error of a task that has ended."""
        future.result()


class Processes(Workers):
    """Does `jobs` tasks at a time, each in `processes` of its own with their share of the processor's threads, or with
    their own GPUs.

    An error ends the other tasks, as Ctrl-C does; each saves its step.
    """

    def __init__(self, jobs: int, processes: int, listener: Listener):
        super().__init__(listener)
        self.jobs, self.processes = jobs, processes

    def __enter__(self):
        self.pool, self.lock, self.ending = ThreadPoolExecutor(self.jobs), threading.Lock(), False
        self.begun: list[subprocess.Popen] = []
        self.queue, self.devices = SimpleQueue(), SimpleQueue()
        for names in devices_of_workers(self.jobs, self.processes):
            self.devices.put(names)
        return self

    def __exit__(self, kind, *exc_info):
        with self.lock:
            self.ending = kind is not None
            for process in self.begun if self.ending else ():
                process.terminate()
        self.pool.shutdown(cancel_futures=True)

    def submit(self, task: Task) -> Future:
        return self.pool.submit(self._perform, task)

    def _perform(self, task: Task) -> Path:
        names = self.devices.get()
        environment = {"OMP_NUM_THREADS": str(max(1, joblib.cpu_count() // (self.jobs * self.processes)))}
        environment |= {"CUDA_VISIBLE_DEVICES": names} if names else {}
        try:
            return launch(task, lambda *report: self.queue.put(report), self._start, environment)
        finally:
            self.devices.put(names)

    def _start(self, *words, **options) -> subprocess.Popen:
        with self.lock:
            if self.ending:
                raise CancelledError
            self.begun.append(subprocess.Popen(*words, **options))
            return self.begun[-1]

    def reports(self) -> Iterable[tuple]:
        while not self.queue.empty():
            yield self.queue.get()


def usual_jobs(processes: int) -> int:
    """As many runs at a time as this machine has GPUs for; one without GPUs."""
    return max(1, torch.cuda.device_count() // processes)


def devices_of_workers(jobs: int, gpus: int) -> list[str]:
    """The GPUs of each worker, as CUDA_VISIBLE_DEVICES names them, in turn; empty on a machine without one."""
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    found = torch.cuda.device_count()
    names = visible[:found] or [str(index) for index in range(found)]
    mine = [range(worker * gpus, (worker + 1) * gpus) if names else () for worker in range(jobs)]
    return [",".join(dict.fromkeys(names[place % len(names)] for place in places)) for places in mine]


class Cluster(Workers):
    """Does the tasks on the machines of a Ray cluster, which share the folder of the comparison.

    Ray decides how many run at a time: each takes its GPUs, or its processor cores in a cluster without GPUs. It
    starts those of a lost machine again on another, where they go on from their checkpoints.
    """

    def __init__(self, address: str, processes: int, listener: Listener):
        super().__init__(listener)
        self.address, self.processes = address, processes

    def __enter__(self):
        try:
            import ray
            from ray.util.queue import Queue
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
        except ImportError:
            raise HfLongSeqError("ray_address needs Ray: pip install 'hf-longseq[ray]'.") from None
        self.ray, self.own = ray, not ray.is_initialized()
        ray.init(address=self.address, ignore_reinit_error=True, log_to_driver=False, logging_level="ERROR")
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.queue = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": here})
        needs = {"num_cpus": self.processes, "num_gpus": self.processes if ray.cluster_resources().get("GPU") else 0}
        self.remote = ray.remote(**needs, max_retries=RAY_RETRIES)(_perform_in_cluster)
        self.tasks: dict[Future, Any] = {}
        return self

    def __exit__(self, kind, *exc_info):
        for task in self.tasks.values() if kind else ():
            self.ray.cancel(task)  # as Ctrl-C: it saves its step
        wait(self.tasks)
        if self.own:
            self.ray.shutdown()

    def submit(self, task: Task) -> Future:
        there = self.remote.remote(
            replace(task, output_dir=task.output_dir.absolute()), self.queue, own_architectures.files()
        )
        future = there.future()
        self.tasks[future] = there
        return future

    def reports(self) -> Iterable[tuple]:
        return self.queue.get_nowait_batch(self.queue.qsize())

    def check(self, future: Future) -> None:
        self.tasks.pop(future)
        try:
            wait_for_file(future.result(), "on the machine that started the comparison")
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self.ray.exceptions.RayError as error:
            raise HfLongSeqError(
                f"Ray lost a run {RAY_RETRIES + 1} times ({' '.join(str(error).split())[:300]}): see to the cluster, "
                "and rerun the command to go on."
            ) from error


def _perform_in_cluster(task: Task, reports: Any, own_files: tuple[str, ...] = ()) -> Any:
    """Do a task on a machine of the cluster; gives the file that it leaves, which the others must see."""
    quiet_libraries()
    for file in own_files:
        own_architectures.import_architecture(file, announce=False)
    wait_for_file(task.output_dir / PLAN, "on a machine of the Ray cluster")
    said = [0.0]

    def tell(label: str, step: int, total: int, text: str | None) -> None:
        if text or time.monotonic() - said[0] > SECONDS_BETWEEN_REPORTS:
            said[0] = time.monotonic()
            reports.put((label, step, total, text))

    return launch(task, tell) if task.processes > 1 else perform(task, tell, DataCache())
