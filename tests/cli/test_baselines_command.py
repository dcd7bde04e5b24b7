# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`hf-longseq baselines` prints a row per baseline."""

import pytest

from hf_longseq.cli.main import main


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "films.csv"
    path.write_text("text,label\n" + "".join(f"a good film {i},1\na bad film {i},0\n" for i in range(60)))
    return path


def test_a_file_gets_a_row_per_baseline(table, capsys):
    assert main(["baselines", "--data", str(table), "--labels", "40"]) == 0
    printed = capsys.readouterr()
    rows = {line[:36].strip(): line[36:].split() for line in printed.out.splitlines()[1:]}
    assert float(rows["counts of words"][0]) == 100.0 > float(rows["majority"][0])
    assert "40 labelled rows" in printed.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give --task NAME or --data FILE"),
        (["--task", "listops", "--data", "x.csv"], "give --task NAME or --data FILE"),
        (["--task", "listop"], "did you mean 'listops'"),
        (["--task", "spoken-tones", "--labels", "100000"], "--labels is 100000"),
        (["--data", "nowhere.csv"], "nowhere.csv"),
    ],
)
def test_bad_words_are_one_sentence(words, said, capsys):
    assert main(["baselines", *words]) == 2
    assert said in capsys.readouterr().err
