"""docs/engine.md fits its page, and its example runs as it stands there."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "engine.md").read_text(encoding="utf-8")


def test_the_layer_alone_runs():
    names = {}
    exec(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0], names)
    assert names["y"].shape == (4, 1000, 32) and names["kernel"].shape == (2, 32, 1000)


def test_the_page_is_one_page():
    assert len(PAGE.splitlines()) <= 110
