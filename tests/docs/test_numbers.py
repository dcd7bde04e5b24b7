"""Every result quoted in the documentation, a mean with its deviation, is that of some run kept in results/."""

import collections
import functools
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.special
import scipy.stats
import yaml

import keep_gains
from hf_longseq import load_task
from hf_longseq.comparison.advice import KEPT
from hf_longseq.comparison.scores import EXPLORED, read_results
from hf_longseq.comparison.statistics import arm_means, equivalence, gains
from hf_longseq.comparison.write import records, write_report

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


@functools.cache
def kept_results() -> set[str]:
    """All means and deviations in results/, as percentages and as plain numbers, with the digits that pages show."""
    found = set()
    for row, _ in kept_arms():
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
    assert not unknown, f"{page.name} quotes {unknown}, which no scores under results/ give"


CLAIMS = (ROOT / "docs/claims.md").read_text(encoding="utf-8")
# what the page quotes: no other interval is computed
MEANS = {mean for mean, _, _ in INTERVAL.findall(CLAIMS)}


def difference(a: np.ndarray, b: np.ndarray) -> str:
    return f"{abs(a.mean() - b.mean()):.1f}"


def interval(seeds: list[int], a: np.ndarray, others: list[int], b: np.ndarray) -> tuple[str, str]:
    """The difference of two means and its 95 % interval, as pages write them: by pairs of seeds, else Welch's."""
    samples = (a - b,) if seeds == others else (a, b)
    variances = [sample.var(ddof=1) / len(sample) for sample in samples]
    # Welch's degrees of freedom, which of one sample are n - 1; objects of scipy.stats take a minute for all arms
    freedom = sum(variances) ** 2 / sum(
        one**2 / (len(sample) - 1) for one, sample in zip(variances, samples, strict=True)
    )
    half, middle = scipy.special.stdtrit(freedom, 0.975) * sum(variances) ** 0.5, a.mean() - b.mean()
    return difference(a, b), f"{middle - half:.1f} to {middle + half:.1f}".replace("-", "−")


def test_intervals_are_those_of_scipy():
    a, b = 10 * np.random.default_rng(0).normal(size=(2, 6))
    paired, welch = scipy.stats.ttest_rel(a, b), scipy.stats.ttest_ind(a, b, equal_var=False)
    for test, others in ((paired, [0]), (welch, [1])):
        low, high = (f"{bound:.1f}".replace("-", "−") for bound in test.confidence_interval(0.95))
        assert interval([0], a, others, b)[1] == f"{low} to {high}"


def on_common_seeds(row: dict, a: np.ndarray, other: dict, b: np.ndarray) -> tuple:
    """Two arms on the seeds that both have; as they are where that leaves fewer than five."""
    common = sorted({*row["seeds"]} & {*other["seeds"]})
    if len(common) < 5:
        return row["seeds"], a, other["seeds"], b
    first, second = (values[[one["seeds"].index(seed) for seed in common]] for one, values in ((row, a), (other, b)))
    return common, first, common, second


@functools.cache
def kept_arms() -> list[tuple[dict, np.ndarray]]:
    """Every arm in results/, with its percentages."""
    tables = []
    for path in ROOT.glob("results/*/scores.csv"):
        its, table = json.loads(path.with_name("results.json").read_text())["metric"], pd.read_csv(path)
        # NAME and NAME.MORE are one comparison
        tables.append(table[table["metric"] == its].assign(folder=path.parent.name.partition(".")[0]))
    kept = pd.concat(tables).query("split == 'test' and chosen and not tuning")
    unkept = pd.read_csv(ROOT / "results/without_folder.csv").fillna({"folder": ""})
    arm, arms = ["folder", "task", "data", "architecture", "arm", "labels"], []
    for key, one in pd.concat([kept, unkept]).groupby(arm, sort=False):
        row = dict(zip(arm, key, strict=True)) | {"seeds": one["seed"].tolist()}
        row |= {"mean": one["value"].mean(), "std": one["value"].std()}
        arms.append((row, 100 * one["value"].to_numpy()))
    return arms


