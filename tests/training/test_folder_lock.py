"""One command at a time in an output folder; a killed one leaves no lock."""

import os
import signal
import subprocess
import sys

import pytest

from hf_longseq.errors import HfLongSeqError
from hf_longseq.training import run_folder

HOLD = """
import sys, time
from hf_longseq.training import run_folder
with run_folder.holding(sys.argv[1]):
    run_folder.claim_folder(sys.argv[1], {"run": {"seed": 0}})
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds the folder `run`."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_a_second_command_in_the_folder_is_refused_and_leaves_it_alone(holder, tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder, "SECONDS_TO_DIE", 0)
    before = sorted((tmp_path / "run").iterdir())
    with pytest.raises(HfLongSeqError, match=f"in use by another command .process {holder.pid} on .*let it end"):
        with run_folder.holding(tmp_path / "run"):
            pass
    assert sorted((tmp_path / "run").iterdir()) == before


def test_a_killed_command_holds_nothing(holder, tmp_path):
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    assert (tmp_path / "run" / run_folder.LOCK).is_file()
    with run_folder.holding(tmp_path / "run"):
        assert run_folder.claim_folder(tmp_path / "run", {"run": {"seed": 0}}) == "resume"
    assert [path.name for path in (tmp_path / "run").iterdir()] == [run_folder.RESOLVED]


def test_the_lock_is_no_content_and_goes_with_the_command(tmp_path):
    folder = tmp_path / "a" / "run"
    with run_folder.holding(folder):
        assert run_folder.claim_folder(folder, {"run": {"seed": 0}}) == "new"
        (folder / "checkpoints").mkdir()
    with run_folder.holding(folder):
        assert run_folder.claim_folder(folder, {"run": {"seed": 1}}, overwrite=True) == "new"
        assert sorted(path.name for path in folder.iterdir()) == [run_folder.LOCK, run_folder.RESOLVED]
    assert [path.name for path in folder.iterdir()] == [run_folder.RESOLVED]


def test_a_refused_run_leaves_no_folder(tmp_path):
    with pytest.raises(HfLongSeqError, match="nothing"):
        with run_folder.holding(tmp_path / "run"):
            raise HfLongSeqError("nothing was done.")
    assert not (tmp_path / "run").exists()
    (tmp_path / "file").write_text("")
    for name in ("file", "file/inner"):
        with pytest.raises(HfLongSeqError, match=f"{name} needs a folder where .*/file is a file: choose another"):
            with run_folder.holding(tmp_path / name):
                pass
