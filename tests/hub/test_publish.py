"""A run goes to the Hub over real HTTP and opens on a machine that knows nothing of us."""

import functools
import json

import pytest
import torch
from huggingface_hub import HfApi, constants
from huggingface_hub.errors import RepositoryNotFoundError
from transformers import AutoModelForSequenceClassification

from fresh_process import answer, run_fresh
from hf_longseq.cli.main import main
from hf_longseq.errors import HfLongSeqError
from hf_longseq.hub import publish as publishing
from hf_longseq.hub.repository import Repository
from hub_server import Fault
from toy_models import make_model

REPO = "longseq-tests/s4-tones"
OPEN = """
import torch
from transformers import AutoFeatureExtractor, AutoModelForSequenceClassification
model = AutoModelForSequenceClassification.from_pretrained({repo!r}, trust_remote_code=True{more}).eval()
assert type(model).__module__.startswith("transformers_modules")
extractor = AutoFeatureExtractor.from_pretrained({repo!r}, trust_remote_code=True{more})
assert type(extractor).__module__.startswith("transformers_modules")
with torch.no_grad():
    print(model(input_values=torch.sin(torch.arange(40) / 3)[None]).logits.double().tolist())
"""


def open_as_stranger(hub, home, repo=REPO, token=None, more=""):
    home.mkdir(exist_ok=True)
    done = run_fresh(OPEN.format(repo=repo, more=more), home, hide_package=True, **hub.environment(home, token))
    return torch.tensor(json.loads(answer(done)), dtype=torch.float64)


def expected_logits(folder):
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        return model(input_values=torch.sin(torch.arange(40) / 3)[None]).logits.double()


