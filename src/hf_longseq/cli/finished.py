# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""A finished training command that is rerun answers at once, from what it printed the first time.

Beside the result lies `.answer.json`: the words of the command, the version, and a hash of size and time of every file
that the command read or wrote. While all of these are as they were, the run would find itself finished, and its words
are repeated without importing torch. Whatever differs makes the command run as usual, which then decides for itself;
so does a comparison of which runs failed or are unfinished.
"""

import contextlib
import hashlib
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

from hf_longseq.escaping import one_line
from hf_longseq.version import __version__

COMMANDS = ("pretrain", "finetune", "spt", "compare")
ANSWER = ".answer.json"
# Options whose value may name files that the command reads.
READ = ("--recipe", "--config", "--data", "--data.data", "--unlabelled", "--data.unlabelled", "--init_from")


def run_once(command: str, words: list[str], run: Callable[[list[str]], None]) -> None:
    """Run a training command, or repeat what it printed when it finished."""
    folder = _value(words, "--output_dir")
    if folder is None or "--overwrite" in words:
        return run(words)
    path, asked = Path(folder) / ANSWER, {"command": command, "words": words, "version": __version__}
    kept = _read(path)
    if kept == {**kept, **asked, "files": _state_of_files(words, folder)}:
        # a stranger's folder may say anything: nothing that a terminal obeys, but the spaces of tables stay
        parts = re.split(r"([ \n]+)", str(kept.get("printed")))
        print("".join(part if part.isspace() else one_line(part) for part in parts), end="")
        return None
    with contextlib.redirect_stdout(_CopiedOutput()) as printed:
        run(words)
    results = _read(Path(folder) / "results.json")
    if results.get("failed") or results.get("unfinished"):
        return path.unlink(missing_ok=True)
    from hf_longseq.training.run_folder import write_json

    return write_json(path, {**asked, "files": _state_of_files(words, folder), "printed": printed.getvalue()})


def _value(words: list[str], option: str) -> str | None:
    places = [place for place, word in enumerate(words[:-1]) if word == option]
    return words[places[-1] + 1] if places else None


def _read(path: Path) -> dict:
    """A JSON mapping; an empty one where there is none."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _state_of_files(words: list[str], folder: str) -> str:
    """A hash of name, size and time of change of all files of the result and of what it was made from."""
    places = [Path(folder), *(Path(value).expanduser() for name in READ if (value := _value(words, name)))]
    found: set[tuple[str, int, int]] = set()
    for place in places:
        inside = place.rglob("*") if place.is_dir() else place.parent.glob("*.npy") if place.suffix == ".npy" else []
        for file in (place, *inside):
            if file.is_file() and file.name not in (ANSWER, ".lock") and file.parent.name != ".claims":
                state = file.stat()
                found.add((str(file.resolve()), state.st_size, state.st_mtime_ns))
    return hashlib.sha256(repr(sorted(found)).encode()).hexdigest()


class _CopiedOutput(io.StringIO):
    """What is written to it, which goes where standard output went as well."""

    def __init__(self):
        super().__init__()
        self.terminal = sys.stdout

    def write(self, text: str) -> int:
        self.terminal.write(text)
        return super().write(text)
