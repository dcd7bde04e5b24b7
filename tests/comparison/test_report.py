"""The report of comparisons: what it says, what it refuses, and that the same results give the same bytes."""

import json
import re
from pathlib import Path

import pytest

from hf_longseq.cli.main import main
from hf_longseq.comparison.report_cells import Cells
from hf_longseq.comparison.report_collect import collect_to, portable
from hf_longseq.comparison.report_figures import Figure
from hf_longseq.comparison.report_read import curves_of, read_plans
from hf_longseq.comparison.report_sections import duration, flops, paper_values
from hf_longseq.comparison.report_statistics import difference, quantile
from hf_longseq.comparison.report_write import write_report
from hf_longseq.errors import HfLongSeqError

ROOT = Path(__file__).parents[2]


def row(arch="s4", init="scratch", values=(0.5, 0.52, 0.51), **more):
    return {
        "arch": arch, "init": init, "objective": init.partition("-")[2] or None, "seeds": list(range(len(values))),
        "values": list(values), "train_examples": 1000, "pretrain_steps": 0, "finetune_steps": 50,
    } | more  # fmt: skip


def plan(folder, rows, task="listops", metric="accuracy", **more):
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps({"task": task, "metric": metric, "rows": rows} | more))
    return str(folder)


@pytest.fixture
def figures(monkeypatch):
    """Drawing takes seconds, and has a test of its own."""
    drawn = [Figure("headline", "A", "B.", "<svg></svg>", b"png")]
    monkeypatch.setattr("hf_longseq.comparison.report_write.draw_all", lambda cells: drawn)
    return drawn


def test_the_noise_is_judged_by_welch():
    assert quantile(4) == pytest.approx(2.7764, abs=1e-3) and quantile(1) == pytest.approx(12.706, abs=1e-2)
    found = difference([0.95, 0.94, 0.96], [0.5, 0.6, 0.4])
    assert found.value == pytest.approx(0.45) and found.beyond_noise
    assert found.half_width == pytest.approx(0.24502, abs=1e-4) and found.p_value == pytest.approx(0.01539, abs=1e-4)
    assert not difference([0.5, 0.6], [0.55, 0.56]).beyond_noise
    assert difference([0.9], [0.1, 0.2]).p_value is None
    assert difference([0.5, 0.5], [0.4, 0.4]).beyond_noise and not difference([0.5, 0.5], [0.5, 0.5]).beyond_noise


