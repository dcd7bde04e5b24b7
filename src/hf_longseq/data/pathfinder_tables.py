# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Settings of the Pathfinder resolutions, and everything that can be computed before the first picture.

Coordinates are (y, x); direction a means the step (sin a, cos a); to advance by d along a, round d·sin a and d·cos a
up to integers. Dashes occur in finitely many directions, so each is rendered once: 360 for the first dash of a path
(whole degrees) and K for the others (the K cells on a circle where a dash may end).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.ndimage import maximum_filter

ANTIALIAS = 2
NUM_DEGREES = 360


@dataclass(frozen=True)
class PathfinderSettings:
    """How pictures of one resolution look (Long Range Arena, section 2.2.5, and its generation scripts; 16: ours)."""

    size: int  # pixels a side
    frame: int  # width of the border that no dash may touch
    dash_length: int  # in pixels
    dash_thickness: float
    margins: tuple[int, ...]  # distance kept between dashes; one of these is drawn for each picture
    seed_distance: int  # between the beginnings of the two long paths
    num_distractors: int  # short paths that are tried
    continuity: float  # larger means straighter paths
    marker_radius: float  # of the two discs
    contrast: float  # brightness of all paths
    dash_contrast: float  # factor for the two long ones
    tests_pairs: bool = False  # keep only pairs that are apart everywhere and whose discs' distance tells nothing


SETTINGS = {
    16: PathfinderSettings(16, 1, 3, 1.0, (1,), 5, 1, 1.0, 1.5, 0.5, 1.0, tests_pairs=True),
    32: PathfinderSettings(32, 1, 2, 0.5, (1,), 7, 5, 1.0, 1.5, 2.0, 0.75),
    64: PathfinderSettings(64, 1, 5, 1.0, (1,), 12, 5, 1.8, 2.5, 0.8, 1.0),
    128: PathfinderSettings(128, 1, 5, 1.5, (2, 3), 20, 8, 1.8, 3.0, 0.9, 1.0),
    256: PathfinderSettings(256, 22, 5, 2.0, (3,), 27, 7, 1.8, 5.0, 1.0, 1.0),
}


class PathfinderTables(NamedTuple):
    """Arrays for one resolution and margin. D = 360 + K directions, S = 2·half + 1 the side of a stamp."""

    pad: int  # width added around the picture so that no index leaves the arrays
    half: int  # half side of a stamp
    margin: int  # distance kept between dashes
    ink: np.ndarray  # (D, S, S) uint8: a dash from the middle of the stamp, 255 = full
    mask: np.ndarray  # (D, S, S) uint8: the dash widened by the margin, the cells that it occupies
    near: np.ndarray  # (D, S + 2·margin, S + 2·margin) uint8: the mask widened by the margin once more
    footprint: np.ndarray  # (D, S, S) bool: where the mask is full
    search_allowed: np.ndarray  # (360,) bool: directions for which the search of a place for a first dash works
    seed_allowed: np.ndarray  # (360,) bool: directions in which the first long path may begin
    seed_low: np.ndarray  # (360, 2): first middle for which the footprint lies in the central square
    seed_high: np.ndarray  # (360, 2): last such middle
    seed_head: np.ndarray  # (360, 2): from the middle of a first dash to its end
    seed_pivot: np.ndarray  # (360, 2): from the middle of a first dash to the pivot before it
    next_pivot: np.ndarray  # (D, 2): from a pivot to the next one
    ring: np.ndarray  # (K, 2): from a pivot to the cells where a dash may end
    turn_weight: np.ndarray  # (D, K): preference for each ring cell after the last dash's direction
    away: np.ndarray  # (360, 2): steps of length `seed_distance`
    marker: np.ndarray  # (R, R) float32: a disc
    footprint_shift: int  # offset of the footprint when a beginning is searched
    tests_pairs: bool  # see `PathfinderSettings`