@functools.cache
def kept_differences() -> dict[tuple[str, str], set[tuple[str, str]]]:
    """The intervals between any two arms of a task in results/, by what pages write of the two (`81.5 ± 1.3`); under
    ("", "") those between the gains of any two over the equal steps of their comparison."""
    arms = [arm for arm in kept_arms() if len(arm[1]) > 1]
    written = {id(row): f"{100 * row['mean']:.1f} ± {100 * row['std']:.1f}" for row, _ in arms}
    gains = [
        (row, values - partner)
        for row, values in arms
        for other, partner in arms
        if (row["arm"][:3], other["arm"]) == ("spt", "scratch-tied@steps") and row["folder"]
        and all(row[key] == other[key] for key in ("folder", "architecture", "labels"))
    ]  # fmt: skip
    found = collections.defaultdict(set)
    for several in (arms, gains):
        by_task = collections.defaultdict(list)
        for arm in several:
            by_task[arm[0]["task"]].append(arm)
        for (row, a), (other, b) in itertools.chain(*(itertools.combinations(mine, 2) for mine in by_task.values())):
            pairs = [(row["seeds"], a, other["seeds"], b)]
            if row["seeds"] != other["seeds"]:
                pairs.append(on_common_seeds(row, a, other, b))
            for seeds, one, others, another in pairs:
                if difference(one, another) in MEANS:
                    scores = (written[id(row)], written[id(other)]) if several is arms else ("", "")
                    found[scores].add(interval(seeds, one, others, another))
                    found[scores[::-1]].add(interval(others, another, seeds, one))
    return found


def test_every_quoted_interval_is_that_of_two_arms():
    quoted = {(mean, f"{low} to {high}") for mean, low, high in INTERVAL.findall(CLAIMS)}
    assert len(quoted) >= CLAIMS.count(" interval ")
    kept = set().union(*kept_differences().values())
    assert not quoted - kept, "docs/claims.md quotes intervals that results/ does not give"


def test_every_gain_in_a_table_is_that_of_the_arms_beside_it():
    kept = kept_differences()
    lines = [line for line in CLAIMS.splitlines() if line[:1] == "|"]
    gains = [(line, INTERVAL.findall(line)) for line in lines if len(QUOTED.findall(line)) == 2]
    assert sum(bool(quoted) for _, quoted in gains) >= 10
    for line, quoted in gains:
        (before, deviation), (after, its_deviation) = QUOTED.findall(line)
        arms = (f"{after} ± {its_deviation}", f"{before} ± {deviation}")
        for mean, low, high in quoted:
            assert (mean, f"{low} to {high}") in kept[arms], line


RECORDS = [path for path in ROOT.glob("results/*/*") if path.suffix in (".json", ".csv", ".yaml")]


def test_results_name_no_place_of_a_machine():
    for path in RECORDS:
        assert not re.search(r"(?<![\w.:/~-])/(?:home|root|tmp|work|Users)/", path.read_text(encoding="utf-8")), path


@functools.cache
def kept_tables() -> dict[str, pd.DataFrame]:
    """All arms, gains and failed runs of results/."""
    with pytest.MonkeyPatch.context() as patch:  # the names of the folders are in the tables
        patch.chdir(ROOT)
        results = read_results(["results"])
    means = arm_means(results.scores)
    return {"arms": means, "gains": gains(means), "failed": results.failed}


def test_the_report_is_that_of_the_kept_results():
    """`scripts/report.sh` was run after the last change of results/."""
    made, kept = records(kept_tables()), json.loads((ROOT / REPORT / "report.json").read_text())
    for key in ("arms", "gains", "failed"):
        assert made[key] == kept[key], f"run `bash scripts/report.sh`: {key} of results/report is out of date"


