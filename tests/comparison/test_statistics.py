"""Means, intervals, gains and verdicts, against numbers of a statistics table."""

import pandas as pd
import pytest

from hf_longseq.comparison.scores import read_results
from hf_longseq.comparison.statistics import arm_means, difference, equivalence, gains, holm
from results_folders import fair, folder_of, row


def gains_of(folder, rows, **more):
    return gains(arm_means(read_results([folder_of(folder, rows, **more)]).scores))


def arm_of(values, seeds=None, greater=True):
    seeds = list(range(len(values))) if seeds is None else seeds
    return pd.Series({"values": values, "seeds": seeds, "subset_seed": seeds, "greater_is_better": greater})


def test_a_mean_has_the_interval_of_student(tmp_path):
    means = arm_means(
        read_results([folder_of(tmp_path, [row(values=(0.4, 0.5, 0.6)), row("dlr", values=(0.9,))])]).scores
    )
    first, single = (means.iloc[place] for place in (0, 1))
    assert (first["mean"], first["std"]) == (pytest.approx(0.5), pytest.approx(0.1))
    assert first["high"] - first["mean"] == pytest.approx(4.3027 * 0.1 / 3**0.5, abs=1e-4)
    assert pd.isna(single["low"]) and pd.isna(single["std"])


def test_arms_with_the_same_seeds_are_compared_in_pairs_and_others_by_welch():
    one, other = [0.95, 0.94, 0.96], [0.5, 0.6, 0.4]
    paired = difference(arm_of(one), arm_of(other))
    assert paired["paired"] and paired["value"] == pytest.approx(0.45)
    # differences 0.45, 0.34, 0.56: standard error 0.0635, t(2) = 7.086
    assert paired["p"] == pytest.approx(0.0193, abs=1e-4)
    assert paired["high"] - paired["value"] == pytest.approx(4.3027 * 0.11 / 3**0.5, abs=1e-4)
    welch = difference(arm_of(one), arm_of(other, seeds=[3, 4, 5]))
    assert not welch["paired"] and welch["p"] == pytest.approx(0.01539, abs=1e-4)
    assert welch["high"] - welch["value"] == pytest.approx(0.24502, abs=1e-4)


def test_one_seed_and_seeds_without_spread_have_no_p_value():
    assert pd.isna(difference(arm_of([0.9]), arm_of([0.1, 0.2]))["p"])
    assert pd.isna(difference(arm_of([0.5, 0.7]), arm_of([0.4, 0.6]))["p"])
    assert difference(arm_of([0.5, 0.5]), arm_of([0.4, 0.4]))["value"] == pytest.approx(0.1)


def test_a_smaller_error_is_a_gain():
    assert difference(arm_of([1.0, 1.1], greater=False), arm_of([2.0, 2.1], greater=False))["value"] == pytest.approx(
        1
    )


def test_holm_multiplies_the_smallest_most():
    assert holm(pd.Series([0.01, 0.04, None, 0.03])).round(3).tolist()[:2] == [0.03, 0.06]
    assert holm(pd.Series([0.5, 0.6])).max() == 1.0


HIGH, LOW, NEAR = [0.8, 0.81, 0.82, 0.8, 0.79], [0.6, 0.62, 0.61, 0.6, 0.63], [0.61, 0.61, 0.6, 0.62, 0.62]
WIDE = [0.66, 0.58, 0.64, 0.56, 0.66]
CEILING = [0.97, 0.98, 0.97, 0.96, 0.97]


@pytest.mark.parametrize(
    "rows, verdict, reason",
    [
        (fair(HIGH, LOW), "shown", ""),
        (fair(NEAR, LOW), "no gain", ""),
        (fair(LOW, HIGH), "no gain", ""),
        (fair(WIDE, LOW), "open", "interval too wide"),
        (fair(CEILING[::-1], CEILING), "open", "at its ceiling"),
        (fair(HIGH[:4], LOW[:4]), "open", "4 seeds"),
        (fair([value + 0.1 for value in LOW], LOW), "open", "no spread over the seeds"),
        (fair(HIGH, LOW, converged=False), "open", "not converged"),
        (fair(HIGH, LOW, converged=None), "open", "convergence not recorded"),
        ([row(values=LOW), row(arm="spt-masked", values=HIGH)], "open", "no equal budget"),
    ],
)  # fmt: skip
def test_a_verdict_takes_a_converged_partner_of_equal_budget_below_its_ceiling_and_five_seeds(
    tmp_path, rows, verdict, reason
):
    last = gains_of(tmp_path, rows).iloc[-1]
    assert (last["verdict"], last["reason"]) == (verdict, reason)