def make_tables(settings: PathfinderSettings, margin: int, lra_compat: bool) -> PathfinderTables:
    """Compute the tables of a resolution for one margin.

    With `lra_compat`, paths begin as in the original code, whose search looks one pixel down and right of where the
    dash is drawn and gives up where that footprint misses a side of a picture's corner: at 32 pixels only 31 of 360
    directions are left, at 64 a quarter, above that (nearly) all.
    """
    length, thickness = settings.dash_length, settings.dash_thickness
    half = length + math.ceil(thickness) + margin
    radius = length + margin
    degrees = np.deg2rad(np.arange(NUM_DEGREES))
    ring = _ring(radius)
    ring_angles = np.arctan2(ring[:, 0], ring[:, 1])
    last_angles = np.concatenate([degrees, ring_angles])
    # A later dash is drawn from its end back towards the pivot.
    stamp_angles = np.concatenate([degrees, ring_angles + np.pi])
    stamps = [_stamp(angle, length, thickness, margin, half) for angle in stamp_angles]
    ink = np.stack([stamp[0] for stamp in stamps])
    mask = np.stack([stamp[1] for stamp in stamps])
    footprint = mask == 255
    shift = 1 if lra_compat else 0
    cells = [np.argwhere(full) - half + shift for full in footprint[:NUM_DEGREES]]  # from where a dash belongs
    searchable = np.array([not lra_compat or _reaches_all_quadrants(cell) for cell in cells])
    # the first position of a dash whose footprint stays in the middle of the picture, and the last
    edge = min(2 * settings.seed_distance, settings.size // 2 - 2)
    low = np.array([edge - cell.min(0) for cell in cells])
    high = np.array([settings.size - 1 - edge - cell.max(0) for cell in cells])
    turn = np.abs((ring_angles[None] - last_angles[:, None] + np.pi) % (2 * np.pi) - np.pi)
    room = np.pad(mask, ((0, 0), (margin, margin), (margin, margin)))
    return PathfinderTables(
        pad=2 * (length + 2 * margin) + half + margin + 2,
        half=half,
        margin=margin,
        ink=ink,
        mask=mask,
        near=widen(room, margin),
        footprint=footprint,
        search_allowed=searchable,
        seed_allowed=searchable & (low <= high).all(1),
        seed_low=low,
        seed_high=high,
        seed_head=_advance(degrees, length),
        seed_pivot=_advance(degrees, length) + _advance(degrees + np.pi, length + margin),
        next_pivot=_advance(last_angles, length + 2 * margin),
        ring=ring,
        turn_weight=np.maximum(0.0, np.cos(np.minimum(settings.continuity * turn, np.pi / 2))) ** 2,
        away=np.rint(settings.seed_distance * np.stack([np.sin(degrees), np.cos(degrees)], 1)).astype(np.int64),
        marker=_marker(settings.marker_radius),
        footprint_shift=shift,
        tests_pairs=settings.tests_pairs,
    )


def _advance(angles: np.ndarray, distance: float) -> np.ndarray:
    """Integer steps (len(angles), 2) of a length along directions, rounded up."""
    steps = distance * np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    return np.ceil(steps - 1e-9).astype(np.int64)


def _ring(radius: int) -> np.ndarray:
    """Cells (K, 2) that a circle passes, looked at in arcs of one pixel."""
    angles = np.arange(0, 2 * np.pi, 1 / radius)
    cells = np.floor(radius * np.stack([np.sin(angles), np.cos(angles)], axis=-1) + 1e-9)
    return np.unique(cells.astype(np.int64), axis=0)


def _stamp(angle: float, length: int, thickness: float, margin: int, half: int) -> tuple[np.ndarray, np.ndarray]:
    """A dash from the middle of a (2·half+1)² patch, and the dash widened by the margin; uint8."""
    from PIL import Image, ImageDraw

    middle = half * ANTIALIAS
    fine = Image.new("L", (2 * middle + 1, 2 * middle + 1))
    end_y, end_x = middle + _advance(np.array(angle), length * ANTIALIAS)
    width = round(thickness * ANTIALIAS)
    ImageDraw.Draw(fine).line([(middle, middle), (int(end_x), int(end_y))], fill=255, width=width)
    line = np.asarray(fine)
    return _shrink(line, 2 * half + 1), _shrink(widen(line, margin * ANTIALIAS), 2 * half + 1)


def widen(pictures: np.ndarray, radius: int) -> np.ndarray:
    """Maximum over a disc around each cell of (..., H, W); what lies at the edges comes back on the other side."""
    y, x = np.ogrid[-radius : radius + 1, -radius : radius + 1]
    return maximum_filter(pictures, footprint=y * y + x * x <= radius * radius, mode="wrap", axes=(-2, -1))


def _shrink(picture: np.ndarray, side: int) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.fromarray(picture).resize((side, side), Image.Resampling.LANCZOS))


def _marker(radius: float) -> np.ndarray:
    """A disc of value 1 around the middle of a patch of odd side, float32."""
    half = math.ceil(radius) + 2
    side = (2 * half + 1) * ANTIALIAS
    y, x = np.mgrid[:side, :side] - half * ANTIALIAS
    disc = np.where(y * y + x * x <= (radius * ANTIALIAS) ** 2, 255, 0).astype(np.uint8)
    return _shrink(disc, 2 * half + 1).astype(np.float32) / 255


def _reaches_all_quadrants(cells: np.ndarray) -> bool:
    """Whether a footprint has a cell in all four closed quadrants."""
    y, x = cells.T
    return all(((sy * y >= 0) & (sx * x >= 0)).any() for sy in (-1, 1) for sx in (-1, 1))
