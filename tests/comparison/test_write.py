"""The report as files: what stands in them, what they replace, and that nothing in a record is more than text."""

import json
import re

import pytest

from hf_longseq.cli.main import main
from hf_longseq.comparison import write
from hf_longseq.comparison.figures import Figure
from hf_longseq.comparison.scores import read_results
from hf_longseq.comparison.write import copy_results, portable, write_report
from hf_longseq.errors import HfLongSeqError
from results_folders import fair, folder_of, row

HIGH, LOW = [0.8, 0.81, 0.82, 0.8, 0.79], [0.6, 0.62, 0.61, 0.6, 0.63]


@pytest.fixture
def figures(monkeypatch):
    """Drawing takes seconds, and has a test of its own."""
    drawn = {"": [Figure("headline", "B.", "<svg></svg>", b"png")]}
    monkeypatch.setattr(write, "report_figures", lambda *parts: drawn)
    return drawn


def test_a_task_is_a_section_with_its_table_and_the_correction_stands_beside_the_p(tmp_path, figures):
    one = folder_of(tmp_path / "a", fair(HIGH, LOW))
    two = folder_of(tmp_path / "b", [row(values=(1.5, 1.4))], task="bidmc-hr", metric="rmse", unit="beats")
    write_report([one, two], tmp_path / "out", command="hf-longseq report a b")
    text = (tmp_path / "out" / "report.md").read_text()
    assert text.startswith("# What self-pretraining gains\n") and "## listops\n" in text and "## bidmc-hr\n" in text
    assert "| S4<br>1,000 labels | 31.2 ± 1.3<br>" in text and "| **80.4 ± 1.1**<br>79.0 to 81.8 | +19.2<br>" in text
    assert "| p | p, corrected |" in text and "explored (1: 1 with p < 0.05, 1 after" in text
    assert "1.450 ± 0.071" in text and "test rmse, beats (smaller is better)" in text and "report a b" in text
    tables = (tmp_path / "out" / "report.tex").read_text()
    for columns, body in re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\bottomrule", tables, flags=re.S):
        lines = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert {line.count("&") for line in lines} == {len(columns) - 1}
    written = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [gain["verdict"] for gain in written["gains"]] == ["open", "shown"]
    assert written["arms"][2]["values"] == HIGH and written["command"] == "hf-longseq report a b"


