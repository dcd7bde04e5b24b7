import errno
import json
import shutil

import pandas as pd
import pytest

from hf_longseq import finetune
from hf_longseq.comparison.axes import recipe_loader, with_point
from hf_longseq.comparison.execute import compare
from hf_longseq.comparison.tables import results_text
from hf_longseq.comparison.write import report_comparison
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training import checkpoints
from results_folders import arms_of

RAW = {
    "model": {"arch": ["s4", "transformer"]},
    "data": {"task": "waves"},
    "pretrain": {"max_steps": 2},
    "finetune": {"max_steps": 2},
}


def run(folder, overrides=None, **options):
    """`compare` on the waves at toy size, with what the listener heard."""
    heard = []
    steps = {"pretrain": {"max_steps": 2}, "finetune": {"max_steps": 2}}
    options = {"archs": ["s4"], "inits": ["scratch"], **options}
    done = compare(
        RAW, folder, overrides=overrides or steps, tiny=True, listener=lambda *r: heard.append(r), **options
    )
    return {**done.results, "rows": arms_of(folder)}, {label for label, _, _, text in heard if text}


def metrics_of(folder, name):
    return json.loads((folder / "runs" / name / "metrics.json").read_text())


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    """Two objectives and two rates, done once for the tests that only read."""
    folder = tmp_path_factory.mktemp("comparison") / "out"

    def make(*words):
        if not folder.exists():
            run(folder, inits=["scratch", "spt-causal"], grid=["lr=1e-3,1e-1"])
        return folder

    return make


def test_the_choice_is_made_on_validation_and_only_what_is_chosen_is_scored_on_test(comparison):
    folder = comparison()
    rows, tried = arms_of(folder), pd.read_csv(folder / "scores.csv").query("split == 'validation'")
    results = json.loads((folder / "results.json").read_text())
    assert [row["arm"] for row in rows] == ["scratch", "spt-causal"]
    tried = tried[tried["metric"] == "accuracy"]
    assert len(tried) == 4 and results["failed"] == results["unfinished"] == []
    for row in rows:
        mine = tried[tried["arm"] == row["arm"]]
        assert row["validation"] == mine["value"].max()
        assert list(mine.loc[mine["chosen"], "point"]) == [row["point"]]
        assert row["values"] == [metrics_of(folder, path[5:])["test"]["accuracy"] for path in row["runs"]]
    scored = {
        path.parent.name for path in folder.glob("runs/*/metrics.json") if "test" in json.loads(path.read_text())
    }
    assert scored == {path[5:] for row in rows for path in row["runs"]}


def test_a_score_read_later_is_the_score_read_at_once(comparison, tmp_path):
    row = arms_of(comparison())[0]
    load, _ = recipe_loader(RAW, {"finetune": {"max_steps": 2}}, True)
    point = {"lr": float(row["point"].removeprefix("lr="))}
    alone = finetune(with_point(load("s4", None), point), tmp_path / "alone", seed=row["seeds"][0])
    assert alone.metrics["test"] == pytest.approx(metrics_of(comparison(), row["runs"][0][5:])["test"])


def test_a_row_says_what_it_cost(comparison):
    for row in arms_of(comparison()):
        pretrained = row["arm"] != "scratch"
        assert (row["pretrain_steps"], row["finetune_steps"]) == (2 * pretrained, 2)
        assert (row["inputs"], row["labels"]) == (64 * pretrained, 64)
        assert (row["pretrain_epochs"], row["finetune_epochs"]) == (2 * 8 / 64 * pretrained, 2 * 8 / 64)
        assert row["flops"] > 0 and row["seconds"] > 0 and row["parameters"] > 0
        assert bool(row["pretrain_runs"]) == (row["pretrain_loss"] is not None) == pretrained


