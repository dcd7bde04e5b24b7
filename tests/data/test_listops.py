"""ListOps: values are right, the distribution is the benchmark's, and parameters are checked."""

import numpy as np
import pytest

from hf_longseq.data.listops import CLOSE_ID, DIGIT_ID, EOS_ID, OPERATOR_ID, VOCABULARY, load, make_row
from hf_longseq.data.task import TASKS, load_task

BENCHMARK = {"min_length": 500, "max_length": 2_000, "max_depth": 10, "max_args": 10}
SHORT = {"min_length": 20, "max_length": 60}


def evaluate(ids):
    """Value of a token list by a stack, with numpy's own median, as the benchmark computes it."""
    functions = [min, max, lambda v: int(np.median(v)), lambda v: sum(v) % 10]
    assert ids[-1] == EOS_ID
    stack = [[]]
    operators = []
    for token in ids[:-1]:
        if token == CLOSE_ID:
            values = stack.pop()
            assert 2 <= len(values) <= 10
            stack[-1].append(functions[operators.pop()](values))
        elif token >= OPERATOR_ID:
            operators.append(token - OPERATOR_ID)
            stack.append([])
            assert len(operators) <= 9
        else:
            stack[-1].append(token - DIGIT_ID)
    assert len(stack) == 1 and len(stack[0]) == 1 and not operators
    return stack[0][0]


@pytest.fixture(scope="module")
def sample():
    rows = [make_row(BENCHMARK, 0, number) for number in range(1500)]
    return [row["input_ids"].tolist() for row in rows], np.array([row["labels"] for row in rows])


def test_labels_are_the_values_of_the_trees(sample):
    ids, labels = sample
    assert [evaluate(row) for row in ids[:300]] == labels[:300].tolist()


def test_lengths_are_those_of_the_benchmark(sample):
    lengths = np.array([len(row) - 1 for row in sample[0]])
    assert lengths.min() > 500 and lengths.max() < 2000
    assert abs(lengths.mean() - 1037) < 40 and abs(np.median(lengths) - 960) < 45


def test_labels_have_the_frequencies_of_the_benchmark(sample):
    frequencies = np.bincount(sample[1], minlength=10) / len(sample[1])
    assert abs(frequencies[0] - 0.170) < 0.035 and abs(frequencies[9] - 0.167) < 0.035
    assert (np.abs(frequencies[1:9] - 0.082) < 0.03).all()


def test_operators_and_digits_are_uniform(sample):
    tokens = np.bincount(np.concatenate([row for row in sample[0]]), minlength=len(VOCABULARY))
    digits, operators = tokens[DIGIT_ID : DIGIT_ID + 10], tokens[OPERATOR_ID : OPERATOR_ID + 4]
    assert digits.std() / digits.mean() < 0.01 and operators.std() / operators.mean() < 0.02
    assert operators.sum() == tokens[CLOSE_ID] and tokens[:3].sum() == 0


def test_a_row_depends_on_seed_and_number_alone():
    several, alone = [make_row(BENCHMARK, 3, number) for number in (4, 5, 6)], make_row(BENCHMARK, 3, 5)
    assert several[1]["input_ids"].tolist() == alone["input_ids"].tolist()
    assert make_row(BENCHMARK, 4, 5)["input_ids"].tolist() != alone["input_ids"].tolist()


def test_loads_by_name_as_a_dataset(tmp_path):
    splits, spec = load_task(
        "listops", train_examples=30, eval_examples=10, num_workers=1, cache_dir=str(tmp_path), **SHORT
    )
    assert {name: len(split) for name, split in splits.items()} == {"train": 30, "validation": 10, "test": 10}
    row = splits["train"][0]
    assert row["input_ids"].max() < spec.vocab_size == len(spec.vocabulary) == 19
    assert evaluate(row["input_ids"].tolist()) == row["labels"] and spec.num_labels == 10
    assert max(len(ids) for ids in splits["train"][:]["input_ids"]) <= spec.max_length


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_depth": 1}, "allow no operator"),
        ({"max_depth": 2}, "leave no length"),
        ({"min_length": 100, "max_length": 101}, "leave no length"),
        ({"train_examples": 0}, "ask for at least 1"),
    ],
)
def test_impossible_parameters_are_refused(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        load(cache_dir=str(tmp_path), **options)
    assert not list(tmp_path.iterdir())


def test_unknown_names_and_options_get_a_suggestion():
    with pytest.raises(ValueError, match="did you mean 'listops'"):
        load_task("listop")
    with pytest.raises(ValueError, match="did you mean 'max_length'"):
        load_task("listops", max_lenght=5)
    assert "listops" in TASKS
