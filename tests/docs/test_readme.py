"""What the README shows runs as it stands there: its Python as written, its commands at toy size."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.S)


def python_block(word: str) -> str:
    found = [block for block in blocks("python") if word in block]
    assert len(found) == 1, f"the README should have one Python block with {word!r}"
    return found[0]


def run_python(code: str, folder: Path) -> str:
    (folder / "model_cards").symlink_to(ROOT / "model_cards")
    result = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout


def test_a_published_checkpoint_opens_and_answers(tmp_path):
    code = python_block("AutoModelForSequenceClassification.from_pretrained(")
    assert run_python(code, tmp_path).strip().splitlines()[-1] in README


def test_the_stock_trainer_does_both_phases(tmp_path):
    code = python_block("Trainer(")
    assert len(code.strip().splitlines()) <= 25
    small = re.sub(r"max_steps=\d+", "max_steps=2", code)
    assert small != code
    run_python(small, tmp_path)
    assert (tmp_path / "runs" / "tones" / "model.safetensors").is_file()


def test_the_package_does_both_phases(tmp_path):
    code = python_block("finetune(")
    small = code.replace('Recipe.load("demo")', 'Recipe.load("demo", tiny=True)')
    assert small != code
    run_python(small, tmp_path)


COMMANDS = [line for block in blocks("bash") for line in block.splitlines() if line.startswith("hf-longseq")]


@pytest.mark.parametrize("line", COMMANDS)
def test_every_option_of_a_shown_command_exists(line):
    """`--help` of the command knows every option; the commands themselves run in tests/cli."""
    words = shlex.split(line, comments=True)
    result = subprocess.run(
        [sys.executable, "-m", "hf_longseq", words[1], "--help"], capture_output=True, text=True, cwd=ROOT
    )
    assert result.returncode == 0, result.stderr
    for word in words[2:]:
        if word.startswith("--") and not word.startswith("--model."):
            assert word.split("=")[0] in result.stdout, f"{word} is not an option of {words[1]}"
