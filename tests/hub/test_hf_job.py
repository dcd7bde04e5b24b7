"""A command goes to a rented GPU by `hf jobs`, over real HTTP: price first, and on after a time-out.

`hf` is a script that notes what it was asked; the training is one that counts steps, a checkpoint each.
"""

import json
import os
import re
import sys

import pytest
from huggingface_hub import HfApi

import hf_job
from hub_server import Fault

REPO = "tester/tones-runs"
WORDS = ["compare", "--recipe", "spoken-tones/s4", "--seeds", "0", "1"]
TRAINING = """
import json, sys, time
from pathlib import Path

words, stop = sys.argv[1:], {stop}
if words[0] == "benchmark":
    sys.exit(print("minutes per epoch", words[-1]))
run = Path(words[words.index("--output_dir") + 1])
checkpoints = run / "checkpoints"
checkpoints.mkdir(parents=True, exist_ok=True)
(run / ".marks").mkdir(exist_ok=True)
(run / ".marks" / "a.1").write_text("process 1 on here")
done = max([int(path.name) for path in checkpoints.iterdir()], default=0)
for step in range(done + 1, 9):
    (checkpoints / str(step)).mkdir()
    (checkpoints / str(step) / "model.safetensors").write_text(str(step))
    for old in sorted(checkpoints.iterdir())[:-2]:
        (old / "model.safetensors").unlink()
        old.rmdir()
    with open(run / "steps.txt", "a") as file:
        file.write(f"{{step}} ")
    time.sleep(0.02)
    if step == stop:
        sys.exit(143)
(run / "results.json").write_text(json.dumps(words))
"""


@pytest.fixture
def job(online, tmp_path, monkeypatch):
    """The script against the Hub on loopback, with an `hf` that writes its words to `started.json`."""
    (tmp_path / "bin").mkdir()
    hf = tmp_path / "bin" / "hf"
    hf.write_text(f"#!{sys.executable} -S\nimport json, sys\njson.dump(sys.argv[1:], open('started.json', 'w'))\n"
                  "print('Job started: 42')\n")  # fmt: skip
    hf.chmod(0o755)
    monkeypatch.setenv("PATH", str(hf.parent), prepend=os.pathsep)
    monkeypatch.setattr(hf_job, "HfApi", lambda: HfApi(endpoint=online.url))
    monkeypatch.setattr(hf_job, "SECONDS_BETWEEN_UPLOADS", 0.05)
    monkeypatch.chdir(tmp_path)
    return online


def submit(*words, repo=REPO, flavor="a10g-large", timeout="90m"):
    return hf_job.main(["--repo_id", repo, "--flavor", flavor, "--timeout", timeout, *words])


def in_job(monkeypatch, folder, stop=0):
    monkeypatch.setattr(hf_job, "TRAIN", [sys.executable, "-S", "-c", TRAINING.format(stop=stop)])
    return hf_job.work(REPO, folder)


def test_the_price_stands_before_the_start_and_the_job_is_asked_for(job, tmp_path, capsys):
    assert submit("--dry_run", "--", *WORDS) == 0
    said = capsys.readouterr().out
    assert "Nvidia A10G - large: 1.50 USD an hour, at most 2.25 USD in 90 minutes" in said and "not started" in said
    assert not job.repos and not (tmp_path / "started.json").exists()
    assert submit("--", *WORDS) == 0
    said = capsys.readouterr().out
    assert said.index("2.25 USD") < said.index("Job started: 42") < said.index(f"{job.url}/{REPO}")
    started = json.loads((tmp_path / "started.json").read_text())
    assert started[:4] == ["jobs", "uv", "run", "--flavor"] and started[-3:] == ["--in_job", "--repo_id", REPO]
    assert "HF_TOKEN" in started and job.token not in " ".join(started)
    assert job.repo(REPO).private and json.loads(job.repo(REPO).files["job.json"]) == {"command": WORDS}


def test_a_job_goes_on_after_a_time_out_and_leaves_everything_in_the_repository(job, tmp_path, monkeypatch):
    assert submit("--", *WORDS) == 0
    job.faults = [Fault("POST", "/commit/", "cut"), Fault("PUT", "/lfs/", "cut")]
    assert in_job(monkeypatch, tmp_path / "first", stop=4) == 143
    files = job.repo(REPO).files
    assert {name for name in files if "checkpoints" in name} == {
        f"run/checkpoints/{step}/model.safetensors" for step in (3, 4)
    }
    assert submit("--", *WORDS) == 0  # the same line
    assert in_job(monkeypatch, tmp_path / "second") == 0
    files = job.repo(REPO).files
    assert files["run/steps.txt"].split() == [b"%d" % step for step in range(1, 9)]
    assert json.loads(files["run/results.json"])[: len(WORDS)] == WORDS
    assert {name for name in files if "checkpoints" in name} == {
        f"run/checkpoints/{step}/model.safetensors" for step in (7, 8)
    }
    assert not any("/." in name for name in files)


