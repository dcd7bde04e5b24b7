"""The page of the recipes says what the YAML files say."""

from hf_longseq import recipes
from write_recipe_page import PAGE, recipe_page


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == recipe_page(), "run scripts/write_recipe_page.py"


def test_no_recipe_is_left_out():
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in text for name in recipes.names())
