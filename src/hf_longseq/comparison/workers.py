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
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING

from tqdm import tqdm

from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.progress import Listener, quiet_libraries

if TYPE_CHECKING:
    from hf_longseq.comparison.execute import DataCache, PlanWork
    from hf_longseq.comparison.plan import Run

# Set in each worker by `_start_worker`; a queue reaches a spawned process only through its initialiser.
_reports = None
_work: "PlanWork | None" = None
_data: "DataCache | None" = None


def run_in_processes(work: "PlanWork", tasks: "list[tuple[str, Run]]", jobs: int, listener: Listener) -> None:
    """Do the tasks of a plan, `jobs` at a time; a failure that is not the run's own stops the rest and is raised.

    A run waits for the one it starts from. Of those that may start, pretraining comes first, for others wait for it,
    and then the longest, so that no process is left alone with one at the end.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    reports, devices = context.Queue(), context.Queue()
    for device in _devices(jobs):
        devices.put(device)
    stop = threading.Event()
    relay = threading.Thread(target=_relay, args=(reports, listener, stop), daemon=True)
    relay.start()
    threads = max(1, cores // jobs)
    pool = ProcessPoolExecutor(
        jobs, mp_context=context, initializer=_start_worker, initargs=(reports, devices, threads, work)
    )
    others = set(multiprocessing.active_children())
    waiting = sorted(tasks, key=lambda task: (task[1].phase != "pretrain", -task[1].steps))
    undone = {run.name for action, run in tasks if action == "train"}
    running: dict = {}
    try:
        while waiting or running:
            ready = [task for task in waiting if task[1].pretrained not in undone or task[0] == "score"]
            for task in ready[: jobs - len(running)]:
                waiting.remove(task)
                with _interrupts_ignored():  # workers inherit this: Ctrl-C is for the parent, who ends them
                    running[pool.submit(_run_one, task[0], task[1].name)] = task[1].name
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                undone.discard(running.pop(future))
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
        pool.shutdown(wait=True, cancel_futures=True)
        stop.set()
        relay.join()


def _devices(jobs: int) -> list[str | None]:
    """The GPU of each worker, in turn; None on a machine without one."""
    import torch

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


def _relay(reports, listener: Listener, stop: threading.Event) -> None:
    while True:
        try:
            listener(*reports.get(timeout=0.2))
        except queue.Empty:
            if stop.is_set():
                return


def _start_worker(reports, devices, threads: int, work: "PlanWork") -> None:
    global _reports, _work, _data
    device = devices.get()
    if device is not None:  # before CUDA is used for the first time
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import torch

    from hf_longseq.comparison.execute import DataCache

    torch.set_num_threads(threads)
    # the lock that tqdm makes is one of the system's, and would outlive a worker that is ended
    tqdm.set_lock(threading.RLock())
    quiet_libraries()
    _reports, _work, _data = reports, work, DataCache()


def _end_with_parent() -> None:
    # A worker that outlived a killed parent would go on writing into folders that the next start claims.
    multiprocessing.parent_process().join()
    os._exit(1)


def _run_one(action: str, name: str) -> None:
    _work.perform(action, _work.runs[name], _data, _report)


def _report(label: str, step: int, total: int, text: str | None) -> None:
    _reports.put((label, step, total, text))
