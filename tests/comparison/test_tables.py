"""The tables of a report: at most eight columns, every row with its gain, convergence and verdict."""

import pytest

from hf_longseq.comparison.scores import read_results
from hf_longseq.comparison.statistics import arm_means, gains
from hf_longseq.comparison.tables import (
    arms_table,
    candidates_table,
    compact,
    comparison_rows,
    gains_table,
    p_text,
    results_text,
    task_table,
    window_table,
)
from results_folders import fair, folder_of, row

HIGH, LOW = [0.8, 0.81, 0.82, 0.8, 0.79], [0.6, 0.62, 0.61, 0.6, 0.63]


def tables_of(folder, rows, **more):
    means = arm_means(read_results([folder_of(folder, rows, **more)]).scores)
    found, name = gains(means), means["data"].iloc[0]
    return (
        task_table(name, comparison_rows(means, found)),
        gains_table(name, found),
        arms_table(name, means),
    )


def test_a_row_per_architecture_and_number_of_labels(tmp_path):
    rows = [*fair(HIGH, LOW), *fair(LOW, HIGH, labels=100), row("dlr")]
    table, _, _ = tables_of(tmp_path, [*rows, row(arm="spt-causal", values=LOW)])
    assert list(table.cells) == [
        "model",
        "scratch",
        "equal budget",
        "masked",
        "causal",
        "gain",
        "converged",
        "verdict",
    ]
    assert [cell.split("\n") for cell in table.cells["model"]] == [
        ["S4", "100 labels"], ["S4", "1,000 labels"], ["DLR", "1,000 labels"]
    ]  # fmt: skip
    first, second = (table.cells.iloc[place] for place in (0, 1))
    assert first["gain"].startswith("−19.2\n−") and second["gain"].startswith("+19.2\n+")
    assert second["masked"] == "80.4 ± 1.1\n79.0 to 81.8" and first["causal"] == "–"
    assert table.colours == ["loss", "gain", ""] and table.bold == ["masked", "masked", ""]
    assert list(table.cells["verdict"]) == ["no gain", "shown", "–"]


def test_a_gain_that_the_correction_leaves_open_has_no_colour(tmp_path):
    ahead = [0.65, 0.63, 0.63, 0.62, 0.65]
    many = [one for labels in (10, 20, 30, 40) for one in fair(LOW[::-1], LOW, labels=labels)]
    alone, with_others = (
        tables_of(tmp_path / name, [*fair(ahead, LOW, labels=100), *more])[0]
        for name, more in (("alone", []), ("with-others", many))
    )
    assert alone.colours[-1] == "gain" and with_others.colours[-1] == ""
    assert "corrected" in with_others.cells["verdict"].iloc[-1]


def test_the_arm_of_the_gain_is_chosen_by_validation(tmp_path):
    rows = [row(), row(arm="spt-masked", values=LOW), row(arm="spt-causal", values=HIGH)]
    assert tables_of(tmp_path, rows)[0].bold == ["causal"]


def test_where_arms_have_different_partners_those_of_the_gain_stand_in_the_line(tmp_path):
    partners = {"scratch": "scratch@pooling=last", "scratch_tied": "scratch-tied@pooling=last"}
    rows = [*fair([0.7] * 5, [0.5] * 5), row(arm="scratch@pooling=last", values=[0.3] * 5)]
    rows += [row(arm="scratch-tied@pooling=last", values=[0.6] * 5)]
    rows += [row(arm="spt-causal", values=[0.9] * 5, **partners)]
    (line,) = tables_of(tmp_path, rows)[0].cells.to_dict("records")
    assert [line[name].split()[0] for name in ("scratch", "equal budget", "causal", "gain")] == [
        "30.0", "60.0", "90.0", "+30.0"
    ]  # fmt: skip


def test_protocols_and_variants_never_share_a_line(tmp_path):
    scarce = [row(arm="spt-masked", protocol=name, inputs=read) for name, read in
              (("labels scarce", 9000), ("data scarce", 1000))]  # fmt: skip
    table, _, _ = tables_of(tmp_path, [row(), *scarce, row(arm="spt-masked@span_length=8")])
    assert [cell.split("\n")[1] for cell in table.cells["model"]] == [
        "1,000 labels, 9,000 inputs, labels scarce", "1,000 labels, 1,000 inputs, data scarce",
        "1,000 labels, span length 8",
    ]  # fmt: skip
    assert set(table.cells["scratch"]) == {"51.0 ± 1.0\n48.5 to 53.5"}