@pytest.fixture
def publish_here(hub, monkeypatch, unchecked, undrawn):
    """`publish` in this process, without the pictures and the check that tests/hub/test_model_card.py has."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr("hf_longseq.hub.repository.HfApi", functools.partial(HfApi, endpoint=hub.url))
    return functools.partial(publishing.publish, token=hub.token)


@pytest.mark.slow
def test_a_published_run_opens_everywhere_with_the_same_logits(online, runs, tmp_path, capsys):
    assert main(["publish", str(runs / "classifier"), "--repo_id", REPO]) == 0
    out = capsys.readouterr().out
    assert f"published: {online.url}/{REPO}" in out and f'from_pretrained("{REPO}", trust_remote_code=True)' in out
    torch.testing.assert_close(open_as_stranger(online, tmp_path / "stranger"), expected_logits(runs / "classifier"))


def test_what_is_published_of_a_run_and_what_is_not(hub, publish_here, runs, tmp_path):
    done = publish_here(runs / "classifier", REPO)
    assert done.usage.count(f'from_pretrained("{REPO}", trust_remote_code=True)')
    repo = hub.repo(REPO)
    assert [commit.title for commit in repo.branches["main"].history()][:-2] == ["Publish spoken-tones model"]

    auto_map = json.loads(repo.files["config.json"])["auto_map"]
    assert auto_map["AutoFeatureExtractor"] == "feature_extraction_longseq.LongSeqFeatureExtractor"
    names = set(repo.files)
    assert {"preprocessor_config.json", "feature_extraction_longseq.py"} <= names
    assert {"README.md", "config.json", "model.safetensors", "modeling_s4.py", "resolved.yaml"} <= names
    assert {"pretraining.yaml", "metrics.json"} <= names
    assert not names & {"optimizer.pt", "training_args.bin", ".env", "notes.txt", "train.parquet", "data.json"}
    published = b"".join(repo.files.values())
    for private in (str(runs), "secret of this machine", hub.token, str(tmp_path)):
        assert private.encode() not in published, private

    again = publish_here(runs / "classifier", REPO)
    assert (
        again.commit == repo.branches["main"].oid and len(list(repo.branches["main"].history())) == 3
    )  # nothing changed, no commit


@pytest.mark.slow
def test_private_repositories_revisions_and_collections(hub, publish_here, runs, tmp_path):
    publish_here(runs / "classifier", REPO, private=True, collection="Long sequences")
    assert hub.repo(REPO).private
    with pytest.raises(RepositoryNotFoundError):
        HfApi(endpoint=hub.url, token=False).model_info(REPO)
    (collection,) = hub.collections.values()
    assert [item["id"] for item in collection["items"]] == [REPO]

    first = hub.repo(REPO).branches["main"]
    publish_here(runs / "pretrained", REPO, revision="spt")
    assert hub.repo(REPO).branches["main"] is first and "pretrained" not in first.files
    spt = json.loads(hub.repo(REPO).branches["spt"].files["config.json"].data)
    assert spt["architectures"] == ["S4ForPreTraining"]
    pinned = open_as_stranger(hub, tmp_path / "c", token=hub.token, more=f", revision={first.oid!r}")
    torch.testing.assert_close(pinned, expected_logits(runs / "classifier"))


def test_nothing_of_an_earlier_model_stays_beside_a_new_one_but_what_was_added_by_hand(hub, publish_here, tmp_path):
    def publish_files(folder, *names):
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"{name} of {folder.name}")
        Repository(HfApi(endpoint=hub.url, token=hub.token), REPO).take(folder, "Publish", "")
        return set(hub.repo(REPO).files) - {".gitattributes"}

    of_both = {"README.md", "config.json", "model.safetensors", "tokenizer.json"}
    of_one = {".eval_results/lra-listops.yaml", "pretraining.yaml", "resolved.yaml", "metrics.json", "example.wav"}
    by_hand = {"notes.md", "figures/example.png", "chat_template.jinja"}
    assert publish_files(tmp_path / "one", *of_both, *of_one, *by_hand) == of_both | of_one | by_hand
    assert publish_files(tmp_path / "two", *of_both, "conversion.json") == of_both | {"conversion.json"} | by_hand
    assert hub.repo(REPO).files["tokenizer.json"] == b"tokenizer.json of two"
    without = of_both - {"tokenizer.json"}
    assert publish_files(tmp_path / "three", *without) == without | by_hand


def test_failures_in_mid_upload_change_nothing_and_the_command_can_be_repeated(hub, publish_here, runs):
    hub.faults = [Fault("PUT", "/lfs/", "cut"), Fault("POST", "/commit/", 500)]
    with pytest.raises(HfLongSeqError, match="500"):  # the cut upload was taken up by the client
        publish_here(runs / "classifier", REPO)
    assert set(hub.repo(REPO).files) == {".gitattributes"}
    hub.faults = [Fault("POST", "/commit/", "cut")]
    with pytest.raises(HfLongSeqError, match="rerun the command"):
        publish_here(runs / "classifier", REPO)
    assert set(hub.repo(REPO).files) == {".gitattributes"}
    done = publish_here(runs / "classifier", REPO)
    assert set(done.files) < set(hub.repo(REPO).files) and done.commit == hub.repo(REPO).branches["main"].oid


def test_tokens_are_checked(hub, publish_here, runs, monkeypatch):
    for token, said in (("hf_wrong", "Invalid user token"), (hub.other_token, "403 Forbidden")):
        with pytest.raises(HfLongSeqError, match=said):
            publish_here(runs / "classifier", REPO, token=token)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HfLongSeqError, match="HF_HUB_OFFLINE"):
        publish_here(runs / "classifier", REPO)
    assert not hub.repos


def test_a_command_without_a_token_or_a_server_is_one_sentence(online, runs, tmp_path, monkeypatch, capsys):
    def refused():
        assert main(["publish", str(runs / "classifier"), "--repo_id", REPO]) == 2
        return capsys.readouterr().err.splitlines()[-1]

    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "none"))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert "error: nothing was published at http://127.0.0.1:9" in refused()
    monkeypatch.delenv("HF_TOKEN")
    assert "no token found" in refused()


def test_another_architecture_is_not_published_over(hub, publish_here, runs):
    publish_here(runs / "classifier", REPO)
    held = hub.repo(REPO).branches["main"]
    config = json.loads(held.files["config.json"].data) | {"model_type": "longseq_dlr"}
    blob = type(held.files["config.json"])(json.dumps(config).encode(), False)
    hub.repo(REPO).branches["main"] = other = held.child("another model", {**held.files, "config.json": blob})
    with pytest.raises(HfLongSeqError, match="longseq_dlr model, but the run is a longseq_s4"):
        publish_here(runs / "classifier", REPO)
    assert hub.repo(REPO).branches["main"] is other
    # on a branch of its own it may stand, newly made, without a model
    hub.faults = [Fault("POST", "/commit/", 500)]
    with pytest.raises(HfLongSeqError, match="500"):
        publish_here(runs / "classifier", REPO, revision="ours")
    done = publish_here(runs / "classifier", REPO, revision="ours")
    assert json.loads(hub.repo(REPO).branches["ours"].files["config.json"].data)["model_type"] == "longseq_s4"
    assert hub.repo(REPO).branches["main"] is other
    assert set(hub.repo(REPO).branches["ours"].files) - {".gitattributes"} == set(done.files)
    hub.repo(REPO).branches["ours"] = hub.repo(REPO).branches["ours"].child("another model", other.files)
    with pytest.raises(HfLongSeqError, match="holds a longseq_dlr model"):
        publish_here(runs / "classifier", REPO, revision="ours")


@pytest.mark.slow
def test_push_to_hub_of_models_trainers_and_datasets(hub, tmp_path):
    code = """
    import torch, hf_longseq
    from datasets import Dataset, load_dataset
    from transformers import AutoModel, AutoModelForSequenceClassification, Trainer, TrainingArguments
    torch.manual_seed(0)
    config = hf_longseq.S4Config(vocab_size=30, hidden_size=16, num_hidden_layers=1, state_size=8, bidirectional=True)
    model = hf_longseq.S4ForMaskedLM(config).eval()
    model.push_to_hub("tester/spt")
    ids = torch.arange(24).view(2, 12)
    classifier = AutoModelForSequenceClassification.from_pretrained("tester/spt", num_labels=3)
    rows = Dataset.from_dict({"input_ids": ids.tolist(), "labels": [0, 1]})
    rows.push_to_hub("tester/rows", split="train")
    again = load_dataset("tester/rows", split="train")
    assert again["input_ids"][:] == ids.tolist()
    streamed = load_dataset("tester/rows", split="train", streaming=True)
    assert [row["labels"] for row in streamed] == [0, 1]
    arguments = TrainingArguments("out", max_steps=1, report_to="none", push_to_hub=True, hub_model_id="tester/tuned",
                                  use_cpu=True, save_strategy="no", disable_tqdm=True)
    trainer = Trainer(model=classifier, args=arguments, train_dataset=again.with_format("torch"))
    trainer.train()
    trainer.push_to_hub()
    torch.save({"ids": ids, "spt": model.model(input_ids=ids).last_hidden_state.detach(),
                "tuned": classifier.eval()(input_ids=ids).logits.detach()}, "io.pt")
    """
    answer(run_fresh(code, tmp_path, **hub.environment(tmp_path, hub.token)))
    stranger = """
    import torch
    from transformers import AutoModel, AutoModelForSequenceClassification
    io = torch.load("IO", weights_only=True)
    encoder = AutoModel.from_pretrained("tester/spt", trust_remote_code=True).eval()
    tuned = AutoModelForSequenceClassification.from_pretrained("tester/tuned", trust_remote_code=True).eval()
    with torch.no_grad():
        torch.testing.assert_close(encoder(input_ids=io["ids"]).last_hidden_state, io["spt"])
        torch.testing.assert_close(tuned(input_ids=io["ids"]).logits, io["tuned"])
    """.replace("IO", str(tmp_path / "io.pt"))
    home = tmp_path / "stranger"
    home.mkdir()
    answer(run_fresh(stranger, home, hide_package=True, **hub.environment(home)))
    for name in ("tester/spt", "tester/tuned"):
        assert "AutoModelForSequenceClassification" in json.loads(hub.repo(name).files["config.json"])["auto_map"]


LOAD = """
from transformers import AutoModel
for name, revision in (("a", "main"), ("a", "other"), ("b", "other"), ("b", "main")):
    print(type(AutoModel.from_pretrained("tester/" + name, trust_remote_code=True, revision=revision)).__name__)
"""


@pytest.mark.slow
def test_architectures_on_two_branches_open_in_either_order(hub, tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    for arch, branch in (("s4", None), ("dlr", "other")):
        make_model(arch, "ForMaskedLM", bidirectional=True).save_pretrained(tmp_path / arch)
        for name in ("a", "b"):
            repo = Repository(HfApi(endpoint=hub.url, token=hub.token), f"tester/{name}", branch)
            repo.take(tmp_path / arch, "Publish", "")
    home = tmp_path / "home"
    home.mkdir()
    done = run_fresh(LOAD, home, hide_package=True, **hub.environment(home))
    assert answer(done).split() == ["S4Model", "DLRModel", "DLRModel", "S4Model"]
