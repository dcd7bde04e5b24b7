# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Where the runs of a comparison are done: in this process, in processes of this machine, or on a Ray cluster."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from typing import Any

import torch
from tqdm import tqdm

from hf_longseq.comparison.one_run import Task, perform, wait_for_file
from hf_longseq.comparison.prepare import DataCache
from hf_longseq.comparison.results import PLAN
from hf_longseq.errors import HfLongSeqError
from hf_longseq.processes import end_with_parent
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

    def result(self, future: Future) -> bool:
        """Raise the error of a task; False if its process was killed, so that it has to be submitted again."""
        future.result()
        return True


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
    """Does `jobs` tasks at a time, each in a process with its share of the processor's threads or its own GPUs.

    An error ends the other tasks, as Ctrl-C does; each saves its step. When a process is killed, its task and the
    others go on from their checkpoints in new processes.
    """

    def __init__(self, jobs: int, gpus: int, listener: Listener):
        super().__init__(listener)
        self.jobs, self.gpus = jobs, gpus

    def __enter__(self):
        self.before = set(multiprocessing.active_children())
        self._start()
        self.lost = False  # whether a process was killed since a task ended
        return self

    def __exit__(self, kind, *exc_info):
        self.pool.shutdown(wait=False, cancel_futures=True)
        self._join(terminate=kind is not None)

    def _join(self, terminate: bool) -> None:
        processes = set(multiprocessing.active_children()) - self.before
        for process in processes if terminate else ():
            process.terminate()
        for process in processes:
            process.join()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.queue, devices = context.SimpleQueue(), context.SimpleQueue()
        for names in devices_of_workers(self.jobs, self.gpus):
            devices.put(names)
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        given = (devices, self.queue, max(1, cores // self.jobs), own_architectures.files())
        self.pool = ProcessPoolExecutor(self.jobs, context, _start_worker, given)
        self.of_this_pool: set[Future] = set()

    def submit(self, task: Task) -> Future:
        with _interrupts_ignored():  # a new process inherits this: Ctrl-C is for the parent, who ends it
            future = self.pool.submit(_perform_in_process, task)
        self.of_this_pool.add(future)
        return future

    def reports(self) -> Iterable[tuple]:
        while not self.queue.empty():
            yield self.queue.get()

    def result(self, future: Future) -> bool:
        broken = isinstance(future.exception(), BrokenProcessPool)
        if broken and future in self.of_this_pool:  # the first that tells of it
            if self.lost:
                raise HfLongSeqError(
                    "processes of the comparison were killed again and again (out of memory?): rerun the command to "
                    "go on, with a smaller --jobs if memory was short."
                )
            self._join(terminate=True)  # who still writes holds the lock of its run
            self._start()
        self.lost = broken
        return False if broken else super().result(future)


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


@contextlib.contextmanager
def _interrupts_ignored() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# What a worker process keeps between its tasks.
_worker: dict[str, Any] = {}


def _start_worker(devices, reports, threads: int, own_files: tuple[str, ...]) -> None:
    if names := devices.get():  # before CUDA is used for the first time
        os.environ["CUDA_VISIBLE_DEVICES"] = names
    end_with_parent()
    torch.set_num_threads(threads)
    # the lock that tqdm makes is one of the system's, and would outlive a worker that is ended
    tqdm.set_lock(threading.RLock())
    quiet_libraries()
    for file in own_files:
        own_architectures.import_architecture(file, announce=False)
    _worker.update(reports=reports, data=DataCache())


def _perform_in_process(task: Task) -> None:
    perform(task, lambda *report: _worker["reports"].put(report), _worker["data"])


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
        try:
            ray.init(address=self.address, ignore_reinit_error=True, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, ValueError) as error:
            raise HfLongSeqError(
                f"ray_address is {self.address}, where no Ray cluster answers ({' '.join(str(error).split())}): start "
                "one with `ray start --head`, or leave ray_address out."
            ) from error
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

    def result(self, future: Future) -> bool:
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
        return True


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

    return perform(task, tell, _worker.setdefault("data", DataCache()))
