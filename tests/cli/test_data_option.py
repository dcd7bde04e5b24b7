"""`--data` takes a user's own files through the commands: splits are made, recorded, and their balance is reported."""

import csv
import json
import re
import wave

import numpy as np
import pytest
import yaml

from hf_longseq import Recipe
from hf_longseq.cli.main import main
from hf_longseq.data.byte_text import decode
from hf_longseq.data.task import load_task

TINY = ["--tiny", "--max_steps", "2"]


def a_csv(folder):
    """Ninety short texts, two classes, uneven."""
    path = folder / "reviews.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["review", "mood"])
        writer.writerows(
            [f"review {i} is {'good' if i % 3 else 'bad'}", "good" if i % 3 else "bad"] for i in range(90)
        )
    return path


def an_npz(folder):
    """Series of three channels by ten subjects."""
    generator = np.random.default_rng(0)
    path = folder / "watch.npz"
    arrays = {"x": generator.normal(size=(60, 20, 3)), "y": np.arange(60) % 2, "subject": np.arange(60) // 6}
    np.savez(path, **arrays)
    return path


def sounds(folder):
    """Wave files in one folder per class."""
    for name, pitch in (("low", 0.1), ("high", 0.5)):
        (folder / "sounds" / name).mkdir(parents=True)
        for i in range(30):
            samples = 8000 * np.sin(pitch * np.arange(80 + i))
            with wave.open(str(folder / "sounds" / name / f"{i}.wav"), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(8000)
                file.writeframes(samples.astype("<i2").tobytes())
    return folder / "sounds"


def run(words):
    assert main([str(word) for word in words]) == 0


def test_a_csv_through_both_phases(tmp_path, capsys, monkeypatch):
    a_csv(tmp_path)
    monkeypatch.chdir(tmp_path)
    columns = ["--input_column", "review", "--label-column=mood"]
    run(["pretrain", "--data", "reviews.csv", *columns, "--output_dir", "first", *TINY])
    said = capsys.readouterr().err
    sizes = [int(number) for number in re.search(r"(\d+) train, (\d+) validation, (\d+) test ex", said).groups()]
    share = re.search(r"the largest class \(good\) has (\d+)% of train", said)[1]
    assert sum(sizes) == 90 and min(sizes) > 2 and 60 <= int(share) <= 75
    monkeypatch.chdir("/")  # the settings name the file wherever they are read
    run(["finetune", "--init_from", tmp_path / "first", "--output_dir", tmp_path / "second", *TINY])
    splits = json.loads((tmp_path / "second" / "splits.json").read_text())
    assert sorted(row for rows in splits.values() for row in rows) == sorted(set().union(*splits.values()))
    assert [len(splits[name]) for name in ("train", "validation", "test")] == sizes
    assert f"{share}% of train" in json.loads((tmp_path / "second" / "data.json").read_text())["note"]
    settings = yaml.safe_load((tmp_path / "first" / "resolved.yaml").read_text())
    assert settings["pretrain"]["train_sampling_strategy"] == "group_by_length"  # texts differ in length
    from transformers import pipeline

    answer = pipeline("text-classification", model=str(tmp_path / "second"), device="cpu")("review 1 is good")
    assert answer[0]["label"] in ("good", "bad")


def texts_of(folder, split):
    """Texts of a split, in which a row has the number of its line, from the cache that the run made."""
    recipe = Recipe.load(folder / "resolved.yaml")
    return {decode(ids) for ids in load_task("own-data", **recipe.data.options)[0][split][:]["input_ids"]}


def test_no_test_row_is_pretrained_on_when_the_label_column_is_named_later(tmp_path, capsys):
    """The two commands know other columns of the file, and cut it alike."""
    path = tmp_path / "t.csv"
    rows = [f"report {i} {'abc' * (i % 5)},{('sport', 'news', 'arts')[i % 3]}" for i in range(60)]
    path.write_text("\n".join(["body,category", *rows]))
    words = ["--data", path, "--input_column", "body"]
    run(["pretrain", *words, "--output_dir", tmp_path / "first", *TINY])
    words += ["--label_column", "category", "--init_from", tmp_path / "first"]
    run(["finetune", *words, "--output_dir", tmp_path / "second", *TINY])
    for split in ("train", "validation", "test"):
        assert texts_of(tmp_path / "first", split) == texts_of(tmp_path / "second", split)
    assert "were among those" not in capsys.readouterr().err
    assert "test_examples_trained_on" not in json.loads((tmp_path / "second" / "metrics.json").read_text())

    run(["finetune", *words, "--data.seed", "1", "--output_dir", tmp_path / "third", *TINY])
    told = capsys.readouterr().err
    count = len(texts_of(tmp_path / "third", "test") & texts_of(tmp_path / "first", "train"))
    total = len(texts_of(tmp_path / "third", "test"))
    assert f"{count} of {total} test rows were among those that {tmp_path / 'first'} was trained on" in told
    assert json.loads((tmp_path / "third" / "metrics.json").read_text())["test_examples_trained_on"] == count
    run(["evaluate", "--model", tmp_path / "third"])  # what it started from counts as well
    assert f"{count} of {total} test rows were among those that {tmp_path / 'third'}" in capsys.readouterr().err


def test_an_npz_split_by_subject(tmp_path, capsys):
    words = ["--data", an_npz(tmp_path), "--group_column", "subject", "--modality", "values", "--inits", "scratch"]
    run(["spt", *words, "--output_dir", tmp_path / "run", *TINY])
    captured = capsys.readouterr()
    assert "own-data: test accuracy" in captured.out and "split by subject" in captured.err
    splits = json.loads((tmp_path / "run" / "runs" / "s4-scratch-s0" / "splits.json").read_text())
    subjects = [{row // 6 for row in rows} for rows in splits.values()]
    assert not subjects[0] & subjects[1] and not subjects[0] & subjects[2] and not subjects[1] & subjects[2]


def test_a_folder_of_sounds_by_class(tmp_path):
    run(["finetune", "--from_scratch", "--data", sounds(tmp_path), "--output_dir", tmp_path / "run", *TINY])
    assert json.loads((tmp_path / "run" / "config.json").read_text())["label2id"] == {"high": 0, "low": 1}
    from transformers import pipeline

    classify = pipeline("audio-classification", model=str(tmp_path / "run"), device="cpu")
    assert classify.feature_extractor.sampling_rate == 8000
    assert len(classify(np.sin(0.1 * np.arange(90)).astype(np.float32))) == 2


def test_columns_without_names(tmp_path):
    rows = [f"review {i} is {'good' if i % 2 else 'bad'},{i % 2}" for i in range(40)]
    (tmp_path / "numbered.csv").write_text("\n".join(["0,3", *rows]))
    words = ["--data", tmp_path / "numbered.csv", "--input_column", "0", "--label_column", "3"]
    run(["finetune", "--from_scratch", *words, "--output_dir", tmp_path / "run", *TINY])
    assert json.loads((tmp_path / "run" / "data.json").read_text())["options"]["label_column"] == "3"


def test_a_recipe_of_another_task_lends_its_model(tmp_path):
    words = ["--recipe", "listops-tiny", "--arch", "dlr", "--data", a_csv(tmp_path), "--input_column", "review"]
    run(["pretrain", *words, "--label_column", "mood", "--output_dir", tmp_path / "run", *TINY])
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["model_type"] == "longseq_dlr"
    assert json.loads((tmp_path / "run" / "data.json").read_text())["task"] == "own-data"


def test_numbers_to_predict(tmp_path):
    generator = np.random.default_rng(0)
    np.savez(tmp_path / "rates.npz", x=generator.normal(size=(50, 16)), y=generator.uniform(60, 90, 50))
    words = ["--data", tmp_path / "rates.npz", "--problem_type", "regression", "--output_dir", tmp_path / "run"]
    run(["finetune", "--from_scratch", *words, *TINY])
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["metric"] == "rmse" and metrics["test"]["rmse"] < 60


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--data", "x.csv", "--task", "listops"], "name two sources"),
        (["--task", "listops", "--label_column", "y"], "say with --data where they are"),
        (["--data", "missing.csv"], "missing.csv does not exist"),
    ],
)
def test_what_does_not_go_together_is_said(words, message, tmp_path, capsys):
    assert main(["pretrain", *words, "--output_dir", str(tmp_path / "run"), *TINY]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