def test_a_checkpoint_deleted_while_it_travels_is_no_failed_upload(job, tmp_path, monkeypatch):
    assert submit("--", *WORDS) == 0
    upload, gone = HfApi.upload_folder, []

    def deleted(api, **options):
        if len(gone) < 2 * hf_job.FAILED_UPLOADS:
            gone.append(1)
            try:
                open(tmp_path / "deleted")
            except FileNotFoundError as error:
                raise RuntimeError("Error while uploading 'run/checkpoints/1/model.safetensors'") from error
        return upload(api, **options)

    monkeypatch.setattr(HfApi, "upload_folder", deleted)
    monkeypatch.setattr(hf_job, "SECONDS_BETWEEN_UPLOADS", 0.01)
    assert in_job(monkeypatch, tmp_path / "there") == 0
    assert len(gone) > hf_job.FAILED_UPLOADS and "run/results.json" in job.repo(REPO).files


def test_a_recipe_of_this_machine_travels_with_the_command(job, tmp_path, monkeypatch):
    (tmp_path / "mine.yaml").write_text("data: {task: spoken-tones}\n")
    assert submit("--", "spt", "--recipe", "mine.yaml") == 0
    assert in_job(monkeypatch, tmp_path / "there") == 0
    assert (tmp_path / "there" / "recipe.yaml").read_text() == "data: {task: spoken-tones}\n"
    words = json.loads(job.repo(REPO).files["run/results.json"])
    assert words[:3] == ["spt", "--recipe", str(tmp_path / "there" / "recipe.yaml")]


def test_a_full_repository_ends_the_job_and_keeps_the_last_state(job, tmp_path, monkeypatch, capsys):
    assert submit("--", *WORDS) == 0
    before = job.repo(REPO).branches["main"].oid
    job.faults = [Fault("POST", "/lfs/objects/batch", 403, times=99), Fault("POST", "/preupload/", 403, times=99)]
    with pytest.raises(hf_job.HfLongSeqError, match="took no upload 3 times in a row.*give the same command again"):
        in_job(monkeypatch, tmp_path / "there")
    assert "403 Forbidden" in capsys.readouterr().err and job.repo(REPO).branches["main"].oid == before


@pytest.mark.parametrize("words, options, message", [
    (["predict", "x"], {}, "'predict' is not a command for a job"),
    ([], {}, "is not a command for a job"),
    ([*WORDS, "--output_dir", "x"], {}, "--output_dir is the job's own"),
    (WORDS, {"flavor": "a10"}, "'a10' is not a machine .*use one of a10g-large"),
    (WORDS, {"timeout": "4 hours"}, "timeout is '4 hours'"),
    (WORDS, {"repo": "a/b/c"}, "repo_id 'a/b/c' is not a name the Hub allows"),
    (WORDS, {"repo": "longseq-tests/x", "token": "hf_other_token"}, "longseq-tests/x took no job .403 Forbidden"),
    (WORDS, {"token": "hf_wrong"}, "Invalid user token"),
    (WORDS, {"token": ""}, "no token found"),
    ([*WORDS, "poor"], {}, r"no job was started \(402: add a payment method\): put that right"),
])  # fmt: skip
def test_what_is_wrong_is_one_sentence_and_starts_nothing(job, tmp_path, monkeypatch, capsys, words, options, message):
    if "token" in options:
        monkeypatch.setenv("HF_TOKEN", options.pop("token"))
        monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", "/nowhere")
    if "poor" in words:
        (tmp_path / "bin" / "hf").write_text("#!/bin/sh\necho '402: add a payment method' >&2\nexit 1\n")
    assert submit("--", *words, **options) == 2
    error = capsys.readouterr().err
    assert re.search(message, error) and error.count("\n") == 1
    assert not (tmp_path / "started.json").exists()


def test_a_name_that_exists_with_another_content_is_left_alone(job, capsys):
    assert submit("--", *WORDS) == 0
    before = job.repo(REPO).branches["main"].oid
    assert submit("--", *WORDS, "2") == 2
    assert "holds the job `compare --recipe spoken-tones/s4 --seeds 0 1`" in capsys.readouterr().err
    api = HfApi(endpoint=job.url)
    api.create_repo("tester/model", private=True)
    api.upload_file(path_or_fileobj=b"x", path_in_repo="config.json", repo_id="tester/model")
    assert submit("--", *WORDS, repo="tester/model") == 2
    assert "holds files that no job wrote" in capsys.readouterr().err
    api.create_repo("tester/public")
    assert submit("--", *WORDS, repo="tester/public") == 2
    assert "exists and is public" in capsys.readouterr().err
    assert job.repo(REPO).branches["main"].oid == before
