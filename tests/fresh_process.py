"""Runs code in a new Python process, with the package hidden if asked: what a stranger's machine does."""

import functools
import json
import os
import select
import signal
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

# It imports, once, what takes most of the time of a start and reads no setting of the Hub; its copies run the codes.
COPIED = """
import json, os, sys, tempfile
import torch, torch._dynamo, pandas, pyarrow, scipy.stats, sklearn.metrics
assert not {"transformers", "huggingface_hub", "datasets", "hf_longseq"} & set(sys.modules)
for line in sys.stdin:
    child = os.fork()
    if not child:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
todo = json.loads(line)
for descriptor, path in enumerate((os.devnull, todo["out"], todo["err"])):
    os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), descriptor)
os.chdir(todo["home"])
os.environ.clear()
os.environ.update(todo["environment"])
tempfile.tempdir = None
exec(compile(todo["code"], "<string>", "exec"), {"__name__": "__main__"})
"""


@functools.cache
def original() -> subprocess.Popen:
    """The process that is copied, in a group of its own; it ends when this one closes its input."""
    command = [sys.executable, "-I", "-c", COPIED]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    return subprocess.Popen(command, start_new_session=True, **options)


def run_copy(code: str, home, environment: dict) -> subprocess.CompletedProcess:
    """Run `code` in a copy of `original`."""
    out, err = (Path(home) / f".{name}" for name in ("out", "err"))
    todo = {"code": code, "home": str(home), "environment": environment, "out": str(out), "err": str(err)}
    process = original()
    process.stdin.write(json.dumps(todo) + "\n")
    process.stdin.flush()
    if not select.select([process.stdout], [], [], TIMEOUT_SECONDS)[0]:
        os.killpg(process.pid, signal.SIGKILL)
        original.cache_clear()
        raise subprocess.TimeoutExpired(code, TIMEOUT_SECONDS)
    status = int(process.stdout.readline())
    said = out.read_text(), err.read_text()
    out.unlink()
    err.unlink()
    return subprocess.CompletedProcess(code, status, *said)


def run_fresh(
    code: str, home, hide_package: bool = False, copied: bool = hasattr(os, "fork"), **environment: str
) -> subprocess.CompletedProcess:
    """Run `code` isolated (python -I), offline unless told otherwise, with empty caches in `home`.

    Without `copied` the process is started, not copied: for settings that are read before the first import.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "PYTHON", "HUGGING"))}
    quiet = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_VERBOSITY": "error", "OMP_NUM_THREADS": "1"}
    environment = {**kept, **quiet, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1", **environment}
    start = HIDE if hide_package else f"import sys\nsys.path.insert(0, {str(SOURCES)!r})\n"
    code = start + textwrap.dedent(code)
    if copied:
        return run_copy(code, home, environment)
    command = [sys.executable, "-I", "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, cwd=home, timeout=TIMEOUT_SECONDS)


def answer(done: subprocess.CompletedProcess) -> str:
    """What the process printed; its error if it failed."""
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