def test_an_unfinished_comparison_has_a_report(tmp_path, figures):
    folder = folder_of(tmp_path, [], unfinished=["runs/x"], failed=[{"run": "runs/y", "error": "the loss is nan"}])
    write_report([folder], tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert "No run has finished yet." in text and "| listops | runs/x | not finished |" in text
    assert "| listops | runs/y | the loss is nan |" in text


def test_the_report_of_a_comparison_has_its_pictures_beside_the_results(tmp_path, figures, monkeypatch):
    folder_of(tmp_path, fair(HIGH, LOW))
    first = write.report_comparison(tmp_path, "hf-longseq report x")
    assert (tmp_path / "results.png").read_bytes() == b"png"
    assert write.report_comparison(tmp_path, "hf-longseq report x") == first
    monkeypatch.setattr(write, "report_figures", lambda *parts: {})
    assert "figures/headline.png" not in write.report_comparison(tmp_path, "hf-longseq report x").files


def test_only_reports_are_overwritten(tmp_path, figures):
    one = folder_of(tmp_path / "a", [row()])
    out = tmp_path / "out"
    out.mkdir()
    (out / "report.md").write_text("mine")
    with pytest.raises(HfLongSeqError, match="report.md was not written by a report"):
        write_report([one], out)
    assert [path.name for path in out.iterdir()] == ["report.md"]
    (out / "report.md").unlink()
    (out / "notes.txt").write_text("mine")
    write_report([one], out)
    first = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    write_report([one], out)
    assert first == {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    figures.clear()
    write_report([one], out)
    assert not (out / "figures" / "headline.png").exists() and (out / "notes.txt").read_text() == "mine"


def test_the_figures_are_drawn_and_the_page_stands_alone(tmp_path):
    pytest.importorskip("matplotlib")
    inits = {"scratch": 0.4, "spt-masked": 0.6, "spt-spans": 0.7}
    rows = [
        row("hf:modernbert", init, (mean + share / 9, mean), fraction=share, labels=int(1000 * share))
        for init, mean in inits.items()
        for share in (1.0, 0.1)
    ]
    one = folder_of(tmp_path / "a", rows, failed=[{"run": "runs/x<y", "error": "the loss is nan & no number."}])
    curve = [f"runs/spt-masked-s{seed},{step},0.{step}" for seed in (0, 1) for step in (10, 20)]
    (tmp_path / "a" / "curves.csv").write_text("\n".join(["run,step,value", *curve]))
    report = write_report([one], tmp_path / "out")
    drawn = [name for name in report.files if name.startswith("figures/")]
    assert drawn == ["figures/headline.png", "figures/labels-listops.png", "figures/curves-listops.png"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("<svg") == 3 and "runs/x&lt;y" in page and "nan &amp; no" in page
    assert not re.search(r'(src|href)="(?!#|data:)', page) and "@import" not in page and "url(http" not in page
    assert "<b>70.6 ± 0.8</b><br><small>" in page


def test_names_of_results_are_only_shown(tmp_path):
    name = '$\\foo$ \\1 \\g<0>\n---\n```python\nx\n``` | <script>alert(1)</script> "\u202e \\end{tabular}'
    rows = [row(name, "scratch"), row(name, f"spt-{name}", (0.9, 0.91, 0.92), point=name)]
    failed = [{"run": name, "error": name}]
    folder = folder_of(tmp_path / "a", rows, name, name, command=name, failed=failed,
                       environment={"cpu": name}, unfinished=[name])  # fmt: skip
    write_report([folder], tmp_path / "out", command=name)
    page, text, tables = ((tmp_path / "out" / f"report.{kind}").read_text() for kind in ("html", "md", "tex"))
    assert "<script" not in page + text and "\u202e" not in page + text + tables and "&lt;script>" in text
    assert not any(line.startswith(("---", "```")) for line in text.splitlines())
    assert tables.count(r"\end{tabular}") == tables.count(r"\begin{tabular}") and "$\\foo" not in tables


def test_the_small_files_of_a_comparison_say_the_same_and_name_no_path_of_the_machine(tmp_path):
    out = tmp_path / "plan"
    error = f"no {out}/runs/x/model and no /home/me/data.csv, see https://a.org/b/c."
    one = folder_of(out, [row()], failed=[{"run": "runs/x", "error": error}])
    (out / "curves.csv").write_text("run,step,value\nruns/scratch-s0,5,0.25\n")
    (out / "runs" / "scratch-s0").mkdir(parents=True)
    (out / "runs" / "scratch-s0" / "model.safetensors").write_bytes(b"weights")
    (out / "results.png").write_bytes(b"png")
    files = copy_results(one, tmp_path / "kept", name="short listops")
    assert files == ["results.json", "scores.csv", "curves.csv", "results.png"]
    assert {path.name for path in (tmp_path / "kept").iterdir()} == set(files)
    kept = json.loads((tmp_path / "kept" / "results.json").read_text())
    assert kept["failed"][0]["error"] == "no runs/x/model and no data.csv, see https://a.org/b/c."
    before, after = (read_results([str(folder)]) for folder in (out, tmp_path / "kept"))
    assert set(after.scores["data"]) == {"short listops"} and list(after.curves["value"]) == [0.25]
    assert list(before.scores["value"]) == list(after.scores["value"])
    copy_results(one, tmp_path / "kept")  # again
    with pytest.raises(HfLongSeqError, match="no earlier copy of results of 'text'"):
        copy_results(folder_of(tmp_path / "other", [row()], task="text"), tmp_path / "kept")
    (out / "plan.json").write_text("{}")
    with pytest.raises(HfLongSeqError, match="no earlier copy"):
        copy_results(one, out)
    assert portable('{"a": ["/home/me/x.csv", "a/b/c", 3]}', out) == '{"a": ["x.csv", "a/b/c", 3]}'


def test_pictures_that_are_links_out_of_a_folder_are_not_copied(tmp_path):
    folder = folder_of(tmp_path / "a", [row()])
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "a" / "other.png").symlink_to(tmp_path / "secret")
    with pytest.raises(HfLongSeqError, match="other.png is a link that leaves its folder"):
        copy_results(folder, tmp_path / "copy")


def test_the_command_says_what_belongs_together(tmp_path, capsys):
    one, two = folder_of(tmp_path / "a", [row()]), folder_of(tmp_path / "b", [row("dlr")])
    assert main(["report", one, two]) == 2 and "add --output_dir" in capsys.readouterr().err
    assert main(["report", one, "--name", "x"]) == 2 and "NAME=FOLDER" in capsys.readouterr().err
    assert main(["report", one, two, "--collect_to", str(tmp_path / "c")]) == 2
    assert main(["report", one, "--collect_to", str(tmp_path / "c")]) == 0
    assert (tmp_path / "c" / "results.json").is_file()
