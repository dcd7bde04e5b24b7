"""What is measured, what is dropped, and what a wrong name is told."""

import pytest
import torch

import side_by_side
from hf_longseq.errors import HfLongSeqError
from side_by_side import SideBySide, check_names, peak_bytes


def test_contestants_take_turns_after_a_warm_up(monkeypatch):
    calls = []
    monkeypatch.setattr(side_by_side, "QUICK", 0.0)
    contest = SideBySide(repeats=2)
    rows = contest.measure({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")})
    assert calls == ["a", "b", "a", "b", "a", "b"]
    assert rows["a"]["seconds"] >= rows["a"]["seconds_min"] > 0 and rows["a"]["skipped"] == ""


def test_what_is_too_slow_runs_once_and_is_then_left_out(monkeypatch):
    calls = []
    monkeypatch.setattr(side_by_side, "seconds", lambda run, device: run() or 9.0)
    contest = SideBySide(repeats=3, seconds_limit=5.0)
    first = contest.measure({"a": lambda: calls.append(1)})["a"]
    second = contest.measure({"a": lambda: calls.append(1)})["a"]
    assert len(calls) == 1 and first["seconds"] == 9.0
    assert second["seconds"] is None and "more than 5 s" in second["skipped"]


def test_what_does_not_fit_is_not_tried():
    row = SideBySide(memory_limit=2**30).measure({"a": lambda: 1 / 0}, {"a": 5 * 2**30})["a"]
    assert row["skipped"] == "needs about 5 GiB"


def test_peak_memory_sees_what_is_freed_again():
    peak = peak_bytes(lambda: torch.ones(64 * 2**20).sum(), torch.device("cpu"))
    if peak is None:
        pytest.skip("this system does not tell the peak of the resident set")
    assert peak > 200 * 2**20


def test_an_unknown_contestant_is_named():
    with pytest.raises(HfLongSeqError, match="did you mean 's4'"):
        check_names(["s44"], ["s4", "dlr"])
