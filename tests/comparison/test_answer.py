"""What `spt` says at its end: whether pretraining pays here, with numbers checked by hand."""

import json
import shlex

import pytest
from scipy import stats

from hf_longseq.cli.compare import show_answers
from hf_longseq.comparison import execute
from hf_longseq.comparison.answer import LOOKS, answers
from hf_longseq.comparison.scores import read_results
from hf_longseq.comparison.tables import results_text
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.run_folder import write_yaml
from results_folders import folder_of, row

THEIRS = [0.70, 0.72, 0.73]


def arms(ours, theirs, architecture="s4", seeds=None, tied="scratch-tied", **more):
    """A self-pretrained arm and its partner of equal budget; every run takes a minute."""
    seeds = list(range(len(ours))) if seeds is None else seeds
    same = {"seed": seeds, "subset_seed": 0, "converged": True, "seconds": 60.0, "examples": 1000} | more
    runs = [[f"runs/{architecture}-{arm}-s{seed}" for seed in seeds] for arm in ("spt", "tied")]
    return [
        row(architecture, tied, theirs, **same, run=runs[1]),
        row(architecture, "spt-masked", ours, **same, run=runs[0], scratch_tied=tied),
    ]  # fmt: skip


def linear(name, value):
    seed = {"seed": [0], "subset_seed": 0, "examples": 1000, "finetune_steps": 0, "run": None}
    return row(f"linear:{name}", "scratch", (value,), **seed, converged=True)


def said(folder, rows, looks=1, tiny=False, **more):
    return answers(read_results([folder_of(folder, rows, **more)]).scores, looks, tiny)


def sentence(folder, *parts, **more):
    return said(folder, arms(*parts, **more))[0].sentence


def test_a_gain_whose_interval_lies_above_zero_pays(tmp_path):
    answer = said(tmp_path, arms([0.80, 0.81, 0.83], THEIRS))[0]
    assert answer.verdict == "pays"
    assert answer.sentence == "Pretraining pays here: +9.7 points over equal epochs (8.2 to 11.1, 3 seeds)."
    low, high = stats.ttest_1samp([0.10, 0.09, 0.10], 0).confidence_interval(0.95)
    assert (answer.low, answer.high) == pytest.approx((low, high))
    assert answer.model == "runs/s4-spt-s2"  # the best on validation


@pytest.mark.parametrize("ours, verdict, begins", [
    ([0.703, 0.719, 0.733], "no gain", "No gain above 2 points: +0.2 points over equal epochs (−0.4 to 0.7, "),
    ([0.71, 0.70, 0.76], "undecided", "Undecided: +0.7 points over equal epochs (−5.6 to 6.9, 3 seeds)."),
    ([0.65, 0.66, 0.68], "loss", "Pretraining does harm here: −5.3 points over equal epochs (−6.8 to −3.9, 3 seeds)."),
])  # fmt: skip
def test_without_a_gain_the_margin_decides(tmp_path, ours, verdict, begins):
    answer = said(tmp_path, arms(ours, THEIRS))[0]
    assert (answer.verdict, answer.sentence.startswith(begins)) == (verdict, True), answer.sentence
    assert answer.more_seeds == (verdict == "undecided") and answer.model == "runs/s4-tied-s2"


def test_the_tie_is_named(tmp_path):
    assert "over equal steps (" in sentence(tmp_path, [0.8, 0.81, 0.83], THEIRS, tied="scratch-tied@steps")


def test_one_seed_and_seeds_without_spread_leave_it_open(tmp_path):
    assert sentence(tmp_path / "one", [0.9], [0.7]) == "Undecided: +20.0 points over equal epochs (one seed)."
    same = said(tmp_path / "same", arms([0.8, 0.9], [0.7, 0.8]))[0]
    assert same.sentence == "Undecided: +10.0 points over equal epochs (2 seeds)." and same.more_seeds


@pytest.mark.parametrize("more, remedy", [
    ({"converged": False}, "still improving: give all arms more steps, in another folder."),
    ({"converged": None}, "lower eval_steps, in another folder."),
    ({"tied": "scratch"}, "add scratch-tied to --inits."),
])  # fmt: skip
def test_what_more_seeds_leave_open_has_a_remedy_of_its_own(tmp_path, more, remedy):
    answer = said(tmp_path, arms([0.80, 0.81, 0.83], THEIRS, **more))[0]
    assert answer.verdict == "undecided" and not answer.more_seeds and answer.sentence.endswith(remedy)


def test_at_the_ceiling_fewer_labels_are_asked_for(tmp_path):
    assert "--train_fractions" in sentence(tmp_path, [0.97, 0.971, 0.974], [0.97, 0.972, 0.973])


