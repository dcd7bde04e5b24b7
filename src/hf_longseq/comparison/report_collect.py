# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The small files of a plan, fit to be committed: `results.json`, `curves.json`, settings and pictures; no weights.

A report of such a folder says the same as one of the plan itself.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import yaml

from hf_longseq.comparison.report_read import CURVES, curves_of, find_plans, read_plan, results_of
from hf_longseq.comparison.results import RESULTS
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.run_folder import RESOLVED, refuse_links, write_whole

# /home/me/x.csv, but not https://… or a/b/c
ABSOLUTE = re.compile(r"(?<![\w.:/~-])/(?:[^\s/:'\"]+/)+([^\s/:'\"]*)")


def collect_to(
    plan: str | os.PathLike,
    folder: str | os.PathLike,
    *,
    name: str | None = None,
) -> list[str]:
    """Copy what can be committed of a plan.

    Args:
        plan: Output folder of `compare` or `spt`.
        folder: A new folder, or one that holds an earlier copy of results of the same task.
        name: Name of the plan's column in reports; by default the task.

    Returns:
        Names of the written files.

    Raises:
        HfLongSeqError: If the plan holds no result, or the folder holds something else.
    """
    plan, folder = Path(plan), Path(folder)
    if find_plans(plan) != [plan]:
        raise HfLongSeqError(f"{plan} holds several plans: name one of them.")
    read = read_plan(plan, name)  # says what is wrong with it
    results = results_of(plan)
    results |= ({"name": read.name} if read.name != read.task else {}) | (
        {"command": read.command} if read.command else {}
    )
    curves = read.curves or curves_of(plan, results)
    files = {RESULTS: (json.dumps(portable(results, plan), indent=1, ensure_ascii=False) + "\n").encode()}
    if curves:
        lines = ",\n".join(f" {json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in curves.items())
        files[CURVES] = f"{{\n{lines}\n}}\n".encode()
    if (plan / RESOLVED).is_file():
        settings = portable(yaml.safe_load((plan / RESOLVED).read_text("utf-8")), plan)
        files[RESOLVED] = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True).encode()
    refuse_links(plan, "*.png")
    files |= {path.name: path.read_bytes() for path in sorted(plan.glob("*.png"))}
    _check_target(folder, plan, read.task)
    for file, content in files.items():
        write_whole(folder / file, content)
    return list(files)


def _check_target(folder: Path, plan: Path, task: str) -> None:
    """Only an earlier copy of the same task's results is replaced."""
    if folder.exists() and not folder.is_dir():
        raise HfLongSeqError(f"{folder} is a file: name a folder.")
    if folder.exists() and folder.resolve() == plan.resolve():
        raise HfLongSeqError(f"{folder} is the plan itself: name another folder.")
    if not folder.exists() or not any(folder.iterdir()):
        return
    held = read_plan(folder).task if (folder / RESULTS).is_file() else None
    if held != task or (folder / "runs").exists():
        what = f"results of {held!r}" if held and held != task else "files that are no copy of results"
        raise HfLongSeqError(f"{folder} holds {what}: choose another folder for those of {task!r}.")


def portable(content: Any, plan: Path) -> Any:
    """The same without paths of this machine: those in the plan become relative to it, of others the name is left."""
    if isinstance(content, dict):
        return {key: portable(value, plan) for key, value in content.items()}
    if isinstance(content, list):
        return [portable(value, plan) for value in content]
    if not isinstance(content, str):
        return content
    for spelled in {str(plan.resolve()), str(plan)}:
        content = content.replace(f"{spelled}/", "") if len(spelled) > 1 else content
    return ABSOLUTE.sub(r"\1", content)
