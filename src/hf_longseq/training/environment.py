# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Versions, hardware and threads under which a result came about."""

import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

from hf_longseq.training.run_folder import read_text
from hf_longseq.version import __version__


def environment() -> dict[str, Any]:
    """Versions, hardware and threads under which a result came about."""
    import datasets
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
        "cpu_count": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "processes": int(os.environ.get("WORLD_SIZE", 1)),
        "gpu": [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())],
    }


def cpu_name() -> str:
    """Model of the processor as the system names it."""
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
