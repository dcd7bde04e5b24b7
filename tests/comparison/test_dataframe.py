"""Results folders as tables: what is read, what is put together, what is refused."""

import json

import pytest

from hf_longseq.cli.main import main
from hf_longseq.comparison.dataframe import read_results
from hf_longseq.errors import HfLongSeqError
from results_folders import folder_of, row


def test_a_row_per_seed_whatever_folder_it_is_in(tmp_path):
    one = folder_of(tmp_path / "a", [row(), row(init="spt", objective="masked")])
    two = folder_of(tmp_path / "b", [row(values=(0.5, 0.6), seeds=[0, 4]), row("dlr")])
    scores = read_results([one, two]).scores
    mine = scores[(scores["arch"] == "s4") & (scores["init"] == "scratch")]
    assert list(mine["seed"]) == [0, 1, 2, 4] and list(mine["value"]) == [0.5, 0.52, 0.51, 0.6]
    assert list(scores["init"].unique()) == ["scratch", "spt-masked"] and list(scores["arch"].unique()) == [
        "s4",
        "dlr",
    ]


def test_contradictory_folders_are_named(tmp_path):
    one, two = folder_of(tmp_path / "a", [row()]), folder_of(tmp_path / "b", [row(values=(0.1, 0.2, 0.3))])
    with pytest.raises(HfLongSeqError, match=r"contradictory results for s4, scratch on listops.*a and .* in .*b"):
        read_results([one, two])
    assert set(read_results([one, f"short={two}"]).scores["name"]) == {"listops", "short"}
    tuned = folder_of(tmp_path / "c", [row(values=(0.7,), seeds=[9], grid={"lr": 0.1})])
    with pytest.raises(HfLongSeqError, match="contradictory"):
        read_results([one, tuned])


@pytest.mark.parametrize("key", ["finetune_steps", "pretrain_steps", "test_examples", "num_parameters"])
def test_seeds_of_other_budgets_or_data_are_not_taken_for_more_seeds_of_an_arm(tmp_path, key):
    rows = [row(), row(init="spt-masked", values=(0.6, 0.7, 0.8), **{key: 20})]
    more = [row(init="spt-masked", values=(0.9,), seeds=[3], **{key: 40})]
    folders = [folder_of(tmp_path / "a", rows), folder_of(tmp_path / "b", more)]
    said = f"spt-masked on listops.*0.6 in .*a and 0.9 in .*b .{key} 20(.0)? and 40(.0)?.; leave"
    with pytest.raises(HfLongSeqError, match=said):
        read_results(folders)
    # what an older file does not record contradicts nothing
    older = folder_of(tmp_path / "c", [{k: v for k, v in more[0].items() if k != key}])
    assert len(read_results([folders[0], older]).scores) == 7


@pytest.mark.parametrize(
    "change, message",
    [
        ({"metric": "bleu"}, "not known whether 'bleu'.*better when greater"),
        ({"rows": [row(values=(0.5, float("nan")))]}, "row s4 scratch: the values are"),
        ({"rows": [row() | {"arch": None}]}, "arch is missing"),
        ({"rows": [3]}, "has 3 for a row: restore"),
    ],
)
def test_results_that_cannot_be_read_are_refused(tmp_path, change, message):
    content = {"task": "listops", "metric": "accuracy", "rows": [row()]} | change
    (tmp_path / "results.json").write_text(json.dumps(content))
    with pytest.raises(HfLongSeqError, match=message):
        read_results([str(tmp_path)])


@pytest.mark.parametrize("name, text", [("results.json", '{"task'), ("plan.json", "["), ("resolved.yaml", "a: [")])
def test_a_torn_file_is_named(tmp_path, name, text):
    if name == "resolved.yaml":
        folder_of(tmp_path, [row()])
    (tmp_path / name).write_text(text)
    with pytest.raises(HfLongSeqError, match=f"{name} is .*restore it"):
        read_results([str(tmp_path)])


@pytest.mark.parametrize("curve", [[], {"steps": [1]}, {"steps": [1, 2], "metric": [[0.5]], "pretrain_steps": 0}])
def test_curves_of_another_form_are_refused(tmp_path, curve):
    folder = folder_of(tmp_path, [row()])
    (tmp_path / "curves.json").write_text(json.dumps({"s4-scratch": curve} if curve else [1]))
    with pytest.raises(HfLongSeqError, match="curves.json has no steps and values by arm"):
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


def test_settings_without_a_choice_are_left_out(tmp_path):
    tried = [
        {"arch": "s4", "init": init, "fraction": None, "grid": {"lr": lr}, "seeds": [0], "validation_values": [lr],
         "selected": lr == 0.1}
        for init, lr in (("scratch", 0.1), ("scratch", 0.2), ("spt", 0.1))
    ]  # fmt: skip
    candidates = read_results([folder_of(tmp_path, [row(), row(init="spt", objective="masked")], candidates=tried)])
    assert list(candidates.candidates["setting"]) == ["lr 0.1", "lr 0.2"]
    assert list(candidates.candidates["selected"]) == [True, False]


def test_the_command_is_told_by_the_settings(tmp_path):
    folder_of(tmp_path, [row()])
    axes = {"archs": ["s4"], "inits": ["scratch", "spt"], "grid": {"lr": [0.1, 0.2]}, "train_fractions": [1.0, 0.5]}
    axes["compute_tied"] = True
    (tmp_path / "resolved.yaml").write_text(json.dumps({"run": {"phase": "compare", "seeds": [0, 1]} | axes}))
    assert read_results([str(tmp_path)]).folders["command"].item() == (
        "hf-longseq compare --recipe resolved.yaml --seeds 0 1 --inits scratch spt --train_fractions 1.0 0.5 "
        "--compute_tied --grid lr=0.1,0.2"
    )


def test_an_unfinished_comparison_is_read_from_its_plan(tmp_path):
    one = {"phase": "finetune", "arch": "s4", "init": "scratch", "seed": 0, "fraction": None, "grid": {}}
    one |= {"name": "s4-scratch-s0", "pretrained": None, "objective": None, "recipe": None}
    (tmp_path / "plan.json").write_text(json.dumps({"task": "listops", "metric": "accuracy", "runs": [one]}))
    found = read_results([str(tmp_path)])
    assert list(found.failed["run"]) == ["runs/s4-scratch-s0"] and len(found.scores) == 0
