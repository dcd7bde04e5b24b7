"""Every kept comparison has its line in results/README.md, with its command."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "evidence.sh"


def test_the_readme_of_results_names_the_command_of_every_kept_comparison():
    named = re.findall(r"bash scripts/evidence\.sh ([\w-]+)", (ROOT / "results" / "README.md").read_text())
    written = re.findall(r"^run_([\w-]+)\(\)", SCRIPT.read_text(), flags=re.MULTILINE)
    assert len(set(named)) == len(named) and set(named) <= set(written)
    kept = {path.parent.name for path in (ROOT / "results").glob("*/results.json")}
    assert len(named) == len(kept), "every kept comparison has its command"


def test_a_wrong_name_is_answered_with_the_names():
    # before anything is installed
    ended = subprocess.run(["bash", str(SCRIPT), "mnist"], capture_output=True, text=True)
    assert ended.returncode == 2
    assert "smnist" in ended.stderr and "listops" in ended.stderr