def test_several_gains_are_corrected_for_and_named(tmp_path):
    one, other = (arms([0.72, 0.75, 0.77], THEIRS, architecture=name) for name in ("s4", "dlr"))
    assert said(tmp_path / "one", one)[0].verdict == "pays"  # p is 0.035
    both = said(tmp_path / "two", [*one, *other])
    assert [one.about for one in both] == [f"{name}, self-pretrained, masked, 1,000 labels" for name in ("S4", "DLR")]
    assert both[0].sentence.endswith("Corrected for the gains that were looked at together, p is 0.070.")
    assert both[0].more_seeds


@pytest.mark.parametrize("more, tiny, begins", [
    ({"finetune_steps": 4}, False, "A trial of 4 steps: says nothing. Give it more steps"),
    ({"pretrain_steps": 1}, False, "A trial of 1 step: says nothing."),
    ({}, True, "A trial at toy size: says nothing. Leave out --tiny"),
])  # fmt: skip
def test_a_trial_says_nothing(tmp_path, more, tiny, begins):
    answer = said(tmp_path, arms([0.9, 0.91], [0.7, 0.72], **{"pretrain_steps": 20} | more), tiny=tiny)[0]
    assert answer.verdict == "says nothing" and answer.sentence.startswith(begins) and not answer.more_seeds


def test_two_arms_at_chance_say_nothing_and_one_does(tmp_path):
    constant = linear("majority", 0.5)
    stuck = said(tmp_path / "both", [*arms([0.51, 0.52], [0.50, 0.52]), constant])[0]
    assert stuck.verdict == "says nothing"
    assert stuck.sentence.startswith("Both arms are at chance (51.5 and 51.0; a constant answer has 50.0): says")
    learned = said(tmp_path / "one", [*arms([0.80, 0.82, 0.81], [0.50, 0.51, 0.52]), constant])[0]
    assert learned.verdict == "pays"
    mean = said(tmp_path / "rmse", [*arms([2.0, 2.01], [2.02, 2.0]), linear("majority", 1.99)], metric="rmse")[0]
    assert mean.verdict == "says nothing"


def test_a_lower_error_is_a_gain_with_its_unit(tmp_path):
    rows = [*arms([1.0, 1.1, 1.2], [2.0, 2.1, 2.3]), linear("log spectra", 1.5)]
    answer = said(tmp_path, rows, metric="rmse", unit="K")[0]
    assert answer.sentence == "Pretraining pays here: +1.033 K lower rmse over equal epochs (0.890 to 1.177, 3 seeds)."
    assert answer.linear == "" and answer.model == "runs/s4-spt-s0"
    worse = said(tmp_path / "no", arms([2.2, 2.4, 2.5], [2.0, 2.1, 2.3]), metric="rmse")[0]
    assert worse.sentence.startswith("Pretraining does harm here: −0.233 lower rmse")


@pytest.mark.parametrize("metric, unit, text", [
    ("accuracy", None, "gain: test accuracy self-pretrained minus from scratch on an equal budget, in points; above"),
    ("rmse", "K", "gain: test rmse from scratch on an equal budget minus self-pretrained, in K; above 0 is better"),
])  # fmt: skip
def test_the_gain_is_explained_below_its_table(tmp_path, metric, unit, text):
    assert text in results_text(folder_of(tmp_path, arms([0.8], [0.7]), metric=metric, unit=unit))
    assert "gain:" not in results_text(folder_of(tmp_path, [row()]))


def test_a_linear_model_that_is_better_than_both_arms_is_named(tmp_path):
    rows = [*arms([0.80, 0.81, 0.83], THEIRS), linear("majority", 0.9), linear("log spectra", 0.83)]
    answer = said(tmp_path / "better", [*rows, linear("counts of 4-mers", 0.886)])[0]
    assert answer.linear == "A linear model on counts of 4-mers has 88.6: try it first."
    assert said(tmp_path / "worse", [*arms([0.9, 0.91], [0.7, 0.72]), linear("log spectra", 0.83)])[0].linear == ""


def test_who_looks_more_often_gets_wider_intervals(tmp_path):
    rows = arms([0.80, 0.81, 0.83], THEIRS)
    once, often = said(tmp_path, rows)[0], said(tmp_path, rows, looks=len(LOOKS))[0]
    assert (once.level, often.level) == (0.95, pytest.approx(1 - 0.05 / len(LOOKS)))
    assert often.low < once.low and often.gain == once.gain and " at 98.75 %, 3 seeds)" in often.sentence


