"""The page of spans: signals and long sequences as bands; runs that have no spans are refused."""

import json

import numpy as np
import pytest

from hf_longseq import Recipe, finetune
from hf_longseq.analysis.span_page import write_span_page
from hf_longseq.errors import HfLongSeqError


def run(tmp_path, rows, seed=0, **data):
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    sections = {"max_steps": 1, "global_batch_size": 4}
    model = {"arch": "s4", "hidden_size": 8, "num_hidden_layers": 1, "state_size": 4}
    own = {"task": "own-data", "data": str(tmp_path / "own.jsonl"), "cache_dir": str(tmp_path / "cache"), **data}
    recipe = Recipe.load({"model": model, "data": own, "finetune": sections})
    return finetune(recipe, tmp_path / "run", seed=seed).output_dir


def test_signals_have_bands_under_the_curve(tmp_path):
    waves = np.sin(np.arange(40 * 30).reshape(40, 30)).tolist()
    folder = run(tmp_path, [{"x": wave, "spans": "O*10 beat*5 O*15"} for wave in waves])
    page = write_span_page(folder, limit=2).read_text(encoding="utf-8")
    assert page.count("<svg") == page.count("<polyline") == 2
    assert page.count("<title>truth: beat 10 to 15</title>") == 2


def test_the_labelled_examples_are_those_of_the_seed_of_the_run(tmp_path):
    rows = [{"x": [float(i), 1.0, 2.0, 0.0], "spans": "O*1 beat*1 O*2"} for i in range(20)]
    folder = run(tmp_path, rows, seed=3, num_train_examples=4, validation="separate")
    assert write_span_page(folder, split="train").read_text(encoding="utf-8").count("<svg") == 4


def test_runs_without_spans_are_refused(tmp_path):
    folder = run(tmp_path, [{"x": [float(i), 1.0, 2.0], "label": i % 2} for i in range(20)])
    with pytest.raises(HfLongSeqError, match="labels positions"):
        write_span_page(folder)
