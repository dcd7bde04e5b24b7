"""Which heads of a Transformer follow a contour of Pathfinder? A table and a picture.

python scripts/contours.py --labels NAME ... --output_dir FOLDER CHECKPOINT ...

Attention from a pixel of a long path to pixels of that path up to 3 rows and columns away (`near`), to its pixels
further away (`far`), and to such pixels of the other long path (`other`), over what the same head gives the same pairs
of places on average over all pictures: 1 is a head that looks at places, whatever lies there.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
import pandas as pd
import torch
from datasets import Dataset, DatasetDict
from matplotlib import pyplot as plt

from hf_longseq.analysis.kernels import as_inputs, open_checkpoint
from hf_longseq.data import pathfinder, pathfinder_kernel
from hf_longseq.data.pixels import pixel_form, pixel_rows

# a seed that no data set has
SIZE, SEED, PICTURES, NEAR, SHOWN = 16, 12345, 200, 3, 4


def long_paths(number: int) -> np.ndarray:
    """Which pixels (2, L) belong to either long path of a picture, which is drawn again up to them."""
    parameters = pathfinder.drawing_parameters(SIZE)
    tables, frame = pathfinder._canvas(SIZE, parameters["margins"][0], parameters["lra_compat"])
    state = np.frombuffer(pathfinder.digest_of(SEED, number)[:8], dtype="<u8").copy()
    dashes = parameters["contour_length"]
    paths, places = np.empty((2, dashes, 3), dtype=np.int64), np.empty((2, 3), dtype=np.int64)
    with np.errstate(over="ignore"):
        pathfinder_kernel._uniform(state)  # the label
        pathfinder_kernel._draw_long_paths(frame.copy(), frame, state, tables, SIZE, paths, places)
    inside = slice(tables.pad, tables.pad + SIZE)
    covered = []
    for path in paths:
        canvas = np.zeros(frame.shape[1:], dtype=np.float32)
        for y, x, stamp in path:
            pathfinder_kernel._cover(canvas, y, x, tables.half, tables.ink[stamp] / np.float32(255))
        covered.append(canvas[inside, inside].ravel() > 0.3)
    return np.stack(covered)


def attention(folder: str, pictures: list[dict]) -> np.ndarray:
    """Weights (pictures, layers, heads, L, L) of a checkpoint on pictures, float32."""
    _, model = open_checkpoint(folder)
    model.set_attn_implementation("eager")
    spec = pixel_form(pathfinder.task_spec(SIZE), tokens=False, num_levels=256)
    rows = pixel_rows(DatasetDict(all=Dataset.from_list(pictures)), spec)["all"]
    with torch.no_grad():
        return np.stack(
            [
                torch.cat(model(**one, use_cache=False, output_attentions=True).attentions).numpy()
                for one in as_inputs(list(rows), spec, model.config, SIZE * SIZE, len(rows))
            ]
        )


def along_contours(weights: np.ndarray, paths: list[np.ndarray]) -> pd.DataFrame:
    """Rows of layer, head and the three ratios."""
    usual_JNLL = weights.mean(0)
    y, x = np.divmod(np.arange(SIZE * SIZE), SIZE)
    distance = np.maximum(abs(y[:, None] - y), abs(x[:, None] - x))
    near, far = (distance > 0) & (distance <= NEAR), distance > NEAR
    sums = {name: np.zeros((2, *usual_JNLL.shape[:2])) for name in ("near", "far", "other")}
    for weights_JNLL, (first, second) in zip(weights, paths, strict=True):
        for own, others in ((first & ~second, second & ~first), (second & ~first, first & ~second)):
            for name, keys, apart in (("near", own, near), ("far", own, far), ("other", others, far)):
                pairs = np.outer(own, keys) & apart
                sums[name] += weights_JNLL[..., pairs].sum(-1), usual_JNLL[..., pairs].sum(-1)
    ratios = {name: (found / usual).ravel().round(3) for name, (found, usual) in sums.items()}
    layer, head = np.indices(usual_JNLL.shape[:2])
    return pd.DataFrame({"layer": layer.ravel(), "head": head.ravel(), **ratios})


def draw(pictures: list[dict], paths: list[np.ndarray], seen: dict[str, np.ndarray], file: Path) -> None:
    """Some pictures, and below them what a head of each checkpoint looks at from the pixel with the circle."""
    figure, axes = plt.subplots(1 + len(seen), SHOWN, figsize=(1.6 * SHOWN, 1.7 * (1 + len(seen))), squeeze=False)
    for column in range(SHOWN):
        own = np.flatnonzero(paths[column][0])
        pixel = int(own[len(own) // 2])
        shown = {"picture": np.asarray(pictures[column]["input_values"])}
        shown |= {name: weights[column, pixel] for name, weights in seen.items()}
        for axis, (name, values) in zip(axes[:, column], shown.items(), strict=True):
            axis.imshow(values.reshape(SIZE, SIZE), cmap="gray" if name == "picture" else "magma")
            axis.plot(pixel % SIZE, pixel // SIZE, "o", color="#3fb950", markersize=7, fillstyle="none")
            axis.set_xticks([], [])
            axis.set_yticks([], [])
            if column == 0:
                axis.set_ylabel(name, fontsize=8)
    figure.tight_layout(pad=0.4)
    figure.savefig(file, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoints", nargs="+")
    parser.add_argument("--labels", nargs="+", required=True)
    parser.add_argument("--output_dir", type=Path, required=True)
    options = parser.parse_args()
    options.output_dir.mkdir(parents=True, exist_ok=True)
    parameters = pathfinder.drawing_parameters(SIZE)
    pictures = [pathfinder.make_row(parameters, SEED, number) for number in range(PICTURES)]
    paths = [long_paths(number) for number in range(PICTURES)]
    tables, seen = [], {}
    for label, folder in zip(options.labels, options.checkpoints, strict=True):
        weights = attention(folder, pictures)
        table = along_contours(weights, paths)
        best = table.loc[table["near"].idxmax()]
        layer, head = int(best["layer"]), int(best["head"])
        seen[f"{label}\nlayer {layer}, head {head}"] = weights[:, layer, head]
        tables.append(table.assign(checkpoint=label))
    table = pd.concat(tables)[["checkpoint", "layer", "head", "near", "far", "other"]]
    table.to_csv(options.output_dir / "contours.csv", index=False)
    draw(pictures, paths, seen, options.output_dir / "contours.png")
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
