"""The page on security names the test of every promise."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_named_test_exists():
    page = (ROOT / "docs/security.md").read_text(encoding="utf-8")
    tests = {path.name: path.read_text(encoding="utf-8") for path in ROOT.glob("tests/**/test_*.py")}
    file, named = None, re.findall(r"`(?:[\w/]*?(test_\w+\.py))?(?:::(test_\w+))?`", page)
    named = [found for found in named if any(found)]
    assert len(named) > 20
    for found, test in named:
        file = found or file  # `::test_x` is in the file that was named before
        assert file in tests and (not test or f"def {test}(" in tests[file]), (file, test)
