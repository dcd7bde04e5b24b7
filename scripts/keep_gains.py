"""Writes what `hf_longseq.comparison.advice` knows, and asks whether training from scratch foretells the gain.

    python scripts/keep_gains.py    # src/hf_longseq/comparison/kept.csv, results/gain_by_scratch.png and a sentence

A gain is masked or causal pretraining minus an equal budget from scratch. "From scratch" is the score of that equal
budget between a constant answer (0) and perfect (1). One and the same noise would be in both, for the gain subtracts
that score; so the score is the mean of one half of the seeds and the gain that of the other.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from hf_longseq.comparison.advice import KEPT
from hf_longseq.comparison.arms import BASELINE, arch_label, is_tied, split_name, style
from hf_longseq.comparison.scores import read_results
from hf_longseq.comparison.statistics import arm_means, gains

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "results/gain_by_scratch.png"
# what names of results begin with: data set, kind of input, positions of the longest row
SOURCES = {
    "gene starts of E. coli": ("gene starts of E. coli", "tokens", 128),
    "gene starts of M. acetivorans": ("gene starts of M. acetivorans", "tokens", 128),
    "gene starts of T. kodakaraensis": ("gene starts of T. kodakaraensis", "tokens", 128),
    "gene starts": ("gene starts of Bradyrhizobium", "tokens", 128),
    "gene spans, 1,024": ("gene spans of Bradyrhizobium", "tokens", 1024),
    "gene spans, 4,096": ("gene spans of Bradyrhizobium", "tokens", 4096),
    "fly exons, 1,024": ("exons of a fruit fly", "tokens", 1024),
    "fly exons, 4,096": ("exons of a fruit fly", "tokens", 4096),
    "tones": ("spoken tones", "values", 424),
    "voices": ("voices", "values", 500),
    "pathfinder-16": ("Pathfinder 16 x 16", "values", 256),
    "pathfinder-32": ("Pathfinder 32 x 32", "values", 1024),
}


def kept_gains(means: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """A line per gain over an equal budget, of all arms and gains of several seeds: where, with what, how much, in
    points."""
    lines = []
    for _, gain in found[found["against"].map(is_tied) & found["p"].notna()].iterrows():
        alike = means[(means["data"] == gain["data"]) & (means["labels"] == gain["labels"])]
        mine = alike[alike["architecture"] == gain["architecture"]].set_index(["arm", "protocol"])
        arm, tied = mine.loc[(gain["arm"], gain["protocol"])], mine.loc[gain["against"]].iloc[0]
        chance = alike.set_index("architecture").loc[f"{BASELINE}majority", "mean"]
        source, modality, length = next(known for name, known in SOURCES.items() if gain["data"].startswith(name))
        ours, theirs = np.array(arm["values"]), np.array(tied["values"])
        half = len(theirs) // 2
        objective = style(split_name(gain["arm"])[0]).label.split(", ")[-1]
        objective += " on the labelled inputs" if gain["protocol"] == "data scarce" else ""
        lines.append({
            "source": source, "data": gain["data"], "modality": modality, "length": length,
            "labels": int(gain["labels"]),
            "model": f"{arch_label(gain['architecture'])}, {objective}",
            "gain": 100 * gain["value"], "verdict": gain["verdict"],
            "from_scratch": (theirs[:half].mean() - chance) / (1 - chance),
            "gain_of_other_seeds": 100 * (ours[half:].mean() - theirs[half:].mean()),
        })  # fmt: skip
    return pd.DataFrame(lines).round(3)


def foretold(kept: pd.DataFrame, draws: int = 20_000) -> tuple[float, float, int]:
    """Rank correlation of score from scratch and gain, one line per data set, its p by permutation, and their number.

    Lines of one data set are no further evidence: they are averaged.
    """
    each = kept.groupby("source")[["from_scratch", "gain_of_other_seeds"]].mean()
    # Spearman's correlation is the mean product of the standardised ranks
    scores, its_gains = (stats.zscore(stats.rankdata(each[name])) for name in each)
    test = stats.permutation_test(
        (scores,), lambda x, axis: (x * its_gains).mean(axis),
        vectorized=True, permutation_type="pairings", n_resamples=draws, rng=np.random.default_rng(0),
    )  # fmt: skip
    return float(test.statistic), float(test.pvalue), len(each)


def draw(kept: pd.DataFrame, path: Path) -> None:
    """Gain against score from scratch, a colour per data set."""
    import matplotlib

    from hf_longseq.comparison.figures import STYLE

    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 3.4), layout="constrained")
        axis = figure.subplots()
        axis.axhline(0, color="#6e7781", linewidth=0.8)
        for source, lines in kept.groupby("source", sort=False):
            axis.plot(100 * lines["from_scratch"], lines["gain_of_other_seeds"], "o", ms=5, label=source)
        axis.set_xlabel("how far training from scratch gets, % of the way from chance")
        axis.set_ylabel("gain of pretraining, points")
        axis.legend(fontsize="x-small", loc="upper left", bbox_to_anchor=(1, 1))
        figure.savefig(path, dpi=150)


if __name__ == "__main__":
    means = arm_means(read_results([str(ROOT / "results")]).scores)
    table = kept_gains(means, gains(means))
    table.to_csv(KEPT, index=False, lineterminator="\n")
    draw(table, PICTURE)
    correlation, p, sets = foretold(table)
    print(f"rank correlation {correlation:+.2f}, p {p:.2f}, {sets} data sets, {len(table)} gains", file=sys.stderr)
