"""A run folder may be somebody else's: what its records say is shown, and nothing in it is run or given away."""

import json
import shutil

import pytest
import yaml
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt

from hf_longseq.cli.main import main
from hf_longseq.errors import HfLongSeqError
from hf_longseq.hub.publish import build_folder, publish
from hf_longseq.hub.records import read_run
from hf_longseq.training.run_folder import started_from, weights_hash
from results_folders import folder_of, row

FENCE = "Fine.\n```\n\n```python\nopen({canary!r}, 'w').write('was run')\n```\n\n# More\n"
TEXTS = [
    "a\n```python\nimport os\n```\n",
    "| a | b |\n|---|---|",
    "<script>alert(1)</script>",
    "---\nlicense: other\n---\n# Title",
    "\\ \\n \\g<0> \\1 {{ 7 * 7 }}",
    "\u202efdp.exe\u2066 $\\foo$ &lt;",
    "[x](javascript:alert(1)) ![y](http://z) *a* _b_ ~c~",
]


@pytest.fixture
def run(runs, tmp_path):
    """A copy of a finished run, to be changed."""
    return shutil.copytree(runs / "classifier", tmp_path / "run", symlinks=True)


def change(path, **entries):
    """Change entries of a JSON or YAML file."""
    if path.suffix == ".json":
        path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))
    else:
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **entries}))


def structure(card):
    """Kinds of the tokens of a card, without those that only carry text."""
    body = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(ModelCard(card).text)
    return [(t.type, t.tag, t.info, [c.type for c in t.children or () if c.type != "text"]) for t in body]


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["handed over", "run"])
def snippets(request):
    """The code that is handed to the check of a built folder, empty where the check is done."""
    return [] if request.param else request.getfixturevalue("unchecked")


def test_no_record_is_run(run, tmp_path, snippets):
    canary = tmp_path / "canary"
    text = FENCE.format(canary=str(canary))
    change(run / "data.json", note=text, source=text, license=text)
    settings = yaml.safe_load((run / "resolved.yaml").read_text())
    settings["data"] = {**settings["data"], "task": "own-data", "data": text}
    settings["run"]["seed"] = text
    change(run / "resolved.yaml", **settings)
    change(run / "environment.json", cpu=text, torch=text)
    out = tmp_path / "built"
    publish(run, "org/name", dry_run=True, output_dir=out)
    assert not canary.exists() and "was run" not in str(snippets)
    card = (out / "README.md").read_text()
    assert card.count("\n```python\n") == 2 and "\n# More" not in card and "was run" in card


def test_the_name_of_a_converted_file_is_not_run(runs, tmp_path, unchecked):
    folder = shutil.copytree(runs / "pretrained", tmp_path / "converted")
    (folder / "resolved.yaml").unlink()
    canary = tmp_path / "canary"
    text = FENCE.format(canary=str(canary))
    record = {"source": text, "sha256": text, "options": {text: text}, "assumptions": [text], "classifier": text}
    (folder / "conversion.json").write_text(json.dumps(record))
    publish(folder, "org/name", dry_run=True, output_dir=tmp_path / "built")
    card = (tmp_path / "built" / "README.md").read_text()
    assert not canary.exists() and "was run" not in str(unchecked)
    assert card.count("\n```python\n") == 2 and "\n# More" not in card


def replaced(record, text):
    """A record in which every text but the few names that choose what is published is replaced."""
    if isinstance(record, dict):
        kept = ("phase", "init", "task", "arch", "metric", "init_weights")
        return {key: item if key in kept else replaced(item, text) for key, item in record.items()}
    if isinstance(record, list):
        return [replaced(item, text) for item in record]
    return text if isinstance(record, str) else record


