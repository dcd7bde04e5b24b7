"""`scripts/install.sh` makes `.venv`, and touches none that somebody else has made."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("linked", [False, True], ids=["folder", "link"])
def test_an_environment_of_somebody_else_is_left_alone(tmp_path, linked):
    clone = tmp_path / "clone"
    (clone / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "install.sh", clone / "scripts")
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, clone)
    theirs = tmp_path / "theirs" if linked else clone / ".venv"
    theirs.mkdir()
    (theirs / "precious").write_text("kept")
    if linked:
        (theirs / "installed-for").write_text("another clone")
        (clone / ".venv").symlink_to(theirs)
    ended = subprocess.run(["bash", "scripts/install.sh"], cwd=clone, capture_output=True, text=True)
    assert ended.returncode == 1 and ended.stderr.count("\n") == 1
    assert f"{clone}/.venv was not made by this script" in ended.stderr
    assert (theirs / "precious").read_text() == "kept"
