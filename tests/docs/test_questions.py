"""The pages that answer a question run as they stand there, on small files of the form that they describe."""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hf_longseq.cli.main import main

PAGES = Path(__file__).parents[2] / "docs" / "questions"


def sensor_files():
    draw = np.random.default_rng(0)
    recording = pd.DataFrame(draw.normal(size=(20 * 60 * 4, 2)), columns=["x", "y"])  # twenty hours, every 15 seconds
    recording.insert(0, "time", np.arange(len(recording)) * 15.0)
    minutes = range(0, 20 * 60, 6)
    recording.to_csv("sensor.csv", index=False)
    pd.DataFrame({"minute": minutes, "label": ["walk" if i % 12 else "rest" for i in minutes]}).to_csv(
        "labels.csv", index=False
    )


def dna_files():
    draw = np.random.default_rng(0)
    lines = ["".join(draw.choice(list("ACGT"), 70)) for _ in range(300)]
    Path("genome.fasta").write_text(">chromosome\n" + "\n".join(lines) + "\n")
    starts = np.arange(0, 12_000, 300)
    pd.DataFrame({"start": starts, "label": np.where(starts % 600, "gene", "none")}).to_csv("labels.csv", index=False)


def log_files():
    hours = pd.date_range("2026-01-01", periods=24 * 30, freq="h")
    lines = [f"{hour:%Y-%m-%d %H}:{minute:02} worker {minute % 3} done" for hour in hours for minute in (5, 25)]
    Path("app.log").write_text("\n".join(lines) + "\n")
    marked = hours[::9].strftime("%Y-%m-%d %H")
    labels = ["quiet" if i % 3 else "incident" for i in range(len(marked))]
    pd.DataFrame({"time": marked, "label": labels}).to_csv("incidents.csv", index=False)


FILES = {"sensors": sensor_files, "dna": dna_files, "logs": log_files}


def test_every_page_is_tested_and_listed():
    listed = re.findall(r"\]\((\w+)\.md\)", (PAGES / "README.md").read_text(encoding="utf-8"))
    assert sorted(FILES) == sorted(listed) == sorted(page.stem for page in PAGES.glob("*.md") if page.stem != "README")


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_the_page_gets_from_raw_files_to_answers(name, tmp_path, monkeypatch, undrawn):
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    FILES[name]()
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert page.startswith("# ") and page.rstrip().endswith("```")
    for language, block in re.findall(r"```(python|bash)\n(.*?)```", page, flags=re.DOTALL):
        if language == "python":
            exec(block, {})
            continue
        words = shlex.split(block)[1:]
        small = ["--tiny", "--max_steps", "2", "--seeds", "0"] if words[0] == "spt" else []
        assert main([*words, *small]) == 0
    assert len(pd.read_csv("answers.csv")) > 50
