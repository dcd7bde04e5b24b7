import pytest

from hub_server import HubServer


@pytest.fixture
def hub():
    """An empty Hub on loopback."""
    with HubServer() as server:
        yield server
