"""What is shipped: a wheel with everything the package reads, and a site without broken links."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hf_longseq.version import __version__

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_holds_what_the_package_reads_and_nothing_of_the_repository(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    kept = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*") if path.is_file()}
    kept = {name for name in kept if "__pycache__" not in name and ".egg-info" not in name}
    assert kept <= set(names)
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"hf_longseq"}


@pytest.fixture
def installed(wheel, tmp_path):
    """Run the command with nothing of ours but the wheel."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site"), "HF_LONGSEQ_CACHE": str(tmp_path / "cache")}

    def run(*words):
        command = [sys.executable, "-m", "hf_longseq", *words]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
        assert done.returncode == 0 and done.stdout.strip(), done.stderr[-2000:]

    return run


def test_the_wheel_alone_answers_help_and_lists_its_recipes(installed):
    installed("--help")
    installed("recipes", "list")


@pytest.mark.slow
def test_the_wheel_alone_trains(installed, tmp_path):
    installed("spt", *"--task listops --inits spt --tiny --max_steps 2 --output_dir trial".split())
    assert (tmp_path / "trial" / "best" / "model.safetensors").is_file()


def test_the_version_has_its_section_in_the_change_log():
    first = re.search(r"^## (\S+) \((.+)\)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.M)
    assert first[1] == __version__ and re.fullmatch(r"\d{4}-\d\d-\d\d|unreleased", first[2])


@pytest.mark.slow
def test_the_site_has_no_broken_link():
    pytest.importorskip("material", reason="needs mkdocs-material")
    environment = os.environ | {"PYTHON": sys.executable}
    done = subprocess.run(["bash", "scripts/site.sh"], capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
