import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification

from hf_longseq import finetune, pretrain
from hf_longseq.comparison import compare, spt
from hf_longseq.comparison.execute import keep_best
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.run_folder import write_json


@pytest.fixture
def recipe(tiny):
    return tiny(pretrain={"max_steps": 3}, finetune={"max_steps": 2})


def test_all_arms_run_on_the_same_budget_and_the_results_have_the_agreed_form(tmp_path):
    steps = {"pretrain": {"max_steps": 3}, "finetune": {"max_steps": 2}}
    raw = {"data": {"task": "waves"}, "model": {"arch": "s4"}}
    comparison = spt(raw, tmp_path / "out", seeds=[0, 1], overrides=steps, tiny=True)
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results == comparison.results
    parts = {"task", "metric", "unit", "note", "rows", "candidates", "failed", "unfinished", "environment"}
    assert set(results) == parts
    assert results["failed"] == results["unfinished"] == []
    assert [(row["arch"], row["init"]) for row in results["rows"]] == [
        ("s4", init) for init in ("scratch", "spt", "scratch-tied")
    ]
    description = (Path(__file__).parents[2] / "docs" / "comparing.md").read_text()
    for row in results["rows"]:
        assert set(row) <= set(re.findall(r"[a-z_]+", description)), "every key is described"
        assert row["seeds"] == [0, 1] and len(row["values"]) == 2 and row["train_examples"] == 64
        assert row["mean"] == pytest.approx(sum(row["values"]) / 2)
        assert row["objective"] == ("masked" if row["init"] == "spt" else None)
    budget = {row["init"]: (row["pretrain_steps"], row["finetune_steps"]) for row in results["rows"]}
    assert budget == {"scratch": (0, 2), "spt": (3, 2), "scratch-tied": (0, 5)}
    tied = json.loads((tmp_path / "out" / "runs" / "s4-scratch-tied-s0" / "metrics.json").read_text())
    assert tied["steps"] == 5
    by_init = {row["init"]: row for row in results["rows"] if row["arch"] == "s4"}
    assert len({row["evaluations"] for row in by_init.values()}) == 1
    assert {init: row["epochs"] for init, row in by_init.items()} == {
        "scratch": 2 * 8 / 64,
        "spt": 5 * 8 / 64,
        "scratch-tied": 5 * 8 / 64,
    }
    assert (by_init["spt"]["scratch"], by_init["spt"]["scratch_tied"]) == ("scratch", ["scratch-tied"])
    assert [by_init[init]["tie"] for init in by_init] == [None, None, "epochs"]
    assert by_init["spt"]["protocol"] == "full" and by_init["spt"]["subset_seeds"] == [0, 1]
    assert (by_init["spt"]["validation_examples"], by_init["spt"]["test_examples"]) == (13, 11)

    AutoModelForSequenceClassification.from_pretrained(comparison.best)
    best = json.loads((comparison.best / "metrics.json").read_text())
    runs = [json.loads(path.read_text()) for path in (tmp_path / "out" / "runs").glob("*-spt-*/metrics.json")]
    assert best["validation"]["accuracy"] == max(run["validation"]["accuracy"] for run in runs)

    table = comparison.table()
    assert "equal budget" in table and "±" in table and "waves: test accuracy, %" in table


def test_the_best_of_all_reported_arms_that_pretrain_is_kept(tmp_path):
    scores = {"scratch": [0.9], "spt-masked": [0.7], "spt-masked@span_length=4": [0.6, 0.8]}
    rows = [{"init": init, "validation_values": values} for init, values in scores.items()]
    for place, row in enumerate(rows):
        row["runs"] = [f"runs/{place}-{seed}" for seed in range(len(row["validation_values"]))]
        for name in row["runs"]:
            write_json(tmp_path / name / "metrics.json", {"name": name})
    write_json(tmp_path / "results.json", {"metric": "accuracy", "rows": rows})
    assert json.loads((keep_best(tmp_path) / "metrics.json").read_text()) == {"name": "runs/2-1"}


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
    first = spt(recipe, out, inits=["scratch"]).results["rows"][0]
    more = spt(recipe, out, **options).results
    assert more["rows"][0]["values"][0] == first["values"][0] and len(more["rows"]) == 2
    assert "s4-scratch-s0" not in {label for label, _, _, text in heard if text}
    with pytest.raises(HfLongSeqError, match="holds another run"):
        spt(recipe, out, seeds=[3], inits=["scratch", "spt"])
    assert json.loads((out / "results.json").read_text()) == more

    shutil.rmtree(out / "runs" / "s4-spt-s3")
    (out / "results.json").unlink()
    heard.clear()
    again = spt(recipe, out, **options).results
    assert {label for label, _, _, text in heard if text} == {"s4-spt-s3"}
    assert [row["values"] for row in again["rows"]] == [row["values"] for row in more["rows"]]
    assert sum({label: step for label, step, _, _ in heard if label}.values()) == heard[0][2] == 2 * (2 + 3 + 2)


def test_pretraining_of_no_steps_gives_the_weights_of_scratch_to_the_bit(tmp_path):
    overrides = {"pretrain": {"max_steps": 0}, "finetune": {"max_steps": 2}, "model": {"dropout": 0.1}}
    raw = {"data": {"task": "waves"}, "model": {"arch": ["s4", "transformer"]}}
    done = compare(raw, tmp_path / "out", inits=["scratch", "spt"], overrides=overrides, tiny=True)
    for arch in raw["model"]["arch"]:
        scratch, equal = (
            load_file(tmp_path / "out" / "runs" / f"{arch}-{init}-s0" / "model.safetensors")
            for init in ("scratch", "spt")
        )
        assert scratch.keys() == equal.keys()
        assert all(torch.equal(scratch[name], equal[name]) for name in scratch), arch
    rows = {(row["arch"], row["init"]): row for row in done.results["rows"]}
    assert rows["s4", "scratch"]["values"] == rows["s4", "spt"]["values"]
    assert rows["s4", "spt"]["num_parameters"] == rows["s4", "scratch"]["num_parameters"]


def test_tuning_chooses_by_seeds_that_no_row_reports(tmp_path):
    overrides = {"pretrain": {"max_steps": 2}, "finetune": {"max_steps": 2}}
    options = {"inits": ["scratch", "spt"], "overrides": overrides, "tiny": True, "tune_seeds": [1000]}
    results = compare({"data": {"task": "waves"}}, tmp_path / "out", tune=True, **options).results
    for row in results["rows"]:
        mine = [one for one in results["candidates"] if one["init"] == row["init"]]
        assert row["seeds"] == [0] and all(one["seeds"] == [1000] for one in mine) and len(mine) == 3
        assert [one["grid"] for one in mine if one["selected"]] == [row["grid"]]
        assert (row["tuning"]["seeds"], row["tuning"]["points"]) == ([1000], 3)
        assert row["tuning"]["steps"] == 3 * 2 + 2 * (row["init"] == "spt")
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
    results = compare(
        {"data": {"task": "waves"}}, tmp_path / "out", inits=inits, overrides=overrides, tiny=True
    ).results
    first, tied = results["rows"]
    assert tied["flops"] == pytest.approx(first["flops"], rel=0.04)
    assert first["flops"] == first["pretrain_flops"] + first["finetune_flops"] and tied["pretrain_flops"] == 0
    assert tied["evaluations"] == first["evaluations"]
