# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Where the runs of a comparison are done: in this process, in processes of this machine, or on a Ray cluster."""

import os
import subprocess
import threading
import time
from collections.abc import Collection, Iterable
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import torch

from hf_longseq.comparison.one_run import Task, launch, perform, wait_for_file
from hf_longseq.comparison.prepare import DataCache
from hf_longseq.comparison.results import PLAN
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training import own_architectures
from hf_longseq.training.progress import Listener, quiet_libraries

POLL_SECONDS = 0.2
# Times that Ray starts a task again whose machine or process was lost.
RAY_RETRIES = 5
# A cluster's network carries at most one report of a run in this time, besides lines of text.
SECONDS_BETWEEN_REPORTS = 1.0


class Workers:
    """A context that does tasks. `listener` is told what they report."""

    def __init__(self, listener: Listener):
        self.listener = listener

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        pass

    def submit(self, task: Task) -> Future:
        """Start a task, or put it into the queue."""
        raise NotImplementedError

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


class Here(Workers):
    """Does each task in this process, as it is submitted."""

    def __init__(self, listener: Listener, data: DataCache):
        super().__init__(listener)
        self.data = data

    def submit(self, task: Task) -> Future:
        future: Future = Future()
        future.set_result(perform(task, self.listener, self.data))
        return future


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
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        environment = {"OMP_NUM_THREADS": str(max(1, cores // (self.jobs * self.processes)))}
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
