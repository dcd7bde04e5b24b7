"""`predict --data` labels new files of every kind through the processor that was saved with the checkpoint."""

import io
import json
import shutil
import wave

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from transformers import AutoFeatureExtractor, AutoModelForSequenceClassification

from hf_longseq import evaluate
from hf_longseq import predict as predict_rows
from hf_longseq.cli.main import main
from hf_longseq.cli.predict import write_answers
from hf_longseq.data.task import load_task

TINY = ["--from_scratch", "--tiny", "--max_steps", "2"]


def train(data, folder, *words):
    """A classifier of a source."""
    words = ["finetune", "--data", data, "--output_dir", folder, *TINY, *words]
    assert main([str(word) for word in words]) == 0
    return folder


def predict(*words):
    assert main(["predict", *[str(word) for word in words]]) == 0


@pytest.fixture(scope="module")
def moods(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moods")
    rows = [f'"review, {i}",{"good" if i % 2 else "bad"}' for i in range(40)]
    (folder / "texts.csv").write_text("\n".join(["text,label", *rows]))
    return train(folder / "texts.csv", folder / "run")


def a_wav(path, pitch, rate=8000):
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes((8000 * np.sin(pitch * np.arange(200))).astype("<i2").tobytes())


def test_a_csv_becomes_a_csv_with_a_probability_per_class(moods, tmp_path):
    (tmp_path / "new.csv").write_text("id,text\n1,a good one\n2,a bad one\n")
    predict("--model", moods, "--data", tmp_path / "new.csv", "--output_file", tmp_path / "out.csv")
    table = pd.read_csv(tmp_path / "out.csv")
    assert list(table.columns) == ["id", "text", "prediction", "score", "probability.bad", "probability.good"]
    assert np.allclose(table["probability.bad"] + table["probability.good"], 1, atol=1e-3)
    assert set(table["prediction"]) <= {"good", "bad"}


@pytest.mark.parametrize("name, separator", [("new.csv", ","), ("new.CSV", ","), ("new.TSV", "\t")])
def test_cells_of_a_csv_come_back_to_the_letter(tmp_path, name, separator):
    (tmp_path / name).write_text(f"id{separator}text\n007{separator}fine\n")
    answers = [{"id": 7, "text": "fine", "prediction": "good"}]
    write_answers(tmp_path / "out.csv", answers, str(tmp_path / name))
    assert (tmp_path / "out.csv").read_text() == "id,text,prediction\n007,fine,good\n"


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_the_same_texts_in_any_table_get_the_same_labels(moods, tmp_path, ending, capsys):
    texts = pd.DataFrame({"text": ["one", "two", "three"], "label": ["good", "bad", "?"]})
    write = {"csv": texts.to_csv, "parquet": texts.to_parquet}.get(ending)
    path = tmp_path / f"new.{ending}"
    write(path, index=False) if write else texts.to_json(path, orient="records", lines=True)
    predict("--model", moods, "--data", path, "--output_file", tmp_path / "out.parquet")
    table = pd.read_parquet(tmp_path / "out.parquet")
    capsys.readouterr()
    from transformers import pipeline

    expected = pipeline("text-classification", model=str(moods), device="cpu")(texts["text"].tolist())
    assert table["prediction"].tolist() == [answer["label"] for answer in expected]
    assert np.allclose(table["score"], [answer["score"] for answer in expected], atol=1e-3)
    assert table["text"].tolist() == ["one", "two", "three"] and table["label"].tolist() == ["good", "bad", "?"]


def test_lines_of_standard_input_become_json_lines(moods, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("first\n\nsecond\n"))
    predict("--model", moods, "--data", "-")
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["text"] for answer in answers] == ["first", "second"]
    assert set(answers[0]["probabilities"]) == {"good", "bad"}


