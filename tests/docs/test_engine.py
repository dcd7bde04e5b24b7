"""docs/engine.md fits its page, its example runs as it stands there, and its times are those that were measured."""

import re
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/engine.md").read_text(encoding="utf-8")
MEASURED = pd.read_csv(ROOT / "benchmarks/results/cpu-2-epyc-encoders.csv").set_index(["what", "op", "length"])
LAYERS = pd.read_csv(ROOT / "benchmarks/results/cpu-epyc-1-thread-official.csv").query("what == 'layer'")
NAMES = {"BERT": "bert", "ModernBERT": "modernbert", "Mamba-2, both ways": "mamba2", "Transformer": "transformer"}
NAMES |= {"S4": "s4", "DLR": "dlr", "CNN": "cnn"}


def test_the_layer_alone_runs():
    names = {}
    exec(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0], names)
    assert names["y"].shape == (4, 1000, 32) and names["kernel"].shape == (2, 32, 1000)


def test_the_page_is_one_page():
    assert len(PAGE.splitlines()) <= 110


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 22 else f"{value:.1f}" if value >= 0.95 else f"{value:.2f}"


@pytest.mark.parametrize("label", NAMES)
def test_times_and_memory_are_those_of_the_file(label):
    cells = re.search(rf"^\| {label} \| ([\d–].*) \|$", PAGE, re.MULTILINE)[1].split(" | ")
    for length, cell in zip((512, 8192, 32768, 131072), cells, strict=True):
        step, predicted = (MEASURED.loc[(what, NAMES[label], length)] for what in ("training step", "prediction"))
        numbers = ["–", "–"] if pd.isna(step["seconds"]) else [_digits(step["seconds"]), f"{step['peak_mib']:,.0f}"]
        expected = [*numbers, "–" if pd.isna(predicted["seconds"]) else _digits(predicted["seconds"])]
        assert cell == ("–" if set(expected) == {"–"} else ", ".join(expected))


def test_where_an_encoder_of_transformers_is_faster_is_said_first():
    seconds = MEASURED["seconds"].unstack("op").dropna(subset=["transformer"])
    faster = seconds[["bert", "modernbert"]].min(axis=1) / seconds["transformer"]
    said = {place: round(ratio, 2) for place, ratio in faster[faster < 1].items()}
    assert said == {("prediction", 512): 0.89, ("prediction", 2048): 0.98, ("prediction", 8192): 0.99}
    words = "predicts at 0.89 times BERT's speed at 512 positions, at 0.98 at 2,048 and at 0.99 at 8,192"
    assert words in PAGE.replace("\n", " ")


def test_the_readme_quotes_the_file():
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    taken = [
        _digits(MEASURED.loc[("training step", op, 8192), "seconds"]) for op in ("s4", "transformer", "modernbert")
    ]
    assert "over 8,192 positions takes S4 {} s, our Transformer {}, ModernBERT {} and BERT 50".format(*taken) in readme
    assert MEASURED.loc[("training step", "bert", 8192), "seconds"] == pytest.approx(50, abs=0.5)


def _layer_rows(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^\| (?:S4|DLR) \| \([\d, ]+\) \|.*$", text, re.MULTILINE)


def _written(row) -> str:
    times = [f"{ms:,.0f}" if ms >= 22 else f"{ms:.1f}" for ms in (row.official_ms, row.ours_ms)]
    ratio = f"{row.ratio:.0f}" if row.ratio >= 22 else f"{row.ratio:.1f}" if row.ratio >= 2 else f"{row.ratio:.2f}"
    shape = f"({row.batch}, {row.length:,}, {row.hidden_size})"
    return f"| {row.arch.upper()} | {shape} | {times[0]} | {times[1]} | {ratio} |"


def test_layers_beside_the_official_design_are_those_of_the_file_the_worst_first():
    measured = [_written(row) for row in LAYERS.sort_values("ratio", kind="stable").itertuples()]
    assert _layer_rows("benchmarks/README.md") == measured
    shown = _layer_rows("docs/engine.md")
    assert shown == [line for line in measured if line in shown] and shown[0] == measured[0]
    worst = [LAYERS[LAYERS["length"] >= length]["ratio"].min() for length in (32, 128, 1024)]
    assert worst == [1.28, 1.45, 1.76]
    said = "At 32 and 64 the ratio is {:.2f} or more, from 128 on {:.2f}, from 1,024 on {:.2f}.".format(*worst)
    assert said in (ROOT / "docs/engine.md").read_text(encoding="utf-8")
