"""Spans of label sequences by seqeval's definition, and scores of spans and positions."""

import random

import numpy as np
import pytest

from hf_longseq.metrics.spans import Tags, count_spans, position_scores, span_scores, spans_of


def named_spans(labels):
    names = tuple(dict.fromkeys(labels))
    tags = Tags.of(names)
    found = spans_of(np.array([names.index(label) for label in labels]), tags)
    return [(int(start), int(end), tags.kinds[kind]) for start, end, kind in found]


@pytest.mark.parametrize(
    ("labels", "spans"),
    [
        ("O O O", []),
        ("gene gene O gene rna", [(0, 2, "gene"), (3, 4, "gene"), (4, 5, "rna")]),
        ("wake N2 N2 wake", [(0, 1, "wake"), (1, 3, "N2"), (3, 4, "wake")]),
        ("B-a I-a B-a I-b O", [(0, 2, "a"), (2, 3, "a"), (3, 4, "b")]),
        ("I-a I-a O I-a", [(0, 2, "a"), (3, 4, "a")]),
        ("B-a I-a E-a I-a S-a S-a", [(0, 3, "a"), (3, 4, "a"), (4, 5, "a"), (5, 6, "a")]),
        ("I-a walk", [(0, 1, "I-a"), (1, 2, "walk")]),  # not all have prefixes: names as they are
    ],
)
def test_spans_of_labels(labels, spans):
    assert named_spans(labels.split()) == spans


def test_no_positions_have_no_spans():
    assert spans_of(np.array([], np.int64), Tags.of(("O", "a"))).shape == (0, 3)


def conlleval_spans(labels):
    """The rules position by position, as the original script of the CoNLL-2000 task states them."""
    found, start, before_part, before_kind = [], None, "O", ""
    for place, label in enumerate([*labels, "O"]):
        part, _, kind = label.partition("-")
        ends = before_part in ("E", "S") or (before_part in ("B", "I") and part in ("B", "S", "O"))
        ends |= before_part != "O" and before_kind != kind
        begins = part in ("B", "S") or (before_part in ("E", "S", "O") and part in ("E", "I"))
        begins |= part != "O" and before_kind != kind
        if ends and start is not None:
            found.append((start, place, before_kind))
            start = None
        if begins:
            start = place
        before_part, before_kind = part, kind
    return found


@pytest.mark.parametrize("prefixes", ["BI", "I", "BIES"])
def test_spans_are_those_of_the_rules_applied_position_by_position(prefixes):
    draw = random.Random(3)
    names = ["O", *(f"{prefix}-{kind}" for prefix in prefixes for kind in "ab")]
    for _ in range(50):
        labels = [draw.choice(names) for _ in range(draw.randrange(1, 30))]
        assert named_spans(labels) == conlleval_spans(labels)


def ids(labels, names):
    return np.array([names.index(label) for label in labels])


def confusion(true, given):
    """Counts of (true, given) for the classes "O", "A" and "B"."""
    counts = np.zeros((3, 3), np.int64)
    np.add.at(counts, (ids(true, "OAB"), ids(given, "OAB")), 1)
    return position_scores(counts, ("O", "A", "B"))


def test_f1_of_spans_counts_exact_spans_only():
    names = ("O", "B-a", "I-a", "B-b")
    true = [["O", "B-a", "I-a", "O", "B-b"], ["B-a", "O"]]
    given = [["O", "B-a", "O", "O", "B-b"], ["B-a", "B-b"]]
    tags = Tags.of(names)
    counts = sum(count_spans(ids(one, names), ids(other, names), tags) for one, other in zip(given, true, strict=True))
    assert span_scores(counts) == {
        "span_f1": pytest.approx(4 / 7), "span_precision": pytest.approx(2 / 4), "span_recall": pytest.approx(2 / 3)
    }  # fmt: skip
    assert span_scores(count_spans(ids("O", names), ids("O", names), tags))["span_f1"] == 0.0


def test_scores_of_positions():
    result = confusion("OOAABB", "OOABBB")
    assert result["token_accuracy"] == pytest.approx(5 / 6)
    assert result["token_f1"] == pytest.approx((2 / 3 + 4 / 5) / 2)  # of A and of B
    # for two classes the coefficient is the correlation of 0 and 1
    true, given = "OOAOAAO", "OAAOAOO"
    binary = np.corrcoef(np.array(list(true)) == "A", np.array(list(given)) == "A")[0, 1]
    assert confusion(true, given)["mcc"] == pytest.approx(binary)
    assert confusion("AO", "AA")["mcc"] == 0.0
