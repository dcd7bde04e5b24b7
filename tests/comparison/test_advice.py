"""What kept comparisons showed for data like yours, and no more; tests/docs/test_numbers.py makes the table anew."""

import sys
from pathlib import Path

import pandas as pd
import pytest

from hf_longseq.comparison.advice import KEPT, advice, like

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def keep_gains():
    sys.path.insert(0, str(ROOT / "scripts"))
    import keep_gains

    yield keep_gains
    sys.path.remove(str(ROOT / "scripts"))


def test_alike_are_the_kind_a_third_to_three_times_the_labels_and_the_positions():
    kept = pd.DataFrame({
        "modality": ["tokens", "values", "tokens", "tokens", "tokens"],
        "labels": [100, 100, 34, 33, 100],
        "length": [128, 128, 384, 128, 385],
    })  # fmt: skip
    assert list(like(kept, "tokens", 100, 128).index) == [0, 2]


def test_advice_counts_the_verdicts_and_gives_their_range():
    first, *sets = advice("tokens", 100, 128)
    found = like(pd.read_csv(KEPT), "tokens", 100, 128)
    assert f"{len(found)} gains over an equal budget on {found['source'].nunique()} data sets" in first
    assert f"{(found['verdict'] == 'shown').sum()} shown" in first and f"to {found['gain'].max():+.1f} points" in first
    assert len(sets) == found["source"].nunique() and f"{found['gain'].max():+.1f}" in "".join(sets)


def test_where_nothing_alike_was_kept_it_says_nothing():
    assert advice("tokens", 5, 100_000) == []


def test_a_gain_is_foretold_by_other_seeds_than_those_that_measure_it(keep_gains):
    kept = pd.DataFrame({"source": list("aabbccdd"), "from_scratch": [0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.4, 0.4]})
    kept["gain_of_other_seeds"] = -kept["from_scratch"]
    correlation, p, sets = keep_gains.foretold(kept, draws=200)
    assert (round(correlation, 6), sets) == (-1.0, 4) and p == pytest.approx(2 / 24)


def test_the_page_says_what_the_table_says(keep_gains):
    kept = pd.read_csv(KEPT)
    page = " ".join((ROOT / "docs/when_to_pretrain.md").read_text(encoding="utf-8").split())
    large, poor = kept[kept["gain_of_other_seeds"] > 5], kept[kept["from_scratch"] <= 0.55]
    assert len(large) == 22 and set(large.index) <= set(poor.index)
    assert (len(poor), (poor["gain_of_other_seeds"] < 2).sum()) == (48, 16)
    assert "all 22 gains above five points are" in page
    assert "Of the 48 comparisons on the poorer side sixteen gained" in page
    correlation, p, sets = keep_gains.foretold(kept)
    assert f"rank correlation is {correlation:.2f}, p = {p:.2f} with {sets} data sets".replace("-", "−") in page
