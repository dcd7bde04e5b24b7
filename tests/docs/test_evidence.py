"""Every kept comparison has its line in results/README.md, with its command, and its place in the plan."""

import functools
import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "evidence.sh"


def test_the_readme_of_results_names_the_command_of_every_kept_comparison():
    named = re.findall(r"bash scripts/evidence\.sh ([\w-]+)", (ROOT / "results" / "README.md").read_text())
    written = re.findall(r"^run_([\w-]+)\(\)", SCRIPT.read_text(), flags=re.MULTILINE)
    assert len(set(named)) == len(named) and set(named) <= set(written)
    kept = {plan_name(path.parent) for path in (ROOT / "results").glob("*/results.json")}
    assert len(named) == len(kept), "every kept comparison has its command"


def plan_name(folder: Path) -> str:
    """A comparison may lie in several folders, NAME and NAME.MORE."""
    return folder.name.partition(".")[0]


KEPT = sorted(path.parent for path in (ROOT / "results").glob("*/results.json"))


@functools.cache
def plan_now() -> dict:
    return yaml.safe_load((ROOT / "results" / "plan.yaml").read_text(encoding="utf-8"))


@functools.cache
def plan_at(commit: str) -> dict | None:
    """The plan in a commit, which may have had none; None if the commit is not in this copy of the repository."""
    if subprocess.run(["git", "cat-file", "-e", commit], cwd=ROOT, capture_output=True).returncode:
        return None
    shown = subprocess.run(["git", "show", f"{commit}:results/plan.yaml"], cwd=ROOT, capture_output=True, text=True)
    return yaml.safe_load(shown.stdout) or {"planned": {}}


@pytest.mark.parametrize("folder", KEPT, ids=lambda folder: folder.name)
def test_every_kept_comparison_was_planned_before_its_runs_or_is_marked_explored(folder):
    """The commit that a folder's runs recorded holds the plan with the folder in it, or no plan at all."""
    plan, name = plan_now(), plan_name(folder)
    assert (name in plan["planned"]) != (name in plan["explored"])
    commit = json.loads((folder / "results.json").read_text(encoding="utf-8"))["environment"]["commit"].split("-")[0]
    then = plan_at(commit)
    if then is None:
        pytest.skip("the commit of the runs is not in this copy of the repository")
    assert (name in then["planned"]) == (name in plan["planned"])
    if name in plan["planned"]:
        claim = plan["planned"][name]["claim"]
        assert then["planned"][name] == plan["planned"][name], "the plan is that of before the runs"
        assert then["claims"][claim] == plan["claims"][claim], "so is its family"


def test_the_pages_count_the_comparisons_that_are_older_than_the_plan():
    kept, explored = {plan_name(folder) for folder in KEPT}, plan_now()["explored"]
    assert len(explored) == 19
    assert f"Nineteen of the {len(kept)} comparisons are older than the plan." in (ROOT / "docs/claims.md").read_text()
    assert "the 19 earlier ones as explored" in (ROOT / "results" / "README.md").read_text()


def test_the_families_of_the_plan_are_those_of_its_folders():
    plan = plan_now()
    for name, entry in plan["planned"].items():
        assert entry["claim"] in plan["claims"] and name in plan["claims"][entry["claim"]]["gains"]
        assert not set(entry["seeds"]) & set(entry["tuning_seeds"])
    assert not {folder for claim in plan["claims"].values() for folder in claim["gains"]} & set(plan["explored"])


def test_a_wrong_name_is_answered_with_the_names():
    # before anything is installed
    ended = subprocess.run(["bash", str(SCRIPT), "mnist"], capture_output=True, text=True)
    assert ended.returncode == 2
    assert "smnist" in ended.stderr and "listops" in ended.stderr
