"""What `docs/kernels.md` says of kept kernels is what their curves say."""

from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("checkpoint, layer, sentence", [
    ("pretrained", 3, "{row:.0f} dB below a channel's peak after pretraining, and {near:.0f} and {far:.0f} dB"),
    ("SPT", 3, "with labels it is {row:.0f} dB, between {near:.0f} and {far:.0f}."),
    ("scratch", 3, "From scratch they only fall ({near:.0f}, {row:.0f} and {far:.0f} dB at the three offsets)"),
    ("DNA SPT", 3, "so they do on DNA ({near:.0f}, {row:.0f} and {far:.0f})"),
    ("pretrained 21", 3, "Seed 21 learned the same: {row:.0f} dB in the last layer, between {near:.0f} and {far:.0f}"),
    ("pretrained", 0, "The first layer knows least of rows: {row:.0f} dB, between {near:.0f} and {far:.0f}."),
])  # fmt: skip
def test_kernels_of_pathfinder_peak_at_the_distance_of_a_row(checkpoint, layer, sentence):
    curves = pd.read_csv(ROOT / "results/kernels/pathfinder-s4/curves.csv")
    kernels = curves[curves["curve"] == "kernel_median_db_by_offset"]
    of_layer = kernels[(kernels["checkpoint"] == checkpoint) & (kernels["layer"].astype(str) == str(layer))]
    below = -of_layer.set_index(of_layer["at"].round())["value"]
    numbers = {"near": below[-22], "row": below[-32], "far": below[-46]}
    assert (numbers["row"] < min(numbers["near"], numbers["far"]) - 2) == (checkpoint not in ("scratch", "DNA SPT"))
    page = " ".join((ROOT / "docs/kernels.md").read_text(encoding="utf-8").split())
    assert sentence.format(**numbers) in page


def test_heads_look_at_near_pixels_of_their_path_and_none_tells_the_paths_apart():
    heads = pd.read_csv(ROOT / "results/kernels/pathfinder-transformer/contours.csv")
    near, apart = heads.groupby("checkpoint")["near"].max(), (heads["far"] / heads["other"]).max()
    page = " ".join((ROOT / "docs/kernels.md").read_text(encoding="utf-8").split())
    assert (
        f"{near['pretrained']:.1f} times what the same places get on average after pretraining, "
        f"{near['SPT']:.1f} times after fine-tuning and {near['scratch']:.1f} times from scratch" in page
    )
    assert f"own path more than {apart:.1f} times what it gives the other one" in page and len(heads) == 48