def test_rows_of_several_plans_stand_in_one_table_with_the_papers_figure(tmp_path, figures):
    one = plan(tmp_path / "a", [row(), row(init="spt-masked", values=(0.7, 0.71, 0.69))])
    two = plan(tmp_path / "b", [row("dlr"), row("dlr", "spt", (0.5, 0.53, 0.52), objective="masked")])
    three = plan(tmp_path / "c", [row(values=(1.5, 1.4))], task="bidmc-hr", metric="rmse", unit="beats")
    write_report([one, two, three], tmp_path / "out", command="hf-longseq report a b c")
    text = (tmp_path / "out" / "report.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("| s4") or line.startswith("| dlr")]
    assert "| s4 | from scratch | 51.0 ± 1.0 | 3 | 59.6 | 1.450 ± 0.071 | 2 |" in lines[0]
    assert "| s4 | self-pretrained, masked | **70.0 ± 1.0** | 3 | – | – | – |" in lines[1]
    assert lines[3].startswith("| dlr | self-pretrained, masked | 51.7 ± 1.5 | 3 | – |")
    assert "**+19.0**" in text and "within the noise" in text and "hf-longseq report a b c" in text
    written = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [entry["best_beyond_noise"] for entry in written["rows"]] == [False, True, False, False, False]


def test_variants_of_a_start_stand_below_it_in_the_order_of_their_numbers(tmp_path, figures):
    inits = ["spt@pretrain_inputs=100", "spt@pretrain_inputs=20", "spt-causal", "spt", "scratch"]
    rows = [row(init=init, objective="causal" if "causal" in init else "masked") for init in inits]
    write_report([plan(tmp_path / "a", rows)], tmp_path / "out")
    lines = [line.split(" | ")[1] for line in (tmp_path / "out/report.md").read_text().splitlines() if "51.0" in line]
    assert lines[:5] == [
        "from scratch", "self-pretrained, masked", "self-pretrained, masked, pretrain_inputs=20",
        "self-pretrained, masked, pretrain_inputs=100", "self-pretrained, causal",
    ]  # fmt: skip


def test_a_task_of_another_size_does_not_stand_beside_the_papers_figure(tmp_path, figures):
    folder = plan(tmp_path / "a", [row()])
    write_report([folder], tmp_path / "out")
    assert "59.6" in (tmp_path / "out/report.md").read_text()
    (tmp_path / "a/resolved.yaml").write_text("data: {task: listops, max_length: 100}")
    write_report([folder], tmp_path / "out")
    text = (tmp_path / "out/report.md").read_text()
    assert "59.6" not in text and "The paper has no figure for listops." in text


def test_nothing_is_bold_within_the_noise_or_with_one_seed(tmp_path):
    close = [row(values=(0.5, 0.6)), row("dlr", values=(0.56, 0.57))]
    single = [row(values=(0.5,)), row("dlr", values=(0.9,))]
    cells = Cells(read_plans([plan(tmp_path / "a", close), plan(tmp_path / "b", single, task="text")]))
    assert [cells.best(column) for column in cells.columns()] == [None, None]


@pytest.mark.parametrize(
    "steps, said",
    [
        ({"pretrain_steps": 20, "finetune_steps": 50}, "“from scratch” the labelled steps are the same; against"),
        ({"pretrain_steps": 20, "finetune_steps": 30}, "“from scratch” all steps are the same, those of pretraining"),
        ({"pretrain_steps": 20, "finetune_steps": 40}, "“from scratch” the labelled steps differ in some rows"),
    ],
)
def test_a_gain_says_which_steps_were_the_same(tmp_path, figures, steps, said):
    write_report([plan(tmp_path / "a", [row(), row(init="spt-masked", **steps)])], tmp_path / "out")
    assert said in (tmp_path / "out" / "report.md").read_text()


def test_a_smaller_error_is_a_gain(tmp_path):
    rows = [row(values=(2.0, 2.1, 2.05)), row(init="spt-masked", values=(1.0, 1.1, 1.05))]
    cells = Cells(read_plans([plan(tmp_path / "a", rows, metric="rmse")]))
    (gain,) = cells.gains(cells.columns())
    assert gain.difference.value == pytest.approx(1.0) and gain.verdict == "better"
    assert cells.best(cells.columns()[0]) == ("s4", "spt-masked")


def test_older_results_keep_working_and_validation_chooses_between_settings(figures, tmp_path):
    report = write_report([ROOT / "results" / "demo", ROOT / "results" / "spoken-tones-50"], tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert "95.1 ± 0.8" in text and "92.8 ± 1.2" in text and "| **lr-3.0e-3** | **92.7** |" in text
    assert "| 89.7 ± 1.2 |" not in text and report.lacks is None


def test_contradictory_plans_are_named(tmp_path):
    one = plan(tmp_path / "a", [row(grid={})])
    two = plan(tmp_path / "b", [row(grid={}, values=(0.1, 0.2, 0.3))])
    with pytest.raises(HfLongSeqError, match=r"contradictory results for s4, scratch on listops.*a and .*b: mean"):
        Cells(read_plans([one, two]))
    cells = Cells(read_plans([one, f"short={two}"]))
    assert [column.name for column in cells.columns()] == ["listops", "short"]
    assert len(Cells(read_plans([one, one])).rows) == 1


@pytest.mark.parametrize(
    "change, message",
    [
        ({"metric": "bleu"}, "not known whether 'bleu'.*better when greater"),
        ({"rows": [row(values=(0.5, float("nan")))]}, "row s4 scratch: the values are"),
        ({"rows": [row() | {"arch": None}]}, "arch is missing"),
        ({"rows": [3]}, "has 3 for a row: restore"),
    ],
)
def test_results_that_cannot_be_read_are_refused(tmp_path, change, message):
    content = {"task": "listops", "metric": "accuracy", "rows": [row()]} | change
    (tmp_path / "results.json").write_text(json.dumps(content))
    with pytest.raises(HfLongSeqError, match=message):
        read_plans([str(tmp_path)])


@pytest.mark.parametrize(
    "name, text", [("results.json", '{"task'), ("plan.json", "["), ("resolved.yaml", "a: ["), ("resolved.yaml", "a")]
)
def test_a_torn_file_is_named(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(HfLongSeqError, match=f"{name} is .*restore it"):
        read_plans([str(tmp_path)])


def test_folders_without_results_are_refused(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    assert "holds no results" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "none")]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_only_reports_are_overwritten(tmp_path, figures):
    one = plan(tmp_path / "a", [row()])
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
        row("hf:modernbert", init, (mean + share / 9, mean), fraction=share, train_examples=int(1000 * share))
        for init, mean in inits.items()
        for share in (1.0, 0.1)
    ]
    one = plan(tmp_path / "a", rows, failed=[{"run": "runs/x<y", "error": "the loss is nan & no number."}])
    curve = {"steps": [10, 20], "metric": [[0.1, 0.4], [0.2, 0.5]], "pretrain_steps": 30}
    (tmp_path / "a" / "curves.json").write_text(json.dumps({"hf-modernbert-spt-masked-f1": curve}))
    report = write_report([one], tmp_path / "out")
    assert {"figures/headline.png", "figures/headline-dark.png", "figures/scarcity-listops.png"} <= set(report.files)
    assert "figures/curves-listops-1.png" in report.files
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("<svg") == 3 and "runs/x&lt;y" in page and "nan &amp; no" in page
    assert not re.search(r'(src|href)="(?!#|data:)', page) and "@import" not in page and "url(http" not in page
    assert "var(--spt-masked)" in page and "prefers-color-scheme: dark" in page
    tables = (tmp_path / "out" / "report.tex").read_text()
    for body in re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\bottomrule", tables, flags=re.S):
        lines = [line for line in re.sub(r"\\shortstack\{.*?\}", "", body[1]).splitlines() if line.endswith(r"\\")]
        assert {line.replace(r"\&", "").count("&") for line in lines} == {len(body[0]) - 1}
    assert json.loads((tmp_path / "out" / "curves.json").read_text())[one]["hf-modernbert-spt-masked-f1"] == curve


def test_names_of_results_are_only_shown(tmp_path):
    name = '$\\foo$ \\1 \\g<0>\n---\n```python\nx\n``` | <script>alert(1)</script> "\u202e \\end{tabular}'
    rows = [row(name, "scratch"), row(name, f"spt-{name}", (0.9, 0.91, 0.92), grid={name: name})]
    failed = [{"run": name, "error": name}]
    folder = plan(tmp_path / "a", rows, name, name, greater_is_better=True, command=name, environment={name: name},
                  failed=failed, unfinished=[name])  # fmt: skip
    write_report([folder], tmp_path / "out", command=name)
    page, text, tables = ((tmp_path / "out" / f"report.{kind}").read_text() for kind in ("html", "md", "tex"))
    assert "<script" not in page + text and "\u202e" not in page + text + tables and "&lt;script>" in text
    assert not any(line.startswith(("---", "```")) for line in text.splitlines())
    assert tables.count(r"\end{tabular}") == tables.count(r"\begin{tabular}") and "$\\foo" not in tables
    lines = [line for line in tables.splitlines() if line.strip() and line.lstrip()[0] not in "%\\"]
    assert all(line.endswith(r" \\") or "tabular" in line for line in lines)


@pytest.mark.parametrize("name", ["learning_curves.png", "other.png"])
def test_pictures_that_are_links_out_of_a_plan_are_not_copied(tmp_path, name):
    folder = plan(tmp_path / "a", [row()])
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "a" / name).symlink_to(tmp_path / "secret")
    with pytest.raises(HfLongSeqError, match=f"{name} is a link that leaves its folder"):
        collect_to(folder, tmp_path / "copy")
    if name == "learning_curves.png":
        with pytest.raises(HfLongSeqError, match=f"{name} is a link that leaves its folder"):
            write_report([folder], tmp_path / "out")


