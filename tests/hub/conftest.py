import pytest
import torch

from hf_longseq.cli.main import main
from hub_server import HubServer

TINY = ["--task", "spoken-tones", "--arch", "s4", "--tiny", "--max_steps", "2"]


@pytest.fixture
def hub():
    """An empty Hub on loopback."""
    with HubServer() as server:
        yield server


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
