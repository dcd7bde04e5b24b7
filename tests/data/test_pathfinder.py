"""Pathfinder: pixel statistics of the benchmark, labels that match the pictures, no shortcut, no numba needed."""

import importlib
import sys

import numpy as np
import pytest

from hf_longseq.data import pathfinder_kernel
from hf_longseq.data.pathfinder import drawing_parameters, load, make_row
from hf_longseq.data.pathfinder_tables import SETTINGS, make_tables
from hf_longseq.data.task import load_task

pytest.importorskip("PIL")


def draw(size, count, **options):
    parameters = drawing_parameters(size, **options)
    rows = [make_row(parameters, 0, number) for number in range(count)]
    pictures = [row["input_values"].reshape(size, size) for row in rows]
    return np.stack(pictures), np.array([row["labels"] for row in rows])


@pytest.fixture(scope="module")
def easy():
    """Short paths are found at the first try, with numba or without."""
    return draw(32, 600, contour_length=6)


def test_the_circle_on_which_dashes_end_has_the_known_number_of_cells():
    cells = {
        (size, margin): len(make_tables(settings, margin, True).ring)
        for size, settings in SETTINGS.items()
        for margin in settings.margins
    }
    assert cells == {(16, 1): 26, (32, 1): 18, (64, 1): 38, (128, 2): 41, (128, 3): 49, (256, 3): 49}


def test_directions_in_which_the_original_finds_a_place():
    def allowed(size, margin):
        return make_tables(SETTINGS[size], margin, True).search_allowed

    assert set(np.flatnonzero(allowed(32, 1)) - 360) == set(range(-150, -119))
    assert allowed(64, 1).mean() == pytest.approx(0.26, abs=0.01)
    assert allowed(128, 2).mean() > 0.97 and allowed(128, 3).all() and allowed(256, 3).all()
    assert make_tables(SETTINGS[32], 1, False).search_allowed.all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "count", "compat", "mean", "std", "zeros"),
    [
        (32, 100, True, 20.1, 50.9, 0.662),
        (32, 100, False, 27.9, 58.4, 0.556),
        (256, 40, True, 2.94, 24.1, 0.961),
    ],
)
def test_pixels_have_the_statistics_of_the_benchmark(size, count, compat, mean, std, zeros):
    pictures, _ = draw(size, count, lra_compat=compat)
    assert pictures.mean() == pytest.approx(mean, rel=0.06)
    assert pictures.std() == pytest.approx(std, rel=0.04)
    assert (pictures == 0).mean() == pytest.approx(zeros, abs=0.02)
    assert (pictures.max((1, 2)) == 255).all()


@pytest.fixture(scope="module")
def small():
    """The small task of our own, which has no benchmark's statistics to meet."""
    return draw(16, 600)


@pytest.fixture(scope="module")
def short():
    """The same with paths of two dashes."""
    return draw(16, 600, contour_length=2)


@pytest.mark.slow
@pytest.mark.parametrize("pictures_of", ["easy", "small", "short"])
def test_labels_are_balanced(pictures_of, request):
    assert abs(request.getfixturevalue(pictures_of)[1].mean() - 0.5) < 0.06


@pytest.mark.slow
@pytest.mark.parametrize("pictures_of", ["easy", "small", "short"])
def test_no_shortcut_by_histogram_or_single_pixels(pictures_of, request):
    pictures, labels = request.getfixturevalue(pictures_of)
    histograms = np.stack([np.histogram(picture, bins=16, range=(0, 256))[0] for picture in pictures])
    histograms = histograms / pictures[0].size
    pixels = pictures.reshape(len(pictures), -1) / 255
    for features in (histograms, pixels):
        centred = features - features[:400].mean(0)
        ridge = centred[:400].T @ centred[:400] + 10 * np.eye(centred.shape[1])
        weights = np.linalg.solve(ridge, centred[:400].T @ (labels[:400] - 0.5))
        accuracy = ((centred[400:] @ weights > 0) == labels[400:]).mean()
        assert abs(accuracy - 0.5) < 0.12


@pytest.mark.slow
@pytest.mark.parametrize("pictures_of", ["small", "short"])
def test_small_pictures_tell_nothing_by_the_distance_of_the_discs(pictures_of, request):
    pictures, labels = request.getfixturevalue(pictures_of)
    distances = []
    for picture in pictures:
        # The two brightest blocks of 3 x 3 that do not overlap.
        blocks = np.lib.stride_tricks.sliding_window_view(picture.astype(int), (3, 3)).sum((2, 3))
        y, x = np.unravel_index(blocks.argmax(), blocks.shape)
        rest = blocks.copy()
        rest[max(0, y - 2) : y + 3, max(0, x - 2) : x + 3] = 0
        other_y, other_x = np.unravel_index(rest.argmax(), rest.shape)
        distances.append(np.hypot(other_y - y, other_x - x))
    distances = np.array(distances)
    best = max(np.mean((distances < threshold) == labels) for threshold in range(3, 14))
    assert abs(best - 0.5) < 0.08
    assert distances[labels == 0].std() == pytest.approx(distances[labels == 1].std(), rel=0.2)


def test_a_picture_depends_on_seed_and_number_alone():
    parameters = drawing_parameters(128, contour_length=3)
    several = [make_row(parameters, 3, number)["input_values"] for number in (4, 5, 6)]
    assert (several[1] == make_row(parameters, 3, 5)["input_values"]).all()
    assert (make_row(parameters, 4, 5)["input_values"] != several[1]).any()


@pytest.mark.slow
def test_pictures_are_the_same_without_numba(monkeypatch):
    def drawn():
        return [draw(size, 2, contour_length=length)[0].tolist() for size, length in ((16, 3), (32, 6), (128, 6))]

    compiled = drawn()
    monkeypatch.setitem(sys.modules, "numba", None)
    try:
        assert not hasattr(importlib.reload(pathfinder_kernel).draw_picture, "py_func")
        assert drawn() == compiled
    finally:
        monkeypatch.undo()
        importlib.reload(pathfinder_kernel)


@pytest.mark.parametrize(
    ("name", "steps"), [("pathfinder", 32**2), ("pathfinder-16", 16**2), ("pathx", 128**2), ("pathx-256", 256**2)]
)
def test_loads_by_name_as_a_dataset(name, steps, tmp_path):
    options = {"contour_length": 4, "train_examples": 6, "eval_examples": 2, "num_workers": 1}
    splits, spec = load_task(name, cache_dir=str(tmp_path), **options)
    assert {split: len(rows) for split, rows in splits.items()} == {"train": 6, "validation": 2, "test": 2}
    row = splits["train"][0]
    assert row["input_values"].shape == (steps,) and spec.max_length == steps and row["labels"] in (0, 1)
    assert spec.name == name and spec.num_levels == 256 and spec.num_labels == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 48}, "size is 48"),
        ({"contour_length": 20}, "contour_length is 20"),
        ({"margins": (9,)}, "margins is"),
        ({"num_levels": 7}, "num_levels is 7"),
        ({"size": 16, "contour_length": 6}, "room for 2..4 dashes"),
        ({"size": 16, "margins": (2,)}, "16 pixels have room for distances of .1,."),
        ({"size": 16, "data_dir": "lra_release"}, "in no release"),
    ],
)
def test_impossible_parameters_are_refused(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        load(cache_dir=str(tmp_path), num_workers=1, **options)
