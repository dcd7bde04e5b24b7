"""The card of a model that labels every position."""

import json
import re

import pytest
from huggingface_hub import ModelCard

from fresh_process import answer, run_fresh
from hf_longseq.cli.main import main
from hf_longseq.hub.publish import build_folder
from hf_longseq.hub.records import read_run


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A finished run on own data, which are gone afterwards if a test removes them."""
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(tmp_path / "cache"))
    rows = [{"text": f"secret {chr(97 + i)} 12 end", "spans": "O*9 number*2 O*4"} for i in range(24)]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = ["finetune", "--from_scratch", "--data", str(tmp_path / "own.jsonl"), "--arch", "s4", "--tiny"]
    assert main([*words, "--output_dir", str(tmp_path / "run")]) == 0
    return tmp_path / "run"


def test_it_has_scores_a_picture_of_spans_and_code_that_runs(run, tmp_path):
    built = tmp_path / "built"
    build_folder(read_run(run), built, "org/spans", "mit")
    card = ModelCard.load(built / "README.md")
    assert card.data.pipeline_tag == "token-classification"
    assert {"token_f1", "span_f1", "mcc"} <= {result.metric_type for result in card.data.eval_results}
    assert "(spans.png)" in card.text and (built / "spans.png").stat().st_size > 1000
    published = b"".join(path.read_bytes() for path in built.iterdir() if path.suffix in (".md", ".json", ".yaml"))
    assert b"secret" not in published and not (built / "spans.html").exists()
    shown = re.findall(r"^```python\n(.*?)^```", card.text, re.DOTALL | re.MULTILINE)
    local = [code.replace('"org/spans"', repr(str(built))) for code in shown]
    answer(run_fresh("\n".join(code for code in local if "hf_longseq" not in code), tmp_path, hide_package=True))


def test_without_the_data_there_is_no_picture_of_spans(run, tmp_path):
    (tmp_path / "own.jsonl").unlink()
    build_folder(read_run(run), tmp_path / "built", "org/spans", "mit")
    assert not (tmp_path / "built" / "spans.png").exists()
