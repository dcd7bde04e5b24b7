import pytest

from hf_longseq.comparison.results import has_converged, standard_error


def history(*scores, metric="accuracy", loss=1.0):
    """A run that was evaluated at steps 1, 2, ... with these scores."""
    entries = [{"step": step + 1, f"eval_{metric}": score} for step, score in enumerate(scores)]
    return [*entries, {"step": len(scores), "loss": loss}]


@pytest.mark.parametrize(
    "scores, converged",
    [
        ((0.5, 0.5, 0.6, 0.6, 0.7, 0.7), False),
        ((0.5, 0.5, 0.7, 0.7, 0.7, 0.7), True),
        ((0.5, 0.5, 0.6, 0.7, 0.72, 0.74), True),  # within the standard error of 100 examples, 0.046
        ((0.5, 0.5, 0.6, 0.7, 0.72, 0.75), False),
        ((0.9, 0.9, 0.9, 0.8, 0.7, 0.6), True),  # past its best
        ((0.9,), None),
    ],
)
def test_a_run_has_converged_when_its_last_third_is_no_better_than_its_middle_third(scores, converged):
    assert has_converged(history(*scores), "accuracy", 1, 100, len(scores)) is converged


def test_of_an_error_lower_is_better():
    assert has_converged(history(3.0, 2.0, 1.0, metric="rmse"), "rmse", -1, 100, 3) is False
    assert has_converged(history(3.0, 1.0, 2.0, metric="rmse"), "rmse", -1, 100, 3) is True


def test_a_training_loss_near_zero_is_enough():
    assert has_converged(history(0.1, 0.5, 0.9, loss=0.009), "accuracy", 1, 100, 3) is True


def test_standard_errors_are_those_of_a_draw():
    import numpy as np

    draws = np.random.default_rng(0).normal(size=(4000, 100))
    measured = {
        "rmse": np.sqrt((draws**2).mean(1)).std(), "mae": np.abs(draws).mean(1).std(),
        "accuracy": (draws > 0.5).mean(1).std(),
    }  # fmt: skip
    values = {"rmse": 1.0, "mae": (2 / np.pi) ** 0.5, "accuracy": float((draws > 0.5).mean())}
    for metric, value in values.items():
        assert standard_error(metric, value, 100) == pytest.approx(measured[metric], rel=0.05)
