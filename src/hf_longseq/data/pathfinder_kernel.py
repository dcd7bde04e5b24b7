# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Draws one Pathfinder picture: two long dashed paths, short distractors, two discs.

Compiled when numba is installed; else the same code runs interpreted, and draws the same pictures some 50 times
slower. All positions are (y, x) in arrays with a border of `tables.pad` cells, so that nothing needs a check for the
edge; the border counts as occupied.

`occupied` (2, H, W) uint8 holds the cells taken, 255 = fully, and the same widened by the margin.
"""

import math

import numpy as np

from hf_longseq.data.pathfinder_tables import PathfinderTables

MAX_ATTEMPTS = 5_000_000  # pairs of long paths; the hardest published setting needs some 6,400 on average
DASH_DRAWS = 3
DISTRACTOR_TRIES = 5
PLACE_DRAWS = 1000
MIN_WEIGHT = 255 * 1e-4
FAIR_DISTANCE = 1.0  # pixels
COLLISION = np.uint16(459)  # 1.8 times a full cell

GAMMA = np.uint64(0x9E3779B97F4A7C15)
MIX_1, MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
S30, S27, S31, S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


def _compiled(function):
    try:
        import numba
    except ImportError:
        return function
    return numba.njit(cache=True)(function)


@_compiled
def _patch(array, y, x, half):
    return array[y - half : y + half + 1, x - half : x + half + 1]


@_compiled
def _collides(occupied, y, x, half, mask):
    return (_patch(occupied, y, x, half) >= COLLISION - mask).any()


@_compiled
def _cover(cells, y, x, half, stamp):
    """Maximum of the cells and a stamp of the same type."""
    patch = _patch(cells, y, x, half)
    np.maximum(patch, stamp, patch)


@_compiled
def _uniform(state):
    """Next number in [0, 1) of the SplitMix64 generator whose state is the only element of `state`."""
    state[0] += GAMMA
    bits = state[0]
    bits = (bits ^ (bits >> S30)) * MIX_1
    bits = (bits ^ (bits >> S27)) * MIX_2
    bits = bits ^ (bits >> S31)
    return np.float64(bits >> S11) / 9007199254740992.0


@_compiled
def _occupy(occupied, tables, dash):
    y, x, stamp = dash
    _cover(occupied[0], y, x, tables.half, tables.mask[stamp])
    _cover(occupied[1], y, x, tables.half + tables.margin, tables.near[stamp])


@_compiled
def _restore(occupied, frame, tables, dash):
    """Undo `_occupy` on what was `frame` before."""
    half = tables.half + tables.margin
    top, left = dash[0] - half, dash[1] - half
    bottom, right = dash[0] + half + 1, dash[1] + half + 1
    occupied[:, top:bottom, left:right] = frame[:, top:bottom, left:right]


@_compiled
def _extend(occupied, state, tables, y, x, direction):
    """Choose the dash after the pivot (y, x): its index in the ring, or -1 at a dead end."""
    near = occupied[1]
    room = 255.0 - near.take((y + tables.ring[:, 0]) * near.shape[1] + x + tables.ring[:, 1])
    cumulative = np.cumsum(tables.turn_weight[direction] * room)
    total = cumulative[-1]
    if total < MIN_WEIGHT:
        return -1
    for _ in range(DASH_DRAWS):
        k = min(np.searchsorted(cumulative, _uniform(state) * total, side="right"), len(cumulative) - 1)
        end_y, end_x = y + tables.ring[k, 0], x + tables.ring[k, 1]
        if not _collides(occupied[0], end_y, end_x, tables.half, tables.mask[360 + k]):
            return k
    return -1


@_compiled
def _grow(occupied, state, tables, dashes, step, place):
    """Add dash number `step` to a path and occupy the one before, so that a dash never blocks its own successor.

    Args:
        dashes: (n, 3): position and stamp of each dash.
        place: (3,): pivot and direction at the path's end; moved on.
    """
    k = _extend(occupied, state, tables, place[0], place[1], place[2])
    if k < 0:
        return False
    _occupy(occupied, tables, dashes[step - 1])
    dashes[step, 0] = place[0] + tables.ring[k, 0]
    dashes[step, 1] = place[1] + tables.ring[k, 1]
    dashes[step, 2] = 360 + k
    place[2] = 360 + k
    place[0] += tables.next_pivot[360 + k, 0]
    place[1] += tables.next_pivot[360 + k, 1]
    return True


@_compiled
def _begin(tables, size, y, x, direction, dashes, place):
    """Make (y, x) the first dash of a path, if its end and the pivot before it are in the picture."""
    first, last = tables.pad, tables.pad + size - 1
    pivot_y, pivot_x = y + tables.seed_pivot[direction, 0], x + tables.seed_pivot[direction, 1]
    head_y, head_x = y + tables.seed_head[direction, 0], x + tables.seed_head[direction, 1]
    if min(y, x, pivot_y, pivot_x, head_y, head_x) < first or max(y, x, pivot_y, pivot_x, head_y, head_x) > last:
        return False
    dashes[0, 0], dashes[0, 1], dashes[0, 2] = y, x, direction
    place[0] = pivot_y + tables.next_pivot[direction, 0]
    place[1] = pivot_x + tables.next_pivot[direction, 1]
    place[2] = direction
    return True


@_compiled
def _distance(dash, other):
    height, width = dash[0] - other[0], dash[1] - other[1]
    return math.sqrt(height * height + width * width)


@_compiled
def _is_fair(tables, frame, paths):
    """Whether the two long paths keep their distance everywhere, and the discs' distance tells nothing of the label.

    Growing paths do not see each other's first and last dash; in a small picture these touch. There, ends also lie
    so near that the end of one's own path could be told by its distance from the beginning.
    """
    for path in range(2):
        own = _distance(paths[path, 0], paths[path, -1])
        other = _distance(paths[path, 0], paths[1 - path, -1])
        if abs(own - other) > FAIR_DISTANCE:
            return False
    first = np.zeros_like(frame[0])
    for dash in range(paths.shape[1]):
        y, x, stamp = paths[0, dash]
        _cover(first, y, x, tables.half, tables.mask[stamp])
    for dash in range(paths.shape[1]):
        y, x, stamp = paths[1, dash]
        if _collides(first, y, x, tables.half, tables.mask[stamp]):
            return False
    return True


@_compiled
def _draw_long_paths(occupied, frame, state, tables, size, paths, places):
    """Try pairs of paths until both reach their full length; False if that never happens."""
    for _ in range(MAX_ATTEMPTS):
        direction = int(360 * _uniform(state))
        if not tables.seed_allowed[direction]:
            continue
        low, high = tables.seed_low[direction], tables.seed_high[direction]
        y = tables.pad + low[0] + int((high[0] - low[0] + 1) * _uniform(state))
        x = tables.pad + low[1] + int((high[1] - low[1] + 1) * _uniform(state))
        away = int(360 * _uniform(state))
        other = int(360 * _uniform(state))
        if not _begin(tables, size, y, x, direction, paths[0], places[0]):
            continue
        if not _begin(tables, size, y + tables.away[away, 0], x + tables.away[away, 1], other, paths[1], places[1]):
            continue
        complete = True
        for step in range(1, paths.shape[1]):
            for path in range(2):
                if complete:
                    complete = _grow(occupied, state, tables, paths[path], step, places[path])
            if not complete:
                break
        if complete and (not tables.tests_pairs or _is_fair(tables, frame, paths)):
            # Only the second path's last dash: the first one's is never occupied in the original either.
            _occupy(occupied, tables, paths[1, -1])
            if tables.tests_pairs:
                _occupy(occupied, tables, paths[0, -1])
            return True
        for path in range(2):
            for dash in range(step):
                _restore(occupied, frame, tables, paths[path, dash])
    return False


@_compiled
def _draw_distractor(occupied, state, tables, size, dashes, place):
    """One try of a short path: 1 if drawn, 0 if it failed, -1 if there is hardly any room left."""
    direction = int(360 * _uniform(state))
    if not tables.search_allowed[direction]:
        return 0
    shift = tables.footprint_shift
    for _ in range(PLACE_DRAWS):
        y = tables.pad + int(size * _uniform(state))
        x = tables.pad + int(size * _uniform(state))
        taken = _patch(occupied[0], y + shift, x + shift, tables.half) > 0
        if not (taken & tables.footprint[direction]).any():
            break
    else:
        return -1
    if not _begin(tables, size, y, x, direction, dashes, place):
        return 0
    before = occupied.copy()
    for step in range(1, len(dashes)):
        if not _grow(occupied, state, tables, dashes, step, place):
            occupied[:] = before
            return 0
    _occupy(occupied, tables, dashes[-1])
    return 1


@_compiled
def draw_picture(
    key: int,
    tables: PathfinderTables,
    frame: np.ndarray,
    size: int,
    contour_length: int,
    distractor_length: int,
    num_distractors: int,
    path_ink: float,
    distractor_ink: float,
) -> tuple[np.ndarray, int]:
    """Draw the picture that belongs to a key.

    Args:
        key: Any uint64; all randomness comes from it.
        tables: Of the resolution and margin.
        frame: (2, size + 2·pad, size + 2·pad) uint8, `occupied` of an empty picture.
        size: Pixels a side.
        contour_length, distractor_length: Dashes of long and short paths.
        num_distractors: Short paths tried.
        path_ink, distractor_ink: Brightness of long and short paths; discs have 1.

    Returns:
        The picture (size, size) uint8, stretched to 0..255, and the label: 1 if one path joins the discs, 0 if not,
        -1 if no pair of paths was found.
    """
    state = np.empty(1, dtype=np.uint64)
    state[0] = key
    label = 1 if _uniform(state) < 0.5 else 0
    occupied = frame.copy()
    canvas = np.zeros(frame.shape[1:], dtype=np.float32)
    paths = np.empty((2, contour_length, 3), dtype=np.int64)
    places = np.empty((2, 3), dtype=np.int64)
    if not _draw_long_paths(occupied, frame, state, tables, size, paths, places):
        return np.zeros((size, size), dtype=np.uint8), -1
    for path in range(2):
        for dash in range(contour_length):
            y, x, stamp = paths[path, dash]
            _cover(canvas, y, x, tables.half, tables.ink[stamp] * np.float32(path_ink / 255))
    dashes = np.empty((distractor_length, 3), dtype=np.int64)
    for _ in range(num_distractors):
        drawn = 0
        for _ in range(DISTRACTOR_TRIES):
            if drawn == 0:
                drawn = _draw_distractor(occupied, state, tables, size, dashes, places[0])
        if drawn < 0:
            break
        if drawn == 1:
            for dash in range(distractor_length):
                y, x, stamp = dashes[dash]
                _cover(canvas, y, x, tables.half, tables.ink[stamp] * np.float32(distractor_ink / 255))
    first = 0 if _uniform(state) < 0.5 else 1
    second = first if label == 1 else 1 - first
    disc_half = tables.marker.shape[0] // 2
    _cover(canvas, paths[first, 0, 0], paths[first, 0, 1], disc_half, tables.marker)
    _cover(canvas, paths[second, -1, 0], paths[second, -1, 1], disc_half, tables.marker)
    inside = canvas[tables.pad : tables.pad + size, tables.pad : tables.pad + size]
    lowest, highest = inside.min(), inside.max()
    stretched = (inside - lowest) * (np.float32(255) / (highest - lowest)) + np.float32(0.5)
    return stretched.astype(np.uint8), label
