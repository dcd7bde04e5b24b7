# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Several runs of a comparison at a time: processes that give the same command, and share the runs out by claims.

Each has its share of the processor's threads, or a GPU. At toy size, two processes of one thread do more than one
process of two.
"""

import contextlib
import multiprocessing
import os
import queue
import signal
import threading
import traceback
from typing import Any

import torch
from tqdm import tqdm

from hf_longseq.errors import HfLongSeqError
from hf_longseq.processes import end_with_parent
from hf_longseq.training import distributed
from hf_longseq.training.progress import Listener, quiet_libraries


def run_in_processes(jobs: int, listener: Listener, options: dict[str, Any]) -> None:
    """Let `jobs` processes call `compare` with these options, and tell the listener what each of them tells.

    The first failure that is not a run's own is raised. It ends the others, as Ctrl-C does; each saves its step.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    reports = context.Queue()
    shared = (reports, max(1, cores // jobs), options)
    workers = [context.Process(target=_work, args=(device, *shared)) for device in _devices(jobs)]
    try:
        with _interrupts_ignored():  # workers inherit this: Ctrl-C is for the parent, who ends them
            for worker in workers:
                worker.start()
        working = True
        while working:
            working = any(worker.is_alive() for worker in workers)
            if any(worker.exitcode for worker in workers):
                raise HfLongSeqError(
                    f"a process of the comparison in {options['output_dir']} was killed (out of memory?): start the "
                    "same command again to go on, with a smaller --jobs if memory was short."
                )
            with contextlib.suppress(queue.Empty):
                report, working = reports.get(timeout=0.2), True
                if isinstance(report, Exception):
                    raise report
                listener(*report)
    finally:
        running = [worker for worker in workers if worker.is_alive()]
        for worker in running:
            worker.terminate()
        for worker in running:
            worker.join()


def usual_jobs() -> int:
    """A run for each GPU of this machine; one without GPUs, and where processes train one model together."""
    return 1 if distributed.count() > 1 else max(1, torch.cuda.device_count())


def _devices(jobs: int) -> list[str | None]:
    """The GPU of each worker, in turn; None on a machine without one."""
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    found = torch.cuda.device_count()
    names = visible[:found] or [str(index) for index in range(found)]
    return [names[worker % len(names)] if names else None for worker in range(jobs)]


@contextlib.contextmanager
def _interrupts_ignored():
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _work(device: str | None, reports: multiprocessing.Queue, threads: int, options: dict[str, Any]) -> None:
    if device is not None:  # before CUDA is used for the first time
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    end_with_parent()  # one that outlived it would go on writing into folders that the next start claims
    from hf_longseq.comparison.execute import compare

    torch.set_num_threads(threads)
    # the lock that tqdm makes is one of the system's, and would outlive a worker that is ended
    tqdm.set_lock(threading.RLock())
    quiet_libraries()
    try:
        compare(**options, jobs=1, listener=lambda *report: reports.put(report))
    except Exception as error:
        if not isinstance(error, HfLongSeqError):
            traceback.print_exc()  # which does not travel with it
        reports.put(error)
