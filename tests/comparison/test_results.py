import json
import shutil

import pandas as pd
import pytest

from hf_longseq.comparison.results import COLUMNS, PlanResults, collect, command_of
from hf_longseq.comparison.tables import results_text
from hf_longseq.errors import HfLongSeqError

UNSAID = dict.fromkeys(("objective", "subset_seed", "protocol", "scratch")) | {"tuning": False, "scratch_tied": []}


def plan(folder, metric="accuracy", **outcomes):
    """A comparison's folder without training: `name: (grid, seed, validation, test, validation loss)`, or an error as
    the outcome."""
    runs = []
    for name, (grid, seed, validation, test, *loss) in outcomes.items():
        runs.append(
            {"name": name, "phase": "finetune", "arch": "s4", "init": "scratch", "seed": seed, "fraction": None,
             "grid": grid, "pretrained": None, **UNSAID}
        )  # fmt: skip
        metrics = {
            "validation": {metric: validation, "loss": [*loss, 1.0][0]},
            "train_examples": 8, "steps": 2, "examples_seen": 16, "flops": 5.0,
            "num_parameters": 3, "wall_seconds": 1.0, **({} if test is None else {"test": {metric: test}}),
        }  # fmt: skip
        place = folder / "runs" / name
        place.mkdir(parents=True)
        if isinstance(validation, str):
            (place / "failed.json").write_text(json.dumps({"error": validation, "step": 3}))
        elif validation is not None:
            (place / "metrics.json").write_text(json.dumps(metrics))
    (folder / "plan.json").write_text(json.dumps({"task": "toy", "metric": metric, "runs": runs}))
    return folder


def chosen_points(folder):
    return set(collect(folder).scores.query("chosen")["point"])


def test_the_point_with_the_best_mean_over_the_seeds_is_chosen(tmp_path):
    low, high = {"lr": 0.1}, {"lr": 0.2}
    plan(tmp_path, a=(low, 0, 0.9, 0.1), b=(low, 1, 0.1, 0.2), c=(high, 0, 0.6, 0.3), d=(high, 1, 0.6, 0.5))
    scores = collect(tmp_path).scores
    chosen = scores.query("chosen and split == 'test' and metric == 'accuracy'")
    assert [list(chosen[name]) for name in ("point", "seed", "value")] == [["lr=0.2"] * 2, [0, 1], [0.3, 0.5]]
    assert list(scores.query("split == 'validation'").groupby("point")["chosen"].all()) == [False, True]


def test_of_an_error_the_smallest_is_best(tmp_path):
    plan(tmp_path, "rmse", a=({"lr": 0.1}, 0, 2.0, 2.0), b=({"lr": 0.2}, 0, 1.0, 1.5))
    assert chosen_points(tmp_path) == {"lr=0.2"}


def test_the_unit_of_the_targets_stands_in_the_results_and_over_the_table(tmp_path):
    plan(tmp_path, "rmse", a=({}, 0, 2.0, 2.0))
    path = tmp_path / "runs" / "a" / "metrics.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"unit": "beats per minute"}))
    assert collect(tmp_path).results["unit"] == "beats per minute"
    assert "test rmse, beats per minute (smaller is better)" in results_text(tmp_path)


def test_of_equal_points_the_lower_validation_loss_is_best(tmp_path):
    plan(tmp_path, a=({"lr": 0.1}, 0, 0.7, 0.6, 0.9), b=({"lr": 0.2}, 0, 0.7, 0.8, 0.5))
    assert chosen_points(tmp_path) == {"lr=0.2"}


def test_a_point_at_which_a_seed_failed_gives_way_to_one_that_all_seeds_finished(tmp_path):
    good, wild = {"lr": 0.1}, {"lr": 9.0}
    plan(
        tmp_path,
        a=(good, 0, 0.5, 0.5),
        b=(good, 1, 0.5, 0.5),
        c=(wild, 0, 0.9, None),
        d=(wild, 1, "loss is nan", None),
    )
    assert chosen_points(tmp_path) == {"lr=0.1"}
    assert collect(tmp_path).results["failed"] == [
        {"run": "runs/d", "arch": "s4", "init": "scratch", "seed": 1, "error": "loss is nan"}
    ]
    assert "failed: runs/d: loss is nan" in results_text(tmp_path)


