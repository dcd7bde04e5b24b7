import pytest

from hf_longseq.comparison import execute
from toy_training import tiny, toy_tasks  # noqa: F401  fixtures


@pytest.fixture(autouse=True)
def networks_alone(request, monkeypatch):
    """Comparisons of toys without linear models beside them; tests/comparison/test_baselines.py has them."""
    if "test_baselines" not in request.node.nodeid:
        monkeypatch.setattr(execute, "add_baselines", lambda *arguments: None)
