"""What the README shows runs as it stands there: its Python as written, its commands at toy size."""

import re
import shlex
from pathlib import Path

import pytest

from hf_longseq.cli.main import main

TRAINING = ("pretrain", "finetune", "spt", "compare")
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


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory of a reader, with the kept checkpoints beside it."""
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model_cards").symlink_to(ROOT / "model_cards")
    return tmp_path


def in_few_steps(code: str) -> str:
    small = re.sub(r"max_steps=\d+", "max_steps=2", code)
    assert small != code
    return small


def test_the_readme_is_read_in_a_minute():
    assert len(README.splitlines()) <= 120
    assert len(README.split("```python")[0].split()) < 250


def at_toy_size(line: str) -> list[str]:
    """The words of a command that trains for a few steps, with one seed and one number of labels."""
    line = re.sub(r"--(\w+\.max_steps|train_fractions) \S+ ", "", line)
    words = shlex.split(re.sub(r"--seeds [\d ]+", "--seeds 10 ", line), comments=True)
    few = ["--data.num_train_examples", "64"] if words[1] == "compare" else []
    return words[1:] + (["--tiny", "--max_steps", "2", *few] if words[1] in TRAINING else [])


@pytest.mark.slow
def test_the_blocks_run_in_the_order_in_which_they_stand(folder, capsys, undrawn):
    texts = [f"{'good fine nice' if n % 2 else 'bad poor sad'} {n}" for n in range(120)]
    rows = [f"{text},{n % 2 if n < 60 else ''}" for n, text in enumerate(texts)]
    (folder / "rows.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    others = [f"{text},{n % 3}" for n, text in enumerate(texts)]
    (folder / "other.csv").write_text("\n".join(["text,label", *others]) + "\n")
    (folder / "new.csv").write_text("\n".join(["text", *texts[:5]]) + "\n")
    said = []
    for language, block in re.findall(r"```(python|bash)\n(.*?)```", README, flags=re.S):
        if language == "python":
            assert len([line for line in block.splitlines() if line.strip()]) <= 12
            exec(compile(re.sub(r"max_steps=\d+", "max_steps=2", block), "README.md", "exec"), {})
        else:
            for line in block.splitlines():
                assert not line.startswith("hf-longseq") or main(at_toy_size(line)) == 0, line
        said.append(capsys.readouterr().out)
    printed = next(out for out in said if out.strip())
    assert f"prints `{printed.strip().splitlines()[-1]}`" in README and any("eval_accuracy" in out for out in said)
    assert len((folder / "labels.csv").read_text().splitlines()) == 6


def test_the_stock_trainer_does_both_phases(folder):
    exec(in_few_steps(python_block("Trainer(", WITH_TRANSFORMERS)), {})
    assert (folder / "runs" / "tones" / "model.safetensors").is_file()


def test_a_recipe_does_both_phases(folder):
    code = python_block("finetune(", COMPARING)
    small = code.replace('Recipe.load("demo")', 'Recipe.load("demo", tiny=True)')
    assert small != code
    exec(small, {})


COMMANDS = [line for block in blocks("bash") for line in block.splitlines() if line.startswith("hf-longseq")]


@pytest.mark.parametrize("line", COMMANDS)
def test_every_option_of_a_shown_command_exists(line, capsys):
    """`--help` of the command knows every option; the commands themselves run in tests/cli."""
    words = shlex.split(line, comments=True)
    with pytest.raises(SystemExit) as stop:
        main([words[1], "--help-all" if words[1] in TRAINING else "--help"])
    page = capsys.readouterr().out
    assert not stop.value.code
    for word in words[2:]:
        if word.startswith("--") and not word.startswith("--model."):
            option = re.sub(r"--(pretrain|finetune)\.", "--PHASE.", word.split("=")[0])
            assert option in page, f"{word} is not an option of {words[1]}"
