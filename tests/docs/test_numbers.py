"""Every result quoted in the documentation, a mean with its deviation, is that of some run kept in results/."""

import json
import re
from pathlib import Path

import pytest

from hf_longseq.comparison.write import write_report

ROOT = Path(__file__).parents[2]
REPORT = Path("results/report")
PAGES = [
    page
    for page in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("results/*.md"), ROOT / "CHANGELOG.md")
    if "±" in page.read_text(encoding="utf-8")
]
QUOTED = re.compile(r"(\d+\.\d+) ± (\d+\.\d+)")


def kept_results() -> set[str]:
    """All means and deviations in results/, as percentages and as plain numbers, with the digits that pages show."""
    found = set()
    for path in ROOT.glob("results/**/results.json"):
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
            for scale, digits in ((100, 1), (1, 2), (1, 3), (1, 4)):
                found.add(f"{scale * row['mean']:.{digits}f} ± {scale * row['std']:.{digits}f}")
    return found


def test_there_are_results_to_quote():
    assert len(kept_results()) > 10
    assert ROOT / "README.md" in PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_quoted_result_has_a_run(page):
    kept = kept_results()
    quoted = {f"{mean} ± {deviation}" for mean, deviation in QUOTED.findall(page.read_text(encoding="utf-8"))}
    assert quoted, f"{page} shows ± in a form that this test does not read"
    unknown = sorted(quoted - kept)
    assert not unknown, f"{page.name} quotes {unknown}, which no results.json under results/ holds"


@pytest.mark.parametrize("path", sorted(ROOT.glob("results/**/results.json")), ids=lambda path: path.parent.name)
def test_results_are_consistent_and_name_no_place_of_a_machine(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r'"/(?:home|root|tmp|work|Users)/', text)
    for row in json.loads(text)["rows"]:
        assert len(row["values"]) == len(row["seeds"])
        assert abs(sum(row["values"]) / len(row["values"]) - row["mean"]) < 1e-9


def test_the_report_is_that_of_the_kept_results(tmp_path, monkeypatch):
    """`scripts/report.sh` was run after the last change of results/ (drawing takes its time, and has its own test)."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("hf_longseq.comparison.write.report_figures", lambda *parts: {})
    write_report([Path("results")], tmp_path / "report")
    made, kept = (json.loads((folder / "report.json").read_text()) for folder in (tmp_path / "report", ROOT / REPORT))
    for key in ("rows", "gains", "candidates", "failed"):
        assert made[key] == kept[key], f"run `bash scripts/report.sh`: {key} of results/report is out of date"


def test_every_claim_has_a_verdict_and_a_link():
    page = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    claims = [section for section in page.split("\n## ")[1:] if not section.startswith("Gene starts")]
    assert len(claims) >= 8  # the last section is the reference of a task
    for claim in claims:
        assert len(re.findall(r"Verdict: \*\*(shown|not shown|open)\.\*\*", claim)) == 1, claim
        assert re.search(r"\]\([\w./#-]+\)", claim), claim