@pytest.mark.slow
def test_a_report_of_all_kept_results_is_written(tmp_path, monkeypatch):
    """Drawing takes its time, and has its own test."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("hf_longseq.comparison.write.report_figures", lambda *parts: {})
    write_report([Path("results")], tmp_path / "report")
    made, kept = (json.loads((folder / "report.json").read_text()) for folder in (tmp_path / "report", ROOT / REPORT))
    assert all(made[key] == kept[key] for key in ("arms", "gains", "failed"))


def test_the_table_of_the_advice_is_that_of_the_kept_results():
    made = keep_gains.kept_gains(kept_tables()["arms"], kept_tables()["gains"])
    pd.testing.assert_frame_equal(pd.read_csv(KEPT), made)


@functools.cache
def kept_gains() -> pd.DataFrame:
    """Every gain over equal budget in results/, with its two arms as pages write them."""
    return kept_tables()["gains"].dropna(subset="p_holm")


def test_every_claim_has_a_verdict_and_a_link():
    claims = [section for section in CLAIMS.split("\n## ")[1:] if "Verdict:" in section]
    assert len(claims) >= 8
    for claim in claims:
        assert len(re.findall(r"Verdict: \*\*(shown|no gain|open)\b", claim)) == 1, claim
        assert re.search(r"\]\([\w./#-]+\)", claim), claim


def test_the_claims_at_a_glance_are_those_of_the_page():
    found = {}
    for title, text in re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", CLAIMS, re.M):
        if verdict := re.search(r"Verdict: \*\*(shown|no gain|open)\b", text):
            anchor = re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
            found[f"[{title}](#{anchor})"] = verdict[1]
    said = CLAIMS.partition("## The claims at a glance\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:3]] for line in said.splitlines() if line.startswith("| [")]
    assert sorted(rows) == sorted([claim, verdict] for claim, verdict in found.items())


def test_every_verdict_in_a_table_of_gains_follows_the_rule():
    """The rule is that of `statistics`. Gains between two folders belong to no family, and stay open."""
    known = {
        tuple(f"{bound:.1f}".replace("-", "−") for bound in (100 * gain["low"], 100 * gain["high"])): gain["verdict"]
        for _, gain in kept_gains().iterrows()
    }
    lines = re.findall(r"\+?(?:−?\d+\.\d) \((−?\d+\.\d) to (−?\d+\.\d)\) \| ([^|]+) \|", CLAIMS)
    assert len(lines) >= 15
    for low, high, verdict in lines:
        assert verdict == known.get((low, high), "open" + verdict.removeprefix("open")), (low, high, verdict)
    explored = kept_gains()["family"] == EXPLORED
    assert f"their {explored.sum()} gains" in CLAIMS


# how the first table of claims.md calls what was compared: folders of results/, and removed ones
COMPARED = {
    "gene starts, *Bradyrhizobium*": [
        "gene-starts-controls",
        "gene-starts-controls-rates",
        "gene-starts-few-dlr",
        "gene-starts-few-s4",
        "gene-starts-few-windows",
        "gene-starts-masked-causal",
        "gene-starts-scarce-s4",
        "gene-starts-scarce-transformer",
    ],
    "gene starts, *E. coli*": ["gene-starts-e-coli", "gene-starts-few-dlr-e-coli", "gene-starts-few-e-coli"],
    "gene starts, *T. kodakaraensis*": [
        "gene-starts-few-dlr-thermococcus",
        "gene-starts-few-thermococcus",
        "gene-starts-thermococcus",
    ],
    "gene starts, *M. acetivorans*": [
        "gene-starts-few-dlr-methanosarcina",
        "gene-starts-few-methanosarcina",
        "gene-starts-methanosarcina",
    ],
    "gene spans, *Bradyrhizobium*, 1,024 bases": ["gene-spans-1024", "gene-spans-1024-rate"],
    "gene spans, *Bradyrhizobium*, 4,096 bases": ["gene-spans-4096"],
    "exons of a fruit fly, 1,024 bases": ["fly-exons-1024"],
    "exons of a fruit fly, 4,096 bases": ["fly-exons-4096"],
    "tones": ["tones-controls"],
    "voices": ["voices"],
    "digits, 14 × 14": ["smnist-s4", "smnist", "smnist-tied"],
    "digits, 32 × 32": ["mnist-1024"],
    "`pathfinder-16`": ["pathfinder-16"],
    "`pathfinder-16`, short paths": ["pathfinder-16-short", "pathfinder-16-short-s4"],
    "`pathfinder-16`, all labels": [
        "pathfinder-16-plateau",
        *(f"pathfinder-16-plateau-{other}" for other in ("cnn", "dlr", "s4")),
    ],
    "`pathfinder`, 32 × 32, all labels": ["pathfinder-32-s4"],
    "`listops` up to 100 symbols": ["listops-short"],
    "BBC news, bytes": ["bbc-bytes", "bbc-bytes-longer"],
    "pairs of ACL papers": ["acl-pairs"],
    "wrist sensors": ["wrist-sensors", "wrist-sensors-tied"],
    "tones, all labels": ["spoken-tones-labels", "spoken-tones-tied"],
}


def test_the_first_table_of_claims_has_every_data_set_that_was_compared():
    page = CLAIMS.split("\n## ")[1]
    scores = collections.defaultdict(set)
    for row, _ in kept_arms():
        deviation = f" ± {100 * row['std']:.1f}" if len(row["seeds"]) > 1 else ""
        scores[row["folder"]].add(f"{100 * row['mean']:.1f}{deviation}")
    rows = [line for line in page.splitlines() if line.startswith("|")][2:]
    lines = [[cell.strip() for cell in line.split("|")[1:]] for line in rows]
    name, named = "", []
    for data, _, _, *cells in lines:
        name = name if data.startswith("the same") else data
        named.append(name)
        quoted = {cell for cell in cells[:3] if cell}
        assert quoted <= set().union(*(scores[folder] for folder in COMPARED[name])), (data, quoted)
    assert set(named) == set(COMPARED)
    tasks = {row["folder"]: row["task"] for row, _ in kept_arms() if row["folder"]}
    known = {folder for folders in COMPARED.values() for folder in folders}
    more = {folder for folder, task in tasks.items() if folder not in known}
    assert {tasks[folder] for folder in more} == {"gene-starts", "spoken-tones"}, "two data sets have more comparisons"


def plateau(folder: str) -> tuple[pd.DataFrame, str]:
    """The runs of a comparison with the labelled step at which validation passes 60 % (`left`); the log-rank p."""
    folders = [ROOT / "results" / folder, *(ROOT / "results").glob(f"{folder}.*")]
    scores, curves = (
        pd.concat([pd.read_csv(place / name) for place in folders], ignore_index=True)
        for name in ("scores.csv", "curves.csv")
    )
    runs = scores[(scores["split"] == "test") & (scores["metric"] == "accuracy") & scores["run"].notna()]
    runs = runs.assign(left=runs["run"].map(curves[curves["value"] > 0.6].groupby("run")["step"].min()))
    ends = runs["pretrain_steps"] + runs["left"].fillna(runs["finetune_steps"])
    arms = [scipy.stats.CensoredData(uncensored=ends[mine.index[mine["left"].notna()]],
                                     right=ends[mine.index[mine["left"].isna()]])
            for _, mine in runs.groupby("arm")]  # fmt: skip
    return runs.sort_values(["seed", "arm"]), f"{scipy.stats.logrank(*arms).pvalue:.2g}"


def section(title: str) -> str:
    return CLAIMS.partition(f"\n## {title}")[2].partition("\n## ")[0]


@pytest.mark.parametrize(
    "title, folder",
    [("With all labels", "pathfinder-16-plateau"), ("At the benchmark's own length", "pathfinder-32-s4")],
)
def test_the_table_of_a_plateau_is_that_of_its_curves(title, folder):
    """Per seed and arm: masking loss, labelled steps until validation passes 60 %, test accuracy; the log-rank p."""
    runs, p = plateau(folder)
    lines = []
    for _, run in runs.iterrows():
        masked = f"{run['pretrain_steps']:,} + " if run["pretrain_steps"] else ""
        when = "never" if pd.isna(run["left"]) else f"{masked}{run['left']:,.0f}"
        lines.append([f"{run['pretrain_loss']:.3f}" if masked else "", when, f"{100 * run['value']:.1f}"])
    said = section(title)
    rows = [row for row in said.splitlines() if row.startswith("|")][2:]
    assert [[cell.strip() for cell in row.strip("|").split("|")][2:] for row in rows] == lines
    assert f"(log-rank test, p = {p})" in said.replace("\n", " ") or runs["seed"].nunique() == 1


@pytest.mark.parametrize("architecture", ["s4", "dlr", "cnn"])
def test_what_is_said_of_other_plateaus_is_that_of_their_curves(architecture):
    runs, p = plateau(f"pathfinder-16-plateau-{architecture}")
    tied, pretrained = (
        " to ".join(f"{steps:,.0f}" for steps in sorted({mine.min(), mine.max()}))
        for _, mine in runs.groupby("arm")["left"]
    )
    said = section("Is the plateau the Transformer's alone?").replace("\n", " ")
    assert runs["left"].notna().all()
    assert f"after {tied} labelled steps, and after {pretrained} that follow" in said
    assert all(f"{size:,.0f}" in said for size in runs["parameters"])
    assert f"(log-rank test, p = {p})" in said


def p_of_equivalence(claim: str, labels: int, first: tuple[str, str], second: tuple[str, str]) -> str:
    """Two one-sided tests within the plan's margin, on the seeds that both (folder, arm) have."""
    margin = yaml.safe_load((ROOT / "results/plan.yaml").read_text(encoding="utf-8"))["claims"][claim]["margin"]
    arms = {(row["folder"], row["arm"]): (row, values) for row, values in kept_arms() if row["labels"] == labels}
    seeds, one, _, other = on_common_seeds(*arms[first], *arms[second])
    both = [pd.Series({"values": values, "seeds": seeds, "subset_seed": seeds}) for values in (one, other)]
    return f"p = {equivalence(*both, margin):.2f}"


