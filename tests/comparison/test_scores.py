"""Results folders as tables: what is read, what is put together, what is refused."""

import json

import pandas as pd
import pytest

from hf_longseq.cli.main import main
from hf_longseq.comparison.scores import read_results, reported
from hf_longseq.errors import HfLongSeqError
from results_folders import folder_of, row


def test_a_line_per_run_and_split_whatever_folder_it_is_in(tmp_path):
    one = folder_of(tmp_path / "a", [row(), row(arm="spt-masked")])
    two = folder_of(tmp_path / "b", [row(values=(0.5, 0.6), seed=[0, 4]), row("dlr")])
    scores = read_results([one, two]).scores
    assert len(scores) == 2 * (3 + 3 + 1 + 3)
    mine = reported(scores).query("architecture == 's4' and arm == 'scratch'")
    assert list(mine["seed"]) == [0, 1, 2, 4] and list(mine["value"]) == [0.5, 0.52, 0.51, 0.6]
    assert list(mine["validation"]) == list(mine["value"])
    assert list(scores["arm"].unique()) == ["scratch", "spt-masked"]
    assert list(scores["architecture"].unique()) == ["s4", "dlr"]


def test_runs_that_chose_and_points_that_were_not_chosen_are_not_reported(tmp_path):
    tried = [row(values=(0.1,), seed=[1000], tuning=True), row(values=(0.2,), chosen=False, point="lr=0.1")]
    scores = read_results([folder_of(tmp_path, [row(point="lr=0.2"), *tried])]).scores
    assert len(scores) == 9 and list(reported(scores)["value"]) == [0.5, 0.52, 0.51]


def test_contradictory_folders_are_named(tmp_path):
    one, two = folder_of(tmp_path / "a", [row()]), folder_of(tmp_path / "b", [row(values=(0.1, 0.2, 0.3))])
    with pytest.raises(HfLongSeqError, match=r"contradictory results for s4, scratch on listops.*a and .* in .*b"):
        read_results([one, two])
    assert set(read_results([one, f"short={two}"]).scores["data"]) == {"listops", "short"}
    tuned = folder_of(tmp_path / "c", [row(values=(0.7,), seed=[9], point="lr=0.1")])
    with pytest.raises(HfLongSeqError, match="contradictory"):
        read_results([one, tuned])


@pytest.mark.parametrize("key", ["finetune_steps", "pretrain_steps", "examples", "parameters"])
def test_seeds_of_other_budgets_or_data_are_not_taken_for_more_seeds_of_an_arm(tmp_path, key):
    rows = [row(), row(arm="spt-masked", values=(0.6, 0.7, 0.8), **{key: 20})]
    more = [row(arm="spt-masked", values=(0.9,), seed=[3], **{key: 40})]
    folders = [folder_of(tmp_path / "a", rows), folder_of(tmp_path / "b", more)]
    said = f"spt-masked on listops.*0.6 in .*a and 0.9 in .*b .{key} 20(.0)? and 40(.0)?.; leave"
    with pytest.raises(HfLongSeqError, match=said):
        read_results(folders)
    # what is not recorded contradicts nothing
    older = folder_of(tmp_path / "c", [more[0] | {key: None}])
    assert len(reported(read_results([folders[0], older]).scores)) == 7


def test_seeds_of_a_folder_may_differ_in_steps_and_folders_must_share_some(tmp_path):
    """Whole groups are cut off for choosing, so that epochs of the labels are of another number of steps."""
    one = folder_of(tmp_path / "a", [row(values=(0.5, 0.6), finetune_steps=[13, 14], inputs=[79, 82])])
    more = folder_of(tmp_path / "b", [row(values=(0.5, 0.7), seed=[0, 2], finetune_steps=[13, 15])])
    assert list(reported(read_results([one]).scores)["finetune_steps"]) == [13, 14]
    assert list(reported(read_results([one, more]).scores)["finetune_steps"]) == [13, 14, 15]
    other = folder_of(tmp_path / "c", [row(values=(0.8, 0.9), seed=[3, 4], finetune_steps=[26, 28])])
    with pytest.raises(HfLongSeqError, match=r"0.5 in .*a and 0.9 in .*c .finetune_steps 13.0 and 28.0.; leave"):
        read_results([one, other])
    same = folder_of(tmp_path / "d", [row(values=(0.5, 0.6), seed=[1, 1], finetune_steps=[13, 14])])
    with pytest.raises(HfLongSeqError, match=r"contradictory .* 0.5 in .*d and 0.6 in .*d; leave"):
        read_results([same])


@pytest.mark.parametrize(
    "change, message",
    [
        ({"value": [0.5, None, 0.5]}, "scores.csv has a value that is not a number: restore"),
        ({"value": [0.5, "high", 0.5]}, "scores.csv is not a table of scores"),
        ({"labels": None}, "scores.csv is not a table of scores"),
    ],
)
def test_scores_that_cannot_be_read_are_refused(tmp_path, change, message):
    with pytest.raises(HfLongSeqError, match=message):
        read_results([folder_of(tmp_path, [row() | change])])


