import pytest
import torch

from space_checkpoints import save_checkpoints


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory):
    """A folder with toy checkpoints, by name."""
    folder = tmp_path_factory.mktemp("checkpoints")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    save_checkpoints(folder)
    torch.set_num_threads(threads)
    return folder
