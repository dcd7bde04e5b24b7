"""Mistakes of the first hour: each is answered by one sentence that names the option or file and the value."""

import json

import numpy as np
import pytest

from hf_longseq.cli.main import main

PRETRAIN = ["pretrain", "--output_dir", "run", "--tiny", "--max_steps", "1"]
SCRATCH = ["finetune", "--from_scratch", "--output_dir", "run", "--tiny", "--max_steps", "1"]
SPT = ["spt", "--output_dir", "run", "--tiny", "--max_steps", "1"]
ON = ["--task", "listops"]


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """A folder with files that have something wrong."""
    monkeypatch.chdir(tmp_path)
    good = [f"text {i},{i % 2}" for i in range(40)]
    tables = {
        "good.csv": ["text,label", *good],
        "blank.csv": ["text,label", *good, " ,1"],
        "all_blank.csv": ["text,label", ",0", ",1"],
        "unlabelled.csv": ["text,label", *(f"text {i}," for i in range(40))],
        "one_class.csv": ["text,label", *(f"text {i},1" for i in range(40))],
        "few.csv": ["text,label", "a,0", "b,1"],
        "numbers.csv": ["text,label", *(f"text {i},{i + 0.5}" for i in range(40))],
        "header.csv": ["text,label"],
        "columns.csv": ["first,second", *good],
        "empty.csv": [],
    }
    for name, lines in tables.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "latin.csv").write_bytes("text,label\ncaf\xe9,1\n".encode("latin-1"))
    (tmp_path / "broken.jsonl").write_text('{"text": "a"\n')
    (tmp_path / "broken.npz").write_bytes(b"PK no archive")
    (tmp_path / "notes.docx").write_text("text")
    (tmp_path / "recipe.yaml").write_text("model: {arch: s4}\nmodle: {}\n")
    (tmp_path / "nothing").mkdir()
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "listed").mkdir()
    (tmp_path / "listed" / "config.json").write_text("[]")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("mine")
    generator = np.random.default_rng(0)
    np.savez(tmp_path / "uneven.npz", x=np.zeros((4, 3)), y=np.zeros(5))
    np.savez(
        tmp_path / "nan.npz", x=np.where(np.eye(40) > 0, np.nan, generator.normal(size=(40, 40))), y=np.arange(40) % 2
    )
    (tmp_path / "arrays").mkdir()
    np.save(tmp_path / "arrays" / "x.npy", generator.normal(size=(40, 12)))
    (tmp_path / "ids.jsonl").write_text(
        "".join(json.dumps({"input_ids": [-1, 2], "label": i % 2}) + "\n" for i in range(40))
    )


