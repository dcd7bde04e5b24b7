"""What a hidden pixel costs who knows the frequencies of grey levels alone."""

import numpy as np
import pytest

import grey_levels


def test_a_place_that_is_always_alike_costs_less_than_the_levels_of_all_pixels():
    pictures = np.tile([[0, 255]], (5000, 1))
    by_level, by_place = grey_levels.losses(pictures, pictures)
    assert by_level == pytest.approx(np.log(2), abs=0.05)
    assert by_place == pytest.approx(-np.log(1 / 1.5 + 0.5 / 1.5 / 2), abs=0.05)


def test_where_places_tell_nothing_both_cost_the_entropy_of_the_levels():
    random = np.random.default_rng(0)
    train, other = random.integers(0, 2, (4000, 8)), random.integers(0, 2, (100, 8))
    assert grey_levels.losses(train, other) == pytest.approx((np.log(2), np.log(2)), abs=0.01)
