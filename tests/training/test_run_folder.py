import json

import pytest
import yaml
from datasets import Dataset, Features, List, Value, concatenate_datasets

from hf_longseq.data.published import content_hash
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training import run_folder
from hf_longseq.training.recipe import Recipe
from hf_longseq.training.run_folder import environment

SETTINGS = {"model": {"arch": "s4"}, "pretrain": {"max_steps": 10}, "run": {"phase": "pretrain", "seed": 0}}


def test_a_run_claims_a_new_folder_goes_on_in_it_and_leaves_it_when_finished(tmp_path):
    folder = tmp_path / "run"
    assert run_folder.claim_folder(folder, SETTINGS) == "new"
    assert yaml.safe_load((folder / "resolved.yaml").read_text()) == SETTINGS
    assert run_folder.claim_folder(folder, SETTINGS) == "resume"
    run_folder.write_json(folder / "metrics.json", {})
    assert run_folder.claim_folder(folder, SETTINGS) == "finished"


def test_a_folder_with_another_run_is_refused_with_the_difference_named(tmp_path):
    run_folder.claim_folder(tmp_path / "run", SETTINGS)
    other = {**SETTINGS, "pretrain": {"max_steps": 20}}
    with pytest.raises(HfLongSeqError, match=r"another run \(pretrain.max_steps is 10 there, 20 here\).*--overwrite"):
        run_folder.claim_folder(tmp_path / "run", other)
    assert run_folder.claim_folder(tmp_path / "run", other, overwrite=True) == "new"


