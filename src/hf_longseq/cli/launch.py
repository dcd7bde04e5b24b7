# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`--num_processes N`: the same command in N processes of this machine, through accelerate's launcher.

The processes themselves are those of `accelerate launch -m hf_longseq ...`; it serves several machines too. The
commands that compare start the processes of each run in this way.
"""

import contextlib
import logging
import os
import sys
from collections.abc import Callable

from hf_longseq import launch as configurations
from hf_longseq.cli.options import Parser
from hf_longseq.errors import HfLongSeqError
from hf_longseq.processes import end_with_parent
from hf_longseq.training.arguments import convert

# The commands that several processes may carry out together.
TOGETHER = ("pretrain", "finetune", "one_run")


def take_options(command: str, argv: list[str]) -> tuple[list[str], int, str]:
    """Take the launcher's options out of a command's words: the other words, the number, the configuration."""
    parser = Parser(prog=f"hf-longseq {command}", add_help=False)
    parser.add_argument("--num_processes")
    parser.add_argument("--launch_config")
    taken, rest = parser.parse_known_args(argv)
    return rest, *checked(taken.num_processes, taken.launch_config)


def checked(number: str | None, configuration: str | None) -> tuple[int, str]:
    """The number of processes and the configuration that a command names."""
    if configuration and number is None:
        raise HfLongSeqError("launch_config is given without num_processes: say how many processes to start.")
    count = 1 if number is None else convert(number, int, "num_processes")
    if count < 1:
        raise HfLongSeqError(f"num_processes is {count}: give 1 or more.")
    configurations.find(configuration or "ddp")
    return count, configuration or "ddp"


def is_launched() -> bool:
    """Whether a launcher started this process together with others."""
    return int(os.environ.get("WORLD_SIZE", 1)) > 1


def check_all_started() -> None:
    """Raise where accelerate started one process in place of several, though it named the address to meet at."""
    cpu = os.environ.get("ACCELERATE_USE_CPU", "").lower() == "true"
    if cpu and "MASTER_ADDR" in os.environ and "WORLD_SIZE" not in os.environ:
        raise HfLongSeqError(
            "`accelerate launch --cpu` starts one process for any --num_processes: leave --cpu out (processes without "
            "accelerators use the CPU), or give --num_processes to hf-longseq itself."
        )


def launch(argv: list[str], number: int, configuration: str) -> int:
    """Run the command in `number` processes and return the exit code of the first that failed, or 0."""
    path = configurations.find(configuration)
    import joblib
    import torch
    from accelerate.commands.launch import launch_command, launch_command_parser
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    accelerators = torch.accelerator.device_count()
    if torch.accelerator.is_available() and number > accelerators:
        raise HfLongSeqError(
            f"num_processes is {number}, but this machine has {accelerators} devices: give at most that many."
        )
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, joblib.cpu_count() // number)))
    # The processes say themselves what went wrong; the launcher's account of it is about the launcher.
    for name in ("torch.distributed.elastic", "torch.distributed.run"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    words = ["--config_file", str(path), "--num_processes", str(number), "--num_machines", "1", "--machine_rank", "0"]
    words += ["--main_process_port", "0", "--num_cpu_threads_per_process", os.environ["OMP_NUM_THREADS"]]
    try:
        launch_command(launch_command_parser().parse_args([*words, "-m", "hf_longseq", *argv]))
    except ChildFailedError as error:
        number, failure = error.get_first_failure()
        if failure.exitcode < 0:
            print(
                f"hf-longseq: error: process {number} was ended by signal {-failure.exitcode} (out of memory?); "
                "rerun the command to resume from the last checkpoint.",
                file=sys.stderr,
            )
        return failure.exitcode if failure.exitcode > 0 else 1
    except SignalException as stop:
        return 128 + int(stop.sigval)  # the processes have said that they were interrupted
    return 0


def run_as_one_of_several(run: Callable[[list[str]], None], words: list[str]) -> None:
    """Run a command in this process of several; the main one shows what it prints."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    from hf_longseq.training import distributed

    if "TORCHELASTIC_RUN_ID" in os.environ:
        end_with_parent()
    distributed.join()
    if distributed.is_main():
        run(words)
    else:
        nowhere = open(os.devnull, "w", encoding="utf-8")
        with nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            run(words)
    distributed.leave()  # not after an error: the others may not have come as far


def reports_errors() -> bool:
    """Whether this process is to say what went wrong; of several, the first that failed does."""
    if not is_launched():
        return True
    from hf_longseq.training import distributed

    return distributed.reports_errors()
