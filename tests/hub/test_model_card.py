"""The card says what the records say, the Hub's parser reads it back, and its snippets run."""

import json
import re
import shutil
from dataclasses import replace

import pytest
import yaml
from huggingface_hub import ModelCard, parse_eval_result_entries
from safetensors.torch import load_file, save_file

from fresh_process import answer, run_fresh
from hf_longseq.cli.main import main
from hf_longseq.errors import HfLongSeqError
from hf_longseq.hub.check import check_folder
from hf_longseq.hub.model_card import (
    comparable_rows,
    eval_results_file,
    head_of,
    pipeline_tag,
    real_example,
    render_card,
    snippets,
)
from hf_longseq.hub.publish import _open, build_folder, publish
from hf_longseq.hub.records import ACCESS_TOKEN, read_run, refuse_secrets
from results_folders import folder_of, row
from toy_models import make_config


@pytest.fixture(scope="module")
def built(runs, tmp_path_factory):
    """The folders that would be published, by the name of the run."""
    home = tmp_path_factory.mktemp("built")
    for name in ("pretrained", "classifier"):
        build_folder(read_run(runs / name), home / name, f"org/{name}", "apache-2.0")
    return home


def card_of(run, model):
    """Text of the card of a run."""
    code = snippets(model.config, head_of(model.config), "org/name", run.folder, "spoken-tones")
    return str(render_card(run, model, "org/name", "mit", [], code))


@pytest.mark.parametrize("name, split", [("classifier", "test"), ("pretrained", "validation")])
def test_the_metadata_hold_the_recorded_results(runs, built, name, split):
    card = ModelCard.load(built / name / "README.md")
    recorded = json.loads((runs / name / "metrics.json").read_text())[split]
    results = {result.metric_type: result for result in card.data.eval_results}
    assert set(results) == set(recorded) - {"scored_positions"}
    for metric, result in results.items():
        assert result.metric_value == pytest.approx(recorded[metric], abs=1e-6)
        assert (result.dataset_type, result.dataset_split) == ("spoken-tones", split)
    assert card.data.library_name == "transformers" and card.data.license == "apache-2.0"
    assert card.data.pipeline_tag == ("audio-classification" if name == "classifier" else None)
    assert {"hf-longseq", "self-pretraining"} <= set(card.data.tags)


def test_the_card_tells_the_whole_story(built):
    text = (built / "classifier" / "README.md").read_text()
    for said in (
        "after self-pretraining",
        "restoring masked inputs, mask ratio 0.",
        "CC BY 3.0",
        "--init_from pretrained",
        "chosen on the validation split",
        "![Learning curve](learning_curve.png)",
        "![Learned kernels",
        "2 steps only: this is a trial",
        "Bidirectional",
        "amos2024never",
    ):
        assert said in text, said
    assert "None" not in text.replace("[None]", "") and "{{" not in text and "\n\n\n\n" not in text
    assert {"learning_curve.png", "kernels.png"} <= {path.name for path in (built / "classifier").iterdir()}


def test_a_card_tells_the_options_of_the_task_and_its_example_keeps_them(runs, tmp_path):
    given = {"contour_length": 2, "train_examples": 1, "eval_examples": 1, "data_dir": "/mine"}
    run = read_run(runs / "classifier")
    data = {**run.settings["data"], "task": "pathfinder-16", **given}
    text = card_of(replace(run, settings={**run.settings, "data": data}), _open(run.folder))
    assert "| its options | contour_length 2, train_examples 1, eval_examples 1 |" in text and "/mine" not in text
    pictures = []
    for length in (2, 3):
        (tmp_path / str(length)).mkdir()
        name, label = real_example("pathfinder-16", {**given, "contour_length": length}, tmp_path / str(length))
        pictures.append((tmp_path / str(length) / name).read_bytes())
        assert label in ("apart", "joined")
    assert pictures[0] != pictures[1]