def test_an_arm_stands_against_the_partners_that_it_names(tmp_path):
    one = {"scratch": "scratch@direction=one", "scratch_tied": "scratch-tied@epochs scratch-tied@flops"}
    arms = ["scratch", "scratch@direction=one", "scratch-tied@epochs", "scratch-tied@flops", "scratch-tied@steps"]
    found = gains_of(
        tmp_path, [*(row(arm=arm) for arm in arms), row(arm="spt-causal@direction=one", values=HIGH[2:], **one)]
    )
    assert list(found["against"]) == ["scratch@direction=one", "scratch-tied@epochs", "scratch-tied@flops"]
    tied = found[found["against"] != "scratch@direction=one"]
    assert tied["p_holm"].ge(tied["p"]).all()


def test_the_correction_counts_the_gains_over_equal_budget_alone(tmp_path):
    rows = [*fair(HIGH, LOW), *fair(HIGH, LOW, architecture="dlr")]
    found = gains_of(tmp_path, rows)
    tied = found[found["against"] == "scratch-tied"]
    assert (len(found), len(tied)) == (4, 2) and found["p_holm"].count() == 2
    assert tied["p_holm"].min() == pytest.approx(2 * tied["p"].min())


SLIGHT = [0.61, 0.65, 0.62, 0.64, 0.65]  # p 0.03, and one of many


def test_a_gain_that_the_correction_takes_back_is_open(tmp_path):
    rows = [line for arch in ("s4", "dlr", "lru", "s5") for line in fair(SLIGHT, LOW, architecture=arch)]
    last = gains_of(tmp_path, rows).iloc[-1]
    assert last["p"] < 0.05 < last["p_holm"]
    assert (last["verdict"], last["reason"]) == ("open", "p >= 0.05, corrected")


def test_a_claim_of_the_plan_is_a_family_with_a_margin_of_its_own(tmp_path):
    """Its gain is tested alone, while those of the folders that no claim names share their correction."""
    (tmp_path / "plan.yaml").write_text("claims: {first: {margin: 6, gains: {planned: [spt-masked]}}}")
    rows = [line for arch in ("s4", "dlr", "lru") for line in fair(SLIGHT, LOW, architecture=arch)]
    folders = [folder_of(tmp_path / "planned", fair(SLIGHT, LOW), data="a"), folder_of(tmp_path / "other", rows)]
    found = gains(arm_means(read_results(folders).scores)).dropna(subset="p_holm")
    assert list(found["family"]) == ["first", *["explored"] * 3]
    assert list(found["margin"]) == [0.06, 0.02, 0.02, 0.02]
    assert list(found["verdict"]) == ["shown", "open", "open", "open"]


def test_a_planned_comparison_may_lie_in_several_folders(tmp_path):
    """Another architecture, run on another day, is NAME.MORE: its gain joins the family and its correction."""
    (tmp_path / "plan.yaml").write_text("claims: {first: {margin: 6, gains: {planned: [spt-masked]}}}")
    names = {"planned": "s4", "planned.dlr": "dlr", "planned-dlr": "lru"}
    folders = [folder_of(tmp_path / name, fair(SLIGHT, LOW, architecture=arch)) for name, arch in names.items()]
    found = gains(arm_means(read_results(folders).scores)).dropna(subset="p_holm").set_index("architecture")
    assert dict(found["family"]) == {"s4": "first", "dlr": "first", "lru": "explored"}
    assert found.loc["dlr", "p_holm"] == pytest.approx(2 * found.loc["dlr", "p"])
    (tmp_path / "plan.yaml").write_text("claims: {first: {gains: {planned.dlr: [spt-masked]}}}")  # a name with a dot
    found = arm_means(read_results(folders).scores).set_index(["architecture", "arm"])
    assert dict(found.xs("spt-masked", level="arm")["family"]) == {"s4": "explored", "dlr": "first", "lru": "explored"}


def test_arms_are_level_within_a_margin_if_both_one_sided_tests_say_so():
    near, same = [0.80, 0.81, 0.79, 0.80, 0.80], [0.80, 0.80, 0.80, 0.81, 0.79]
    assert equivalence(arm_of(near), arm_of(same), 0.02) < 0.01 < 0.4 < equivalence(arm_of(near), arm_of(same), 0.0)
    assert equivalence(arm_of(near), arm_of(same, seeds=[5, 6, 7, 8, 9]), 0.02) < 0.01
    assert equivalence(arm_of([value + 0.05 for value in near]), arm_of(same), 0.02) > 0.9
    # differences 0, 0.01, -0.01, -0.01, 0.01: mean 0, standard error 0.00447, t(4) = 0.02 / 0.00447
    assert equivalence(arm_of(near), arm_of(same), 0.02) == pytest.approx(0.00549, abs=1e-4)
