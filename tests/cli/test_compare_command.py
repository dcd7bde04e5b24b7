import pandas as pd
import pytest

from hf_longseq.cli.main import main

PLAN = ["--recipe", "listops-tiny", "--tiny", "--max_steps", "1", "--arch", "s4"]


def ask(capsys, *words):
    """Run `compare`; return its exit code and what it printed."""
    code = main(["compare", *map(str, words)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_a_comparison_ends_with_a_table_and_files_and_is_not_repeated(tmp_path, capsys, undrawn):
    words = [*PLAN, "--inits", "scratch,spt-causal", "--train-fractions=1,0.5", "--output_dir", tmp_path / "out"]
    code, out, err = ask(capsys, *words)
    assert code == 0, err
    assert "causal" in out and "32 labels" in out and "64 labels" in out and "results:" in out and "plots:" in out
    assert (
        "report.html" in out and "self-pretrained, causal" in (tmp_path / "out" / "report" / "report.md").read_text()
    )
    scores = pd.read_csv(tmp_path / "out" / "scores.csv")
    assert {*zip(scores["arm"], scores["fraction"], strict=True)} == {
        (arm, fraction) for arm in ("scratch", "spt-causal") for fraction in (1.0, 0.5)
    }
    code, again, err = ask(capsys, *words)
    assert code == 0 and again == out and "validation loss" not in err


@pytest.mark.parametrize(
    "words, message",
    [
        ([*PLAN, "--grid", "lrr=1"], "did you mean 'lr'"),
        ([*PLAN, "--grid", "lr"], "write KEY=VALUE"),
        ([*PLAN, "--train_fractions", "half"], "train_fractions is 'half'"),
        ([*PLAN, "--train_fractions", ","], "train_fractions is empty"),
        ([*PLAN, "--seeds=-1"], "seed is -1: give a whole number from 0"),
        ([*PLAN, "--inits", "spt", "--compute_tied"], "unknown option --compute_tied"),
        ([*PLAN, "--inits", "scratch", "spt", "--tune", "--tune_seeds", "0"], "seed 0 would both choose"),
        ([*PLAN, "--inits", "spt-causal@direction=left"], "direction is one, both, or left out"),
        (["--arch", "s4"], "data.task is not set"),
    ],
)
def test_a_mistake_is_answered_before_anything_is_written(capsys, tmp_path, words, message):
    code, _, err = ask(capsys, *words, "--output_dir", tmp_path / "out")
    assert code == 2 and message in err.splitlines()[-1], err
    assert not list(tmp_path.iterdir())


def test_the_folder_of_another_task_is_refused(capsys, tmp_path, undrawn):
    for task, expected in (("listops", 0), ("spoken-tones", 2)):
        words = ["--task", task, "--arch", "s4", "--inits", "scratch", "--tiny", "--max_steps", "1"]
        code, _, err = ask(capsys, *words, "--output_dir", tmp_path / "out")
        assert code == expected, err
    assert "holds another run (data.task is listops there, spoken-tones here)" in err