@pytest.mark.parametrize("labels, p", [(20, "p = 0.65"), (100, "p = 0.22")])
def test_whether_dlr_equals_s4_is_judged_as_planned(labels, p):
    folders = ("gene-starts-few-dlr", "gene-starts-few-s4")
    assert p_of_equivalence("dlr-s4", labels, *((folder, "spt-masked") for folder in folders)) == p
    assert p in section("DLR with pretraining")


def test_whether_dlr_equals_s4_at_length_is_judged_as_planned():
    arms = ((folder, "spt-masked") for folder in ("gene-spans-1024-rate", "gene-spans-1024"))
    p = p_of_equivalence("length-rate", 100, *arms)
    assert f"two one-sided tests have {p}" in section("Longer windows").replace("\n", " ") and p < "p = 0.05"


def test_whether_causal_equals_masked_is_judged_as_planned():
    arms = (("gene-starts-masked-causal", arm) for arm in ("spt-causal", "spt-masked"))
    p = p_of_equivalence("masked-causal", 100, *arms)
    assert p in section("Masked and causal").replace("\n", " ")


def test_a_masked_base_is_worth_the_entropy_of_the_base_frequencies(tmp_path, monkeypatch):
    """What a masking loss on gene starts is judged by."""
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(tmp_path))
    inputs = np.array(load_task("gene-starts", length=128)[0]["train"]["input_ids"])
    shares = np.unique(inputs, return_counts=True)[1] / inputs.size
    assert f"{-(shares * np.log(shares)).sum():.3f}" == "1.353"
    for page in ("docs/claims.md", "docs/when_to_pretrain.md", "results/search.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert "1.353" in text