def card_saying(text, run, folder):
    """The card of a run whose records say `text` wherever they may."""
    shutil.copytree(run, folder / "run")
    files = {
        name: folder / "run" / name for name in ("data.json", "environment.json", "metrics.json", "resolved.yaml")
    }
    for path in files.values():
        change(path, **replaced(yaml.safe_load(path.read_text()), text))
    change(files["metrics.json"], test={"accuracy": 0.5, text: 0.25}, train_examples=64)
    rows = [row(arm=text, labels=count) for count in (10, 64)]
    folder_of(folder, rows, task="spoken-tones", metric=text)
    (folder / "runs").mkdir()
    (folder / "plan.json").write_text(json.dumps({"runs": [{"name": "one", "arch": "s4"}]}))
    run = (folder / "run").rename(folder / "runs" / "one")
    build_folder(read_run(run), folder / "built", "org/name", "mit")
    return (folder / "built" / "README.md").read_text()


def test_every_record_is_only_shown(run, tmp_path, monkeypatch):
    monkeypatch.setattr("hf_longseq.hub.pictures.draw", lambda *_: [])
    plain = structure(card_saying("word", run, tmp_path / "plain"))
    assert len(plain) > 200
    for index, text in enumerate(TEXTS):
        card = card_saying(text, run, tmp_path / str(index))
        assert structure(card) == plain, text
        assert ModelCard(card).data.license == "mit" and not {"\u202e", "\u2066"} & set(card)
        assert yaml.safe_load((tmp_path / str(index) / "built" / "resolved.yaml").read_text())["run"]


def test_a_metric_of_any_name_can_be_drawn(run, tmp_path):
    name = "$\\foo$ {"
    change(run / "metrics.json", metric=name, test={name: 0.5})
    history = json.loads((run / "history.json").read_text())
    (run / "history.json").write_text(json.dumps([*history, {"step": 1, f"eval_{name}": 0.5}]))
    build_folder(read_run(run), tmp_path / "built", "org/name", "mit")
    assert (tmp_path / "built" / "learning_curve.png").is_file()


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors", "notes.txt", "data.json"])
def test_a_link_that_leaves_the_folder_is_refused_by_name(run, tmp_path, name):
    secret = tmp_path / "secret.json"
    secret.write_text('{"auth": "secret"}')
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(secret)
    with pytest.raises(HfLongSeqError, match=f"{name} is a link that leaves its folder .to .*secret.json"):
        publish(run, "org/name", dry_run=True)
    shutil.move(run, tmp_path / "converted")
    (tmp_path / "converted" / "resolved.yaml").unlink(missing_ok=True)
    (tmp_path / "converted" / "conversion.json").write_text('{"source": "a", "sha256": "b"}')
    with pytest.raises(HfLongSeqError, match=f"{name} is a link that leaves its folder"):
        publish(tmp_path / "converted", "org/name", dry_run=True)


def test_a_link_within_the_folder_is_followed(run):
    (run / "model.safetensors").rename(run / "weights.safetensors")
    (run / "model.safetensors").symlink_to("weights.safetensors")
    read_run(run)


@pytest.mark.parametrize(
    "entry",
    [
        {"AutoTokenizer": ["other/repository--tokenization.Evil", None]},
        {"AutoModel": "other/repository--modeling.Evil"},
        {"AutoFeatureExtractor": "/tmp/evil.Evil"},
        {"AutoFeatureExtractor": "other/repository--feature_extraction_longseq.LongSeqFeatureExtractor"},
    ],
)
@pytest.mark.parametrize("name", ["tokenizer_config.json", "preprocessor_config.json"])
def test_processor_files_bring_no_code_of_others(run, tmp_path, name, entry):
    (run / name).write_text(json.dumps({"auto_map": entry}))
    with pytest.raises(
        HfLongSeqError, match=f"{name} names code that is not this package's .auto_map: {next(iter(entry))}"
    ):
        build_folder(read_run(run), tmp_path / "built", "org/name", "mit")


def test_the_configuration_names_no_code_of_others(run, tmp_path):
    config = json.loads((run / "config.json").read_text())
    change(run / "config.json", auto_map={name: f"other/repository--x.{name}" for name in config["auto_map"]})
    build_folder(read_run(run), tmp_path / "built", "org/name", "mit")
    written = json.loads((tmp_path / "built" / "config.json").read_text())["auto_map"]
    assert written and not any("--" in value for value in written.values())