PLAN = [
    {"architecture": "s4", "arm": arm, "labels": count, "mean": mean, "std": 0.01, "low": mean, "high": mean,
     "n": 2, "seeds": [0, 1], "metric": "accuracy", "pretrain_steps": 0, "finetune_steps": 2, "pretrain_runs": []}
    for count, scores in ((10, (0.3, 0.4)), (100, (0.5, 0.75)))
    for arm, mean in zip(("scratch", "spt"), scores, strict=True)
]  # fmt: skip


def test_a_run_of_a_plan_shows_the_plan(runs):
    run = read_run(runs / "classifier")
    model = _open(run.folder)
    run = replace(run, metrics={**run.metrics, "train_examples": 100}, compared_by="accuracy", compared_as="s4")
    text = card_of(replace(run, comparison=PLAN), model)
    assert "| s4, spt | 0 | 2 | 100 | 0, 1 | 75.0 ± 1.0 % |" in text and "| s4, scratch | 0 | 2 | 100 |" in text
    named = {**run.settings, "run": {**run.settings["run"], "init": "spt-masked"}}
    assert "after self-pretraining" in card_of(replace(run, settings=named), model)
    assert "| s4, spt | 0 | 2 | 10 |" not in text
    # one seed has no deviation
    single = [{**row, "n": 1, "seeds": [0]} for row in PLAN]
    text = card_of(replace(run, comparison=single), model)
    assert "| s4, spt | 0 | 2 | 100 | 0 | 75.0 % |" in text


def test_labels_that_choose_are_labels_of_a_run(runs):
    run = read_run(runs / "classifier")
    assert run.data["options"]["validation"] == "separate"
    splits = {**run.data["splits"], "validation": {"num_examples": 20}}
    data = {**run.data, "splits": splits, "source": "https://huggingface.co/datasets/org/series"}
    settings = {**run.settings, "data": {**run.settings["data"], "num_test_examples": None}}
    run = replace(run, settings=settings, metrics={**run.metrics, "train_examples": 80}, comparison=PLAN, data=data)
    for choice, labels, count in (("labels", 100, 2), ("separate", 80, 0)):
        one = replace(run, data={**data, "options": {**data["options"], "validation": choice}})
        assert [row["labels"] for row in comparable_rows(one)] == count * [labels]
        assert f"{labels} labels" in eval_results_file(one)[".eval_results/series.yaml"][0]["notes"]


def test_a_card_says_when_test_rows_were_trained_on(runs):
    run = read_run(runs / "classifier")
    model = _open(run.folder)
    assert "of the test examples were among" not in card_of(run, model)
    seen = replace(run, metrics={**run.metrics, "test_examples_trained_on": 7})
    assert "- 7 of the test examples were among those that the checkpoint" in card_of(seen, model)


