# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Several runs of a comparison at a time, each in its own process with its share of the processor's threads.

At toy size, two processes of one thread do more than one process of two.
"""

import contextlib
import multiprocessing
import os
import queue
import signal
import threading
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING

import torch
from tqdm import tqdm

from hf_longseq.errors import HfLongSeqError
from hf_longseq.training import distributed
from hf_longseq.training.progress import Listener, quiet_libraries

if TYPE_CHECKING:
    from hf_longseq.comparison.execute import DataCache, PlanWork
    from hf_longseq.comparison.plan import Run

# Set in each worker by `_start_worker`; a queue reaches a spawned process only through its initialiser.
_reports = None
_stop = None
_work: "PlanWork | None" = None
_data: "DataCache | None" = None


def run_in_processes(work: "PlanWork", tasks: "list[tuple[str, Run]]", jobs: int, listener: Listener) -> None:
    """Do the tasks of a plan in `jobs` processes, each of which takes what it can claim.

    A failure that is not the run's own stops the rest, once their runs have ended, and is raised.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    reports, devices, stop = context.Queue(), context.Queue(), context.Event()
    for device in _devices(jobs):
        devices.put(device)
    ended = threading.Event()
    relay = threading.Thread(target=_relay, args=(reports, listener, ended), daemon=True)
    relay.start()
    started = (reports, devices, stop, max(1, cores // jobs), work)
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker, initargs=started)
    others = set(multiprocessing.active_children())
    names = [(action, run.name) for action, run in tasks]
    try:
        with _interrupts_ignored():  # workers inherit this: Ctrl-C is for the parent, who ends them
            running = [pool.submit(_work_through, names) for _ in range(jobs)]
        done, _ = wait(running, return_when=FIRST_EXCEPTION)
        stop.set()
        for future in done:
            future.result()
    except KeyboardInterrupt:
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
        raise
    except BrokenProcessPool:
        raise HfLongSeqError(
            f"a process of the comparison in {work.output_dir} was killed (out of memory?): start the same command "
            "again to go on, with a smaller --jobs if memory was short."
        ) from None
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
        ended.set()
        relay.join()


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


def _relay(reports, listener: Listener, ended: threading.Event) -> None:
    while True:
        try:
            listener(*reports.get(timeout=0.2))
        except queue.Empty:
            if ended.is_set():
                return


def _start_worker(reports, devices, stop, threads: int, work: "PlanWork") -> None:
    global _reports, _stop, _work, _data
    device = devices.get()
    if device is not None:  # before CUDA is used for the first time
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from hf_longseq.comparison.execute import DataCache

    torch.set_num_threads(threads)
    # the lock that tqdm makes is one of the system's, and would outlive a worker that is ended
    tqdm.set_lock(threading.RLock())
    quiet_libraries()
    _reports, _stop, _work, _data = reports, stop, work, DataCache()


def _end_with_parent() -> None:
    # A worker that outlived a killed parent would go on writing into folders that the next start claims.
    multiprocessing.parent_process().join()
    os._exit(1)


def _work_through(names: list[tuple[str, str]]) -> None:
    from hf_longseq.comparison.claims import Claims
    from hf_longseq.comparison.execute import work_through

    tasks = [(action, _work.runs[name]) for action, name in names]
    with Claims(_work.output_dir) as claims:
        work_through(_work, tasks, claims, _data, _report, _stop.is_set)


def _report(label: str, step: int, total: int, text: str | None) -> None:
    _reports.put((label, step, total, text))
