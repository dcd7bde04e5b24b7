#!/usr/bin/env python
# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Kill a training command again and again, and compare what it ends with to what it gives undisturbed.

    python scripts/kill_loop.py --kills 10 --work /tmp/kills spt --task listops --tiny --model.dropout 0.1

The command runs once in peace, then is killed with SIGKILL and given again until all kills are spent, in a new folder
whenever it got to its end. Half of the moments are a random time, half a random operation on files (an opened,
renamed, made or removed file below the folder), so that saving and the last writes are hit too. At the end every
*.safetensors must be equal byte by byte, and the metrics equal but for times. POSIX only: runs are forked from one
process that has imported everything.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

FILE_EVENTS = ("os.rename", "os.remove", "os.mkdir", "os.rmdir")
CHANGING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments")
    parser.add_argument("--work", type=Path, required=True, help="empty or new folder")
    parser.add_argument("--every_file_operation", action="store_true", help="kill at each of them in turn instead")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="an hf-longseq command without --output_dir")
    options = parser.parse_args()
    work = options.work.resolve()
    if work.exists() and any(work.iterdir()):
        parser.error(f"{work} is not empty")
    work.mkdir(parents=True, exist_ok=True)

    import torch

    import hf_longseq.comparison.execute  # noqa: F401  what every child needs, imported once

    torch.set_num_threads(1)
    began = time.monotonic()
    ended = run(options.command, work / "undisturbed", work / "log")
    seconds, operations = time.monotonic() - began, int((work / "operations").read_text())
    if ended != 0:
        print((work / "log").read_text()[-2000:])
        return 1
    print(f"undisturbed: {seconds:.1f} s, {operations} operations on files")
    failures, kills, finished, rounds = 0, 0, True, 0
    for kind, moment in moments(options, seconds, operations):
        if finished or options.every_file_operation:
            rounds += 1
        folder = work / f"killed-{rounds}"
        ended = run(options.command, folder, work / "log", **{kind: moment})
        finished = ended == 0
        kills += ended == -signal.SIGKILL
        what = {0: "had ended before", -signal.SIGKILL: "killed"}.get(ended, f"FAILED with {ended}")
        failures += ended not in (0, -signal.SIGKILL)
        print(f"{kills:>4} {kind} {moment:>8.3f}: {what}; {last_line(work / 'log')}", flush=True)
        enough = not options.every_file_operation and kills == options.kills
        if options.every_file_operation or finished or enough:
            failures += finish_and_compare(options.command, work, folder)
        if enough:
            break
    print(f"{kills} kills, {rounds} folders, {failures} failures")
    return 1 if failures else 0


def moments(options, seconds: float, operations: int):
    """Moments of the kills: at most so many seconds, or file operations, after the start."""
    if options.every_file_operation:
        yield from (("operation", number) for number in range(1, operations + 1))
        return
    dice = random.Random(options.seed)
    while True:
        yield "operation", dice.randint(1, operations)
        yield "second", dice.uniform(0, seconds / 2)


def run(command: list[str], folder: Path, log: Path, second: float | None = None, operation: int | None = None) -> int:
    """Run a command in a child; return its exit status, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        with open(log, "w", buffering=1) as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
        counter = count_operations(folder, operation)
        from hf_longseq.cli.main import main as hf_longseq

        status = hf_longseq([*command, "--output_dir", str(folder)])
        (folder.parent / "operations").write_text(str(counter[0]))
        os._exit(status)
    deadline = None if second is None else time.monotonic() + second
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if deadline is not None and time.monotonic() >= deadline:
            os.kill(child, signal.SIGKILL)
            deadline = None
        time.sleep(0.002)


def count_operations(folder: Path, kill_at: int | None) -> list[int]:
    """Count this process's operations on files below a folder, and kill it just before one of them."""
    counter = [0]

    def hook(event, arguments):
        if event in FILE_EVENTS or (event == "open" and (arguments[2] or 0) & CHANGING):
            if str(arguments[0]).startswith(str(folder)):
                counter[0] += 1
                if counter[0] == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    return counter


def finish_and_compare(command: list[str], work: Path, folder: Path) -> int:
    """Let a killed command come to its end; return the number of files that differ from the undisturbed ones."""
    ended = run(command, folder, work / "log")
    if ended != 0:
        print(f"     {folder.name}: FAILED with {ended}\n{(work / 'log').read_text()[-1500:]}")
        return 1
    wrong = differences(work / "undisturbed", folder)
    print(f"     {folder.name}: {'as undisturbed' if not wrong else 'DIFFERENT: ' + ', '.join(wrong)}", flush=True)
    if not wrong:
        shutil.rmtree(folder)
    return len(wrong)


def differences(one: Path, other: Path) -> list[str]:
    """Names of files that are in one folder alone, or whose weights, metrics or curves differ."""
    names = [{str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()} for root in (one, other)]
    wrong = sorted(names[0] ^ names[1])
    for name in sorted(names[0] & names[1]):
        if name.endswith(".safetensors") and (one / name).read_bytes() != (other / name).read_bytes():
            wrong.append(name)
        if Path(name).name in ("metrics.json", "history.json"):
            a, b = (without_times(json.loads((root / name).read_text())) for root in (one, other))
            if a != b:
                wrong.append(name)
    return wrong


def without_times(content):
    if isinstance(content, list):
        return [without_times(item) for item in content]
    if not isinstance(content, dict):
        return content
    measured = ("wall_seconds", "_runtime", "_per_second", "preparation_time")
    return {key: without_times(value) for key, value in content.items() if not key.endswith(measured)}


def last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").replace("\r", "\n").splitlines() if line.strip()]
    return lines[-1].strip()[:100] if lines else "(nothing said yet)"


if __name__ == "__main__":
    sys.exit(main())
