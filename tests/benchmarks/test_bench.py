"""`benchmarks/bench.py`: the table, the file, and mistakes."""

import csv

import pytest

import bench
from bench import main


def test_table_and_csv_hold_the_same_rows(tmp_path, capsys):
    out = tmp_path / "new" / "ops.csv"
    words = ["ops", "--arch", "attention_sdpa", "--length", "32,16", "--repeats", "1", "--out", str(out)]
    assert main(words) == 0
    shown = capsys.readouterr().out.splitlines()
    with open(out, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["length"] for row in rows] == ["16", "32"] == [line.split()[0] for line in shown[1:3]]
    for fact in (
        "benchmark",
        "op",
        "seconds",
        "peak_mib",
        "cpu",
        "threads",
        "torch",
        "transformers",
        "commit",
        "date",
    ):
        assert fact in rows[0]


def test_a_row_that_was_not_run_says_why():
    row = {"op": "s4", "length": 4096, "batch": 1, "seconds": 0.5, "seconds_min": 0.4}
    row |= {"cpu_seconds": 0.9, "peak_mib": None, "skipped": ""}
    slow = {**row, "op": "mamba2", "seconds": None, "seconds_min": None, "skipped": "needs about 99 GiB"}
    lines = bench.table([row, slow]).splitlines()
    assert "500.0" in lines[1] and "900.0" in lines[1] and "not run: needs about 99 GiB" in lines[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "say what to measure"),
        (["oops"], "did you mean 'ops'"),
        (["ops", "--arch", "rwkv"], "no contestant 'rwkv'"),
        (["ops", "--length", "long"], "length"),
        (["ops", "--lenght", "5"], "did you mean '--length'"),
    ],
)
def test_a_mistake_is_one_sentence(words, message, capsys):
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_results_are_not_overwritten(tmp_path, capsys):
    out = tmp_path / "ops.csv"
    out.write_text("mine")
    assert main(["ops", "--length", "16", "--out", str(out)]) == 2
    assert "exists" in capsys.readouterr().err and out.read_text() == "mine"