def test_causal_arms_stand_beside_scratch_of_the_same_architecture(tmp_path):
    inits = ["scratch", "spt-causal", "spt-causal@direction=both", "spt-causal@direction=one", "scratch-tied@steps"]
    results, _ = run(tmp_path / "out", inits=inits)
    rows = {row["arm"]: row for row in results["rows"]}
    assert rows.keys() == {*inits, "scratch@direction=one", "scratch-tied@steps@direction=one"}
    for name in ("spt-causal", "spt-causal@direction=both", "spt-causal@direction=one"):
        row, words = rows[name], "@direction=one" * name.endswith("one")
        assert (row["scratch"], row["scratch_tied"]) == (f"scratch{words}", f"scratch-tied@steps{words}")
        partner, tied = rows[row["scratch"]], rows[row["scratch_tied"]]
        assert row["parameters"] == partner["parameters"] == tied["parameters"]
        assert row["pretrain_steps"] + row["finetune_steps"] == tied["finetune_steps"] == 4
        assert row["evaluations"] == partner["evaluations"]
    # fine-tuning opens the forward model, takes over both directions, or keeps to one
    looks_ahead = {name: config_of(tmp_path / "out", rows[name]["runs"][0])["bidirectional"] for name in rows}
    assert [name for name, ahead in looks_ahead.items() if not ahead] == [name for name in rows if "=one" in name]
    pretrained = {name: rows[name]["pretrain_runs"][0] for name in inits[1:4]}
    assert [config_of(tmp_path / "out", path)["bidirectional"] for path in pretrained.values()] == [False, True, False]
    moved = {name: metrics_of(tmp_path / "out", rows[name]["runs"][0][5:])["transfer"] for name in inits[1:4]}
    assert "forward" in moved["spt-causal"] and not any("forward" in moved[name] for name in inits[2:4])


def config_of(folder, path):
    return json.loads((folder / path / "config.json").read_text())


