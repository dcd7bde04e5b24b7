import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification

from hf_longseq import finetune, pretrain
from hf_longseq.comparison import compare, spt
from hf_longseq.comparison.execute import keep_best
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.run_folder import write_json
from results_folders import arms_of, folder_of, row


@pytest.fixture
def recipe(tiny):
    return tiny(pretrain={"max_steps": 3}, finetune={"max_steps": 2})


def test_all_arms_run_on_the_same_budget_and_the_results_have_the_agreed_form(tmp_path):
    steps = {"pretrain": {"max_steps": 3}, "finetune": {"max_steps": 2}}
    raw = {"data": {"task": "waves"}, "model": {"arch": "s4"}}
    comparison = spt(raw, tmp_path / "out", seeds=[0, 1], overrides=steps, tiny=True)
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results == comparison.results and results["failed"] == results["unfinished"] == []
    description = (Path(__file__).parents[2] / "docs" / "comparing.md").read_text()
    scores = pd.read_csv(tmp_path / "out" / "scores.csv")
    assert {*results, *scores} <= set(re.findall(r"[a-z_]+", description)), "every field and column is described"
    assert list(scores["architecture"].unique()) == ["s4"] and set(scores["seed"]) == {0, 1}
    assert scores.groupby("split")["examples"].unique().str[0].to_dict() == {"validation": 13, "test": 11}
    rows = {row["arm"]: row for row in arms_of(tmp_path / "out")}
    budget = {arm: (row["pretrain_steps"], row["finetune_steps"]) for arm, row in rows.items()}
    assert budget == {"scratch": (0, 2), "scratch-tied": (0, 5), "spt-masked": (3, 2)}
    tied = json.loads((tmp_path / "out" / "runs" / "s4-scratch-tied-s0" / "metrics.json").read_text())
    assert tied["steps"] == 5
    assert len({row["evaluations"] for row in rows.values()}) == 1 and {row["labels"] for row in rows.values()} == {64}
    assert {arm: row["pretrain_epochs"] + row["finetune_epochs"] for arm, row in rows.items()} == {
        "scratch": 2 * 8 / 64, "scratch-tied": 5 * 8 / 64, "spt-masked": 5 * 8 / 64,
    }  # fmt: skip
    arm = rows["spt-masked"]
    assert (arm["scratch"], arm["scratch_tied"], arm["protocol"]) == ("scratch", "scratch-tied", "full")
    assert arm["seeds"] == arm["subset_seed"] == [0, 1] and len(arm["values"]) == 2

    AutoModelForSequenceClassification.from_pretrained(comparison.best)
    best = json.loads((comparison.best / "metrics.json").read_text())
    runs = [json.loads(path.read_text()) for path in (tmp_path / "out" / "runs").glob("*-spt-*/metrics.json")]
    assert best["validation"]["accuracy"] == max(run["validation"]["accuracy"] for run in runs)

    table = comparison.table()
    assert "equal budget" in table and "±" in table and "waves: test accuracy, %" in table


def test_the_best_of_all_reported_arms_that_pretrain_is_kept(tmp_path):
    found = {"scratch": [0.9], "spt-masked": [0.7], "spt-masked@span_length=4": [0.6, 0.8]}
    rows = [row(arm=arm, values=values) for arm, values in found.items()]
    folder_of(tmp_path, [*rows, row(arm="spt-masked", values=[0.95], seed=[1000], tuning=True)])
    for arm, values in found.items():
        for seed in range(len(values)):
            write_json(tmp_path / f"runs/{arm}-s{seed}/metrics.json", {"name": f"{arm}-s{seed}"})
    best = json.loads((keep_best(tmp_path) / "metrics.json").read_text())
    assert best == {"name": "spt-masked@span_length=4-s1"}


def test_a_failed_run_is_no_candidate_for_the_best(tmp_path):
    steps = {"pretrain": {"max_steps": 4}, "finetune": {"max_steps": 2}}
    grid = ["pretrain.learning_rate=1e-3,1e30"]
    raw = {"data": {"task": "waves"}, "model": {"arch": "s4"}}
    comparison = spt(raw, tmp_path / "out", inits=["spt"], grid=grid, overrides=steps, tiny=True)
    assert comparison.results["failed"]
    assert "test" in json.loads((comparison.best / "metrics.json").read_text())


def test_an_arm_is_the_run_that_the_phases_alone_give(recipe, tmp_path):
    spt(recipe, tmp_path / "out", seeds=[4], inits=["spt"])
    arm = json.loads((tmp_path / "out" / "runs" / "s4-spt-s4" / "metrics.json").read_text())
    alone = finetune(
        recipe, tmp_path / "b", init_from=pretrain(recipe, tmp_path / "a", seed=4).output_dir, seed=4
    ).metrics
    assert arm["test"] == alone["test"]


