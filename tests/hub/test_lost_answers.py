"""A connection that breaks leaves all of the new files or none, and the command can be given again."""

import pytest
from huggingface_hub import HfApi, constants

from hf_longseq.errors import HfLongSeqError
from hf_longseq.hub.repository import Repository
from hub_server import Fault

NAME = "tester/model"
COMMIT = ("POST", "/commit/")


@pytest.fixture
def api(hub, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    return HfApi(endpoint=hub.url, token=hub.token)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "config.json").write_text('{"model_type": "longseq_s4"}')
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\n# Hello")
    return tmp_path


def publish(api, folder, revision=None):
    return Repository(api, NAME, revision).take(folder, "Publish", "").commit


@pytest.mark.parametrize("status", ["cut", 500])
def test_a_commit_that_was_not_made_is_made_when_the_command_is_given_again(hub, api, folder, status):
    hub.faults = [Fault(*COMMIT, status)]
    with pytest.raises(HfLongSeqError, match="model holds all of the new files or none .*rerun the command"):
        publish(api, folder)
    assert set(hub.repo(NAME).files) == {".gitattributes"}
    publish(api, folder)
    assert "README.md" in hub.repo(NAME).files


@pytest.mark.parametrize("revision", [None, "work"])
def test_a_commit_whose_answer_is_lost_is_there_when_the_command_is_given_again(hub, api, folder, revision):
    hub.faults = [Fault(*COMMIT, "lost")]
    with pytest.raises(HfLongSeqError, match="rerun the command"):
        publish(api, folder, revision)
    made = hub.repo(NAME).branches[revision or "main"].oid
    assert publish(api, folder, revision) == made
    assert set(hub.repo(NAME).branches[revision or "main"].files) >= {"config.json", "README.md", "model.safetensors"}