@pytest.mark.parametrize(
    ("words", "key", "value"),
    [
        (["pretrian"], "command", "'pretrian' (did you mean 'pretrain'"),
        ([*PRETRAIN, "--task", "listop"], "task", "'listop' (did you mean 'listops'"),
        ([*PRETRAIN, "--task", "good.csv"], "task", "'good.csv', which is a file"),
        ([*PRETRAIN, "--arch", "s44", *ON], "model.arch", "'s44' (did you mean 's4'"),
        ([*PRETRAIN, "--arch", "s4,dlr", *ON], "model.arch", "s4, dlr"),
        ([*PRETRAIN, "--recipe", "listops-tny"], "recipe", "'listops-tny' (did you mean 'listops-tiny'"),
        ([*PRETRAIN, "--recipe", "mine.yaml"], "recipe file", "mine.yaml does not exist"),
        ([*PRETRAIN, "--recipe", "recipe.yaml"], "section", "'modle' (did you mean 'model'"),
        ([*PRETRAIN, *ON, "--oputput_dir", "x"], "unknown option", "--oputput_dir (did you mean '--output_dir'"),
        ([*PRETRAIN, *ON, "--mask_ratio", "1.5"], "mask_ratio", "1.5"),
        ([*PRETRAIN, *ON, "--span_length", "0"], "span_length", "0"),
        ([*PRETRAIN, *ON, "--objective", "mlm"], "objective", "'mlm'"),
        ([*PRETRAIN, *ON, "--learning_rate", "fast"], "learning_rate", "'fast'"),
        ([*PRETRAIN, *ON, "--max_steps", "-1"], "max_steps", "-1"),
        ([*PRETRAIN, *ON, "--seed", "-1"], "seed", "-1"),
        ([*PRETRAIN, *ON, "--global_batch_size", "0"], "global_batch_size", "0"),
        ([*PRETRAIN, *ON, "--model.hidden_sise", "8"], "hidden_sise", "did you mean 'hidden_size'"),
        ([*PRETRAIN, *ON, "--model.hidden_size", "wide"], "model.hidden_size", "'wide'"),
        ([*PRETRAIN, *ON, "--model.hidden_size", "0"], "hidden_size", "0"),
        ([*PRETRAIN, *ON, "--model.state_size", "7"], "state_size", "7"),
        ([*PRETRAIN, *ON, "--model.dropout", "2"], "dropout", "2"),
        ([*PRETRAIN, *ON, "--model.pooling", "best"], "pooling", "'best'"),
        ([*PRETRAIN, *ON, "--model.vocab_size", "9"], "model.vocab_size", "set from the task"),
        ([*PRETRAIN, *ON, "--arch", "transformer", "--model.num_attention_heads", "7"], "num_attention_heads", "7"),
        ([*PRETRAIN, *ON, "--data.max_lenght", "9"], "max_lenght", "did you mean 'max_length'"),
        ([*PRETRAIN, *ON, "--modle.hidden_size", "8"], "--modle.hidden_size", "did you mean 'model'"),
        ([*PRETRAIN, *ON, "--data", "good.csv"], "--data good.csv", "--task listops"),
        ([*PRETRAIN, "--data", "nowhere.csv"], "nowhere.csv", "does not exist"),
        ([*PRETRAIN, "--data", ""], "data", "is an empty name"),
        ([*PRETRAIN, "--data", "-"], "- does", "not exist"),
        (
            ["predict", "--model", "m", "--data", "good.csv", "--output_file", "nothing"],
            "--output_file nothing",
            "ends in",
        ),
        (["predict", "--model", "m", "--output_file", "folder.csv"], "--output_file folder.csv", "is a folder"),
        (["predict", "--model", "listed", "--data", "good.csv"], "model listed", "damaged config.json"),
        ([*PRETRAIN, "--data", "notes.docx"], "notes.docx", "'.docx'"),
        ([*PRETRAIN, "--data", "nothing"], "nothing", "holds no table, picture or sound"),
        ([*PRETRAIN, "--data", "empty.csv"], "empty.csv", "could not be read as csv"),
        ([*PRETRAIN, "--data", "header.csv"], "header.csv", "no data"),
        ([*PRETRAIN, "--data", "broken.jsonl"], "broken.jsonl", "could not be read as json"),
        ([*PRETRAIN, "--data", "broken.npz"], "broken.npz", "could not be read"),
        ([*PRETRAIN, "--data", "latin.csv"], "latin.csv", "UTF-8"),
        ([*PRETRAIN, "--data", "columns.csv"], "columns first, second", "--input_column"),
        ([*PRETRAIN, "--data", "good.csv", "--input_column", "txt"], "'txt'", "did you mean 'text'"),
        ([*PRETRAIN, "--data", "good.csv", "--modality", "words"], "modality", "'words'"),
        ([*PRETRAIN, "--data", "good.csv", "--data.max_length", "-3"], "data.max_length", "-3"),
        ([*PRETRAIN, "--data", "blank.csv"], "blank.csv, row 41", "is empty"),
        ([*PRETRAIN, "--data", "all_blank.csv"], "column 'text'", "is empty"),
        ([*PRETRAIN, "--data", "uneven.npz"], "uneven.npz", "expected length 4 but got length 5"),
        ([*PRETRAIN, "--data", "nan.npz"], "nan.npz, row 1", "missing or infinite"),
        ([*PRETRAIN, "--data", "ids.jsonl"], "ids.jsonl, row 1", "not a list of token ids from 0"),
        ([*SCRATCH, "--data", "one_class.csv"], "one_class.csv", "has label 1"),
        ([*SCRATCH, "--data", "few.csv"], "few.csv", "too few"),
        (
            [*SCRATCH, "--data", "numbers.csv", "--problem_type", "single_label_classification"],
            "label 0.5",
            "problem_type='regression'",
        ),
        ([*SCRATCH, "--data", "unlabelled.csv"], "unlabelled.csv", "has a label"),
        ([*SCRATCH, "--data", "arrays/x.npy"], "x.npy has no labels", "--label_column"),
        (["finetune", "--init_from", "nowhere", "--output_dir", "run"], "init_from", "nowhere does not exist"),
        (["finetune", "--init_from", "thesis", "--output_dir", "run"], "init_from thesis", "no config.json"),
        (["pretrain", "--output_dir", "thesis", "--tiny", "--data", "good.csv"], "output_dir thesis", "not of a run"),
        ([*SPT, *ON, "--inits", "spd"], "inits", "'spd'"),
        ([*SPT, *ON, "--seeds", "one"], "seeds", "'one'"),
        ([*SPT, *ON, "--train_fractions", "2"], "train_fraction", "2"),
        ([*SPT, *ON, "--jobs", "0"], "jobs", "0"),
        (["predict", "--model", "nowhere", "--data", "good.csv"], "model nowhere", "does not exist"),
        (["predict", "--model", "thesis", "--output_file", "out.xlsx"], "--output_file out.xlsx", "'.xlsx'"),
        (["evaluate", "--model", "nowhere"], "nowhere", "is not a run"),
        (["tasks", "show", "listop"], "listop", "did you mean 'listops'"),
    ],
)
def test_a_mistake_is_named_with_its_value(words, key, value, capsys, tmp_path):
    assert main(words) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("hf-longseq: error: ") and key in said and value in said
    assert "Traceback" not in said and not (tmp_path / "run" / "metrics.json").exists()
