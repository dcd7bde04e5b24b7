import json
import re
from pathlib import Path

import pytest
import torch
import yaml
from transformers import AutoModelForSequenceClassification

import hf_longseq
from hf_longseq import DataCollatorWithLongPadding

CARDS = Path(__file__).parents[2] / "model_cards"
NAMES = sorted(folder.name for folder in CARDS.iterdir() if folder.is_dir())
TONES = [name for name in NAMES if name.endswith("spoken-tones-spt")]
TEXT = (CARDS / "README.md").read_text()


def metrics_of(name):
    return json.loads((CARDS / name / "metrics.json").read_text())


def test_every_card_is_listed_with_its_score():
    listed = re.findall(r"\| \[(\S+)\]\((\S+)/README\.md\) \| [^|]+ \| (\d+) \| ([\d.]+) % \|", TEXT)
    assert sorted(name for name, _, _, _ in listed) == NAMES
    for name, folder, labels, score in listed:
        metrics = metrics_of(name)
        assert folder == name and int(labels) == metrics["train_examples"]
        assert score == f"{100 * metrics['test']['accuracy']:.1f}"


@pytest.mark.parametrize("name", NAMES)
def test_the_commands_of_a_card_have_the_seeds_of_its_runs(name):
    text = (CARDS / name / "README.md").read_text()
    for file, command in (("pretraining", "pretrain"), ("resolved", "finetune")):
        seed = yaml.safe_load((CARDS / name / f"{file}.yaml").read_text())["run"]["seed"]
        assert re.search(rf"^hf-longseq {command} --recipe {file}\.yaml .*--seed {seed} ", text, re.MULTILINE)
    # where the run that it started from was still there, its seconds come first
    seconds = re.search(
        r"^Compute: (?:[\d.]+ seconds of self-pretraining and )?([\d.]+) seconds of fine-tuning on ", text, re.M
    )
    assert float(seconds[1]) == metrics_of(name)["wall_seconds"]


def test_what_is_kept_is_small_and_carries_no_code():
    files = [path for path in CARDS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 10_000_000
    assert all(path.stat().st_size <= 2_000_000 and path.suffix != ".py" for path in files)


@pytest.mark.parametrize("name", [name for name in TONES if (CARDS / name / "model.safetensors").is_file()])
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
