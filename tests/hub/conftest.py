import time
import types

import pytest
import torch
from huggingface_hub import constants

from hf_longseq.cli.main import main
from hub_server import HubServer

TINY = ["--task", "spoken-tones", "--arch", "s4", "--tiny", "--max_steps", "2"]


@pytest.fixture
def hub():
    """An empty Hub on loopback."""
    with HubServer() as server:
        yield server


@pytest.fixture
def online(hub, tmp_path, monkeypatch):
    """The client of this process talks to the Hub on loopback, with empty caches."""
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    # it would wait for seconds between its trials
    unhurried = types.SimpleNamespace(**vars(time) | {"sleep": lambda seconds: None})
    for module in ("file_download", "utils._http"):
        monkeypatch.setattr(f"huggingface_hub.{module}.time", unhurried)
    # transformers keeps one client, of the server that the first upload of the process went to
    monkeypatch.setattr("transformers.utils.hub._hf_api", None, raising=False)
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_TOKEN", hub.token)
    return hub


@pytest.fixture
def unchecked(monkeypatch):
    """Built folders are not opened in a process of their own; a list of what that process would have been given."""
    handed = []
    monkeypatch.setattr("hf_longseq.hub.publish.check_folder", lambda *words: handed.append(words))
    return handed


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Two finished runs, `pretrained` and `classifier`, with traces of the machine and secrets beside them."""
    folder = tmp_path_factory.mktemp("runs")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    patch = pytest.MonkeyPatch()
    patch.setenv("HF_LONGSEQ_CACHE", str(tmp_path_factory.mktemp("cache")))
    assert main(["pretrain", *TINY, "--output_dir", str(folder / "pretrained")]) == 0
    words = ["--init_from", str(folder / "pretrained"), "--output_dir", str(folder / "classifier")]
    assert main(["finetune", "--max_steps", "2", *words]) == 0
    patch.undo()
    torch.set_num_threads(threads)
    for name in ("optimizer.pt", "training_args.bin", ".env", "notes.txt", "train.parquet"):
        (folder / "classifier" / name).write_text("secret of this machine")
    return folder