def test_without_a_finished_run_there_is_no_answer(tmp_path):
    assert said(tmp_path, arms([0.8], [0.7], chosen=False)) == []


@pytest.fixture
def looked(monkeypatch, tmp_path):
    """`spt` on scores that are given, and the seeds of each look."""
    seen = []

    def look(by_seeds, **options):
        def compare(source, output_dir, *, seeds, **others):
            seen.append((list(seeds), others.get("overwrite")))
            folder_of(output_dir, by_seeds(len(seeds)))
            return execute.Comparison(output_dir, {})

        monkeypatch.setattr(execute, "compare", compare)
        monkeypatch.setattr(execute, "keep_best", lambda folder: folder / "best")
        return execute.spt(None, tmp_path, **options), seen

    return look


def noisy(count, gain=0.004, **more):
    return arms([0.7 + gain + (0.05 if seed % 2 else -0.05) for seed in range(count)], [0.7] * count, **more)


def test_seeds_are_added_until_the_answer_is_clear_and_the_rule_is_recorded(looked, tmp_path):
    clear_at_seven = lambda count: noisy(count, 0.3 if count >= 7 else 0.004)  # noqa: E731
    done, seen = looked(clear_at_seven, until_decided=True, overwrite=True)
    assert [(len(seeds), overwrite) for seeds, overwrite in seen] == [(3, True), (5, False), (7, False)]
    assert done.answers[0].verdict == "pays" and done.answers[0].level == pytest.approx(0.9875)
    kept = json.loads((tmp_path / "answer.json").read_text())
    assert (kept["until_decided"], kept["looks"]) == (True, [3, 5, 7, 9])
    assert (kept["answers"][0]["seeds"], kept["answers"][0]["verdict"]) == (7, "pays")


def test_a_command_goes_on_from_the_seeds_that_its_folder_has_and_ends_after_nine(looked, tmp_path, capsys):
    write_yaml(tmp_path / "resolved.yaml", {"model": {}, "data": {}, "run": {"seeds": [0, 1, 2, 3, 4]}})
    done, seen = looked(noisy, until_decided=True)
    assert [len(seeds) for seeds, _ in seen] == [5, 7, 9] and done.answers[0].verdict == "undecided"
    show_answers(done, ["--task", "listops", "--until_decided"], jobs=1)
    assert capsys.readouterr().out.splitlines()[-1].startswith("9 seeds leave it open")
    with pytest.raises(HfLongSeqError, match="seeds are given with until_decided"):
        looked(noisy, until_decided=True, seeds=[0])


def test_what_seeds_cannot_decide_gets_none(looked):
    assert len(looked(lambda count: noisy(count, converged=False), until_decided=True)[1]) == 1


def test_seeds_that_are_added_by_hand_count_as_looks(looked):
    done, _ = looked(lambda count: noisy(count, added_after_test=[False] * 3 + [True] * 2), seeds=range(5))
    assert done.answers[0].level == pytest.approx(0.9875)


def test_three_seeds_are_the_default_and_a_trial_has_one(looked):
    assert looked(noisy)[1][-1][0] == [0, 1, 2]
    done, seen = looked(noisy, tiny=True)
    assert seen[-1][0] == [0] and done.answers[0].verdict == "says nothing"


def test_an_open_question_ends_with_the_command_that_adds_seeds(looked, capsys):
    done, _ = looked(noisy)
    words = ["--data", "my rows.csv", "--seeds", "0", "1", "2", "--overwrite", "--output_dir", "runs/a"]
    show_answers(done, words, jobs=1)
    sentence, command = capsys.readouterr().out.splitlines()
    assert sentence.startswith("Undecided: ")
    before, command = command.split(": ", 1)
    assert before == "Two more seeds take about 4 minutes"
    assert shlex.split(command) == [
        "hf-longseq", "spt", "--data", "my rows.csv", "--output_dir", "runs/a", "--seeds", "0", "1", "2", "3", "4",
    ]  # fmt: skip


@pytest.mark.parametrize("gain, following", [
    ([0.3, 0.31, 0.3], "Next: hf-longseq predict --model {}/best --data NEW_FILE"),
    ([-0.3, -0.31, -0.3], "Next: train from scratch; such a model lies in {}/runs/s4-tied-s0."),
])  # fmt: skip
def test_an_answer_ends_with_what_to_do_next(looked, capsys, tmp_path, gain, following):
    done, _ = looked(lambda count: arms([0.6 + one for one in gain], [0.6] * 3))
    show_answers(done, ["--data", "rows.csv"], jobs=1)
    assert capsys.readouterr().out.splitlines()[1] == following.format(tmp_path)
