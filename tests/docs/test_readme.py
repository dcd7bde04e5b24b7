"""What the README shows runs as it stands there: its Python as written, its commands at toy size."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
WITH_TRANSFORMERS = (ROOT / "docs" / "with_transformers.md").read_text(encoding="utf-8")
COMPARING = (ROOT / "docs" / "comparing.md").read_text(encoding="utf-8")


def blocks(language: str, page: str = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.S)


def python_block(word: str, page: str = README) -> str:
    found = [block for block in blocks("python", page) if word in block]
    assert len(found) == 1, f"there should be one Python block with {word!r}"
    return found[0]


def run_python(code: str, folder: Path) -> str:
    (folder / "model_cards").symlink_to(ROOT / "model_cards")
    result = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout


def in_few_steps(code: str) -> str:
    small = re.sub(r"max_steps=\d+", "max_steps=2", code)
    assert small != code
    return small


def test_the_readme_is_read_in_a_minute():
    assert len(README.splitlines()) <= 120
    assert len(README.split("```python")[0].split()) < 250


def test_a_published_checkpoint_opens_and_answers(tmp_path):
    code = python_block("AutoModelForSequenceClassification.from_pretrained(")
    assert run_python(code, tmp_path).strip().splitlines()[-1] in README


def test_own_rows_are_pretrained_on_and_classified(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(tmp_path / "cache"))
    lines = [f"{'good fine nice' if n % 2 else 'bad poor sad'} {n},{n % 2 if n < 60 else ''}" for n in range(120)]
    (tmp_path / "rows.csv").write_text("text,label\n" + "\n".join(lines) + "\n")
    code = python_block("SPTTrainer")
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    assert "eval_accuracy" in run_python(in_few_steps(code), tmp_path)


def test_the_stock_trainer_does_both_phases(tmp_path):
    code = python_block("Trainer(", WITH_TRANSFORMERS)
    run_python(in_few_steps(code), tmp_path)
    assert (tmp_path / "runs" / "tones" / "model.safetensors").is_file()


def test_a_recipe_does_both_phases(tmp_path):
    code = python_block("finetune(", COMPARING)
    small = code.replace('Recipe.load("demo")', 'Recipe.load("demo", tiny=True)')
    assert small != code
    run_python(small, tmp_path)


TRAINING = ("pretrain", "finetune", "spt", "compare")
COMMANDS = [line for block in blocks("bash") for line in block.splitlines() if line.startswith("hf-longseq")]


@pytest.mark.parametrize("line", COMMANDS)
def test_every_option_of_a_shown_command_exists(line):
    """`--help` of the command knows every option; the commands themselves run in tests/cli."""
    words = shlex.split(line, comments=True)
    result = subprocess.run(
        [sys.executable, "-m", "hf_longseq", words[1], "--help-all" if words[1] in TRAINING else "--help"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert result.returncode == 0, result.stderr
    for word in words[2:]:
        if word.startswith("--") and not word.startswith("--model."):
            assert word.split("=")[0] in result.stdout, f"{word} is not an option of {words[1]}"
