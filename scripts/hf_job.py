#!/usr/bin/env python
# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
# /// script
# requires-python = ">=3.10"
# dependencies = ["huggingface-hub>=2.0,<3"]
# ///
"""Run a command of hf-longseq on a rented GPU, with `hf jobs`; the same line goes on after a time-out.

    python scripts/hf_job.py --repo_id me/listops-runs --flavor a10g-large --timeout 4h -- \
        compare --recipe listops/s4 --inits scratch,spt --seeds 0 1 2

It makes a private repository that holds the command and, a commit every few minutes, the whole output folder: records,
models and the newest checkpoints. A job begins with what the repository holds.
"""

import argparse
import contextlib
import json
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from huggingface_hub import HfApi

from hf_longseq.errors import HfLongSeqError
from hf_longseq.hub.repository import WHOLE, Repository, said_in_one_sentence

COMMANDS = ("pretrain", "finetune", "spt", "compare")
JOB, RECIPE = "job.json", "recipe.yaml"
PACKAGE = "hf-longseq[plot,generate,audio,images]"
TRAIN = [sys.executable, "-m", "hf_longseq"]
SECONDS_BETWEEN_UPLOADS = 600
# What need not travel: the marks of living processes, files being written, and the download's own notes.
ASIDE = [".*", "*/.*"]
FAILED_UPLOADS = 3
UNITS = {"s": 1 / 60, "m": 1, "h": 60, "d": 1440}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repo_id", required=True, help="private repository that keeps the state and the results")
    parser.add_argument("--flavor", default="a10g-large", help="machine, see `hf jobs hardware` [a10g-large]")
    parser.add_argument("--timeout", default="4h", help="the job is ended after this time: 90m, 4h, 1d [4h]")
    parser.add_argument("--package", default=PACKAGE, help=f"what the job installs [{PACKAGE}]")
    parser.add_argument("--dry_run", action="store_true", help="say what it would cost, start nothing")
    parser.add_argument("--in_job", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("words", nargs="*", metavar="-- COMMAND", help=f"one of {', '.join(COMMANDS)}, and options")
    options = parser.parse_args(argv)
    try:
        return work(options.repo_id, Path("work")) if options.in_job else submit(options)
    except HfLongSeqError as error:
        print(f"hf_job: {error}", file=sys.stderr)
        return 2


def job_of(words: list[str]) -> dict[str, str | list[str]]:
    """What the repository keeps of a command: its words, and the recipe, if that is a file of this machine.

    Raises:
        HfLongSeqError: For a command that does not train, or that names the folder, which the job chooses.
    """
    if not words or words[0] not in COMMANDS:
        raise HfLongSeqError(f"{' '.join(words[:1])!r} is not a command for a job: give one of {', '.join(COMMANDS)} "
                             "after --.")  # fmt: skip
    if any(re.match(r"--output[_-]dir\b", word) for word in words):
        raise HfLongSeqError("--output_dir is the job's own: leave it out, the results go to --repo_id.")
    recipe = words[words.index("--recipe") + 1] if "--recipe" in words[:-1] else ""
    if not Path(recipe).is_file():
        return {"command": words}
    text = Path(recipe).read_text(encoding="utf-8")
    return {"command": [RECIPE if word == recipe else word for word in words], "recipe": text}


def submit(options: argparse.Namespace) -> int:
    """Say the price, note the command in the repository, and start the job."""
    job = job_of(options.words)
    place = Repository.of(options.repo_id, private=True)
    api, repo_id = place.api, place.name
    print(price(api, options.flavor, options.timeout))
    command = ["hf", "jobs", "uv", "run", "--flavor", options.flavor, "--timeout", options.timeout, "--detach"]
    command += ["--secrets", "HF_TOKEN", "--with", options.package]
    command += [__file__, "--in_job", "--repo_id", repo_id]
    if options.dry_run:
        print(f"not started: {shlex.join(command)}")
        return 0
    with said_in_one_sentence(f"{repo_id} took no job"):
        url = place.make()
        note_job(place, job)
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        raise HfLongSeqError("there is no `hf` on PATH: pip install 'huggingface-hub>=2'.") from None
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())[-300:]
        raise HfLongSeqError(f"no job was started ({said}): put that right and give the same command again.")
    print(f"{done.stdout.strip()}\nstate and results: {url}\nafter a time-out, give the same command again")
    return 0


