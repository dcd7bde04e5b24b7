import numpy as np
import pytest

from hf_longseq.metrics import METRICS, greater_is_better, load_metric


@pytest.mark.parametrize(
    "name, predictions, references, expected",
    [
        ("accuracy", [1, 0, 2, 2], [1, 1, 2, 0], {"accuracy": 0.5}),
        ("rmse", [1.5, 0.0], [0.5, 1.0], {"rmse": 1.0, "mae": 1.0, "r2": -15.0}),
        ("mae", [1.25, 0.0], [0.25, 2.0], {"rmse": 2.5**0.5, "mae": 1.5, "r2": 1 - 5 / 1.53125}),
        ("r2", [1.0, 2.0, 3.0], [1.0, 2.0, 4.0], {"rmse": 3**-0.5, "mae": 1 / 3, "r2": 1 - 1 / (14 / 3)}),
        ("f1", [[1, 0], [1, 1]], [[1, 0], [0, 1]], {"f1": (2 / 3 + 1) / 2, "f1_micro": 0.8}),
    ],
)
def test_values(name, predictions, references, expected):
    result = load_metric(name).compute(predictions=predictions, references=references)
    assert result == pytest.approx(expected)


def test_r2_of_constant_references_is_defined():
    assert load_metric("r2").compute(predictions=[2.0, 2.0], references=[2.0, 2.0])["r2"] == 1.0
    assert load_metric("r2").compute(predictions=[1.0, 2.0], references=[2.0, 2.0])["r2"] == 0.0


def test_float_predictions_are_not_truncated():
    assert load_metric("mae").compute(predictions=np.array([0.4, 0.6]), references=np.zeros(2))[
        "mae"
    ] == pytest.approx(0.5)


def test_two_metrics_can_be_filled_at_the_same_time_without_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = load_metric("accuracy"), load_metric("accuracy")
    first.add_batch(predictions=[1], references=[1])
    second.add_batch(predictions=[1], references=[0])
    assert (first.compute(), second.compute()) == ({"accuracy": 1.0}, {"accuracy": 0.0})
    assert first.cache_file_name is None and not list(tmp_path.iterdir())


def test_directions_and_unknown_names():
    assert [name for name in METRICS if not greater_is_better(name)] == ["rmse", "mae", "masked_mae"]
    assert not greater_is_better("loss")
    with pytest.raises(ValueError, match="known metrics are accuracy"):
        load_metric("acuracy")