def test_a_comparison_has_a_report_and_pictures(comparison, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(comparison(), folder)
    report_comparison(folder, "hf-longseq report copy")
    for name in ("results.png", "learning_curves.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    assert "## waves\n" in (folder / "report" / "report.md").read_text()


def test_a_comparison_grows_by_seeds_points_fractions_and_architectures(tmp_path):
    folder = tmp_path / "out"
    run(folder)
    assert (folder / "runs" / "s4-scratch-s0" / "metrics.json").is_file()
    grown = {"grid": ["lr=1e-3,1e-2"], "train_fractions": [1.0, 0.5]}
    results, done = run(folder, **grown)
    assert done == {"s4-scratch-f1-lr0.01-s0", "s4-scratch-f0.5-lr0.001-s0", "s4-scratch-f0.5-lr0.01-s0"}
    assert [(row["fraction"], row["labels"]) for row in results["rows"]] == [(0.5, 32), (1.0, 64)]
    for changed in ({"seeds": [5]}, {"tune": True}, {"grid": ["lr=1e-3"]}, {"grid": []}, {"train_fractions": [1.0]}):
        with pytest.raises(HfLongSeqError, match="holds another run"):
            run(folder, **{**grown, **changed})
    with pytest.raises(HfLongSeqError, match="finetune.max_steps is 2 there"):
        run(folder, {"pretrain": {"max_steps": 2}, "finetune": {"max_steps": 3}}, **grown)


def test_seeds_on_other_data_are_not_added(tmp_path):
    def write(step):
        lines = [f"{step * row} and {row},{row % 2}" for row in range(40)]
        (tmp_path / "rows.csv").write_text("\n".join(["text,label", *lines]))

    own = {"data": {"task": "own-data", "data": str(tmp_path / "rows.csv")}, "finetune": {"max_steps": 1}}
    write(1)
    first, _ = run(tmp_path / "out", own)
    settings = (tmp_path / "out" / "resolved.yaml").read_bytes()
    write(7)
    with pytest.raises(
        HfLongSeqError, match="data of task 'own-data' are not those with which .*s4-scratch-s0 was made"
    ):
        run(tmp_path / "out", own, seeds=[0, 1])
    assert (tmp_path / "out" / "resolved.yaml").read_bytes() == settings
    write(1)
    assert run(tmp_path / "out", own, seeds=[0, 1])[0]["rows"][0]["values"][0] == first["rows"][0]["values"][0]
    write(7)
    assert run(tmp_path / "out", own, overwrite=True)[0]["failed"] == []


@pytest.mark.slow
def test_arms_that_change_what_is_equal_have_the_earlier_runs_done_again_under_another_name(tmp_path):
    """More arms may leave fewer common evaluations, and another budget for `scratch-tied`."""

    def budgets(results):
        return {row["arm"]: (row["evaluations"], row["finetune_steps"]) for row in results["rows"]}

    steps = {"pretrain": {"max_steps": 1}, "finetune": {"max_steps": 6, "eval_steps": None}}
    assert budgets(run(tmp_path / "a", steps)[0]) == {"scratch": (6, 6)}
    results, done = run(tmp_path / "a", steps, inits=["scratch", "spt", "scratch-tied"])
    assert budgets(results) == {"scratch": (3, 6), "spt-masked": (3, 6), "scratch-tied": (3, 7)}
    assert (tmp_path / "a" / "runs" / "s4-scratch-s0" / "metrics.json").is_file(), "what is finished stays"
    assert run(tmp_path / "a", steps, inits=["scratch", "spt", "scratch-tied"]) == (results, set())

    steps = {"pretrain": {"max_steps": 2}, "finetune": {"max_steps": 2}}
    assert budgets(run(tmp_path / "b", steps, inits=["spt", "scratch-tied"])[0])["scratch-tied"] == (1, 4)
    results, done = run(tmp_path / "b", steps, inits=["spt@max_steps=6", "spt", "scratch-tied"])
    shorter, longer = (row for row in results["rows"] if row["arm"].startswith("spt"))
    assert {arm: found[1] for arm, found in budgets(results).items()} == {
        "spt-masked@max_steps=6": 2, "spt-masked": 2, longer["scratch_tied"]: 8, shorter["scratch_tied"]: 4,
    }  # fmt: skip


def test_variants_of_an_architecture_stand_in_one_table(tmp_path):
    results, _ = run(tmp_path / "out", archs=["s4"])
    results, done = run(tmp_path / "out", archs=["s4", "s4@init_normal=0.1"])
    assert [row["architecture"] for row in results["rows"]] == ["s4", "s4@init_normal=0.1"]
    assert done == {"s4-init_normal-0.1-scratch-s0"}
    compare(tmp_path / "out" / "resolved.yaml", tmp_path / "again", archs=["s4@init_normal=0.1"])
    assert arms_of(tmp_path / "again")[0]["values"] == results["rows"][1]["values"]


def test_variants_of_an_arm_stand_in_one_table(tmp_path):
    inits = ["spt", "spt@pretrain_inputs=8", "spt@span_length=4"]
    results, done = run(tmp_path / "out", inits=inits)
    assert {row["arm"].replace("-masked", "") for row in results["rows"]} == set(inits) and len(done) == 6
    again, done = run(tmp_path / "out", inits=[*inits, "spt@pretrain_inputs=16"])
    assert done == {"s4-pretrain-pretrain_inputs-16-s0", "s4-spt-pretrain_inputs-16-s0"}
    counts = [metrics_of(tmp_path / "out", f"s4-pretrain{some}-s0")["train_examples"] for some in
              ("", "-pretrain_inputs-8", "-pretrain_inputs-16", "-span_length-4")]  # fmt: skip
    assert counts == [64, 8, 16, 64]


def test_smaller_fractions_lie_within_larger_ones_in_both_phases(tmp_path):
    steps = {"pretrain": {"max_steps": 2}, "finetune": {"max_steps": 2}, "data": {"pretrain_inputs": "subset"}}
    run(tmp_path / "out", steps, inits=["spt"], train_fractions=[1.0, 0.5])
    seen = {}
    for name in ("pretrain-f0.5", "spt-f0.5", "pretrain-f1", "spt-f1"):
        record = json.loads((tmp_path / "out" / "runs" / f"s4-{name}-s0" / "data.json").read_text())
        seen[name] = record["splits"]["train"]
    assert seen["pretrain-f0.5"] == seen["spt-f0.5"] and seen["pretrain-f1"] == seen["spt-f1"]
    assert (seen["spt-f0.5"]["num_examples"], seen["spt-f1"]["num_examples"]) == (26, 64)  # six of 32 labels choose


def test_a_run_that_fails_is_written_down_and_the_others_go_on(tmp_path):
    folder = tmp_path / "out"
    steps = {"pretrain": {"max_steps": 4}, "finetune": {"max_steps": 2}}
    options = {"inits": ["scratch", "spt"], "grid": ["pretrain.learning_rate=1e-3,1e30"]}
    results, _ = run(folder, steps, **options)
    failed = {failure["run"]: failure["error"] for failure in results["failed"]}
    assert list(failed) == [
        "runs/s4-pretrain-pretrain.learning_rate1e-30-s0",
        "runs/s4-spt-pretrain.learning_rate1e-30-s0",
    ]
    first, second = failed.values()
    assert (
        "loss is nan" in first
        and second == f"its pretraining failed (s4-pretrain-pretrain.learning_rate1e-30-s0): {first}"
    )
    assert [row["point"] for row in results["rows"]] == ["", "pretrain.learning_rate=0.001"]
    again, done = run(folder, steps, **options)
    assert again["failed"] == results["failed"] and done == set()


def test_a_full_disk_ends_the_plan_and_marks_no_run_as_failed(tmp_path, monkeypatch):
    def full_disk(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "seal", full_disk)
        with pytest.raises(OSError, match="No space left"):
            run(tmp_path / "out")
    results, _ = run(tmp_path / "out")
    assert results["failed"] == [] and len(results["rows"]) == 1


@pytest.mark.parametrize(
    "options, message",
    [
        ({"grid": ["lerning_rate=1"]}, "did you mean 'finetune.learning_rate'"),
        ({"train_fractions": [1.0, 0.02]}, "has none of class"),
        ({"archs": ["s4", "s5", "s6"]}, "'s6'"),
        ({"archs": ["s4", "s4"]}, "named twice"),
        ({"inits": ["scratch", "spt", "scratch-tied@flop"]}, "did you mean 'flops'"),
        ({"archs": ["s4@state_size=7"]}, "state_size is 7"),
        ({"overrides": {"model": {"bidirectional": False}}, "inits": ["spt-causal@direction=one"]}, "already"),
        ({"archs": ["hf:gpt_neox"], "inits": ["spt-causal@direction=both"]}, "cannot be seen apart"),
        ({"inits": ["sptt"]}, r"'sptt' \(did you mean 'spt'"),
        ({"seeds": []}, "at least one"),
        ({"seeds": [1, 1]}, "named twice"),
        ({"archs": ["transformer@num_attention_heads=5"]}, "num_attention_heads is 5"),
        ({"jobs": 0}, "jobs is 0"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(tmp_path, options, message):
    with pytest.raises(HfLongSeqError, match=message):
        run(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_every_architecture_takes_the_shipped_recipe_of_the_task():
    load, _ = recipe_loader(None, {"data": {"task": "listops"}}, False)
    rotary = load("transformer-rotary", None)
    assert rotary.model.arch == "transformer" and rotary.model.fields["position_embedding"] == "rotary"
    assert load("s4@init_normal=0.1", "causal").model.init_normal == 0.1
    assert load("s4", "causal").pretrain.objective == "causal"


def test_a_window_is_a_column_and_its_models_see_no_further(tmp_path):
    results, _ = run(tmp_path / "out", archs=["s4", "transformer"], windows=[4, "full"])
    assert [row["architecture"] for row in results["rows"]] == [
        "s4@window=4",
        "s4",
        "transformer@window=4",
        "transformer",
    ]
    config = json.loads((tmp_path / "out/runs/s4-window-4-scratch-s0/config.json").read_text())
    assert config["window"] == 4
    assert "by the positions that a mixer sees" in results_text(tmp_path / "out")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"windows": ["wide"]}, "window is 'wide': give numbers of positions, and full for an uncut model"),
        ({"windows": [0]}, "window is 0"),
        ({"windows": [8, "8"]}, "window .8, '8'. names one twice"),
        (
            {"windows": [8], "archs": ["hf:bert"]},
            "window would cut 'hf:bert', but it is an architecture of transformers",
        ),
        ({"windows": [8], "archs": ["s4@window=4"]}, "names its window itself"),
        ({"windows": [8], "archs": ["s4@pooling=last"]}, "set pooling to 'mean' or 'max'"),
    ],
)
def test_a_window_that_cuts_nothing_is_refused(tmp_path, options, sentence):
    with pytest.raises(HfLongSeqError, match=sentence):
        run(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()
