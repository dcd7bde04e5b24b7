"""Every result quoted in the documentation, a mean with its deviation, is that of some run kept in results/."""

import collections
import functools
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from hf_longseq.comparison.write import write_report

ROOT = Path(__file__).parents[2]
REPORT = Path("results/report")
PAGES = [
    page
    for page in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("results/*.md"), ROOT / "CHANGELOG.md")
    if "±" in page.read_text(encoding="utf-8")
]
QUOTED = re.compile(r"(\d+\.\d+) ± (\d+\.\d+)")
# "+12.3 points, 95 % interval 9.4 to 15.2", "19.4 (16.3 to 22.5)"
INTERVAL = re.compile(r"(\d+\.\d)(?:[^\d±]|95 %)*?(−?\d+\.\d) to (−?\d+\.\d)(?!\d)")


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


def interval(seeds: list[int], a: np.ndarray, others: list[int], b: np.ndarray) -> tuple[str, str]:
    """The difference of two means and its 95 % interval, as pages write them: by pairs of seeds, else Welch's."""
    test = scipy.stats.ttest_rel(a, b) if seeds == others else scipy.stats.ttest_ind(a, b, equal_var=False)
    bounds = test.confidence_interval(0.95)
    return f"{abs(a.mean() - b.mean()):.1f}", f"{bounds.low:.1f} to {bounds.high:.1f}".replace("-", "−")


def kept_arms() -> list[tuple[dict, dict, np.ndarray]]:
    """The comparison, the row and the percentages of every arm in results/."""
    arms = []
    for path in ROOT.glob("results/**/results.json"):
        results = json.loads(path.read_text(encoding="utf-8"))
        arms += [(results, row, 100 * np.array(row["values"])) for row in results["rows"]]
    return arms


@functools.cache
def kept_differences() -> dict[tuple[str, str], set[tuple[str, str]]]:
    """The intervals between any two arms of a task in results/, by what pages write of the two (`81.5 ± 1.3`); under
    ("", "") those between the gains of any two over the equal steps of their comparison."""
    arms = kept_arms()
    gains = [
        (results, row, values - partner)
        for results, row, values in arms
        for same, other, partner in arms
        if same is results
        and (row["init"][:3], other["init"]) == ("spt", "scratch-tied@steps")
        and all(row[key] == other[key] for key in ("arch", "fraction"))
    ]
    found = collections.defaultdict(set)
    for several in (arms, gains):
        for (one, row, a), (two, other, b) in itertools.permutations(several, 2):
            if one["task"] == two["task"]:
                scores = [f"{100 * arm['mean']:.1f} ± {100 * arm['std']:.1f}" for arm in (row, other)]
                found[tuple(scores) if several is arms else ("", "")].add(interval(row["seeds"], a, other["seeds"], b))
    return found


def test_every_quoted_interval_is_that_of_two_arms():
    page = (ROOT / "docs/claims.md").read_text(encoding="utf-8")
    quoted = {(mean, f"{low} to {high}") for mean, low, high in INTERVAL.findall(page)}
    assert len(quoted) >= page.count(" interval ")
    kept = set().union(*kept_differences().values())
    assert not quoted - kept, "docs/claims.md quotes intervals that results/ does not give"


def test_every_gain_in_a_table_is_that_of_the_arms_beside_it():
    kept = kept_differences()
    lines = [line for line in (ROOT / "docs/claims.md").read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    gains = [(line, INTERVAL.findall(line.split("|")[-2])) for line in lines if len(QUOTED.findall(line)) == 2]
    assert sum(bool(quoted) for _, quoted in gains) >= 10
    for line, quoted in gains:
        (before, deviation), (after, its_deviation) = QUOTED.findall(line)
        arms = (f"{after} ± {its_deviation}", f"{before} ± {deviation}")
        for mean, low, high in quoted:
            assert (mean, f"{low} to {high}") in kept[arms], line


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
