"""A task goes to the Hub as a data set over real HTTP, and comes back with the same rows."""

import json
import os

import numpy as np
import pytest
import yaml
from datasets import Audio, ClassLabel, Dataset, DatasetDict, Features, Image, List, Value, load_dataset
from huggingface_hub import DatasetCard, ModelCard, constants, parse_eval_result_entries

from hf_longseq.cli.main import main
from hf_longseq.data.cache import sequence_feature
from hf_longseq.data.published import (
    content_hash,
    from_published,
    load_published,
    make_record,
    read_record,
    to_published,
)
from hf_longseq.data.task import TaskSpec, load_task
from hf_longseq.errors import HfLongSeqError
from hf_longseq.hub.publish import build_folder
from hf_longseq.hub.records import read_run
from hf_longseq.hub.task_dataset import publish_task
from hf_longseq.training.recipe import Recipe
from hub_server import Fault

REPO = "tester/lra-listops"
SMALL = {"train_examples": 40, "eval_examples": 12, "min_length": 4, "max_length": 30}
WORDS = [f"--data.{key}={value}" for key, value in SMALL.items()]
PATHS = {"train_examples": 20, "eval_examples": 5, "num_workers": 1}


def hashes(splits):
    return {name: content_hash(rows) for name, rows in splits.items()}


def data_files(hub, repo=REPO):
    return {name: data for name, data in hub.repo(repo, "datasets").files.items() if name.startswith("data/")}


def test_a_task_comes_back_with_the_same_rows(online, capsys):
    assert main(["tasks", "publish", "listops", *WORDS, "--repo_id", "lra-listops"]) == 0
    said = capsys.readouterr().out
    repo = online.repo(REPO, "datasets")
    commit = repo.branches["main"].oid
    assert f"published: {online.url}/datasets/{REPO} at commit {commit}" in said
    assert f'load_task("listops", source="hub:{REPO}@{commit}")' in said
    assert [commit.title for commit in repo.branches["main"].history()][0] == "Publish listops task"

    made, spec = load_task("listops", **SMALL)
    for source in (f"hub:{REPO}", f"hub:{REPO}@{commit}"):
        held, held_spec = load_task("listops", source=source)
        assert hashes(held) == hashes(made) and held["train"].features == made["train"].features
        assert held_spec.source == f"{online.url}/datasets/{REPO}/tree/{commit}"
        assert held_spec.vocabulary == spec.vocabulary and held_spec.max_length == spec.max_length

    capsys.readouterr()
    assert main(["tasks", "publish", "listops", *WORDS, "--repo_id", REPO]) == 0
    assert repo.branches["main"].oid == commit  # nothing changed, no commit


def test_the_card_and_the_registration_say_what_it_is(online):
    publish_task("listops", REPO, options={**SMALL, "seed": 3})
    files = online.repo(REPO, "datasets").files
    card = DatasetCard(files["README.md"].decode())
    assert card.data.license == "apache-2.0" and card.data.task_categories == ["text-classification"]
    record = json.loads(files["task.json"])
    for said in ("listops version 1, seed 3", "drawn anew from a seed", "| max_length | 30 |", "40",
                 *(split["sha256"] for split in record["splits"].values())):  # fmt: skip
        assert said in card.text, said
    registered = yaml.safe_load(files["eval.yaml"])
    assert registered["tasks"] == [{"id": "listops", "config": "default", "split": "test"}]
    assert registered["evaluation_framework"] == "hf-longseq" and "accuracy" in registered["description"]


def test_pictures_and_sounds_are_what_they_are_and_open_without_the_package(online, tmp_path):
    publish_task("pathfinder-16", "tester/paths", options=PATHS)
    publish_task("spoken-tones", "tester/tones")
    kinds = {"pathfinder-16": ("paths", "image", Image(), PATHS), "spoken-tones": ("tones", "audio", None, {})}
    for task, (repo, column, kind, options) in kinds.items():
        made, _ = load_task(task, **options)
        held, _ = load_task(task, source=f"hub:tester/{repo}")
        assert hashes(held) == hashes(made)
        folder = tmp_path / repo
        for name, data in data_files(online, f"tester/{repo}").items():
            folder.mkdir(exist_ok=True)
            (folder / os.path.basename(name)).write_bytes(data)
        plain = load_dataset("parquet", data_files={"train": str(folder / "train-*")}, cache_dir=str(tmp_path / "c"))
        features = plain["train"].features
        assert features[column] == (kind or Audio(sampling_rate=1000))
        assert features["labels"] == made["train"].features["labels"]
        if column == "image":
            pixels = np.asarray(plain["train"][3]["image"])
            assert pixels.shape == (16, 16) and (pixels.ravel() == made["train"][3]["input_values"]).all()


