"""The card of a model that labels every position."""

import json
import re

import pytest
from huggingface_hub import ModelCard

from fresh_process import answer, run_fresh
from hf_longseq.cli.main import main
from hf_longseq.hub.publish import build_folder
from hf_longseq.hub.records import read_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run on own data, `own.jsonl` beside it."""
    folder = tmp_path_factory.mktemp("spans")
    rows = [{"text": f"secret {chr(97 + i)} 12 end", "spans": "O*9 number*2 O*4"} for i in range(24)]
    (folder / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = ["finetune", "--from_scratch", "--data", str(folder / "own.jsonl"), "--arch", "s4", "--tiny"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_LONGSEQ_CACHE", str(folder / "cache"))
        assert main([*words, "--output_dir", str(folder / "run")]) == 0
        yield folder / "run"


@pytest.fixture(scope="module")
def built(run):
    build_folder(read_run(run), run.parent / "built", "org/spans", "mit")
    return run.parent / "built"


def test_it_has_scores(built):
    card = ModelCard.load(built / "README.md")
    assert card.data.pipeline_tag == "token-classification"
    assert {"token_f1", "span_f1", "mcc"} <= {result.metric_type for result in card.data.eval_results}
    published = b"".join(path.read_bytes() for path in built.iterdir() if path.suffix in (".md", ".json", ".yaml"))
    assert b"secret" not in published and not (built / "spans.html").exists()


@pytest.mark.slow
def test_its_code_runs(built, tmp_path):
    text = (built / "README.md").read_text()
    shown = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    local = [code.replace('"org/spans"', repr(str(built))) for code in shown]
    answer(run_fresh("\n".join(code for code in local if "hf_longseq" not in code), tmp_path, hide_package=True))
