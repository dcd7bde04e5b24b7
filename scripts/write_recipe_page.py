# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/recipes.md from the recipes that ship with the package."""

from pathlib import Path

from hf_longseq.analysis.recipe_page import recipe_page

page = Path(__file__).resolve().parent.parent / "docs" / "recipes.md"
page.write_text(recipe_page(), encoding="utf-8")
print(f"{page} written")