def test_seeds_and_arms_may_be_added_but_not_left_out_and_what_is_finished_is_not_run_again(recipe, tmp_path):
    out, heard = tmp_path / "out", []
    options = {"seeds": [0, 3], "inits": ["scratch", "spt"], "listener": lambda *report: heard.append(report)}
    spt(recipe, out, seeds=[0], inits=["scratch"])
    (first,) = arms_of(out)
    spt(recipe, out, **options)
    more = arms_of(out)
    assert more[0]["values"][0] == first["values"][0] and len(more) == 2
    added = pd.read_csv(out / "scores.csv").query("added_after_test")
    assert set(zip(added["arm"], added["seed"], strict=True)) == {("scratch", 3)}
    assert "s4-scratch-s0" not in {label for label, _, _, text in heard if text}
    with pytest.raises(HfLongSeqError, match="holds another run"):
        spt(recipe, out, seeds=[3], inits=["scratch", "spt"])
    assert arms_of(out) == more

    shutil.rmtree(out / "runs" / "s4-spt-s3")
    (out / "results.json").unlink()
    heard.clear()
    spt(recipe, out, **options)
    assert {label for label, _, _, text in heard if text} == {"s4-spt-s3"}
    assert [row["values"] for row in arms_of(out)] == [row["values"] for row in more]
    assert sum({label: step for label, step, _, _ in heard if label}.values()) == heard[0][2] == 2 * (2 + 3 + 2)


def test_pretraining_of_no_steps_gives_the_weights_of_scratch_to_the_bit(tmp_path):
    overrides = {"pretrain": {"max_steps": 0}, "finetune": {"max_steps": 2}, "model": {"dropout": 0.1}}
    raw = {"data": {"task": "waves"}, "model": {"arch": ["s4", "transformer"]}}
    compare(raw, tmp_path / "out", inits=["scratch", "spt"], overrides=overrides, tiny=True)
    for arch in raw["model"]["arch"]:
        scratch, equal = (
            load_file(tmp_path / "out" / "runs" / f"{arch}-{init}-s0" / "model.safetensors")
            for init in ("scratch", "spt")
        )
        assert scratch.keys() == equal.keys()
        assert all(torch.equal(scratch[name], equal[name]) for name in scratch), arch
    scratch, equal = (row for row in arms_of(tmp_path / "out") if row["architecture"] == "s4")
    assert scratch["values"] == equal["values"] and scratch["parameters"] == equal["parameters"]


def test_tuning_chooses_by_seeds_that_no_row_reports(tmp_path):
    overrides = {"pretrain": {"max_steps": 2}, "finetune": {"max_steps": 2}}
    options = {"inits": ["scratch", "spt"], "overrides": overrides, "tiny": True, "tune_seeds": [1000]}
    compare({"data": {"task": "waves"}}, tmp_path / "out", tune=True, **options)
    scores = pd.read_csv(tmp_path / "out" / "scores.csv").query("metric == 'accuracy'")
    for _, mine in scores.groupby("arm"):
        tuned = mine[mine["tuning"]]
        assert list(tuned["seed"]) == [1000] * 3 and set(tuned["split"]) == {"validation"}
        best = tuned.loc[tuned["chosen"], "point"].item()
        assert best == tuned.loc[tuned["value"].idxmax(), "point"] or tuned["value"].nunique() < 3
        assert set(mine.loc[~mine["tuning"], "point"]) == {best} and set(mine.loc[~mine["tuning"], "seed"]) == {0}
    scored = [path.parent.name for path in (tmp_path / "out" / "runs").glob("*/metrics.json")
              if "test" in json.loads(path.read_text())]  # fmt: skip
    assert len(scored) == 2 and all(name.endswith("-s0") for name in scored)
    reports, plans, plan = [], set(), tmp_path / "out" / "plan.json"

    def listener(*report):
        reports.append(report)
        plans.add(plan.read_text())

    compare({"data": {"task": "waves"}}, tmp_path / "out", tune=True, **options, listener=listener)
    assert not any(text for _, _, _, text in reports)
    assert plans == {plan.read_text()}, "a command that joins does not put the smaller plan in its place"


def test_operations_are_tied_with_the_heads_of_both_phases(tmp_path):
    overrides = {"pretrain": {"max_steps": 10}, "finetune": {"max_steps": 10}}
    inits = ["spt-causal", "scratch-tied@flops"]
    compare({"data": {"task": "waves"}}, tmp_path / "out", inits=inits, overrides=overrides, tiny=True)
    tied, first = arms_of(tmp_path / "out")
    assert tied["flops"] == pytest.approx(first["flops"], rel=0.04)
    assert first["flops"] == first["pretrain_flops"] + first["finetune_flops"] and tied["pretrain_flops"] == 0
    assert tied["evaluations"] == first["evaluations"]
