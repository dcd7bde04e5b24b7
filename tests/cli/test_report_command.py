"""`report`: which folder a word names."""

import pytest

from hf_longseq.cli.main import main
from results_folders import folder_of, row


@pytest.mark.parametrize("word, name", [("runs/lr=1e-3", "listops"), ("short=runs/lr=1e-3", "short")])
def test_a_folder_may_have_an_equals_sign_in_its_name(tmp_path, monkeypatch, undrawn, word, name):
    monkeypatch.chdir(tmp_path)
    folder_of(tmp_path / "runs" / "lr=1e-3", [row()])
    assert main(["report", word]) == 0
    assert f"# {name}\n" in (tmp_path / "runs" / "lr=1e-3" / "report" / "report.md").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
