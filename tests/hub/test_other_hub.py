"""What publishing asks of a Hub is answered by one with other habits as well."""

from fresh_process import answer, run_fresh
from hub_server import Fault
from other_hub import OtherHub

TALK = """
import os, pathlib
from huggingface_hub import HfApi, snapshot_download
from hf_longseq.errors import HfLongSeqError
from hf_longseq.hub.repository import *

api, name = HfApi(), "tester/model"
repo = Repository(api, name)
folder = pathlib.Path(os.environ["HF_HOME"]) / "folder"
(folder / ".eval_results").mkdir(parents=True)
(folder / ".eval_results" / "series.yaml").write_text("- value: 1")
(folder / "model.safetensors").write_bytes(os.urandom(25_000))
(folder / "config.json").write_text('{"model_type": "longseq_s4"}')
(folder / "README.md").write_text("---\\nlicense: mit\\n---\\n# Hello")
for number in range(6):
    (folder / f"modeling_{number}.py").write_text("x = 1")

def refused(call, *args):
    try:
        with said_in_one_sentence(name, api):
            call(*args)
    except HfLongSeqError as error:
        return str(error)
    raise AssertionError("not refused")

def published(message):
    with said_in_one_sentence(name, api):
        assert repo.make(False) == f"{api.endpoint}/{name}"
        repo.refuse_other_architecture("longseq_s4", repo.files())
        commit = repo.upload(folder, message)
        assert commit == api.model_info(name).sha
    held = pathlib.Path(snapshot_download(name, cache_dir=folder.parent / message))
    wanted = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    found = {path.relative_to(held): path.read_bytes() for path in held.rglob("*") if path.is_file()}
    found.pop(pathlib.Path(".gitattributes"))
    assert found == wanted, (sorted(found), sorted(wanted))

assert "answered 500" in refused(published, "first")
published("second")
(folder / "modeling_3.py").unlink()
(folder / "README.md").write_text("---\\nlicense: mit\\n---\\n# Again")
published("third")
said = refused(repo.make, True)
assert "exists and is public" in said, said
said = refused(repo.refuse_other_architecture, "longseq_dlr", repo.files())
assert "holds a longseq_s4 model" in said, said
said = refused(add_to_collection, api, "A set", name, False)
assert "answered 500" in said, said
add_to_collection(api, "A set", name, False)
print("done")
"""


def test_nothing_depends_on_the_habits_of_a_server(tmp_path):
    with OtherHub() as hub:
        hub.faults = [Fault("POST", "/commit/", 500), Fault("POST", "/api/collections", 500)]
        assert "done" in answer(run_fresh(TALK, tmp_path, **hub.environment(tmp_path, hub.token)))
        assert hub.parts  # large files went up in parts
        (collection,) = hub.collections.values()
        assert [item["id"] for item in collection["items"]] == ["tester/model"]


UPLOAD = """
repo.make(False)
print(refused(repo.upload, folder, "first"))
"""


def test_a_server_without_xet_is_said_to_need_the_older_protocol(tmp_path):
    with OtherHub() as hub:
        environment = {**hub.environment(tmp_path, hub.token), "HF_HUB_DISABLE_XET": "0"}
        said = answer(run_fresh(TALK.split("def published")[0] + UPLOAD, tmp_path, **environment))
    assert "rerun the command (a server without Xet storage needs HF_HUB_DISABLE_XET=1)" in said
