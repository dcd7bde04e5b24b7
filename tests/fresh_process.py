"""Runs code in a new Python process, with the package hidden if asked: what a stranger's machine does."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src"
TIMEOUT_SECONDS = 300  # far more than any of them needs: a process that hangs must fail its test

HIDE = """
import sys
class NoPackage:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "hf_longseq":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, NoPackage())
"""


def run_fresh(code: str, home, hide_package: bool = False, **environment: str) -> subprocess.CompletedProcess:
    """Run `code` isolated (python -I), offline unless told otherwise, with empty caches in `home`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "PYTHON", "HUGGING"))}
    quiet = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_VERBOSITY": "error", "OMP_NUM_THREADS": "1"}
    environment = {**kept, **quiet, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1", **environment}
    start = HIDE if hide_package else f"import sys\nsys.path.insert(0, {str(SOURCES)!r})\n"
    command = [sys.executable, "-I", "-c", start + textwrap.dedent(code)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, cwd=home, timeout=TIMEOUT_SECONDS)


def answer(done: subprocess.CompletedProcess) -> str:
    """What the process printed; its error if it failed."""
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