def test_a_table_without_a_column_and_results_without_a_field_are_refused(tmp_path):
    folder = folder_of(tmp_path, [row()])
    table = pd.read_csv(tmp_path / "scores.csv")
    table.drop(columns=["arm", "seed"]).to_csv(tmp_path / "scores.csv", index=False)
    with pytest.raises(HfLongSeqError, match="scores.csv has no column arm, seed: restore"):
        read_results([folder])
    (tmp_path / "results.json").write_text('{"task": "listops"}')
    with pytest.raises(HfLongSeqError, match="results.json has no readable metric, greater_is_better"):
        read_results([folder])
    folder_of(tmp_path, [row()], note=0, failed={})
    with pytest.raises(HfLongSeqError, match="results.json has no readable note, failed"):
        read_results([folder])


def test_a_score_has_the_digits_that_it_was_written_with(tmp_path):
    value = 0.1 + 0.2
    assert reported(read_results([folder_of(tmp_path, [row(values=(value,))])]).scores)["value"].item() == value


@pytest.mark.parametrize("name, text", [("results.json", '{"task'), ("plan.json", "[")])
def test_a_torn_file_is_named(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(HfLongSeqError, match=f"{name} is .*restore it"):
        read_results([str(tmp_path)])


@pytest.mark.parametrize(
    "text", ["claims: [1]", "claims: {a: {margin: 2}}", "claims: {a: {gains: [b]}}", "- a", "a: ["]
)
def test_a_damaged_plan_is_named(tmp_path, text):
    folder = folder_of(tmp_path / "a", [row()])
    (tmp_path / "plan.yaml").write_text(text)
    with pytest.raises(HfLongSeqError, match="plan.yaml is not .*"):
        read_results([folder])


def test_an_arm_of_two_claims_is_refused(tmp_path):
    folder = folder_of(tmp_path / "a", [row()])
    claims = "claims: {first: {gains: {a: [x, spt-masked]}}, second: {gains: {b: [x], a: [spt-masked]}}}"
    (tmp_path / "plan.yaml").write_text(claims)
    with pytest.raises(HfLongSeqError, match="plan.yaml names spt-masked of a in two claims, first and second"):
        read_results([folder])
    (tmp_path / "plan.yaml").write_text(claims.replace("a: [spt-masked]", "a: [spt-causal]"))
    assert len(read_results([folder]).scores)


def test_a_folder_finds_its_plan_from_inside(tmp_path, monkeypatch):
    folder = folder_of(tmp_path / "a.dlr", [row(arm="spt-masked")])
    (tmp_path / "plan.yaml").write_text("claims: {first: {margin: 6, gains: {a: [spt-masked]}}}")
    for here, word in ((tmp_path / "a.dlr", "."), (tmp_path, "a.dlr")):
        monkeypatch.chdir(here)
        for scores in (read_results([word]).scores, read_results([folder]).scores):
            assert set(scores["family"]) == {"first"} and set(scores["margin"]) == {0.06}


@pytest.mark.parametrize("text", ["", "claims:", "rules: {margin: 2}"])
def test_a_plan_may_hold_no_claim(tmp_path, text):
    folder = folder_of(tmp_path / "a", [row()])
    (tmp_path / "plan.yaml").write_text(text)
    assert set(read_results([folder]).scores["family"]) == {"explored"}


def test_curves_are_those_of_the_reported_runs(tmp_path):
    folder = folder_of(tmp_path, [row()])
    (tmp_path / "curves.csv").write_text("run,step,value\nruns/scratch-s1,5,0.25\nruns/other,5,0.5\n")
    (curve,) = read_results([folder]).curves.to_dict("records")
    assert (curve["data"], curve["arm"], curve["seed"], curve["step"], curve["value"]) == (
        "listops", "scratch", 1, 5, 0.25
    )  # fmt: skip
    (tmp_path / "curves.csv").write_text("run,step\nruns/scratch-s1,5\n")
    with pytest.raises(HfLongSeqError, match="curves.csv has no column value"):
        read_results([folder])


def test_folders_without_results_are_refused(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    assert "holds no results" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "none")]) == 2
    assert "there is no folder" in capsys.readouterr().err
    folder_of(tmp_path / "a", [row()])
    folder_of(tmp_path / "b", [row("dlr")])
    with pytest.raises(HfLongSeqError, match="names 2 results folders"):
        read_results([f"x={tmp_path}"])


def test_an_unfinished_comparison_is_read_from_its_plan(tmp_path):
    one = {"phase": "finetune", "arch": "s4", "init": "scratch", "seed": 0, "fraction": None, "grid": {}}
    one |= {"name": "s4-scratch-s0", "pretrained": None, "tuning": False}
    (tmp_path / "plan.json").write_text(json.dumps({"task": "listops", "metric": "accuracy", "runs": [one]}))
    found = read_results([str(tmp_path)])
    assert list(found.failed["run"]) == ["runs/s4-scratch-s0"] and len(found.scores) == 0
