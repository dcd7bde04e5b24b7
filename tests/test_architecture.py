"""The arrows between the rooms, which `.importlinter` states: one way, no circle, and models that travel alone."""

import sys
from pathlib import Path

import grimp
import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[1]
TRAVEL = {"torch", "transformers", "huggingface_hub", "PIL"}  # what transformers brings, and pictures need


@pytest.fixture(autouse=True)
def at_root(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("logging.config.dictConfig", lambda settings: None)  # it would silence this package's loggers


def test_imports_keep_the_contracts(capsys):
    assert lint_imports(str(ROOT / ".importlinter"), no_cache=True, no_logo=True) == 0, capsys.readouterr().out


def test_an_arrow_that_points_up_is_found(tmp_path, monkeypatch, capsys):
    rooms = {"cli": "", "training": "import toy.cli", "models": ""}
    for room, text in rooms.items():
        (tmp_path / "toy" / room).mkdir(parents=True)
        (tmp_path / "toy" / room / "__init__.py").write_text(text)
    (tmp_path / "toy" / "__init__.py").touch()
    stated = (ROOT / ".importlinter").read_text().split("[importlinter:contract:models]")[0]
    layers = stated.split("layers =\n")[1].split()
    stated = stated.split("layers =\n")[0].replace("hf_longseq", "toy")
    kept = "\n    ".join(layer for layer in layers if layer in rooms)
    (tmp_path / "contract.ini").write_text(f"{stated}layers =\n    {kept}\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert lint_imports(str(tmp_path / "contract.ini"), no_cache=True, no_logo=True) == 1
    assert "toy.training -> toy.cli" in capsys.readouterr().out


def test_models_import_what_travels_with_transformers():
    graph = grimp.build_graph("hf_longseq", include_external_packages=True, cache_dir=None)
    files = {name for name in graph.modules if name.startswith("hf_longseq.models")}
    found = {other for name in files for other in graph.find_modules_directly_imported_by(name)} - files
    assert {"torch", "transformers"} <= found
    assert not found - TRAVEL - set(sys.stdlib_module_names)
