"""A request whose answer is lost may have been done: what is said of the repository then is what it holds."""

import pytest
from huggingface_hub import HfApi, constants

from hf_longseq.errors import HfLongSeqError
from hf_longseq.hub.repository import Repository, said_in_one_sentence
from hub_server import Fault

NAME = "tester/model"
COMMIT, CREATE, INFO = (("POST", "/commit/"), ("POST", "/repos/create"), ("GET", f"/api/models/{NAME}"))


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
    with said_in_one_sentence(NAME, api) as repo.told:
        repo.make(private=False)
        if revision:
            repo.make_branch()
        return repo.upload(folder, "Publish", repo.files())


def said(api, folder, *faults, revision=None, hub):
    hub.faults = list(faults)
    with pytest.raises(HfLongSeqError) as error:
        publish(api, folder, revision)
    hub.faults = []
    return str(error.value)


@pytest.mark.parametrize("revision", [None, "work"])
def test_a_commit_whose_answer_is_lost_is_a_publication(hub, api, folder, revision):
    hub.faults = [Fault(*COMMIT, "lost")]
    commit = publish(api, folder, revision)
    assert commit == hub.repo(NAME).branches[revision or "main"].oid
    assert set(hub.repo(NAME).branches[revision or "main"].files) > {"config.json", "README.md", "model.safetensors"}
    (folder / "README.md").write_text("again")
    hub.faults = [Fault(*COMMIT, "lost")]
    assert publish(api, folder, revision) != commit and hub.repo(NAME).branches[revision or "main"].title == "Publish"


def test_a_repository_that_was_only_just_created_is_said_to_be_empty(hub, api, folder):
    assert "tester/model was created and is empty: rerun the command" in said(
        api, folder, Fault(*COMMIT, "cut"), hub=hub
    )
    assert set(hub.repo(NAME).files) == {".gitattributes"}
    assert "was not changed: rerun the command" in said(api, folder, Fault(*COMMIT, "cut"), hub=hub)
    branch = said(api, folder, Fault(*COMMIT, 500), revision="work", hub=hub)
    assert "was not changed (apart from the branch work, which may be new): rerun the command" in branch
    publish(api, folder)
    assert "README.md" in hub.repo(NAME).files


def test_a_repository_whose_creation_is_lost_is_there(hub, api, folder):
    hub.faults = [Fault(*CREATE, "lost")]
    publish(api, folder)
    assert "README.md" in hub.repo(NAME).files


def test_a_repository_that_was_not_created_is_said_not_to_be(hub, api, folder):
    assert "tester/model was not created: rerun the command" in said(api, folder, Fault(*CREATE, "cut"), hub=hub)
    assert not hub.repos


def test_what_nobody_can_say_is_not_said(hub, api, folder):
    publish(api, folder)
    (folder / "README.md").write_text("again")
    asked = sum(line.startswith(f"GET /api/models/{NAME}") for line in hub.requests)
    publish(api, folder)
    asked = sum(line.startswith(f"GET /api/models/{NAME}") for line in hub.requests) - asked
    (folder / "README.md").write_text("and again")
    both = (Fault(*COMMIT, "lost"), Fault(*INFO, 500, times=99, skip=asked))
    message = said(api, folder, *both, hub=hub)
    assert "may hold the new files or the old ones: rerun the command" in message
    assert "was not changed" not in message
    creation = said(api, folder, Fault(*CREATE, "lost"), Fault(*INFO, 500, times=99), hub=hub)
    assert "was not changed" in creation  # not even asked for: the repository is there


def test_a_commit_of_somebody_else_is_not_taken_for_ours(hub, api, folder, monkeypatch):
    publish(api, folder)
    (folder / "README.md").write_text("again")

    def meanwhile(*args, **kwargs):
        repo = hub.repo(NAME)
        repo.branches["main"] = repo.branches["main"].child("theirs", repo.files_of_main())
        raise ConnectionError("lost")

    monkeypatch.setattr(api, "create_commit", meanwhile)
    monkeypatch.setattr(type(hub.repo(NAME)), "files_of_main", lambda repo: repo.branches["main"].files, raising=False)
    with pytest.raises(HfLongSeqError, match="was changed by another commit"):
        publish(api, folder)
