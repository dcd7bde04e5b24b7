import errno
import json
import os
import subprocess
import sys

import pytest
from safetensors import SafetensorError

from fresh_process import answer, run_fresh
from hf_longseq import recipes
from hf_longseq.cli.main import main
from hf_longseq.data.task import TASKS

TINY = ["--task", "listops", "--tiny", "--max_steps", "2"]


def ask(capsys, *words):
    """Run a command; return its exit code and what it printed."""
    code = main(list(map(str, words)))
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.fixture(scope="session")
def pretrained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "pretrained"
    assert main(["pretrain", *TINY, "--arch", "s4", "--output_dir", str(folder)]) == 0
    return folder


@pytest.fixture(scope="session")
def classifier(pretrained):
    folder = pretrained.parent / "classifier"
    assert main(["finetune", "--init_from", str(pretrained), "--max-steps=2", "--output-dir", str(folder)]) == 0
    return folder


def test_help_needs_neither_torch_nor_transformers():
    """The four commands that train show fields of TrainingArguments, whose import is transformers'."""
    code = (
        "import contextlib, io, sys\n"
        "from hf_longseq.cli.main import COMMANDS, main\n"
        "others = [name for name in COMMANDS if name not in ('pretrain', 'finetune', 'spt', 'compare')]\n"
        "for words in [], ['--help'], *([name, '--help'] for name in others):\n"
        "    with contextlib.redirect_stdout(io.StringIO()) as out:\n"
        "        try:\n            main(words)\n        except SystemExit as stop:\n            assert not stop.code\n"
        "    heavy = {'torch', 'transformers', 'datasets', 'numpy'} & set(sys.modules)\n"
        "    assert 'usage: hf-longseq' in out.getvalue() and not heavy, (words, heavy)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "hf_longseq", "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip()


def test_pretraining_says_what_came_out_and_what_comes_next(pretrained, capsys):
    code, out, _ = ask(capsys, "pretrain", *TINY, "--arch", "s4", "--output_dir", pretrained)
    assert code == 0 and "pretrained s4 on listops: validation loss" in out and f"--init_from {pretrained}" in out


def test_finetuning_takes_the_settings_of_the_checkpoint(classifier, pretrained):
    metrics = json.loads((classifier / "metrics.json").read_text())
    assert (metrics["init"], metrics["arch"], metrics["task"], metrics["steps"]) == ("spt", "s4", "listops", 2)


def test_training_from_scratch(tmp_path, capsys):
    code, out, err = ask(
        capsys, "finetune", "--recipe", "listops-tiny", "--arch", "transformer", "--tiny", "--from-scratch",
        "--learning-rate=5e-4", "--max_steps", 1, "--output_dir", tmp_path / "run",
    )  # fmt: skip
    assert code == 0, err
    assert "scratch transformer on listops: test accuracy" in out
    assert "learning_rate: 0.0005" in (tmp_path / "run" / "resolved.yaml").read_text()
    assert "parameters, 1 steps of 8 of 64 examples" in err


def test_evaluating_and_predicting(classifier, tmp_path, capsys):
    code, out, _ = ask(capsys, "evaluate", "--model", classifier)
    assert code == 0 and json.loads(out)["split"] == "test"
    expected = json.loads((classifier / "metrics.json").read_text())["test"]["accuracy"]
    assert json.loads(out)["accuracy"] == pytest.approx(expected)
    code, out, _ = ask(capsys, "predict", "--model", classifier, "--limit", 3)
    assert code == 0 and [json.loads(line)["index"] for line in out.splitlines()] == [0, 1, 2]
    code, out, _ = ask(capsys, "predict", "--model", classifier, "--output_file", tmp_path / "answers.jsonl")
    assert code == 0 and len((tmp_path / "answers.jsonl").read_text().splitlines()) == 32


@pytest.mark.slow
def test_a_fresh_command_opens_what_another_left(classifier, tmp_path):
    words = ["predict", "--model", str(classifier), "--limit", "1"]
    code = f"from hf_longseq.cli.main import main; sys.exit(main({words}))"
    done = run_fresh(code, tmp_path, HF_LONGSEQ_CACHE=os.environ["HF_LONGSEQ_CACHE"])
    assert json.loads(answer(done))["index"] == 0


@pytest.mark.slow
def test_the_comparison_from_a_resolved_recipe_ends_with_a_table_and_files(tmp_path, capsys):
    words = ["spt", *TINY, "--arch", "s4", "--inits", "scratch,spt", "--output_dir"]
    code, out, err = ask(capsys, *words, tmp_path / "out")
    assert code == 0, err
    assert all(name in out for name in ("masked", "S4", "results:", "plots:", "best:"))
    assert (tmp_path / "out" / "scores.csv").is_file()
    assert (tmp_path / "out" / "learning_curves.png").stat().st_size > 1000
    code, again, _ = ask(capsys, *words, tmp_path / "out")
    assert code == 0 and again == out
    repeat = ["spt", "--recipe", tmp_path / "out" / "resolved.yaml", "--inits", "scratch", "spt", "--seeds", "0"]
    code, again, err = ask(capsys, *repeat, "--output_dir", tmp_path / "out")
    assert code == 0, err


def test_plots_are_named_as_missing_without_matplotlib(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, err = ask(capsys, "spt", *TINY, "--arch", "dlr", "--inits", "scratch", "--output_dir", tmp_path / "out")
    assert code == 0 and "matplotlib is missing" in err and "results:" in out


def test_lists_of_tasks_and_recipes(capsys):
    code, out, _ = ask(capsys, "tasks", "list")
    assert code == 0 and len(out.splitlines()) == len(TASKS)
    code, out, _ = ask(capsys, "tasks", "show", "listops")
    assert code == 0 and "--data.max_length [2000]" in out
    code, out, _ = ask(capsys, "recipes", "list")
    listed = [line.split()[0] for line in out.splitlines() if line.startswith("  ")]
    assert code == 0 and sorted(listed) == recipes.names() and "\nlistops\n  listops/" in out
    code, out, _ = ask(capsys, "recipes", "show", "listops-tiny")
    assert code == 0 and out == recipes.find("listops-tiny").read_text()
    code, out, _ = ask(capsys, "env")
    assert code == 0 and "torch:" in out


@pytest.mark.parametrize(
    "words, message",
    [
        (["pretrain"], "--output_dir"),
        (["pretrain", "--output_dir", "x", "--lerning_rate", "1"], "unknown option --lerning_rate"),
        (["pretrain", "--output_dir", "x", "--pretrain.lerning_rate", "1"], "did you mean 'learning_rate'"),
        (["pretrain", "--output_dir", "x", *TINY, "--model.state_size", "7"], "state_size is 7"),
        (
            ["pretrain", "--output_dir", "x", *TINY, "--arch", "transformer", "--model.num_attention_heads", "16"],
            "rotary",
        ),
        (["finetune", "--output_dir", "x"], "--init_from"),
        (["pretrain", "--output_dir", "x"], "data.task is not set"),
    ],
)
def test_a_mistake_is_answered_by_one_sentence_and_exit_code_2(capsys, tmp_path, monkeypatch, words, message):
    """Those of values and files are in test_bad_inputs.py."""
    monkeypatch.chdir(tmp_path)
    code, out, err = ask(capsys, *words)
    *before, last = err.splitlines()
    assert code == 2 and last.startswith("hf-longseq: error: ") and message in last, err
    assert all(line.startswith("hf-longseq 0") for line in before), err  # what was begun, and no traceback
    assert not list(tmp_path.iterdir())  # nothing half-written


def test_another_run_in_the_folder_is_an_error_that_names_the_way_out(pretrained, capsys):
    code, _, err = ask(capsys, "pretrain", *TINY, "--arch", "dlr", "--output_dir", pretrained)
    assert code == 2 and "holds another run" in err and "--overwrite" in err


def test_interruption_has_its_own_exit_code(capsys, monkeypatch):
    import hf_longseq.cli.env as env

    def interrupt(argv):
        raise KeyboardInterrupt

    monkeypatch.setattr(env, "run", interrupt)
    code, _, err = ask(capsys, "env")
    assert code == 130 and "interrupted" in err


def test_a_full_disk_is_one_sentence(monkeypatch, capsys):
    def full(words):
        raise OSError(errno.ENOSPC, "No space left on device", "results.json")

    monkeypatch.setattr("hf_longseq.cli.tasks.run", full)
    assert main(["tasks"]) == 2 and "No space left on device: 'results.json'" in capsys.readouterr().err


def test_a_place_that_is_not_the_user_s_is_named_with_a_remedy(monkeypatch, capsys):
    def closed(words):
        raise PermissionError(errno.EACCES, "Permission denied", "home/.cache")

    monkeypatch.setattr("hf_longseq.cli.tasks.run", closed)
    assert main(["tasks"]) == 2 and "home/.cache may not be read or written" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[enforce fail at inline_container.cc:664] . unexpected pos 64 vs 0"),
        RuntimeError("basic_ios::clear: iostream error"),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_disk_that_is_full_for_torch_or_safetensors_is_a_sentence(monkeypatch, capsys, error):
    def full(words):
        raise error

    monkeypatch.setattr("hf_longseq.cli.tasks.run", full)
    assert main(["tasks"]) == 2
    assert f"could not be written or read ({error}): make room on the disk" in capsys.readouterr().err


def test_what_must_not_happen_keeps_its_traceback(monkeypatch):
    def wrong(words):
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr("hf_longseq.cli.tasks.run", wrong)
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        main(["tasks"])