def test_every_table_has_at_most_eight_columns_and_old_results_say_what_they_do_not_record(tmp_path):
    tables = tables_of(tmp_path, [row(), row(arm="spt-masked"), row(arm="scratch-tied"), row(arm="spt-causal")])
    assert [len(table.cells.columns) for table in tables] == [8, 8, 8]
    assert set(tables[0].cells["converged"]) == {"not recorded"}
    assert tables[2].cells["FLOPs"].iloc[0] == "not recorded\nnot recorded parameters"


def test_where_seeds_differ_in_cost_the_median_stands_for_the_arm(tmp_path):
    cost = {"finetune_steps": [13, 14, 14], "finetune_epochs": [5.2, 5.0, 5.0], "evaluations": [7, 5, 5]}
    pretrained = row(arm="spt-masked", inputs=[80, 78, 78], pretrain_steps=[9, 8, 8], **cost)
    _, _, table = tables_of(tmp_path, [row(**cost), pretrained])
    assert [cell.split("\n")[0] for cell in table.cells["steps"]] == ["14", "8 + 14"]
    assert [cell.split("\n")[0] for cell in table.cells["inputs read"]] == ["not recorded", "78"]
    assert set(table.cells["seeds"]) == {"3\n5 evaluations"} and "13" not in results_text(tmp_path)


def test_the_screen_shows_the_table_of_the_report(tmp_path):
    rows = [*fair(HIGH, LOW), row(arm="spt-masked", protocol="labels scarce", inputs=10_200, values=LOW)]
    head, columns, *lines = filter(None, results_text(folder_of(tmp_path, rows)).splitlines())
    assert head.startswith("listops: test accuracy, %; mean ± deviation over seeds 0 1 2 3 4")
    assert columns.split()[:4] == ["model", "scratch", "equal", "budget"] and len({*map(len, lines[:1])}) == 1
    assert "80.4 ± 1.1" in lines[0] and "79.0 to 81.8" in lines[1]
    place = columns.index("scratch")
    assert lines[0][place - 2 : place] == lines[1][place - 2 : place] == "  "
    assert any("10,200 inputs, labels scarce" in line for line in lines)
    errors = folder_of(tmp_path / "rmse", [row(values=[0.25])], task="heights", metric="rmse")
    text = results_text(errors)
    assert "0.250" in text and "%" not in text.splitlines()[0].split(";")[0] and "±" not in text.splitlines()[-1]


def test_settings_that_were_tried_stand_with_their_choice(tmp_path):
    tried = [
        row(arm=arm, values=(lr,), seed=[1000], point=f"lr={lr}", tuning=True, chosen=lr == 0.1)
        for arm, lr in (("scratch", 0.1), ("scratch", 0.2), ("spt-masked", 0.1))
    ]
    scores = read_results([folder_of(tmp_path, [row(point="lr=0.1"), row(arm="spt-masked", point="lr=0.1"), *tried])])
    table = candidates_table(scores.scores)
    assert list(table.cells["setting"]) == ["lr 0.1", "lr 0.2"] and table.bold == ["setting", ""]
    assert list(table.cells["validation"]) == ["10.0\n10.0", "20.0\n20.0"]


@pytest.mark.parametrize(
    "value, text", [(1.3e15, "1.3 P"), (12500, "12.5 k"), (400, "400"), (None, "not recorded"), (0.25, "0.25")]
)
def test_large_numbers_are_shortened(value, text):
    assert compact(value) == text


def test_p_values_have_three_digits():
    assert [p_text(p) for p in (0.0004, 0.04, float("nan"))] == ["< 0.001", "0.040", "–"]


def test_what_length_is_worth_stands_in_a_table_of_its_own(tmp_path):
    rows = [row(f"s4@window={w}", values=values) for w, values in ((256, HIGH), (16, LOW))]
    means = arm_means(read_results([folder_of(tmp_path, [*rows, row(values=HIGH), row("dlr", values=LOW)])]).scores)
    table = window_table(means["data"].iloc[0], means)
    assert list(table.cells) == ["model", "arm", "16", "256", "full"]
    assert [cell.split("\n")[0] for cell in table.cells.iloc[0]] == [
        "S4", "from scratch", "61.2 ± 1.3", "80.4 ± 1.1", "80.4 ± 1.1"
    ]  # fmt: skip
    assert len(table.cells) == 1 and "by the positions that a mixer sees" in results_text(tmp_path)
    assert window_table("listops", means[means["architecture"] == "s4"]) is None