@pytest.mark.parametrize("kind, rows", [
    (List(Value("float32")), [[0.5, -0.25, 1.0], [0.125]]),
    (sequence_feature("float32", 2), [[[0.5, 1.5], [2.0, 3.0], [4.0, 5.0]], [[6.0, 7.0]]]),
    (List(Value("uint8")), [[0, 255, 7], [128]]),
])  # fmt: skip
@pytest.mark.parametrize("rate", [None, 400])
def test_every_kind_of_column_survives(kind, rows, rate):
    features = Features({"input_values": kind, "labels": List(Value("int16"))})
    spec = TaskSpec("x", "values", 3, num_channels=1, labels=("a", "b"), per_position=True, sampling_rate=rate)
    made = Dataset.from_dict({"input_values": rows, "labels": [[0, 1, -100], [1]]}, features).with_format("arrow")
    there = to_published(made[:], features, spec)
    held = from_published(there.to_batches()[0], features, spec)
    assert Features.from_arrow_schema(there.schema)["labels"] == List(ClassLabel(names=["a", "b"]))
    again = Dataset.from_dict(held.to_pydict(), features)
    assert content_hash(again) == content_hash(made)


def test_inputs_without_labels_have_a_configuration_of_their_own(online):
    options = {"length": 128, "unlabelled_windows": 30}
    publish_task("gene-starts", "tester/genes", options=options)
    made, _ = load_task("gene-starts", **options)
    held, _ = load_task("gene-starts", source="hub:tester/genes")
    assert hashes(held) == hashes(made) and held["unlabelled"].column_names == ["input_ids"]
    card = DatasetCard(online.repo("tester/genes", "datasets").files["README.md"].decode())
    assert [config["config_name"] for config in card.data.configs] == ["default", "unlabelled"]
    assert card.data.license == "other" and "NCBI places no restriction" in card.text


def test_a_dry_run_uploads_nothing_and_keeps_the_folder(online, tmp_path, capsys):
    words = ["--dry_run", "--output_dir", str(tmp_path / "built")]
    assert main(["tasks", "publish", "listops", *WORDS, "--repo_id", REPO, *words]) == 0
    assert "checked, and not uploaded" in capsys.readouterr().out
    assert not online.repos and {"README.md", "eval.yaml", "task.json"} < set(os.listdir(tmp_path / "built"))


@pytest.mark.parametrize("task, reason", [
    ("text", "its licence (as stated by the Large Movie Review Dataset) gives no right to pass the data on"),
    ("image", "its licence (as stated by the authors of CIFAR-10)"),
    ("own-data", "push_to_hub"),
])  # fmt: skip
def test_what_may_not_be_passed_on_is_refused_before_it_is_loaded(online, task, reason):
    with pytest.raises(HfLongSeqError) as error:
        publish_task(task, REPO)
    assert reason in str(error.value) and not online.requests


def said(*words, **options):
    with pytest.raises(HfLongSeqError) as error:
        publish_task(*words, options=SMALL, **options)
    return str(error.value)


def test_no_token_and_a_token_without_rights_are_said(online, monkeypatch):
    assert "403 Forbidden" in said("listops", "longseq-tests/x", token=online.other_token)
    assert "Invalid user token" in said("listops", REPO, token="hf_wrong")
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", "/nowhere")
    assert "no token found" in said("listops", REPO)
    assert not online.repos


def test_a_name_that_holds_something_else_is_refused_but_may_get_a_branch(online):
    publish_task("listops", REPO, options=SMALL)
    before = online.repo(REPO, "datasets").branches["main"].oid
    with pytest.raises(HfLongSeqError, match="holds listops with other rows .fingerprint .*choose another repo_id"):
        publish_task("listops", REPO, options={**SMALL, "seed": 1})
    with pytest.raises(HfLongSeqError, match="holds listops with other rows"):
        publish_task("pathfinder-16", REPO, options=PATHS)
    assert online.repo(REPO, "datasets").branches["main"].oid == before
    publish_task("listops", REPO, options={**SMALL, "seed": 1}, revision="seed1")
    assert online.repo(REPO, "datasets").branches["main"].oid == before
    first, second = (load_task("listops", source=f"hub:{REPO}{at}")[0] for at in ("", "@seed1"))
    assert hashes(first) != hashes(second) == hashes(load_task("listops", **{**SMALL, "seed": 1})[0])
    repo = online.repo(REPO, "datasets")
    main_branch = repo.branches["main"]
    repo.branches["main"] = main_branch.child("other", {"rows.csv": main_branch.files["task.json"]})
    assert "holds 'rows.csv', which is of no published task" in said("listops", REPO)


def test_a_drop_in_the_middle_publishes_nothing_and_the_command_goes_on(online):
    online.faults = [Fault("PUT", "/lfs/", "cut"), Fault("POST", "/commit/", "cut")]
    assert "holds all of the new files or none" in said("listops", REPO)
    assert set(online.repo(REPO, "datasets").files) == {".gitattributes"}
    publish_task("listops", REPO, options=SMALL)
    online.faults = [Fault("GET", "/cdn/", "cut", times=99)]
    with pytest.raises(HfLongSeqError, match=f"{REPO} could not be downloaded .*run `hf download {REPO} --repo-type"):
        load_task("listops", source=f"hub:{REPO}")
    online.faults = []
    assert hashes(load_task("listops", source=f"hub:{REPO}")[0]) == hashes(load_task("listops", **SMALL)[0])


