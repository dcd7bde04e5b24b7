"""`predict --output_file page.html` on data of strangers, and a `publish` that is killed in the middle."""

import json
import signal

import pytest

from fresh_process import answer, run_fresh
from hf_longseq import Recipe, finetune
from hf_longseq.cli.main import main
from test_escaping import Tags

LABEL = "\"'><script>alert(1)</script><svg/onload=x>"
TEXT = "</mark></div><script>alert(2)</script><a href='javascript:x'>&amp;"


def page_of(folder, text, label):
    folder.mkdir()
    rows = [{"text": f"{text}{index}".ljust(80, "."), "spans": f"O*{index % 9 + 1} {label}*5"} for index in range(24)]
    rows = [{**row, "spans": f"{row['spans']} O*{80 - 5 - index % 9 - 1}"} for index, row in enumerate(rows)]
    (folder / "own.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    model = {"arch": "s4", "hidden_size": 8, "num_hidden_layers": 1, "state_size": 4}
    data = {"task": "own-data", "data": str(folder / "own.jsonl"), "cache_dir": str(folder / "cache")}
    run = finetune(Recipe.load({"model": model, "data": data, "finetune": {"max_steps": 1}}), folder / "run")
    words = ["predict", "--model", str(run.output_dir), "--output_file", str(folder / "page.html"), "--split", "test"]
    assert main(words) == 0
    return (folder / "page.html").read_text(encoding="utf-8")


def test_a_page_of_predictions_shows_hostile_data_as_text(tmp_path):
    hostile, plain = page_of(tmp_path / "a", TEXT, LABEL), page_of(tmp_path / "b", "word", "kind")
    kinds = [
        {(tag[0], name) for tag in Tags(page).tags if isinstance(tag, tuple) for name, _ in tag[1]}
        for page in (hostile, plain)
    ]
    assert kinds[0] <= kinds[1] and "alert(2)" in hostile and "alert(1)" in hostile
    assert "<script" not in hostile and "<a " not in hostile and "<svg/" not in hostile


PUBLISH = """
import os, signal, sys
from hf_longseq.hub import publish
def die(*args, **options):
    os.kill(os.getpid(), signal.SIGKILL)
publish.check_folder = lambda *words: None
replace = publish.run_folder.replace_folder
if {where!r} == "replace_folder":
    publish.run_folder.replace_folder = lambda place, fill: replace(place, lambda new: (fill(new), die()))
elif {where!r}:
    setattr(publish, {where!r}, die)
publish.pictures.draw = lambda *words: []
publish.publish({run!r}, "org/name", dry_run=True, output_dir={out!r})
"""


@pytest.mark.slow
def test_a_killed_publish_leaves_the_run_as_it_was_and_the_next_one_clears_up(runs, tmp_path):
    def content():
        return {path: path.read_bytes() for path in (runs / "classifier").rglob("*") if path.is_file()}

    def publish(where):
        code = PUBLISH.format(where=where, run=str(runs / "classifier"), out=str(tmp_path / "built"))
        (tmp_path / "scratch").mkdir(exist_ok=True)
        return run_fresh(code, tmp_path, TMPDIR=str(tmp_path / "scratch"))

    before = content()
    for where in ("save_processor", "check_folder", "replace_folder"):
        assert publish(where).returncode == -signal.SIGKILL
        assert content() == before and not (tmp_path / "built").exists()
    answer(publish(""))
    assert (tmp_path / "built" / "README.md").is_file()
    assert [path.name for path in tmp_path.glob(".*")] == []
