"""Damaged and hostile records of runs and comparisons, given to the commands that read them: one sentence or a page
that shows them as text, and nothing of theirs is run."""

import json
import shutil

import pytest
from markdown_it import MarkdownIt

from hf_longseq.cli.main import main
from results_folders import folder_of, row
from test_escaping import Tags

CONTROL = "\x1b[2J\u202e"
SIGNS = [
    "<script>alert(1)</script>",
    "a\n---\n# Title\n```python\nimport os\n```",
    "[x](javascript:y) | a | ![p](http://z) \\input{/etc/passwd} {{ 7 * 7 }}",
    f"{CONTROL} \\ $x$ % & _ ' \"",
]
DAMAGES = {
    "config.json": ["{", "[]", "3", '{"model_type": []}', '{"model_type": "longseq_s4", "num_hidden_layers": 1e30}'],
    "resolved.yaml": [
        "[]", "run: 3", "a: [", "run: {phase: finetune}\ndata: 7\nmodel: []",
        "!!python/object/apply:os.system ['touch CANARY']", "run: {phase: x}\ndata: {task: SIGN}\nmodel: {arch: SIGN}",
    ],
    "model.safetensors": ["", "not weights", "\x7fELF"],
}  # fmt: skip
CASES = [(name, text) for name, texts in DAMAGES.items() for text in texts]


def one_sentence(capsys, code: int) -> str:
    """The error of a refused command, with nothing in it that a terminal obeys."""
    out, err = capsys.readouterr()
    assert code == 2, out + err
    last = err.splitlines()[-1]
    assert last.startswith("hf-longseq: error: ") and "Traceback" not in err
    assert not set(CONTROL[:1] + CONTROL[-1]) & set(out + err)
    return last


@pytest.mark.parametrize("command", ["evaluate", "kernels"])
@pytest.mark.parametrize("name, text", CASES, ids=[f"{name}-{number}" for number, (name, _) in enumerate(CASES)])
def test_a_damaged_run_is_one_sentence(runs, tmp_path, capsys, command, name, text):
    run, canary = shutil.copytree(runs / "classifier", tmp_path / "run"), tmp_path / "canary"
    (run / name).write_text(text.replace("CANARY", str(canary)).replace("SIGN", json.dumps(SIGNS[3])))
    words = {"evaluate": ["--model", run], "kernels": [run, "--output_dir", tmp_path / "out", "--length", 32]}
    one_sentence(capsys, main([command, *map(str, words[command])]))
    assert not canary.exists() and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "text", ['"text"', '{"splits": 3}', '{"splits": {"test": [0]}}', '{"splits": {"test": "text"}}']
)
def test_a_damaged_record_of_data_is_one_sentence(runs, tmp_path, capsys, text):
    run = shutil.copytree(runs / "classifier", tmp_path / "run")
    (run / "data.json").write_text(text)
    assert "data.json" in one_sentence(capsys, main(["evaluate", "--model", str(run)]))


@pytest.mark.parametrize(
    "content",
    [
        *("{", "[]", "3", "{}", '{"task": "a", "metric": {}, "greater_is_better": 3}', '{"task": [], "metric": "b"}'),
        '{"task": "a", "metric": "b", "greater_is_better": true, "failed": ["all"]}',
        '{"task": "a", "metric": "b", "greater_is_better": true, "environment": "a machine"}',
    ],
)
def test_damaged_results_are_one_sentence(tmp_path, capsys, content):
    folder_of(tmp_path, [row()])
    (tmp_path / "results.json").write_text(content)
    one_sentence(capsys, main(["report", str(tmp_path), "--output_dir", str(tmp_path / "report")]))
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize(
    "change", [{"value": ["high", None, CONTROL]}, {"labels": CONTROL}, {"chosen": CONTROL}, {"pretrain_steps": "x"}]
)
def test_damaged_scores_are_one_sentence(tmp_path, capsys, change):
    folder_of(tmp_path, [row() | change])
    one_sentence(capsys, main(["report", str(tmp_path), "--output_dir", str(tmp_path / "report")]))
    assert not (tmp_path / "report").exists()


def report_saying(text: str, folder) -> dict[str, str]:
    """The pages of a report on results that say `text` wherever they may."""
    rows = [row(f"s4@{text}", arm, point=text, protocol=text) for arm in ("scratch", "spt-masked")]
    folder_of(folder / "results", rows, task=text, metric=text, unit=text, note=text)
    assert main(["report", str(folder / "results"), "--output_dir", str(folder / "report")]) == 0
    return {kind: (folder / "report" / f"report.{kind}").read_text() for kind in ("html", "md", "tex")}


def test_a_report_shows_hostile_results_as_text(tmp_path, capsys, undrawn):
    plain = report_saying("word", tmp_path / "plain")
    for number, text in enumerate(SIGNS):
        pages = report_saying(text, tmp_path / str(number))
        opened, expected = (
            {(tag[0], name) for tag in Tags(page["html"]).tags if isinstance(tag, tuple) for name, _ in tag[1]}
            for page in (pages, plain)
        )
        assert opened <= expected, text  # no tag and no attribute that a page of plain words lacks
        assert pages["html"].count("<script") == plain["html"].count("<script") and "javascript:" not in [
            value for tag in Tags(pages["html"]).tags if isinstance(tag, tuple) for name, value in tag[1]
        ]
        kinds = [
            {(token.type, token.info) for token in MarkdownIt("commonmark").enable("table").parse(page["md"])}
            for page in (pages, plain)
        ]
        assert kinds[0] <= kinds[1], text
        assert "\\input" not in pages["tex"].replace("\\textbackslash{}input", "")
        assert not {"\x1b", "\u202e"} & set("".join(pages.values()))
    assert "\x1b" not in "".join(capsys.readouterr())
