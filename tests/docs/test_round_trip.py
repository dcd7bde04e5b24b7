"""docs/round_trip.md, line by line over real HTTP: a task, its rows, a comparison, a model, its leaderboard entry."""

import re
import shlex
from pathlib import Path

import pytest
import yaml
from huggingface_hub import constants, parse_eval_result_entries

from hf_longseq.cli.main import main
from hub_server import HubServer

PAGE = (Path(__file__).parents[2] / "docs" / "round_trip.md").read_text(encoding="utf-8")
# The words that make a command of the page small.
SMALL = {
    "tasks": ["--data.train_examples", "40", "--data.eval_examples", "12", "--data.min_length", "4",
              "--data.max_length", "30"],
    "spt": ["--inits", "scratch,spt", "--max_steps", "2", "--model.hidden_size", "8", "--model.num_hidden_layers", "1",
            "--model.state_size", "4", "--pretrain.global_batch_size", "8", "--finetune.global_batch_size", "8",
            "--finetune.eval_steps", "2", "--pretrain.eval_steps", "2"],
    "publish": [],
}  # fmt: skip


@pytest.fixture
def hub(tmp_path, monkeypatch, undrawn):
    """The Hub on loopback, to which this process and those that it starts talk."""
    with HubServer() as server:
        for name, value in {
            **server.environment(tmp_path / "home", server.token),
            "HF_LONGSEQ_CACHE": "cache",
        }.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        template = server.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
        monkeypatch.syspath_prepend(str(tmp_path / "modules"))
        # that a built folder opens in a process of its own is tested with `publish`
        monkeypatch.setattr("hf_longseq.hub.publish.check_folder", lambda *words: None)
        monkeypatch.chdir(tmp_path)
        yield server


@pytest.mark.slow
def test_the_page_runs_from_its_first_line_to_its_last(hub, capsys):
    said = []
    for language, block in re.findall(r"```(\w+)\n(.*?)```", PAGE.replace("me/", f"{hub.user}/"), flags=re.S):
        if language == "python":
            exec(compile(block, "round_trip.md", "exec"), {})
            said.append(capsys.readouterr().out)
            continue
        for line in block.splitlines():
            program, *words = shlex.split(line)
            assert program == "hf-longseq"
            assert main([*words, *SMALL[words[0]]]) == 0, capsys.readouterr().err
            said.append(capsys.readouterr().out)
    published, read, table, model, page, opened, filed = said

    commit = hub.repo("tester/lra-listops", "datasets").branches["main"].oid
    assert commit in published and f"40 examples from {hub.url}/datasets/tester/lra-listops/tree/{commit}" in read
    assert "accuracy" in table and f"{hub.url}/tester/s4-listops at commit" in model
    assert opened.split()[1] == "longseq_s4"
    assert f"{hub.url}/datasets/tester/listops-compared at commit" in page and len(hub.collections) == 1
    (entry,) = parse_eval_result_entries(yaml.safe_load(filed))
    assert (entry.dataset_id, entry.task_id, entry.dataset_revision) == ("tester/lra-listops", "listops", commit)
    assert entry.notes.endswith("arm s4 spt") and 0 <= entry.value <= 1