def price(api: HfApi, flavor: str, timeout: str) -> str:
    """What a machine costs an hour, and at most."""
    given = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", timeout)
    if not given:
        raise HfLongSeqError(f"timeout is {timeout!r}: give a number with s, m, h or d, as 4h.")
    minutes = float(given[1]) * UNITS[given[2] or "s"]
    with said_in_one_sentence("there is no list of machines"):
        machines = {machine.name: machine for machine in api.list_jobs_hardware()}
    if flavor not in machines:
        raise HfLongSeqError(f"{flavor!r} is not a machine of {api.endpoint}: use one of {', '.join(machines)}.")
    cost = machines[flavor].unit_cost_usd  # of a minute
    return (
        f"{machines[flavor].pretty_name}: {60 * cost:.2f} USD an hour, at most {minutes * cost:.2f} USD in "
        f"{minutes:g} minutes"
    )


def note_job(place: Repository, job: dict) -> None:
    """Write the job into a new repository; raise if it holds anything but the same job's state."""
    content, present, repo_id = json.dumps(job, indent=2).encode(), place.files(), place.name
    if JOB in present:
        held = place.download(JOB).read_bytes()
        if held != content:
            said = shlex.join(json.loads(held)["command"])
            raise HfLongSeqError(f"{repo_id} holds the job `{said}`: give that command, or another --repo_id.")
    elif set(present) - {".gitattributes"}:
        raise HfLongSeqError(f"{repo_id} holds files that no job wrote: choose another --repo_id.")
    # also where it is there already: whoever may not write learns it now, and not after hours on the GPU
    place.api.upload_file(path_or_fileobj=content, path_in_repo=JOB, repo_id=repo_id, commit_message="Start a job")


def work(repo_id: str, folder: Path) -> int:
    """In the job: go on from what the repository holds, and keep it up to date; returns the exit code."""
    api = HfApi()
    with said_in_one_sentence(f"{repo_id} is as it was"):
        api.snapshot_download(repo_id, local_dir=folder)
    job = json.loads((folder / JOB).read_text(encoding="utf-8"))
    words, place = job["command"], folder / "run"
    if "recipe" in job:
        (folder / RECIPE).write_text(job["recipe"], encoding="utf-8")
        words = [str(folder / RECIPE) if word == RECIPE else word for word in words]
    process = subprocess.Popen([*TRAIN, *words, "--output_dir", str(place)])
    # the training saves a checkpoint when it is told to end, and what follows uploads it
    before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        return keep_up(api, repo_id, folder, process)
    finally:
        signal.signal(signal.SIGTERM, before)


def keep_up(api: HfApi, repo_id: str, folder: Path, process: subprocess.Popen) -> int:
    """Upload the folder while the training works, and once it has ended; returns its exit code."""
    failed = 0
    while failed < FAILED_UPLOADS:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(SECONDS_BETWEEN_UPLOADS / (10 if failed else 1))
        ended = process.poll() is not None
        try:
            save(api, repo_id, folder, "The end of a job" if ended else "The state of a job")
            failed = 0
        except HfLongSeqError as error:
            if any(isinstance(one, FileNotFoundError) for one in causes(error)) and not ended:
                continue  # the training deleted an old checkpoint while it was read: the next upload has the new ones
            failed += 1
            print(f"hf_job: {error}", file=sys.stderr, flush=True)
            time.sleep(SECONDS_BETWEEN_UPLOADS / 60)
        if ended and not failed:
            return process.returncode
    process.terminate()  # hours that nobody would see cost as much as others
    process.wait()
    raise HfLongSeqError(
        f"{repo_id} took no upload {failed} times in a row, so the job ends; it holds the state of the last commit: "
        "see to that, and give the same command again."
    )


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and what it was raised from: the Hub's client words the error of a file anew."""
    while error is not None:
        yield error
        error = error.__cause__


def save(api: HfApi, repo_id: str, folder: Path, message: str) -> None:
    """Make the repository hold what the folder holds, in one commit; checkpoints that are gone here go there."""
    with said_in_one_sentence(f"{repo_id} {WHOLE}"):
        api.upload_folder(
            repo_id=repo_id, folder_path=folder, commit_message=message, ignore_patterns=ASIDE,
            delete_patterns="*/checkpoints/*",
        )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