NO_SOURCES = [
    ("listops", "me/x", {}, "data.source is 'me/x': write hub:owner/name"),
    ("listops", "hub:tester/absent", {}, "tester/absent could not be downloaded"),
    ("listops", f"hub:{REPO}@nobranch", {}, "could not be downloaded"),
    ("pathfinder", f"hub:{REPO}", {}, "holds the task 'listops', not 'pathfinder'"),
    ("listops", f"hub:{REPO}", {"max_length": 500}, "holds listops with max_length=30, not 500"),
    ("listops", f"hub:{REPO}", {"data_dir": "here"}, "leave data.data_dir out"),
]


def test_sources_that_are_none_are_named(online):
    publish_task("listops", REPO, options=SMALL)
    for task, source, options, message in NO_SOURCES:
        with pytest.raises(HfLongSeqError, match=message):
            load_task(task, source=source, **options)
    assert len(load_task("listops", source=f"hub:{REPO}", max_length=30)[0]["train"]) == 40


def test_rows_that_are_not_those_of_the_record_are_refused(online):
    publish_task("listops", REPO, options=SMALL)
    repo = online.repo(REPO, "datasets")
    files = dict(repo.branches["main"].files)
    files["data/train-00000-of-00001.parquet"] = files["data/test-00000-of-00001.parquet"]
    repo.branches["main"] = repo.branches["main"].child("tampered", files)
    with pytest.raises(HfLongSeqError, match=r"has other rows in train \(12, SHA-256 .*task.json states \(40"):
        load_published("listops", f"hub:{REPO}", {})


@pytest.mark.parametrize("change", [
    {"format": 9}, {"spec": {"name": "x"}}, {"spec": 5}, {"splits": {"train": 1}}, {"splits": {}}, {"features": {}},
    {"features": {"input_ids": {"_type": "os.system"}}}, {"task": 3},
])  # fmt: skip
def test_a_record_of_anybody_is_checked(tmp_path, change):
    spec = TaskSpec("x", "tokens", 5, vocab_size=9)
    rows = Dataset.from_dict({"input_ids": [[1]], "labels": [0]})
    splits = DatasetDict({name: rows for name in ("train", "validation", "test")})
    record = make_record("x", spec, {"data_dir": "/home/me"}, splits)
    path = tmp_path / "task.json"
    path.write_text(json.dumps(record))
    assert read_record(path, "me/x")["spec"] == spec and "/home/me" not in path.read_text()
    path.write_text(json.dumps({**record, **change}))
    with pytest.raises(HfLongSeqError, match="me/x has no task.json that this version can read"):
        read_record(path, "me/x")


def test_toy_sizes_leave_published_data_as_they_are():
    recipe = Recipe.load(None, {"data": {"task": "listops", "source": f"hub:{REPO}"}}, tiny=True)
    assert recipe.data.options == {"source": f"hub:{REPO}"}


def test_a_model_trained_on_it_files_its_result_where_the_card_says(online, tmp_path, undrawn):
    publish_task("listops", REPO, options=SMALL)
    commit = online.repo(REPO, "datasets").branches["main"].oid
    words = ["--task", "listops", "--data.source", f"hub:{REPO}@{commit}", "--arch", "s4", "--max_steps", "2"]
    sizes = ["--model.hidden_size", "8", "--model.num_hidden_layers", "1", "--model.state_size", "4"]
    batch = ["--global_batch_size", "8", "--eval_steps", "2", "--from_scratch", "--output_dir", str(tmp_path / "run")]
    assert main(["finetune", *words, *sizes, *batch]) == 0
    data = json.loads((tmp_path / "run/data.json").read_text())
    made, _ = load_task("listops", **SMALL)
    assert {name: split["sha256"] for name, split in data["splits"].items()} == hashes(made)

    build_folder(read_run(tmp_path / "run"), tmp_path / "built", "tester/s4-listops", "mit")
    filed = yaml.safe_load((tmp_path / "built/.eval_results/lra-listops.yaml").read_text())
    (entry,) = parse_eval_result_entries(filed)
    assert (entry.dataset_id, entry.task_id, entry.dataset_revision) == (REPO, "listops", commit)
    assert entry.notes == "test accuracy, 40 labels, arm s4 scratch"
    card = ModelCard.load(tmp_path / "built/README.md")
    (result,) = [one for one in card.data.eval_results if one.metric_type == "accuracy"]
    assert (result.dataset_type, result.dataset_revision, result.dataset_split) == (REPO, commit, "test")
    assert result.metric_value == entry.value and card.data.datasets == [REPO]
