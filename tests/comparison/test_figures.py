"""Pictures of comparisons: which rows the headline has room for."""

import matplotlib
import pandas as pd
import pytest

from hf_longseq.comparison import figures
from hf_longseq.comparison.figures import MOST_ROWS, headline, line_style, most_telling
from hf_longseq.comparison.tables import Row

GAIN = pd.Series({"value": 1.0, "low": 0.5, "high": 1.5, "p_holm": 0.01, "metric": "accuracy"})
SCORES = {"metric": "accuracy", "unit": "", "greater_is_better": True, "n": 2, "values": [0.6, 0.8], "mean": 0.7}


def test_every_data_set_is_in_the_headline_before_variants_and_more_labels():
    def rows(name, arch, tied=GAIN):
        return [Row(name, arch, labels, "", {}, tied, GAIN) for labels in (100, 300)]

    controls = [row for bias in ("local", "none", "wide") for row in rows("genes, controls", f"s4@bias={bias}")]
    last = [*rows("tones", "s4"), *rows("voices", "s4"), *rows("digits", "s4", tied=None)]
    chosen = most_telling([*rows("genes", "s4"), *controls, *rows("genes, S4", "s4"), *last])
    assert len(chosen) == MOST_ROWS
    first = {(row.data, row.architecture) for row in chosen if row.labels == 100}
    assert first >= {
        ("genes", "s4"),
        ("tones", "s4"),
        ("voices", "s4"),
        *((row.data, row.architecture) for row in controls),
    }
    assert not any(row.data == "digits" for row in chosen)  # nothing of equal budget: behind all others
    assert most_telling(last) == last


def test_variants_of_one_colour_differ_in_their_dashes():
    arms = ["scratch", *(f"spt-masked@pretrain_inputs={count}" for count in (964, 1928, 3856))]
    assert len({line_style(init, arms) for init in arms[1:]}) == 3 and line_style("scratch", arms) == "-"


@pytest.mark.parametrize("over_scratch, headings", [(None, ["budget"]), (GAIN, ["budget", "scratch"])])
def test_the_headline_has_a_column_for_each_gain_that_was_measured(over_scratch, headings):
    arms = {arm: pd.Series(SCORES | {"arm": arm}) for arm in ("scratch-tied@steps", "spt-masked")}
    svg = headline([Row("genes", "s4", 100, "", arms, GAIN, over_scratch)]).svg
    assert [word for word in ("budget", "scratch") if f">{word}<" in svg] == headings


def test_curves_of_seeds_that_stop_at_other_steps_are_drawn_through_and_their_mean_is_of_all(monkeypatch):
    monkeypatch.setattr(figures, "_figure", lambda name, caption, draw_one: draw_one())
    arm = {"data": "a", "architecture": "s4", "arm": "scratch", "protocol": "", "labels": 100, "pretrain_steps": 0}
    points = [(0, 5, 0.5), (0, 13, 0.7), (1, 5, 0.6), (1, 9, 0.8), (1, 14, 0.9)]
    curves = pd.DataFrame([arm | {"seed": seed, "step": step, "value": value} for seed, step, value in points])
    with matplotlib.rc_context(figures.STYLE):
        drawn = figures.learning_curves(curves, pd.DataFrame([SCORES | arm])).axes[0].lines
    first, second, mean = (pd.Series(line.get_ydata(), line.get_xdata()).dropna().round(6) for line in drawn)
    assert first.to_dict() == {5: 50, 9: 60, 13: 70} and second.to_dict() == {5: 60, 9: 80, 13: 88, 14: 90}
    assert mean.to_dict() == {5: 55, 9: 70, 13: 79}
