import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def generated_data(tmp_path_factory):
    """One cache of generated data for all commands, one thread."""
    patch = pytest.MonkeyPatch()
    patch.setenv("HF_LONGSEQ_CACHE", str(tmp_path_factory.mktemp("cache")))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    patch.undo()
