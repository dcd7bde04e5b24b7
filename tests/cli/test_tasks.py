"""`tasks`: what is cached, what examples look like, and pages of the documentation."""

import numpy as np
import pytest

from hf_longseq.analysis.examples import as_text, draw, some_examples
from hf_longseq.cli.main import main
from hf_longseq.data.task import TASKS, TaskSpec, describe_task, load_task


def ask(capsys, *words):
    code = main(list(words))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_text_is_shown_as_text(capsys):
    code, out, _ = ask(capsys, "tasks", "show", "listops", "--examples", "2", "--data.max_length=20",
                       "--data.min_length=4")  # fmt: skip
    shown = out.split("examples of train:\n")[1].splitlines()
    assert code == 0 and len(shown) == 4
    assert shown[0] in {f"[{digit}]" for digit in range(10)} and " steps: [" in shown[1]
    assert shown[1].endswith("X [EOS]")


def test_pictures_are_drawn_into_a_file(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    from PIL import Image

    code, out, _ = ask(capsys, "tasks", "show", "pathfinder", "--out", str(tmp_path / "deep" / "paths.png"))
    assert code == 0 and "8 examples in" in out
    pixels = np.asarray(Image.open(tmp_path / "deep" / "paths.png").convert("L"))
    assert pixels.std() > 20 and not list((tmp_path / "deep").glob(".*"))


def test_series_are_drawn_with_all_channels(tmp_path):
    pytest.importorskip("matplotlib")
    spec = TaskSpec("own-data", "values", 50, num_channels=3, problem_type="regression", unit="metres")
    rows = [{"input_values": np.random.default_rng(i).normal(size=(40 + i, 3)), "labels": 1.5} for i in range(3)]
    assert draw(rows, spec, tmp_path / "series.png").stat().st_size > 5000
    assert as_text(rows[0], spec).startswith("[1.5 metres]\n40 steps: (")


def test_examples_come_from_every_class():
    rows, spec = some_examples("spoken-tones", 4, {})
    assert [spec.labels[int(row["labels"])] for row in rows] == ["first", "second", "third", "fourth"]


def test_data_without_labels_are_shown(capsys, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(30, 12)))
    code, out, _ = ask(capsys, "tasks", "show", "own-data", "--data.data", str(tmp_path / "x.npy"), "--examples", "1")
    assert code == 0 and "[no label]\n12 steps: " in out


def test_text_cannot_be_drawn(capsys, tmp_path):
    code, _, err = ask(capsys, "tasks", "show", "listops", "--out", str(tmp_path / "x.png"))
    assert code == 2 and "listops is text" in err


def test_what_needs_a_download_is_not_loaded_unasked(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(tmp_path))
    code, out, _ = ask(capsys, "tasks", "show", "speech-commands")
    assert code == 0 and "examples of train" not in out
    code, _, err = ask(capsys, "tasks", "show", "speech-commands", "--examples", "1")
    assert code == 2 and "run `curl" in err


def test_what_is_not_said_is_asked_for(capsys):
    code, _, err = ask(capsys, "tasks", "show")
    assert code == 2 and "needs the name of a task" in err
    code, _, err = ask(capsys, "tasks", "show", "own-data", "--examples", "1")
    assert code == 2 and "Task 'own-data' needs the option 'data'" in err


def test_the_list_says_what_is_cached(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(tmp_path))
    assert "cached" not in ask(capsys, "tasks")[1]
    load_task("listops", train_examples=8, eval_examples=2, min_length=4, max_length=20)
    lines = ask(capsys, "tasks", "list")[1].splitlines()
    assert [line.split()[0] for line in lines if "MiB cached" in line] == ["listops"]


@pytest.mark.parametrize("name", [name for name in TASKS if name != "own-data"])
def test_every_task_can_be_described_without_its_data(name):
    assert describe_task(name).name == name