def test_nothing_is_scored_on_test_before_all_points_have_ended(tmp_path):
    plan(tmp_path, a=({"lr": 0.1}, 0, 0.5, None), b=({"lr": 0.2}, 0, None, None))
    runs = json.loads((tmp_path / "plan.json").read_text())["runs"]
    assert PlanResults(tmp_path, runs, "accuracy").unscored() == []
    scores, _, results = collect(tmp_path)
    assert set(scores["split"]) == {"validation"} and results["unfinished"] == ["runs/b"]
    assert results_text(tmp_path).splitlines() == ["toy: no run has finished yet", "unfinished: runs/b"]
    (tmp_path / "runs" / "b" / "failed.json").write_text('{"error": "loss is nan", "step": 1}')
    assert PlanResults(tmp_path, runs, "accuracy").unscored() == ["a"]


def test_the_table_has_a_line_per_run_split_and_metric_and_pandas_opens_it(tmp_path):
    plan(tmp_path, a=({}, 0, 0.5, 0.75), b=({}, 1, 0.6, 0.25))
    collected = collect(tmp_path, write=True)
    table = pd.read_csv(tmp_path / "scores.csv")
    assert list(table) == COLUMNS and len(table) == 2 * (2 + 1)
    assert table.query("split == 'test' and metric == 'accuracy'").groupby("arm")["value"].mean().to_dict() == {
        "scratch": 0.5
    }
    assert json.loads((tmp_path / "results.json").read_text()) == collected.results


def test_a_line_says_what_its_run_cost_and_how_its_pretraining_ended(tmp_path):
    plan(tmp_path, a=({}, 0, 0.5, 0.75))
    content = json.loads((tmp_path / "plan.json").read_text())
    first = {"name": "first", "phase": "pretrain", "arch": "s4", "init": "spt", "seed": 0, "fraction": None,
             "grid": {}, "pretrained": None, **UNSAID}  # fmt: skip
    content["runs"][0] |= {"init": "spt", "objective": "masked", "pretrained": "first"}
    content["runs"].insert(0, first)
    (tmp_path / "plan.json").write_text(json.dumps(content))
    metrics = {"validation": {"loss": 1.25}, "train_examples": 40, "steps": 5, "examples_seen": 80, "flops": 7.0}
    (tmp_path / "runs" / "first").mkdir()
    (tmp_path / "runs/first/metrics.json").write_text(json.dumps({**metrics, "wall_seconds": 2.5}))
    (line,) = collect(tmp_path).scores.query("split == 'test'").to_dict("records")
    assert line["arm"] == "spt-masked" and line["pretrain_run"] == "runs/first"
    assert (line["labels"], line["inputs"], line["pretrain_loss"], line["seconds"]) == (8, 40, 1.25, 3.5)
    assert (line["pretrain_steps"], line["finetune_steps"]) == (5, 2)
    assert (line["pretrain_epochs"], line["finetune_epochs"]) == (2.0, 2.0)
    assert (line["pretrain_flops"], line["finetune_flops"]) == (7.0, 5.0)


def test_seeds_that_join_after_the_test_scores_were_read_are_marked(tmp_path):
    """The table of the smaller plan holds what was known; the mark stays when the results are written again."""
    plan(tmp_path, a=({}, 0, 0.5, 0.5), b=({}, 1, 0.5, 0.5))
    collect(tmp_path, write=True)
    plan(tmp_path / "more", a=({}, 0, 0.5, 0.5), b=({}, 1, 0.5, 0.5), c=({}, 2, 0.5, 0.5))
    shutil.copytree(tmp_path / "more", tmp_path, dirs_exist_ok=True)
    for _ in range(2):
        marked = collect(tmp_path, write=True).scores.groupby("seed")["added_after_test"].all()
        assert marked.to_dict() == {0: False, 1: False, 2: True}


def test_the_command_is_told_by_the_settings():
    axes = {"seeds": [0, 1], "archs": ["s4"], "inits": ["scratch", "spt"], "grid": {"lr": [0.1, 0.2]}, "tune": True}
    assert command_of({"run": {"phase": "compare", "train_fractions": [1.0, 0.5]} | axes}) == (
        "hf-longseq compare --recipe resolved.yaml --arch s4 --train_fractions 1.0 0.5 --seeds 0 1 "
        "--inits scratch spt --tune --grid lr=0.1,0.2"
    )


def test_a_folder_without_a_plan_is_refused(tmp_path):
    with pytest.raises(HfLongSeqError, match="holds no plan.json"):
        collect(tmp_path)