def test_a_run_in_the_folder_of_a_comparison_is_the_arm_that_the_plan_says(runs, tmp_path):
    names = {"s4-pretrain-s0": "pretrained", "s4-x-spt-s0": "classifier"}
    for name, source in {**names, "mine": "classifier"}.items():
        shutil.copytree(runs / source, tmp_path / "runs" / name)
    first = {"pretrain_run": "runs/s4-pretrain-s0", "labels": 64}
    rows = [row(labels=10), row(labels=64), row(arm="spt-masked", **first)]
    folder_of(tmp_path, rows, task="spoken-tones")
    plan = {"runs": [{"name": name, "arch": "s4@x=1" if "x" in name else "s4"} for name in names]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    classifier = read_run(tmp_path / "runs" / "s4-x-spt-s0")
    assert (classifier.compared_as, classifier.compared_by, len(classifier.comparison)) == ("s4@x=1", "accuracy", 3)
    assert read_run(tmp_path / "runs" / "mine").comparison == []
    shutil.copytree(runs / "classifier", tmp_path / "best")
    assert read_run(tmp_path / "best").compared_as == "s4@x=1"
    shutil.rmtree(tmp_path / "runs" / "s4-x-spt-s0")
    assert read_run(tmp_path / "best").compared_as == "s4"
    pretrained = read_run(tmp_path / "runs" / "s4-pretrain-s0")
    assert [row["arm"] for row in comparable_rows(pretrained)] == ["scratch", "spt-masked"]
    text = card_of(pretrained, _open(pretrained.folder))
    assert "The comparison that went on from this run, at" in text
    assert "of test accuracy over seeds" in text and "test loss" not in text


@pytest.mark.parametrize("settings, transfer, said", [
    ({}, {}, "on the same data"),
    ({"task": "listops"}, {}, "on listops"),
    ({"unlabelled": "more.csv"}, {}, "on the same data and more.csv"),
    ({"unlabelled": "more.csv", "pretrain_inputs": "all"}, {}, "on the same data"),
    ({"unlabelled": "more.csv", "pretrain_inputs": "unlabelled"}, {}, "on more.csv"),
    (None, {"pretrained_on": "listops"}, "on listops"),
    (None, {}, ", by hf-longseq"),
])  # fmt: skip
def test_a_card_names_the_data_of_the_pretraining_that_the_records_name(runs, settings, transfer, said):
    run = read_run(runs / "classifier")
    first = settings if settings is None else {**run.pretraining, "data": {**run.pretraining["data"], **settings}}
    run = replace(run, pretraining=first, metrics={**run.metrics, "transfer": transfer})
    text = card_of(run, _open(run.folder))
    assert f"trained for spoken-tones after self-pretraining{'' if said[0] == ',' else ' '}{said}" in text


def test_a_run_that_started_from_a_finetuned_one_is_no_self_pretraining(runs, tmp_path):
    words = ["finetune", "--max_steps", "2", "--init_from", str(runs / "classifier")]
    assert main([*words, "--output_dir", str(tmp_path / "b")]) == 0
    run = read_run(tmp_path / "b")
    text = card_of(run, _open(run.folder))
    assert "trained for spoken-tones from the weights of a model trained for spoken-tones, by" in text
    assert "self-pretraining" not in text.split("## ")[0].split("# ")[1]
    assert "finetune --recipe resolved.yaml --init_from" in text and "hf-longseq pretrain" not in text


def test_a_card_repeats_the_pretraining_with_its_seed_and_says_what_each_phase_took(runs):
    run = read_run(runs / "classifier")
    assert run.pretraining_seconds == json.loads((runs / "pretrained" / "metrics.json").read_text())["wall_seconds"]
    pretraining = {**run.pretraining, "run": {**run.pretraining["run"], "seed": 7}}
    model = _open(run.folder)
    text = card_of(replace(run, pretraining=pretraining), model)
    assert "hf-longseq pretrain --recipe pretraining.yaml --seed 7 --output_dir pretrained\n" in text
    took = f"{run.pretraining_seconds} seconds of self-pretraining and {run.metrics['wall_seconds']} seconds of"
    assert f"Compute: {took} fine-tuning on " in text


def test_results_on_a_data_set_of_the_hub_are_filed_for_its_page(runs, tmp_path, undrawn):
    run = read_run(runs / "classifier")
    assert eval_results_file(run) == {}
    part = replace(run, data={**run.data, "source": "https://huggingface.co/datasets/org/series"})
    assert part.settings["data"]["num_test_examples"] == 32 and eval_results_file(part) == {}
    run = replace(run, settings={**run.settings, "data": {**run.settings["data"], "num_test_examples": None}})
    first = replace(part, settings={**run.settings, "data": {**run.settings["data"], "num_rows": 32}})
    assert eval_results_file(first) == {}
    for source, filed in (
        ("https://huggingface.co/datasets/org/my.series", True),
        ("http://127.0.0.1:8000/datasets/org/series", True),
        ("https://huggingface.co/datasets/org/series, its test split taken out of train", False),
        ("series.csv", False),
        ("data/series.csv", False),
        ("data/folder", False),
    ):
        assert bool(eval_results_file(replace(run, data={**run.data, "source": source}))) == filed, source
    run = replace(run, data={**run.data, "source": "https://huggingface.co/datasets/org/series"})
    build_folder(run, tmp_path / "built", "org/name", "mit")
    (entry,) = parse_eval_result_entries(yaml.safe_load((tmp_path / "built/.eval_results/series.yaml").read_text()))
    assert entry.dataset_id == "org/series" and entry.value == pytest.approx(run.scores["accuracy"], abs=1e-6)
    assert ModelCard.load(tmp_path / "built/README.md").data.datasets == ["org/series"]


def test_the_same_run_gives_the_same_folder(runs, built, tmp_path):
    build_folder(read_run(runs / "classifier"), tmp_path / "again", "org/classifier", "apache-2.0")
    for path in (built / "classifier").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name


@pytest.mark.slow
def test_every_snippet_runs_as_it_stands(built, tmp_path):
    local = []
    for name in ("classifier", "pretrained"):
        text = (built / name / "README.md").read_text()
        shown = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        assert len(shown) == 2
        local += [code.replace(f'"org/{name}"', repr(str(built / name))) for code in shown]
    local = [re.sub(r"hf_hub_download\((.*), (.*)\)", r"\1 + '/' + \2", code) for code in local]
    printed = answer(run_fresh("\n".join(local), tmp_path, hide_package=True))
    # on a recording that is published beside it
    card = (built / "classifier" / "README.md").read_text()
    said = re.search(r"It prints, .* with the label `first`:\n\n```text\n(.*?)```", card, re.DOTALL)[1]
    assert printed.startswith(said) and "%" in said and (built / "classifier" / "example.wav").is_file()


def test_a_processor_whose_file_names_no_code_gets_its_code(runs, tmp_path, undrawn):
    run = shutil.copytree(runs / "classifier", tmp_path / "run")
    settings = json.loads((run / "preprocessor_config.json").read_text())
    del settings["auto_map"]
    (run / "preprocessor_config.json").write_text(json.dumps(settings))
    build_folder(read_run(run), tmp_path / "built", "org/name", "mit")
    assert (tmp_path / "built" / "feature_extraction_longseq.py").is_file()
    for file in ("preprocessor_config.json", "config.json"):
        assert "AutoFeatureExtractor" in json.loads((tmp_path / "built" / file).read_text())["auto_map"]


def test_a_check_that_fails_publishes_nothing_and_says_why(runs, tmp_path, monkeypatch, undrawn):
    monkeypatch.setattr("hf_longseq.hub.check.STRANGER", "assert sys.argv[1:] == [], 'AutoModel differs'")
    with pytest.raises(HfLongSeqError, match="does not open by itself, so nothing was published: .*AutoModel differs"):
        publish(runs / "classifier", "org/name", dry_run=True, output_dir=tmp_path / "built")


@pytest.mark.slow
def test_a_folder_that_computes_something_else_is_not_published(built, tmp_path):
    broken = shutil.copytree(built / "classifier", tmp_path / "broken")
    tensors = load_file(broken / "model.safetensors")
    tensors["classifier.out_proj.bias"] = tensors["classifier.out_proj.bias"] + 1
    save_file(tensors, broken / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(HfLongSeqError, match="differs from the source by"):
        check_folder(broken, _open(built / "classifier"), "org/classifier")


@pytest.mark.parametrize(
    "variant, options, head, tag",
    [
        ("dlr", {}, "ForCausalLM", "text-generation"),
        ("dlr", {}, "ForMaskedLM", "fill-mask"),
        ("dlr", {}, "ForSequenceClassification", "text-classification"),
        ("dlr", {}, "ForTokenClassification", "token-classification"),
        ("dlr", {"input_type": "values"}, "ForTokenClassification", None),
        ("dlr", {"input_type": "values"}, "ForSequenceClassification", None),
        ("dlr", {"input_type": "values", "problem_type": "regression"}, "ForSequenceClassification", None),
    ],
)
def test_the_pipeline_tag_is_one_the_hub_knows_or_none(variant, options, head, tag):
    assert pipeline_tag("my-own", make_config(variant, **options), head) == tag


def test_an_access_token_in_a_record_is_never_published(runs, tmp_path, unchecked, undrawn):
    run = shutil.copytree(runs / "classifier", tmp_path / "run")
    settings = yaml.safe_load((run / "resolved.yaml").read_text())
    settings["data"]["note"] = "hf_" + "A" * 34
    (run / "resolved.yaml").write_text(yaml.safe_dump(settings))
    with pytest.raises(HfLongSeqError, match="resolved.yaml would publish an access token"):
        publish(run, "org/name", dry_run=True)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_text("my-secret")
    refuse_secrets(tmp_path / "folder")
    with pytest.raises(HfLongSeqError, match="a.txt"):
        refuse_secrets(tmp_path / "folder", ("my-secret",))


@pytest.mark.parametrize("before, found", [("", True), ("my_", True), ("token=", True), ("a", False)])
def test_an_access_token_is_found_behind_anything_but_a_letter_or_digit(before, found):
    assert bool(ACCESS_TOKEN.search(f"{before}hf_{'A' * 34}")) == found


def change(path, **entries):
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


@pytest.mark.parametrize(
    "prepare, repo_id, message",
    [
        (None, "a/b/c", "not a name the Hub allows"),
        (None, "org/bad name", "not a name the Hub allows"),
        (None, "org/.hidden", "not a name the Hub allows"),
        (None, "", "not a name the Hub allows"),
        (lambda run: shutil.rmtree(run), "org/name", "is not a run"),
        (lambda run: (run / "resolved.yaml").unlink(), "org/name", "is not a run"),
        (lambda run: (run / "metrics.json").unlink(), "org/name", "unfinished"),
        (lambda run: change(run / "metrics.json", test={}, validation={}), "org/name", "has no metrics"),
        (lambda run: (run / "metrics.json").write_text("{"), "org/name", "not readable as JSON"),
        (lambda run: (run / "config.json").unlink(), "org/name", "unfinished"),
        (lambda run: (run / "model.safetensors").unlink(), "org/name", "holds no model.safetensors"),
        (lambda run: change(run / "config.json", model_type="bert"), "org/name", "type 'bert'"),
        (lambda run: change(run / "config.json", hidden_size=24), "org/name", "tensors have other shapes"),
    ],
)
def test_what_cannot_be_published_is_said_in_one_sentence(runs, tmp_path, capsys, prepare, repo_id, message):
    run = shutil.copytree(runs / "classifier", tmp_path / "run")
    if prepare is not None:
        prepare(run)
    assert main(["publish", str(run), "--repo_id", repo_id, "--dry_run"]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("hf-longseq: error: ") and message in last


def test_files_of_others_are_not_replaced_by_a_build(runs, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    for place in (tmp_path / "mine", tmp_path / "mine" / "thesis.txt"):
        with pytest.raises(HfLongSeqError, match="holds files that no build made|is a file: choose another"):
            publish(runs / "classifier", "org/name", dry_run=True, output_dir=place)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"


@pytest.mark.parametrize(
    "text", ["# My project\n", "---\ntags: [mine]\n---\n", "---\ntags: [hf-longseq]\n---\n", "---\n: [\n---\n"]
)
def test_a_project_with_a_readme_is_no_earlier_build(runs, tmp_path, text):
    (tmp_path / "README.md").write_text(text)
    if "hf-longseq" in text:  # a clone of a repository of such a build
        (tmp_path / ".git").mkdir()
    with pytest.raises(HfLongSeqError, match="no build made: choose a new folder|choose a new output_dir"):
        publish(runs / "classifier", "org/name", dry_run=True, output_dir=tmp_path)
    assert (tmp_path / "README.md").read_text() == text


def test_an_earlier_build_is_replaced(runs, unchecked, tmp_path):
    for _ in range(2):
        publish(runs / "classifier", "org/name", dry_run=True, output_dir=tmp_path / "built")
    assert (tmp_path / "built" / "config.json").is_file()