def test_a_list_of_earlier_files_names_no_other_file(tmp_path, figures):
    folder, out = plan(tmp_path / "a", [row()]), tmp_path / "out"
    write_report([folder], out)
    content = json.loads((out / "report.json").read_text())
    (out / "thesis.md").write_text("precious")
    (out / "report.json").write_text(json.dumps({**content, "files": [*content["files"], "thesis.md", "report.old"]}))
    (out / "report.old").write_text("")
    write_report([folder], out)
    assert (out / "thesis.md").read_text() == "precious" and not (out / "report.old").exists()


def test_the_small_files_of_a_plan_say_the_same_and_name_no_path_of_the_machine(tmp_path, figures):
    out = tmp_path / "plan"
    one = plan(
        out,
        [row(runs=[f"runs/s4-scratch-s{seed}" for seed in range(3)])],
        failed=[{"run": "runs/x", "error": f"no {out}/runs/x/model and no /home/me/data.csv, see https://a.org/b/c."}],
    )
    for seed in range(3):
        run = out / "runs" / f"s4-scratch-s{seed}"
        run.mkdir(parents=True)
        (run / "history.json").write_text(json.dumps([{"step": 5, "loss": 1}, {"step": 5, "eval_accuracy": 0.25}]))
        (run / "model.safetensors").write_bytes(b"weights")
    (out / "results.png").write_bytes(b"png")
    files = collect_to(one, tmp_path / "kept", name="short listops")
    assert files == ["results.json", "curves.json", "results.png"]
    kept = json.loads((tmp_path / "kept" / "results.json").read_text())
    assert kept["failed"][0]["error"] == "no runs/x/model and no data.csv, see https://a.org/b/c."
    assert kept["name"] == "short listops"
    curves = json.loads((tmp_path / "kept" / "curves.json").read_text())
    assert curves == curves_of(out, json.loads((out / "results.json").read_text()))
    assert curves["s4-scratch"] == {"steps": [5], "metric": [[0.25]] * 3, "pretrain_steps": 0}
    collect_to(one, tmp_path / "kept")  # again
    with pytest.raises(HfLongSeqError, match="holds results of 'listops'"):
        collect_to(plan(tmp_path / "other", [row()], task="text"), tmp_path / "kept")
    with pytest.raises(HfLongSeqError, match="the plan itself"):
        collect_to(one, out)
    assert portable({"a": ["/home/me/x.csv", "a/b/c", 3]}, out) == {"a": ["x.csv", "a/b/c", 3]}


