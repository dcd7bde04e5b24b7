# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Several arms of a comparison at a time, each in its own process with its share of the processor's threads.

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
from pathlib import Path
from typing import TYPE_CHECKING

from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.progress import Listener, quiet_libraries

if TYPE_CHECKING:
    from hf_longseq.training.comparison import Arm
    from hf_longseq.training.recipe import Recipe

# Set in each worker by `_start_worker`; a queue reaches a spawned process only through its initialiser.
_reports = None


def run_in_processes(
    arms: "list[Arm]", recipes: "dict[str, Recipe]", output_dir: Path, jobs: int, listener: Listener
) -> None:
    """Run the arms in their order, `jobs` at a time; the first failure stops the rest and is raised."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    reports = context.Queue()
    stop = threading.Event()
    relay = threading.Thread(target=_relay, args=(reports, listener, stop), daemon=True)
    relay.start()
    threads = max(1, cores // jobs)
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker, initargs=(reports, threads))
    others = set(multiprocessing.active_children())
    try:
        with _interrupts_ignored():  # workers inherit this: Ctrl-C is for the parent, who ends them
            futures = [pool.submit(_run_one, arm, recipes[arm.arch], str(output_dir)) for arm in arms]
        wait(futures, return_when=FIRST_EXCEPTION)
        for future in futures:
            if future.done():
                future.result()
    except KeyboardInterrupt:
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
        raise
    except BrokenProcessPool:
        raise HfLongSeqError(
            f"a process of the comparison in {output_dir} was killed (out of memory?): start the same command again "
            "to go on, with a smaller --jobs if memory was short."
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        stop.set()
        relay.join()


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


def _start_worker(reports, threads: int) -> None:
    global _reports
    _reports = reports
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import torch

    torch.set_num_threads(threads)
    quiet_libraries()


def _end_with_parent() -> None:
    # A worker that outlived a killed parent would go on writing into folders that the next start claims.
    multiprocessing.parent_process().join()
    os._exit(1)


def _run_one(arm: "Arm", recipe: "Recipe", output_dir: str) -> None:
    from hf_longseq.training.comparison import run_arm

    run_arm(arm, recipe, Path(output_dir), listener=_report)


def _report(label: str, step: int, total: int, text: str | None) -> None:
    _reports.put((label, step, total, text))
