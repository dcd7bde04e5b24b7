"""A request whose answer is lost may have been done: the repository is asked before it counts as failed."""

import pytest
from huggingface_hub import HfApi, constants

from hf_longseq.errors import HfLongSeqError
from hf_longseq.hub.repository import Repository, said_in_one_sentence
from hub_server import Fault

NAME = "tester/model"
COMMIT, CREATE = ("POST", "/commit/"), ("POST", "/repos/create")


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
    repo = Repository(api, NAME, revision)
    with said_in_one_sentence(NAME, api):
        repo.make(private=False)
        if revision:
            repo.make_branch()
        return repo.upload(folder, "Publish")


@pytest.mark.parametrize("revision", [None, "work"])
def test_a_commit_whose_answer_is_lost_is_a_publication(hub, api, folder, revision):
    hub.faults = [Fault(*COMMIT, "lost")]
    commit = publish(api, folder, revision)
    assert commit == hub.repo(NAME).branches[revision or "main"].oid
    assert set(hub.repo(NAME).branches[revision or "main"].files) >= {"config.json", "README.md", "model.safetensors"}
    (folder / "README.md").write_text("again")
    hub.faults = [Fault(*COMMIT, "lost")]
    assert publish(api, folder, revision) != commit and hub.repo(NAME).branches[revision or "main"].title == "Publish"


@pytest.mark.parametrize("status", ["cut", 500])
def test_a_commit_that_was_not_made_is_made_when_the_command_is_given_again(hub, api, folder, status):
    hub.faults = [Fault(*COMMIT, status)]
    with pytest.raises(HfLongSeqError, match="model holds all of the new files or none: rerun the command"):
        publish(api, folder)
    assert set(hub.repo(NAME).files) == {".gitattributes"}
    publish(api, folder)
    assert "README.md" in hub.repo(NAME).files


def test_a_repository_whose_creation_is_lost_is_there(hub, api, folder):
    hub.faults = [Fault(*CREATE, "lost")]
    publish(api, folder)
    assert "README.md" in hub.repo(NAME).files


def test_a_commit_of_somebody_else_is_not_taken_for_ours(hub, api, folder, monkeypatch):
    publish(api, folder)
    (folder / "README.md").write_text("again")

    def meanwhile(*args, **kwargs):
        repo = hub.repo(NAME)
        repo.branches["main"] = repo.branches["main"].child("theirs", repo.branches["main"].files)
        raise ConnectionError("lost")

    monkeypatch.setattr(api, "create_commit", meanwhile)
    with pytest.raises(HfLongSeqError, match="the connection to .* failed .ConnectionError."):
        publish(api, folder)