def test_an_unfinished_plan_is_collected(tmp_path):
    one = {"phase": "finetune", "arch": "s4", "init": "scratch", "seed": 0, "fraction": None, "grid": {}}
    one |= {"name": "s4-scratch-s0", "pretrained": None, "objective": None}
    (tmp_path / "plan.json").write_text(json.dumps({"task": "listops", "metric": "accuracy", "runs": [one]}))
    (found,) = read_plans([str(tmp_path)])
    assert found.unfinished == ("runs/s4-scratch-s0",) and found.rows == ()
    write_report([tmp_path], tmp_path / "out")
    assert "No run has finished yet." in (tmp_path / "out" / "report.md").read_text()


def test_while_a_comparison_grows_its_report_tells_the_command_of_the_rows(tmp_path):
    tried = [
        {"arch": "s4", "init": "scratch", "fraction": None, "grid": {"lr": lr}, "seeds": [0]} for lr in (0.1, 0.2)
    ]
    failed = [{"run": "runs/x", "arch": "s4", "init": "scratch", "seed": 1, "error": "the loss is nan"}]
    folder = tmp_path / "a"
    plan(folder, [row(values=(0.5,))], candidates=tried, failed=failed)

    def command(**axes):
        (folder / "resolved.yaml").write_text(json.dumps({"run": {"phase": "compare", "seeds": [0, 1]} | axes}))
        return read_plans([str(folder)])[0].command

    small = command(archs=["s4"], inits=["scratch"], grid={"lr": [0.1, 0.2]}, train_fractions=[])
    assert small == "hf-longseq compare --recipe resolved.yaml --seeds 0 1 --inits scratch --grid lr=0.1,0.2"
    more = {"archs": ["s4", "dlr"], "inits": ["scratch", "spt"], "seeds": [0, 1, 2], "train_fractions": [1.0, 0.5]}
    large = command(**more, grid={"lr": [0.1, 0.2, 0.3], "batch": [8, 4]})
    assert large == small.replace("--seeds", "--archs s4 --seeds")
    # one that has ended
    plan(tmp_path / "b", [row()], candidates=[{**tried[0], "fraction": 0.5, "grid": {}}])
    (tmp_path / "b/resolved.yaml").write_text("run: {phase: spt, seeds: [0], train_fractions: [0.5], grid: {}}")
    assert read_plans([str(tmp_path / "b")])[0].command.endswith("--seeds 0 --train_fractions 0.5")


