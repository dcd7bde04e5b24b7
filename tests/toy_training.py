"""Fixtures for tests that train: toy tasks in the task table, and tiny recipes."""

import pytest
import torch

from hf_longseq.data.task import TASKS, TaskEntry


@pytest.fixture(autouse=True)
def toy_tasks(monkeypatch, tmp_path_factory):
    """Toy tasks in the task table, and a cache of their own for generated data."""
    for name in ("waves", "heights", "tags", "twins"):
        monkeypatch.setitem(TASKS, name, TaskEntry(f"toy_tasks:{name}", "toy", "generated", "32 rows"))
    cache = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(cache))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def tiny():
    """Make a tiny recipe: `tiny(task="waves", arch="s4", pretrain={...})`."""
    from hf_longseq import Recipe

    def make(task="waves", arch="s4", **sections):
        overrides = {name: dict(values) for name, values in sections.items()}
        overrides.setdefault("data", {})["task"] = task
        overrides.setdefault("model", {})["arch"] = arch
        return Recipe.load(None, overrides, tiny=True)

    return make
