"""The Hub of the tests answers what the stock client sends: otherwise the other tests here would prove nothing."""

import pytest

from fresh_process import answer, run_fresh
from hub_server import Fault

CLIENT = """
import os, pathlib
from huggingface_hub import HfApi, hf_hub_download, snapshot_download, HfFileSystem, ModelCard
from huggingface_hub.errors import *
api = HfApi()
me = api.whoami()["name"]
here = pathlib.Path(os.environ["HF_HOME"])
big = os.urandom(300_000)

def raises(error, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except error:
        return
    raise AssertionError(f"{call} did not raise {error}")
"""


@pytest.mark.slow
def test_the_life_of_a_repository(hub, tmp_path):
    code = (
        CLIENT
        + """
folder = here / "folder"
(folder / "inner").mkdir(parents=True)
(folder / "README.md").write_text("---\\nlicense: mit\\ntags: [a]\\n---\\n# Hello")
(folder / "weights.safetensors").write_bytes(big)
(folder / "inner" / "note.txt").write_text("note")
(folder / "empty.txt").write_text("")
url = api.create_repo("first", exist_ok=True)
assert url == os.environ["HF_ENDPOINT"] + f"/{me}/first", url
repo = f"{me}/first"
raises(HfHubHTTPError, api.create_repo, "first")
api.create_repo("first", exist_ok=True)
api.create_repo("longseq-tests/second", private=True)
info = api.upload_folder(folder_path=folder, repo_id=repo, commit_message="all of it")
assert info.oid == api.model_info(repo).sha
assert api.model_info(repo).tags == ["a"] and api.model_info(repo).card_data.license == "mit"
names = {"README.md", "weights.safetensors", "inner/note.txt", "empty.txt", ".gitattributes"}
assert set(api.list_repo_files(repo)) == names
assert {e.path for e in api.list_repo_tree(repo)} == names - {"inner/note.txt"} | {"inner"}
assert api.file_exists(repo, "README.md") and not api.file_exists(repo, "none.txt")
(weights,) = api.get_paths_info(repo, ["weights.safetensors"])
assert weights.lfs.size == len(big)
assert pathlib.Path(hf_hub_download(repo, "weights.safetensors")).read_bytes() == big
snapshot = pathlib.Path(snapshot_download(repo))
assert (snapshot / "inner" / "note.txt").read_text() == "note" and snapshot.name == info.oid
again = api.upload_folder(folder_path=folder, repo_id=repo)
assert again.oid == info.oid, "nothing changed, no commit"

api.create_branch(repo, branch="work")
api.create_tag(repo, tag="v1")
api.upload_file(path_or_fileobj=b"new", path_in_repo="inner/note.txt", repo_id=repo, revision="work")
assert pathlib.Path(hf_hub_download(repo, "inner/note.txt", revision="work")).read_text() == "new"
assert pathlib.Path(hf_hub_download(repo, "inner/note.txt", revision="v1")).read_text() == "note"
assert pathlib.Path(hf_hub_download(repo, "inner/note.txt", revision=info.oid)).read_text() == "note"
assert {b.name for b in api.list_repo_refs(repo).branches} == {"main", "work"}
assert [c.title for c in api.list_repo_commits(repo)] == ["all of it", "initial commit", "initial commit"]
api.delete_file("empty.txt", repo)
assert not api.file_exists(repo, "empty.txt")
raises(RevisionNotFoundError, hf_hub_download, repo, "README.md", revision="nowhere")
raises(EntryNotFoundError, hf_hub_download, repo, "none.txt")
raises(RepositoryNotFoundError, hf_hub_download, f"{me}/none", "README.md")
raises(HfHubHTTPError, api.create_repo, "somebody/else")
raises(HfHubHTTPError, HfApi(token="hf_wrong").whoami)
raises(RepositoryNotFoundError, HfApi(token=False).model_info, "longseq-tests/second")
assert api.model_info("longseq-tests/second").private
assert {m.id for m in HfApi(token=False).list_models()} == {repo}
assert HfFileSystem().read_text(f"{repo}/inner/note.txt") == "note"
card = ModelCard.load(repo)
card.validate()
collection = api.create_collection("A set", namespace="longseq-tests", exists_ok=True)
api.add_collection_item(collection.slug, repo, "model", exists_ok=True)
collection = api.add_collection_item(collection.slug, repo, "model", exists_ok=True)
assert [item.item_id for item in api.get_collection(collection.slug).items] == [repo]
api.delete_repo(repo)
raises(RepositoryNotFoundError, api.model_info, repo)
print("done")
"""
    )
    assert "done" in answer(run_fresh(code, tmp_path, **hub.environment(tmp_path, hub.token)))


@pytest.mark.slow
def test_a_cut_connection_and_a_500_are_seen_by_the_client(hub, tmp_path):
    hub.faults = [Fault("PUT", "/lfs/", "cut"), Fault("POST", "/commit/", 500)]
    code = (
        CLIENT
        + """
api.create_repo("first")
raises(HfHubHTTPError, api.upload_file, path_or_fileobj=big, path_in_repo="w.safetensors", repo_id=f"{me}/first")
assert not api.file_exists(f"{me}/first", "w.safetensors")
api.upload_file(path_or_fileobj=big, path_in_repo="w.safetensors", repo_id=f"{me}/first")
assert pathlib.Path(hf_hub_download(f"{me}/first", "w.safetensors")).read_bytes() == big
print("done")
"""
    )
    assert "done" in answer(run_fresh(code, tmp_path, **hub.environment(tmp_path, hub.token)))
    puts = [line for line in hub.requests if line.startswith("PUT")]
    assert len(puts) == 2  # the one that was cut and its repetition; the second upload found the object there