@pytest.mark.parametrize("architecture", ["AutoConfig", "os", "ARCHITECTURES", "_register"])
def test_only_classes_of_this_package_open_a_folder(run, architecture):
    change(run / "config.json", architectures=[architecture])
    with pytest.raises(HfLongSeqError, match="holds a model of type 'longseq_s4'"):
        publish(run, "org/name", dry_run=True)


def test_a_configuration_names_no_other_weights(run, tmp_path, capsys):
    """transformers reads a file that `transformers_weights` names in the place of model.safetensors."""
    asked = ["predict", "--model", str(run), "--split", "test", "--limit", "2"]
    tuning = ["finetune", "--init_from", str(run), "--max_steps", "1", "--output_dir", str(tmp_path / "tuned")]
    assert main(asked) == 0
    before = capsys.readouterr().out
    (run / "adapter_model.bin").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    change(run / "config.json", transformers_weights="adapter_model.bin")
    assert main(asked) == 0 and capsys.readouterr().out == before
    assert main(tuning) == 0


@pytest.mark.parametrize("command", ["evaluate", "predict", "kernels", "publish", "finetune"])
def test_only_safetensors_are_opened(run, tmp_path, capsys, command):
    (run / "model.safetensors").unlink()
    (run / "optimizer.pt").unlink()
    (run / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    words = {
        "evaluate": ["--model", run],
        "predict": ["--model", run],
        "kernels": [run, "--output_dir", tmp_path / "kernels"],
        "publish": [run, "--repo_id", "org/name", "--dry_run"],
        "finetune": ["--init_from", run, "--max_steps", 2, "--output_dir", tmp_path / "tuned"],
    }[command]
    assert main([command, *map(str, words)]) == 2
    said = capsys.readouterr().err
    assert "hf-longseq: error: " in said and "holds no model.safetensors" in said and "Traceback" not in said
    if command != "finetune":
        assert "only pytorch_model.bin: save it again" in said


@pytest.mark.parametrize(
    "file, entries",
    [
        ("metrics.json", {"test": {"accuracy": "high"}}),
        ("metrics.json", {"steps": "two"}),
        ("data.json", {"splits": {"test": 3}}),
        ("data.json", {"source": 7}),
    ],
)
def test_records_of_the_wrong_kind_are_one_sentence(run, tmp_path, undrawn, file, entries):
    change(run / file, **entries)
    with pytest.raises(HfLongSeqError, match=r"the records of .*/run do not fit together \("):
        build_folder(read_run(run), tmp_path / "built", "org/name", "mit")


@pytest.mark.parametrize(
    "file, content, said",
    [
        ("metrics.json", [], "do not fit together"),
        ("resolved.yaml", {"run": {"phase": "finetune"}}, "do not fit together"),
        ("../results.json", {"task": "spoken-tones"}, "has no readable metric, greater_is_better"),
        ("config.json", [], "holds no model"),
        ("config.json", {"architectures": ["S4ForSequenceClassification"], "model_type": []}, "a model of type"),
    ],
)
def test_whole_files_of_the_wrong_kind_are_one_sentence(run, tmp_path, file, content, said):
    folder = run.rename(tmp_path / "best")
    (folder / file).write_text(json.dumps(content))
    with pytest.raises(HfLongSeqError, match=said):
        publish(folder, "org/name", dry_run=True)


@pytest.mark.parametrize("entry", [{"dtype": []}, {"num_hidden_layers": 10**30}, {"hidden_size": "x"}])
def test_a_hostile_configuration_is_one_sentence(run, entry):
    change(run / "config.json", **entry)
    with pytest.raises(HfLongSeqError, match="holds no model that this package can open"):
        publish(run, "org/name", dry_run=True)


def test_pretraining_is_found_by_weights_and_not_by_their_absence(run, tmp_path):
    private = tmp_path / "private"
    private.mkdir()
    (private / "resolved.yaml").write_text("secret: 1")
    settings = {"run": {"init_from": str(private), "init_weights": weights_hash(private)}}
    assert started_from(run, settings) is None
