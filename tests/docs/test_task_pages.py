"""Every task has a page, and the pages say what the loaders do."""

from pathlib import Path

import pytest

from hf_longseq.data.task import TASKS
from write_task_pages import index, task_page

PAGES = Path(__file__).parents[2] / "docs" / "tasks"


@pytest.mark.parametrize("name", TASKS)
def test_the_page_is_up_to_date(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert (PAGES / f"{name}.md").read_text() == task_page(name), "run scripts/write_task_pages.py"


@pytest.mark.parametrize("name", TASKS)
def test_the_page_opens_with_a_question(name):
    assert "?" in task_page(name).splitlines()[2]


def test_every_option_is_explained():
    for name in TASKS:
        for line in task_page(name).splitlines():
            assert not (line.startswith("| `--data.") and line.endswith("|  |")), (name, line)


def test_the_list_is_complete():
    assert (PAGES / "README.md").read_text() == index()
    assert {path.stem for path in PAGES.glob("*.md")} == {*TASKS, "README"}