def test_sounds_of_another_rate_in_a_folder_and_alone(tmp_path):
    for i in range(20):
        for name, pitch in (("low", 0.1), ("high", 0.5)):
            a_wav(tmp_path / "train" / name / f"{i}.wav", pitch + i / 1000)
    run = train(tmp_path / "train", tmp_path / "run")
    a_wav(tmp_path / "new" / "a.wav", 0.1, 16000)
    a_wav(tmp_path / "new" / "b.wav", 0.5)
    predict("--model", run, "--data", tmp_path / "new", "--output_file", tmp_path / "out.jsonl")
    both = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [answer["file"].rsplit("/", 1)[-1] for answer in both] == ["a.wav", "b.wav"]
    assert "label" not in both[0]  # "new" is not a class of the model
    predict("--model", run, "--data", tmp_path / "new" / "b.wav", "--output_file", tmp_path / "one.jsonl")
    assert json.loads((tmp_path / "one.jsonl").read_text())["probabilities"] == both[1]["probabilities"]


def test_pictures_of_another_size(tmp_path):
    generator = np.random.default_rng(0)
    for i in range(20):
        for name in ("cat", "dog"):
            (tmp_path / "train" / name).mkdir(parents=True, exist_ok=True)
            pixels = generator.integers(0, 255, (6, 6), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "train" / name / f"{i}.png")
    run = train(tmp_path / "train", tmp_path / "run")
    Image.fromarray(generator.integers(0, 255, (12, 12), dtype=np.uint8)).save(tmp_path / "new.png")
    predict("--model", run, "--data", tmp_path / "new.png", "--output_file", tmp_path / "out.csv")
    assert pd.read_csv(tmp_path / "out.csv")["prediction"][0] in ("cat", "dog")


@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_arrays_are_standardised_as_in_training(tmp_path, ending):
    x = 50 + 10 * np.random.default_rng(0).normal(size=(40, 12, 2)).astype(np.float32)
    np.savez(tmp_path / "train.npz", x=x, y=np.arange(40) % 2)
    run = train(tmp_path / "train.npz", tmp_path / "run", "--modality", "values")
    (tmp_path / "new").mkdir()
    path = tmp_path / "new" / f"x.{ending}"
    np.save(path, x[:3]) if ending == "npy" else np.savez(path, x=x[:3])
    predict("--model", run, "--data", path, "--output_file", tmp_path / "out.jsonl")
    raw = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    settings = json.loads((run / "preprocessor_config.json").read_text())
    scaled = (x[:3] - np.array(settings["mean"])) / np.array(settings["std"])
    model = AutoModelForSequenceClassification.from_pretrained(run)
    expected = model(input_values=torch.tensor(scaled, dtype=torch.float32)).logits.softmax(-1).tolist()
    for one, other in zip(raw, expected, strict=True):
        assert list(one["probabilities"].values()) == pytest.approx(other, abs=1e-3)


def test_an_input_longer_than_those_of_training_is_cut_with_a_word(moods, tmp_path, caplog):
    (tmp_path / "new.csv").write_text(f"text\nshort\n{'long ' * 50}\n{'long ' * 60}\n")
    predict("--model", moods, "--data", tmp_path / "new.csv", "--output_file", tmp_path / "out.csv")
    warned = [record.getMessage() for record in caplog.records if "positions" in record.getMessage()]
    assert warned == ["new.csv, row 2, has 251 positions: the model was trained on up to 11, and reads these."]


def test_a_split_that_has_changed_since_training_is_refused(moods, tmp_path, capsys):
    rows = (moods.parent / "texts.csv").read_text()
    run = train(moods.parent / "texts.csv", tmp_path / "run")
    try:
        (moods.parent / "texts.csv").write_text("\n".join([rows, *(f"another {i},good" for i in range(40))]))
        for command in ("evaluate", "predict"):
            assert main([command, "--model", str(run)]) == 2
            assert "test of task 'own-data' is not what the run in" in capsys.readouterr().err
    finally:
        (moods.parent / "texts.csv").write_text(rows)