def test_a_plan_killed_before_its_choice_shows_what_was_tried(tmp_path, figures):
    tried = [
        {"arch": "s4", "init": "scratch", "fraction": fraction, "grid": {"lr": lr}, "seeds": [0],
         "validation_values": [lr], "selected": lr == 0.2}
        for fraction in (1.0, 0.1) for lr in (0.1, 0.2)
    ]  # fmt: skip
    killed = plan(tmp_path / "a", [], candidates=tried, unfinished=["runs/x"])
    other = plan(tmp_path / "b", [row(values=(1.5, 1.4))], task="bidmc-hr", metric="rmse")
    for folders in ([killed], [other, killed]):
        write_report(folders, tmp_path / "out")
        text = (tmp_path / "out" / "report.md").read_text()
        assert "listops, 100 % of the labels" in text and "listops, 10 % of the labels" in text
        assert "| 20.0 | 20.0 |" in text and "0.200" not in text


def test_the_papers_figures_are_those_that_were_confirmed():
    values = paper_values()
    assert (
        values["transformer", "scratch", "listops"] == "36.37"
        and values["transformer", "scratch", "pathx"] == "chance"
    )
    assert ("s4", "spt-masked", "listops") not in values


def test_numbers_in_words():
    assert flops(1.3e15) == "1.3 P" and flops(None) == "–"
    assert [duration(value) for value in (25.66, 600, 9000, None)] == ["25.7 s", "10.0 min", "2.5 h", "–"]


def test_the_command_says_what_belongs_together(tmp_path, capsys):
    one, two = plan(tmp_path / "a", [row()]), plan(tmp_path / "b", [row("dlr")])
    assert main(["report", one, two]) == 2 and "add --output_dir" in capsys.readouterr().err
    assert main(["report", one, "--name", "x"]) == 2 and "NAME=FOLDER" in capsys.readouterr().err
    assert main(["report", one, two, "--collect_to", str(tmp_path / "c")]) == 2
    assert main(["report", one, "--collect_to", str(tmp_path / "c")]) == 0
    assert (tmp_path / "c" / "results.json").is_file()
