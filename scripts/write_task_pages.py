# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/tasks/: one page per task and their list, from the loaders' own descriptions."""

from pathlib import Path

from hf_longseq.analysis.task_pages import index, task_page
from hf_longseq.data.task import TASKS

folder = Path(__file__).resolve().parent.parent / "docs" / "tasks"
folder.mkdir(parents=True, exist_ok=True)
for name in TASKS:
    (folder / f"{name}.md").write_text(task_page(name), encoding="utf-8")
(folder / "README.md").write_text(index(), encoding="utf-8")
print(f"{len(TASKS)} pages in {folder}")
