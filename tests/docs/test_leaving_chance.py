"""docs/leaving_chance.md: its code gives the p value that the claims quote."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_code_gives_the_p_value_of_the_claims(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    page = Path("docs/leaving_chance.md").read_text(encoding="utf-8")
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL).group(1), {})
    claims = " ".join(Path("docs/claims.md").read_text(encoding="utf-8").split())
    assert f"(log-rank test, {capsys.readouterr().out.strip()})" in claims
