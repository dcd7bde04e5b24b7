# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The run folder: settings, records and splits.

    resolved.yaml     every setting of the run; `--recipe FOLDER/resolved.yaml` repeats it
    environment.json  versions, hardware, threads, commit
    data.json         task, options, sizes and content hashes of the splits
    history.json      loss and validation metrics over the steps (the learning curve)
    trained_on.npy    hashes of the rows it was trained on, its starting checkpoint's included; never published
    metrics.json      the result; its presence marks the run as finished
    checkpoints/      of an unfinished run
    .lock             held by the one command that writes here; released when that is killed

Each file is written whole or not at all.
"""

import contextlib
import hashlib
import json
import os
import platform
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock
import yaml

from hf_longseq.errors import HfLongSeqError, explained
from hf_longseq.version import __version__

if TYPE_CHECKING:
    from hf_longseq.data.task import TaskSpec

RESOLVED, ENVIRONMENT, DATA = "resolved.yaml", "environment.json", "data.json"
SPLITS, HISTORY, METRICS = "splits.json", "history.json", "metrics.json"
CHECKPOINTS, LOCK = "checkpoints", ".lock"
# Folders of a comparison: its runs, and a copy of the best one.
RUNS, BEST = "runs", "best"
# Seconds for the workers of a killed command to exit.
SECONDS_TO_DIE = 10
# Ending of unfinished files and folders: `.NAME.part`.
UNFINISHED = ".part"


@contextlib.contextmanager
def holding(folder: str | os.PathLike) -> Iterator[None]:
    """Keep every other command out of an output folder."""
    folder = Path(folder)
    refuse_file(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    lock = filelock.FileLock(path)
    try:
        lock.acquire(timeout=SECONDS_TO_DIE)
    except filelock.Timeout:
        raise HfLongSeqError(
            f"output_dir {folder} is in use by another command ({read_text(path) or 'of unknown number'}): let it "
            "end, or choose another output_dir."
        ) from None
    try:
        path.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
        yield
    finally:
        # Removed while held: a command that waits for this file sees that it is gone.
        path.unlink(missing_ok=True)
        lock.release()
        for empty in (folder / CHECKPOINTS, folder):
            with contextlib.suppress(OSError):
                empty.rmdir()


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def write_whole(path: str | os.PathLike, content: str | bytes) -> None:
    """Write a file whole or not at all; text is written as UTF-8."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}{UNFINISHED}")
    try:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        sync(temporary)
        os.replace(temporary, path)
        sync(path.parent)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def sync(path: str | os.PathLike) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    if os.name == "nt" and Path(path).is_dir():
        return  # Windows flushes files alone
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: str | os.PathLike, content: Any) -> None:
    write_whole(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_yaml(path: str | os.PathLike, content: Any) -> None:
    write_whole(path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


def read_json(path: str | os.PathLike) -> Any:
    """Read a JSON file of a run."""
    remedy = "restore it, or delete its folder"
    with explained(f"{path} is not readable as JSON", ValueError, RecursionError, remedy=remedy):
        return json.loads(Path(path).read_text(encoding="utf-8"))


def read_yaml(path: str | os.PathLike) -> Any:
    """Read a YAML file that may be anybody's.

    Raises:
        ValueError: If it is damaged.
    """
    try:
        return yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from error


def refuse_file(folder: Path) -> None:
    """Raise if an output folder, or one that it would lie in, is a file."""
    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            raise HfLongSeqError(f"output_dir {folder} needs a folder where {place} is a file: choose another.")


def check_replaceable(folder: str | os.PathLike, mark: str, made_by: str) -> None:
    """Raise if an output folder holds files, but not the file `mark` of an earlier output."""
    folder = Path(folder)
    refuse_file(folder)
    if folder.is_dir() and any(folder.iterdir()) and not (folder / mark).is_file():
        raise HfLongSeqError(f"output_dir {folder} holds files that no {made_by} made: choose a new folder.")


def replace_folder(folder: str | os.PathLike, fill: Callable[[Path], object]) -> None:
    """Let `fill` write a new folder beside `folder`, then put it in the place of `folder`."""
    folder = Path(folder)
    fresh = folder.with_name(f".{folder.name}{UNFINISHED}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        fill(fresh)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(fresh, folder)


def read_resolved(folder: str | os.PathLike) -> dict | None:
    """Settings recorded in a run folder, or None if the folder holds no run."""
    path = Path(folder) / RESOLVED
    if not path.is_file():
        return None
    try:
        settings = read_yaml(path)
        if all(isinstance(settings.get(name, {}), dict) for name in ("model", "data", "run")):
            return settings
    except (ValueError, AttributeError):  # no YAML, or no mapping
        pass
    raise HfLongSeqError(f"{path} is damaged: restore it, or delete its folder.")


def read_finished(folder: str | os.PathLike) -> dict:
    """Settings of a finished run of `pretrain` or `finetune`.

    Raises:
        HfLongSeqError: If the folder holds something else, or a run that is under way.
    """
    settings = read_resolved(folder) or {}
    if (settings.get("run") or {}).get("phase") not in ("pretrain", "finetune"):
        raise HfLongSeqError(
            f"{folder} is not a run of pretrain or finetune (by its {RESOLVED}): give a run's folder, of a comparison "
            f"{RUNS}/NAME or {BEST}."
        )
    for name in (METRICS, "config.json"):
        if not Path(folder, name).is_file():
            raise HfLongSeqError(f"{folder} is an unfinished run (it has no {name}): rerun its command to finish it.")
    return settings


def claim_folder(folder: str | os.PathLike, settings: dict, overwrite: bool = False, finished: str = METRICS) -> str:
    """Decide what a run may do with its output folder, and record the run's settings there.

    The file `finished` marks a run as complete; `overwrite` starts again in a folder that holds a run.

    Returns:
        "new" (start), "resume" (the same run, unfinished) or "finished" (the same run, complete).
    """
    folder = Path(folder)
    found = read_resolved(folder)
    if found is not None and not overwrite:
        difference = first_difference(found, settings)
        if difference:
            raise HfLongSeqError(
                f"output_dir {folder} holds another run ({difference}): choose another output_dir, or add --overwrite."
            )
        return "finished" if (folder / finished).is_file() else "resume"
    folder.mkdir(parents=True, exist_ok=True)
    if found is None and _content(folder):
        # --overwrite deletes only what this package wrote.
        raise HfLongSeqError(f"output_dir {folder} holds files that are not of a run: choose an empty folder.")
    empty_folder(folder)
    write_yaml(folder / RESOLVED, settings)
    return "new"


def _content(folder: Path) -> list[Path]:
    """What lies in a run folder besides the lock and unfinished files."""
    ours = [LOCK]
    if not any((folder / CHECKPOINTS).glob("*")):
        ours.append(CHECKPOINTS)  # a Trainer makes its folder before it is known what is here
    return [path for path in folder.iterdir() if path.name not in ours and path.suffix != UNFINISHED]


def empty_folder(folder: str | os.PathLike) -> None:
    """Delete what a run folder holds, except for the lock."""
    # The settings go last: a kill in between leaves a run to overwrite.
    for path in sorted(_content(Path(folder)), key=lambda path: path.name == RESOLVED):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def first_difference(old: Any, new: Any, where: str = "") -> str | None:
    """Name the first setting in which two runs differ: "pretrain.max_steps is 10 there, 20 here"."""
    if isinstance(old, dict) and isinstance(new, dict):
        # the task first: it says most
        for key in sorted({**old, **new}, key=lambda key: key != "data"):
            inner = f"{where}.{key}" if where else str(key)
            # run.init_weights tells the checkpoint, however its path is spelled. A branch may have moved since the run
            # began. Trackers change no result.
            if inner in ("run.init_from", "run.weights_commit") or key in ("report_to", "trackio_space_id"):
                continue
            difference = first_difference(old.get(key), new.get(key), inner)
            if difference:
                return difference
        return None
    return None if old == new else f"{where} is {old} there, {new} here"


def refuse_links(folder: str | os.PathLike, pattern: str = "*") -> None:
    """Raise if a link in a folder leads out of it, except to Python files: publishing writes the package's code."""
    folder = Path(folder)
    for path in sorted(folder.rglob(pattern)):
        away = path.is_symlink() and path.suffix != ".py"
        if away and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
            raise HfLongSeqError(
                f"{path} is a link that leaves its folder (to {os.readlink(path)}): put the file itself in its place, "
                "or remove the link."
            )


def path_from(run: str | os.PathLike, other: str | os.PathLike) -> str:
    """How a run names another folder: relative to itself if both lie in one folder, else in full; a name on the Hub
    stays as it is."""
    run, there = Path(run).resolve(), Path(other).resolve()
    if not there.is_dir():
        return str(other)
    return Path(os.path.relpath(there, run)).as_posix() if there.is_relative_to(run.parent) else str(there)


def started_from(run: str | os.PathLike, settings: dict) -> Path | None:
    """The folder whose weights a run started from, if it still holds them."""
    recorded = settings["run"].get("init_from")
    if not recorded:
        return None
    # the second place is for a run copied out of its comparison
    beside = Path(os.path.normpath(Path(run, recorded)))
    for place in (beside, Path(run).parent / RUNS / beside.name):
        if any(place.glob("*.safetensors")) and weights_hash(place) == settings["run"].get("init_weights"):
            return place
    return None


def data_record(splits: dict, spec: "TaskSpec", options: dict) -> dict[str, Any]:
    """Task, origin, options, and for each split the number of examples and a hash of their content."""
    from hf_longseq.data.published import content_hash

    sizes = {name: {"num_examples": len(split), "sha256": content_hash(split)} for name, split in splits.items()}
    origin = {
        name: getattr(spec, name) for name in ("modality", "max_length", "source", "license", "note", "mask_ratio")
    }
    return {"task": spec.name, **origin, "options": options, "splits": sizes}


def environment() -> dict[str, Any]:
    """Versions, hardware and threads of a run."""
    import datasets
    import joblib
    import torch
    import transformers

    return {
        "hf_longseq": __version__,
        "commit": git_commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "datasets": datasets.__version__,
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "cpu_count": joblib.cpu_count(),
        "threads": torch.get_num_threads(),
        "processes": int(os.environ.get("WORLD_SIZE", 1)),
        "gpu": [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())],
    }


def cpu_name() -> str:
    named = re.search(r"^model name\s*:(.*)$", read_text(Path("/proc/cpuinfo")), re.MULTILINE)
    return named[1].strip() if named else platform.processor() or platform.machine()


def git_commit() -> str | None:
    """Commit of the package's source tree (with "+changes" if files differ from it), or None outside of git."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists() or not (root / "pyproject.toml").exists():
        return None
    words = ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+changes"]
    try:
        return subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def weights_hash(folder: str | os.PathLike) -> str:
    return file_hash(*sorted(Path(folder).glob("*.safetensors")))[:16]


def file_hash(*paths: Path) -> str:
    """SHA-256 of the content of files, one after the other."""
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()
