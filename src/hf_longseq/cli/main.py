# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Entry point: finds the command, imports its module alone, and shows expected errors as one sentence."""

import functools
import importlib
import os
import sys

from hf_longseq.cli import launch
from hf_longseq.cli.options import normalise, with_output_dir
from hf_longseq.errors import HfLongSeqError, did_you_mean
from hf_longseq.processes import end_with_parent
from hf_longseq.version import __version__

COMMANDS = {
    "spt": "compare training from scratch with self-pretraining, over seeds, under one budget",
    "compare": "any architectures, over seeds, grids of settings and fractions of the labels",
    "pretrain": "train a model to restore the inputs of a task",
    "finetune": "train a classifier from a pretrained checkpoint, or from scratch",
    "evaluate": "score a finished run on a split or on new labelled files",
    "predict": "label new files, or examples of a split",
    "baselines": "linear models on counts, spectra and random kernels, in seconds",
    "publish": "put a finished run on the Hugging Face Hub",
    "convert": "open a checkpoint of the official code as one of ours",
    "report": "tables and pictures of comparisons, as Markdown, LaTeX, JSON and one page of HTML",
    "kernels": "what checkpoints learned: kernels, receptive fields, attention, as pictures and CSV",
    "check-mixer": "check a mixer of your own on toy models",
    "tasks": "list the tasks, or show one",
    "recipes": "list the shipped recipes, or show one",
    "env": "versions and hardware, for bug reports and records",
}

# Words in the errors, beside OSError, of torch and safetensors where a file fails, as on a full disk.
FILE_FAILURES = ("SafetensorError", "inline_container", "PytorchStream", "iostream error")

# The commands that train: they have a folder by default and may run in several processes.
TRAINING = ("pretrain", "finetune", "spt", "compare")


def main(argv: list[str] | None = None) -> int:
    """Run a command; return 0, 1 for a failed check, 2 for an error the user can put right, 130 when interrupted."""
    argv = normalise(sys.argv[1:] if argv is None else argv)
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if argv[0] == "--version":
        print(__version__)
        return 0
    try:
        if argv[0] not in (*COMMANDS, "one_run"):
            raise HfLongSeqError(
                f"there is no command {argv[0]!r}{did_you_mean(argv[0], COMMANDS)}: use one of {', '.join(COMMANDS)}."
            )
        return _run(argv[0], argv[1:])
    except KeyboardInterrupt:
        if launch.reports_errors():
            words = "\nhf-longseq: interrupted; rerun a training command to resume from its last checkpoint."
            print(words, file=sys.stderr)
        return 130
    except Exception as error:
        if not launch.reports_errors():  # a lost connection is how the others learn of the first failure
            return 2
        sentence = _sentence(error)
        if sentence is None or os.environ.get("HF_LONGSEQ_TRACEBACK"):
            raise
        print(f"hf-longseq: error: {sentence}", file=sys.stderr)
        return 2


def _sentence(error: Exception) -> str | None:
    """What is said of an error that the user can put right; None for one that must not happen."""
    from hf_longseq.escaping import one_line

    said = one_line(error).strip()  # names in it may be a stranger's: nothing that a terminal obeys
    if isinstance(error, HfLongSeqError):
        return said
    if isinstance(error, PermissionError) and error.filename:
        return (
            f"{one_line(error.filename)} may not be read or written by this user: choose another place, or give "
            "yourself the right to it; HF_HOME is the place of the caches."
        )
    if any(words in f"{type(error).__name__} {said}" for words in FILE_FAILURES):
        return (
            f"a file of weights or states could not be written or read ({said}): make room on the disk, or restore "
            "the file, and rerun the command."
        )
    if isinstance(error, (ImportError, ValueError, OSError)):
        return f"{said} (HF_LONGSEQ_TRACEBACK=1 shows where)"
    return None


def _run(command: str, words: list[str]) -> int:
    """Run a command here, or in as many processes as it asks for."""
    name = "compare" if command == "spt" else command.replace("-", "_")
    run = importlib.import_module(f"hf_longseq.cli.{name}").run
    run = functools.partial(run, command="spt") if command == "spt" else run
    if {"-h", "--help", "--help_all"} & set(words):
        run(words)
        return 0
    if command in TRAINING:
        words = with_output_dir(command, words)
    if command == "one_run":
        end_with_parent()
    if command in launch.TOGETHER:
        words, number, configuration = launch.take_options(command, words)
        launch.check_all_started()
        if launch.is_launched():
            launch.run_as_one_of_several(lambda words: run(_with_own_architectures(words)), words)
            return 0
        if number > 1:
            return launch.launch([command, *words], number, configuration)
    return run(_with_own_architectures(words)) or 0


def _with_own_architectures(words: list[str]) -> list[str]:
    """The words with `--arch FILE.py:NAME` imported; the only way by which a command runs code of a file."""
    if "--arch" not in words or not any(".py:" in word for word in words):
        return words
    from hf_longseq.training.own_architectures import named_on_command_line

    return named_on_command_line(words, announce=os.environ.get("RANK", "0") == "0")


def usage() -> str:
    """The text of `hf-longseq --help`."""
    lines = [
        f"hf-longseq {__version__}: self-pretraining for long sequences",
        "",
        "usage: hf-longseq COMMAND [options]      (hf-longseq COMMAND --help for the options)",
        "",
        *(f"  {name:<13}{text}" for name, text in COMMANDS.items()),
        "",
        "A trial in seconds: hf-longseq spt --task listops --arch s4,dlr,transformer --tiny --output_dir /tmp/trial",
    ]
    return "\n".join(lines)
