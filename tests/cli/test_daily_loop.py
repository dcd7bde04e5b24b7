"""What a user does every day: train on a csv, label new rows by the comparison's folder, score a new labelled file."""

import json

import numpy as np
import pandas as pd
import pytest
from datasets import Dataset

import hf_longseq
from hf_longseq.cli.main import main

NEW = "id,body,note\n007,a good one,x\n008,,\n009,a bad one,3.0\n"
LABELLED = 'body,mood,id\n"fine, really",good,1\nawful,bad,2\n,bad,3\nno label,,4\n'


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a table and the comparison that `spt` made of it."""
    home = tmp_path_factory.mktemp("home")
    rows = [f'{i},"a {"good" if i % 2 else "bad"} review, {i}",{"good" if i % 2 else "bad"},r' for i in range(40)]
    (home / "rows.csv").write_text("\n".join(["id,body,mood,label", *rows]))
    words = ["--data", home / "rows.csv", "--input_column", "body", "--label_column", "mood", "--arch", "s4", "--tiny"]
    assert main(["spt", *map(str, words), "--output_dir", str(home / "run")]) == 0
    return home


@pytest.fixture(autouse=True)
def here(home, monkeypatch):
    monkeypatch.chdir(home)
    (home / "new.csv").write_text(NEW)
    (home / "labelled.csv").write_text(LABELLED)


def test_a_table_comes_back_with_answers_and_is_scored_by_the_folder_of_the_comparison(capsys, caplog):
    assert main(["predict", "--model", "run", "--data", "new.csv", "--output_file", "out.csv"]) == 0
    lines = (out := open("out.csv").read()).splitlines()
    assert lines[0] == "id,body,note,prediction,score,probability.bad,probability.good"
    assert [line[: len(own)] for line, own in zip(lines, NEW.splitlines(), strict=True)] == NEW.splitlines(), out
    assert lines[2] == "008,,,,,," and lines[1].split(",")[3] in ("good", "bad")
    assert [record.getMessage() for record in caplog.records] == [
        "new.csv: 1 of 3 rows have no input and get no prediction."
    ]
    caplog.clear()
    capsys.readouterr()
    assert main(["evaluate", "--model", "run", "--data", "labelled.csv"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["examples"] == 2 and scores["accuracy"] in (0, 0.5, 1) and scores["loss"] > 0
    assert [record.getMessage() for record in caplog.records] == [
        "labelled.csv: 2 of 4 rows are left out: 1 without an input, 1 without a label."
    ]


def test_a_file_of_the_test_rows_has_the_scores_of_the_test_split(capsys, caplog):
    """The masks, the collator and the trainer of a run, and the one pass over new files, give the same numbers."""
    split = hf_longseq.evaluate("run")
    test = json.loads(open("run/best/splits.json").read())["test"]
    rows = pd.read_csv("rows.csv")
    rows.iloc[test].to_csv("again.csv", index=False)
    again = hf_longseq.evaluate("run", "again.csv")
    assert again.pop("examples") == len(test)
    assert again == pytest.approx(split, abs=1e-6) and "trained on" not in caplog.text
    hf_longseq.evaluate("run", rows)
    assert "of 40 data rows were among those that run/best was trained on" in caplog.text


def spans(number):
    return {"body": f"{'so' * (number % 5)} äh good text", "tags": [{"start": 2, "end": 3 + number % 4, "label": "x"}]}


@pytest.mark.parametrize(
    "row",
    [
        spans,
        lambda number: {"series": [number / 7, 1.5, 2.0], "y": number / 3 - 2},
        lambda number: {"words": f"text {number}", "labels": ["a", "b"][: 1 + number % 2]},
        lambda number: {"one": f"text {number}", "other": "more", "label": number % 2},
    ],
    ids=["spans", "numbers", "several labels", "pairs"],
)
def test_rows_of_the_test_split_score_the_same_from_a_file(row, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = pd.DataFrame([row(number) for number in range(40)])
    rows.to_json("rows.jsonl", orient="records", lines=True)
    words = ["--input_column", rows.columns[0], "--label_column", rows.columns[-1], "--tiny", "--from_scratch"]
    words += ["--second_input_column", "other"] if "other" in rows else []
    assert main(["finetune", "--data", "rows.jsonl", *words, "--arch", "s4", "--output_dir", "run"]) == 0
    test = json.loads(open("run/splits.json").read())["test"]
    scores = hf_longseq.evaluate("run", rows.iloc[test].to_dict("records"))
    assert scores.pop("examples") == len(test)
    assert scores == pytest.approx(hf_longseq.evaluate("run"), abs=1e-5)


@pytest.mark.parametrize(
    "source",
    [
        ["a good one", "a bad one"],
        np.array(["a good one", "a bad one"]),
        pd.DataFrame({"body": ["a good one", "a bad one"], "text": ["x", "y"]}),
        [{"body": "a good one"}, {"body": "a bad one"}],
        Dataset.from_dict({"body": ["a good one", "a bad one"]}),
    ],
    ids=["list", "array", "frame", "dicts", "data set"],
)
def test_objects_of_python_get_the_answers_of_the_file(source):
    first, _, second = hf_longseq.predict("run", "new.csv")
    answers = hf_longseq.predict("run", source)
    for answer, expected in zip(answers, (first, second), strict=True):
        assert answer["prediction"] == expected["prediction"]
        assert answer["probabilities"] == pytest.approx(expected["probabilities"], abs=2e-4)


def test_a_table_that_has_predictions_gets_new_ones(caplog):
    assert main(["predict", "--model", "run", "--data", "new.csv", "--output_file", "first.csv"]) == 0
    caplog.clear()
    assert main(["predict", "--model", "run", "--data", "first.csv", "--output_file", "second.csv"]) == 0
    assert open("second.csv").read() == open("first.csv").read()
    assert "first.csv has columns that predictions replace: prediction, score" in caplog.text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evaluate", "--data", "new.csv"], "new.csv has no column 'mood'"),
        (["evaluate", "--data", "labelled.csv", "--label_column", "mod"], "no column 'mod' (did you mean 'mood'"),
        (
            ["evaluate", "--data", "rows.csv", "--label_column", "label"],
            "rows.csv, row 1, has class 'r', and the",
        ),
        (["evaluate", "--data", "labelled.csv", "--split", "test"], "--split test and --data labelled.csv are given"),
        (["evaluate", "--label_column", "mood"], "--label_column names a column of --data"),
        (["evaluate", "--data", "other.csv"], "no column 'body', which the model was trained on (did you mean 'bodi'"),
        (["predict", "--data", "other.csv"], "it has id, bodi; name one with input_column"),
        (["predict", "--model", "kept"], "kept is a comparison that kept no best: give one of its runs, runs/NAME"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(home, capsys, words, message):
    (home / "other.csv").write_text("id,bodi\n1,text\n")
    (home / "kept" / "runs").mkdir(parents=True, exist_ok=True)
    model = [] if "--model" in words else ["--model", "run"]
    assert main([*words, *model]) == 2
    assert message in capsys.readouterr().err