@pytest.mark.parametrize("name, change, message", [
    ("tokenizer.json", {"normalizer": 7}, "holds a tokenizer or processor that cannot be read"),
    ("tokenizer.json", {"post_processor": {"special_tokens": {}}}, "has a tokenizer that reads nothing"),
    ("tokenizer_config.json", {"task_max_length": "x"}, "has a tokenizer that reads nothing"),
])  # fmt: skip
def test_a_damaged_tokenizer_is_named(moods, tmp_path, capsys, name, change, message):
    shutil.copytree(moods, tmp_path / "run")
    file = tmp_path / "run" / name
    rules = json.loads(file.read_text())
    for name, value in change.items():
        rules[name] = {**rules[name], **value} if isinstance(value, dict) else value
    file.write_text(json.dumps(rules))
    (tmp_path / "new.csv").write_text("text\nfine\n")
    assert main(["predict", "--model", str(tmp_path / "run"), "--data", str(tmp_path / "new.csv")]) == 2
    assert message in capsys.readouterr().err


def test_numbers_of_classes_are_known_beside_empty_labels(tmp_path):
    rows = [f"text {i},{'' if i % 3 == 2 else i % 3}" for i in range(60)]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *rows]))
    run = train(tmp_path / "texts.csv", tmp_path / "run")
    assert evaluate(run, tmp_path / "texts.csv")["examples"] == 40


def test_small_changes_of_large_numbers_are_the_same_in_training_and_prediction(tmp_path):
    """Seconds since 1970, as a series has them: in float32 they have steps of 128."""
    x = 1.7e9 + np.random.default_rng(0).integers(0, 10_000, (40, 12)).astype(np.float64)
    np.savez(tmp_path / "a.npz", x=x, y=np.arange(40) % 2)
    run = train(tmp_path / "a.npz", tmp_path / "run", "--modality", "values")
    splits, _ = load_task("own-data", data=str(tmp_path / "a.npz"), modality="values", cache_dir=str(tmp_path))
    processor = AutoFeatureExtractor.from_pretrained(run)
    for row in splits["test"]:
        raw = x[row["source_row"]]
        assert np.allclose(row["input_values"], processor(raw)["input_values"][0], atol=1e-5)
        assert len(set(row["input_values"].tolist())) == len(set(raw))


def test_token_ids(tmp_path):
    rows = [{"input_ids": [i % 7, 3, 4, i % 5], "label": i % 2} for i in range(60)]
    (tmp_path / "ids.jsonl").write_text("\n".join(map(json.dumps, rows)))
    run = train(tmp_path / "ids.jsonl", tmp_path / "run")
    predict("--model", run, "--data", tmp_path / "ids.jsonl", "--limit", 2, "--output_file", tmp_path / "out.csv")
    table = pd.read_csv(tmp_path / "out.csv")
    assert len(table) == 2 and table["label"].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--data", "nowhere.csv"], "nowhere.csv does not exist"),
        (["--data", "new.csv", "--input_column", "txt"], "no column 'txt' (did you mean 'text'"),
        (["--data", "blank.csv"], "blank.csv, column 'text', is empty"),
        (["--data", "series.npz"], "holds values in column 'x', but the model reads text"),
        (["--data", "new.csv", "--split", "test"], "split='test' and source='new.csv' are given"),
        (["--data", "new.csv", "--output_file", "out.xlsx"], "--output_file out.xlsx ends in '.xlsx'"),
        (["--data", "new.csv", "--limit", "0"], "--limit is 0"),
        (["--input_column", "text"], "give --data too"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(moods, tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new.csv").write_text("text,id\nhello,1\nthere,2\n")
    (tmp_path / "blank.csv").write_text("text,id\n,1\n,2\n")
    np.savez(tmp_path / "series.npz", x=np.random.default_rng(0).normal(size=(4, 9)))
    assert main(["predict", "--model", str(moods), *words]) == 2
    assert message in capsys.readouterr().err


def test_lists_of_words_come_back_with_their_spans(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        {"tokens": ["Dear", name, f"{i}"], "ner_tags": ["O", "B-x", "O"]} for i in range(20) for name in ("A", "B")
    ]
    pd.DataFrame(rows).to_json("rows.jsonl", orient="records", lines=True)
    assert (
        main(["finetune", "--from_scratch", "--tiny", "--arch", "s4", "--data", "rows.jsonl", "--output_dir", "r"])
        == 0
    )
    (answer,) = predict_rows("r", [{"tokens": ["Dear", "Ada"], "numbers": [1, 2]}])
    assert answer["tokens"] == ["Dear", "Ada"] and set(answer) == {"tokens", "spans"}