def test_a_folder_with_foreign_files_is_never_touched(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    for overwrite in (False, True):
        with pytest.raises(HfLongSeqError, match="not of a run"):
            run_folder.claim_folder(tmp_path, SETTINGS, overwrite=overwrite)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_torn_record_is_named_and_nothing_is_touched(tmp_path):
    (tmp_path / "resolved.yaml").write_text("model: {arch")
    (tmp_path / "metrics.json").write_text('{"test": ')
    for overwrite in (False, True):
        with pytest.raises(HfLongSeqError, match=r"resolved\.yaml is damaged: restore it"):
            run_folder.claim_folder(tmp_path, {"run": {}}, overwrite)
    with pytest.raises(HfLongSeqError, match=r"metrics\.json is not readable as JSON"):
        run_folder.read_json(tmp_path / "metrics.json")
    assert len(list(tmp_path.iterdir())) == 2


def test_files_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    def full_disk(path):
        raise OSError("no space left")

    for content in ("µ\n", b"\xc2\xb5\n"):
        run_folder.write_whole(tmp_path / "deep" / "file", content)
        assert (tmp_path / "deep" / "file").read_bytes() == b"\xc2\xb5\n"
    monkeypatch.setattr(run_folder, "sync", full_disk)
    with pytest.raises(OSError):
        run_folder.write_whole(tmp_path / "deep" / "file", "other")
    assert [path.read_text(encoding="utf-8") for path in (tmp_path / "deep").iterdir()] == ["µ\n"]


def test_the_spelling_of_the_checkpoints_path_is_no_difference():
    old, new = ({"run": {"init_from": path, "init_weights": "ab"}} for path in ("runs/a", "/home/me/runs/a"))
    assert run_folder.first_difference(old, new) is None
    assert run_folder.first_difference(old, {"run": {"init_weights": "cd"}}) == "run.init_weights is ab there, cd here"


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    run_folder.write_json(tmp_path / "a.json", {"x": 1})
    with pytest.raises(TypeError):
        run_folder.write_json(tmp_path / "a.json", {"x": object()})
    assert json.loads((tmp_path / "a.json").read_text()) == {"x": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_replacing_a_folder_leaves_the_old_one_when_filling_fails(tmp_path):
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / "old").write_text("x")
    with pytest.raises(OSError):
        run_folder.replace_folder(tmp_path / "best", lambda fresh: (_ for _ in ()).throw(OSError("disk full")))
    assert (tmp_path / "best" / "old").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["best"]


def test_the_content_hash_reads_nothing_behind_the_rows():
    columns = {"input_values": List(Value("uint8")), "labels": Value("int64")}
    rows = Dataset.from_dict({"input_values": [[1, 2, 3]] * 300, "labels": [0] * 300}, Features(columns))
    last = Dataset.from_dict({"input_values": [[1, 2, 3]], "labels": [0]}, Features(columns))
    whole = concatenate_datasets([rows.select([0]), rows.select(range(256)), last])  # other places in memory
    assert content_hash(rows.select(range(258))) == content_hash(whole)


def test_the_content_hash_sees_values_and_order_but_not_chunks():
    rows = [{"input_ids": [row, 2], "labels": row} for row in range(600)]
    whole = Dataset.from_list(rows)
    chunked = concatenate_datasets([Dataset.from_list(rows[:7]), Dataset.from_list(rows[7:])])
    assert content_hash(whole) == content_hash(chunked.with_format("numpy"))
    assert content_hash(whole) == content_hash(whole.select(range(600)[::-1]).select(range(600)[::-1]))
    assert content_hash(whole) != content_hash(whole.select(range(600)[::-1]))
    assert content_hash(whole) != content_hash(Dataset.from_list([{**rows[0], "labels": 5}, *rows[1:]]))


def test_a_failed_write_leaves_nothing_and_a_killed_one_is_in_nobodys_way(tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder, "sync", lambda path: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        run_folder.write_json(tmp_path / "a.json", {})
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".resolved.yaml.part").write_text("mod")
    assert run_folder.claim_folder(tmp_path / "run", SETTINGS) == "new"
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["resolved.yaml"]


def test_a_run_finds_what_it_started_from_after_the_folders_moved(tmp_path):
    first, second = tmp_path / "here" / "runs" / "first", tmp_path / "here" / "runs" / "second"
    first.mkdir(parents=True)
    (first / "model.safetensors").write_bytes(b"weights")
    recorded = run_folder.path_from(second, first)
    settings = {"run": {"init_from": recorded, "init_weights": run_folder.weights_hash(first)}}
    assert recorded == "../first" and run_folder.started_from(second, settings) == first
    (tmp_path / "here").rename(tmp_path / "there")
    second = tmp_path / "there" / "runs" / "second"
    second.mkdir()
    copied = tmp_path / "there" / "best"  # as a comparison copies its best run
    for run in (second, copied):
        assert (run_folder.started_from(run, settings) / "model.safetensors").read_bytes() == b"weights"
    (tmp_path / "there" / "runs" / "first" / "model.safetensors").write_bytes(b"others")
    assert run_folder.started_from(second, settings) is None
    assert run_folder.path_from(tmp_path / "elsewhere" / "run", second) == str(second)
    assert run_folder.path_from(second, "somebody/model") == "somebody/model"


def test_the_environment_names_versions_and_hardware():
    facts = environment()
    assert {"hf_longseq", "torch", "transformers", "python", "cpu", "threads", "gpu", "commit"} <= set(facts)
    json.dumps(facts)


@pytest.mark.parametrize("text", ["a: " + "[" * 20_000, "a: [", "\xff: {"])
def test_settings_that_never_end_are_damaged(tmp_path, text):
    (tmp_path / "resolved.yaml").write_text(text, encoding="latin-1")
    with pytest.raises(HfLongSeqError, match="resolved.yaml is damaged"):
        run_folder.read_resolved(tmp_path)
    with pytest.raises(HfLongSeqError, match="is not valid YAML"):
        Recipe.load(tmp_path / "resolved.yaml")
    (tmp_path / "x.json").write_text("[" * 100_000)
    with pytest.raises(HfLongSeqError, match="x.json is not readable"):
        run_folder.read_json(tmp_path / "x.json")
