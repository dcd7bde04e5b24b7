import json
import re
from pathlib import Path

import pytest
import torch
import yaml
from transformers import AutoConfig, AutoModelForSequenceClassification

import hf_longseq
from fresh_process import answer, run_fresh
from hf_longseq import DataCollatorWithLongPadding, models
from hf_longseq.hub.check import _fits, _processors

CARDS = Path(__file__).parents[2] / "model_cards"
NAMES = sorted(folder.name for folder in CARDS.iterdir() if folder.is_dir())
TUNED = [name for name in NAMES if (CARDS / name / "pretraining.yaml").is_file()]
TONES = [name for name in NAMES if name.endswith("spoken-tones-spt")]
TEXT = (CARDS / "README.md").read_text()


def metrics_of(name):
    return json.loads((CARDS / name / "metrics.json").read_text())


def test_every_card_is_listed_with_its_score():
    listed = re.findall(r"\| \[(\S+)\]\((\S+)/README\.md\) \| [^|]+ \| (\d+) \| ([\d.]+) % \|", TEXT)
    assert sorted(name for name, _, _, _ in listed) == TUNED
    assert sorted(re.findall(r"\| \[(\S+)\]\(\S+\) \|", TEXT)) == NAMES
    for name, folder, labels, score in listed:
        metrics = metrics_of(name)
        assert folder == name and int(labels) == metrics["train_examples"]
        assert score == f"{100 * metrics['test']['accuracy']:.1f}"


@pytest.mark.parametrize("name", NAMES)
def test_the_commands_of_a_card_have_the_seeds_of_its_runs(name):
    text = (CARDS / name / "README.md").read_text()
    phases = (("pretraining", "pretrain"), ("resolved", "finetune"))
    for file, command in phases if name in TUNED else (("resolved", "pretrain"),):
        seed = yaml.safe_load((CARDS / name / f"{file}.yaml").read_text())["run"]["seed"]
        assert re.search(rf"^hf-longseq {command} --recipe {file}\.yaml .*--seed {seed} ", text, re.MULTILINE)
    # where the run that it started from was still there, its seconds come first
    phase = "fine-tuning" if name in TUNED else "self-pretraining"
    seconds = re.search(
        rf"^Compute: (?:[\d.]+ seconds of self-pretraining and )?([\d.]+) seconds of {phase} on ", text, re.M
    )
    assert float(seconds[1]) == metrics_of(name)["wall_seconds"]


def test_what_is_kept_is_small_and_its_code_is_that_of_the_package():
    files = [path for path in CARDS.rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(path.stat().st_size for path in files) < 10_000_000
    assert all(path.stat().st_size <= 1_000_000 and path.suffix != ".py" for path in files)
    for name in NAMES:
        links = [path for path in (CARDS / name).iterdir() if path.is_symlink()]
        gone = [path.name for path in links if not path.is_file()]
        assert not gone, "run scripts/keep_card.py --links"
        assert links and (CARDS / name / "model.safetensors").is_file()
        for path in links:
            assert path.resolve() == (Path(models.__file__).parent / path.name).resolve()
            assert not path.readlink().is_absolute()


STRANGER = """
import contextlib, io, json, re, sys, transformers
for folder, autos, code, printed in json.loads(WORK):
    for auto in autos:
        opened = getattr(transformers, auto).from_pretrained(folder, trust_remote_code=True)
        home = type(opened).__module__.split(".")[0]
        assert home == "transformers_modules" or auto == "AutoTokenizer", (folder, auto, home)
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(code, {})
    assert printed is None or shown.getvalue().strip() == printed.strip(), (folder, shown.getvalue())
    print("opened", folder)
"""


@pytest.mark.slow
def test_every_folder_opens_as_it_lies_without_the_package_and_prints_what_its_card_says(tmp_path):
    work = []
    for name in NAMES:
        folder, text = CARDS / name, (CARDS / name / "README.md").read_text()
        code = re.search(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[1]
        code = re.sub(r'hf_hub_download\("[^"]+", "([^"]+)"\)', rf"'{folder}/\1'", code)
        printed = re.search(r"^It prints.*?\n\n```text\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        code = code.replace(f'"hf-longseq/{name}"', repr(str(folder)))
        config = AutoConfig.from_pretrained(folder)
        heads = [auto for auto in config.auto_map if _fits(auto, config)]
        opened = [*(auto for auto, _ in _processors(folder)), "AutoConfig", *heads]
        work.append((str(folder), opened, code, printed and printed[1]))
    done = answer(run_fresh(STRANGER.replace("WORK", repr(json.dumps(work))), tmp_path, hide_package=True))
    assert done.count("opened") == len(NAMES)


@pytest.mark.parametrize("name", [TONES[0], *(pytest.param(name, marks=pytest.mark.slow) for name in TONES[1:])])
def test_a_kept_checkpoint_scores_what_its_card_says(name):
    model = AutoModelForSequenceClassification.from_pretrained(CARDS / name).eval()
    splits, spec = hf_longseq.load_task("spoken-tones")
    collate, test = DataCollatorWithLongPadding.from_task(spec), splits["test"]
    right = 0
    for start in range(0, len(test), 64):
        batch = collate([test[index] for index in range(start, min(start + 64, len(test)))])
        with torch.no_grad():
            right += (model(**batch).logits.argmax(-1) == batch["labels"]).sum().item()
    # a rounding of the last bit may turn one recording that is on the border
    assert abs(right / len(test) - metrics_of(name)["test"]["accuracy"]) <= 1 / len(test)
