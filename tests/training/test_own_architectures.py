"""An architecture from a file of the user's own: the example of the page, its checks, and who may name it."""

import re
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import hf_longseq
from fresh_process import answer, run_fresh
from hf_longseq import models
from hf_longseq.cli.main import main
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training import check_mixer, own_architectures
from hf_longseq.training.recipe import Recipe

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
LISTOPS = ["--task", "listops", "--tiny", "--max_steps", "2"]


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The file that the page shows, known to nobody before and after."""
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "mine.py"
    path.write_text(re.search(r"```python\n(\"\"\"An exp.*?)```", PAGE.read_text(), re.DOTALL).group(1))
    yield path
    forget()


def forget():
    for known in (hf_longseq.ARCHITECTURES, models.ARCHITECTURES, own_architectures._files):
        known.pop("mine", None)
    CONFIG_MAPPING._extra_content.pop("longseq_mine", None)


def test_the_file_of_the_page_passes_every_check(mine, capsys):
    assert main(["check-mixer", str(mine)]) == 0
    out, err = capsys.readouterr()
    assert out.count(" ok\n") == len(check_mixer.CHECKS) and "mine: all checks passed" in out
    assert f"runs the code of {mine}" in err


@pytest.mark.parametrize(
    ("right", "wrong", "failing"),
    [
        ("if attention_mask is not None:", "if False:", "padding on both sides, causal"),
        ("before = memory.state", "before = None", "step by step = all at once"),
        ("one_direction(both, direction)", "both", "one direction of a bidirectional model"),
        (", dtype=torch.float32))", "))", "bfloat16"),
        ("init.uniform_(self.log_time, 0.0,", "print(0.0,", "seed and initialisation"),
        ('frozenset({"log_time"})', 'frozenset({"time"})', "parameter groups"),
    ],
)
def test_a_mistake_in_a_mixer_fails_its_check(mine, capsys, right, wrong, failing):
    text = mine.read_text()
    assert right in text
    wrong_file = mine.with_name("wrong.py")
    wrong_file.write_text(text.replace(right, wrong))
    assert main(["check-mixer", f"{wrong_file}:Mine"]) == 1
    failed = [line for line in capsys.readouterr().out.splitlines() if re.search(r"  failed: .", line)]
    assert any(line.startswith(failing) for line in failed)


def test_a_mixer_without_a_state_does_not_stream(mine, capsys):
    text = mine.read_text().replace("if past_key_values is not None:", "if False:")
    mine.write_text(text)
    assert main(["check-mixer", str(mine)]) == 0
    assert re.search(r"step by step = all at once +skipped: .* cannot generate", capsys.readouterr().out)


def test_a_run_with_an_own_file_goes_on_where_the_file_is_named(mine, tmp_path, capsys):
    run, tuned = tmp_path / "run", tmp_path / "tuned"
    arch = ["--arch", f"{mine}:Mine"]
    assert main(["pretrain", *LISTOPS, *arch, "--output_dir", str(run)]) == 0
    assert (
        "arch: mine\n" in (run / "resolved.yaml").read_text() and "mine.py" not in (run / "resolved.yaml").read_text()
    )

    forget()  # as in another process
    for words in (
        ["finetune", "--init_from", str(run), "--output_dir", str(tuned)],
        ["evaluate", "--model", str(run)],
    ):
        assert main(words) == 2
        assert "--arch FILE.py:NAME" in capsys.readouterr().err
    with pytest.raises(HfLongSeqError, match="--arch FILE.py:NAME"):
        Recipe.load(run / "resolved.yaml")

    assert main(["finetune", "--init_from", str(run), *arch, "--max_steps", "2", "--output_dir", str(tuned)]) == 0
    model = AutoModelForSequenceClassification.from_pretrained(run)
    assert model(input_ids=torch.tensor([[5, 6]])).logits.shape == (1, 10)


@pytest.mark.slow
def test_a_run_with_an_own_file_is_opened_by_its_own_code(mine, tmp_path):
    run = tmp_path / "run"
    assert main(["pretrain", *LISTOPS, "--arch", f"{mine}:Mine", "--output_dir", str(run)]) == 0
    script = (
        "from transformers import AutoModel\n"
        f"model = AutoModel.from_pretrained({str(run)!r}, trust_remote_code=True)\n"
        "print(model.config.model_type, model.layers[0].mixer.log_time.sum().item())"
    )
    alone = answer(run_fresh(script, tmp_path, hide_package=True))
    model = AutoModelForSequenceClassification.from_pretrained(run)
    assert alone.split() == ["longseq_mine", str(model.model.layers[0].mixer.log_time.sum().item())]


@pytest.mark.slow
def test_other_processes_of_a_comparison_know_it(mine, tmp_path):
    words = ["compare", *LISTOPS, "--arch", f"{mine}:Mine@longest=10", "--inits", "scratch", "--seeds", "0,1"]
    assert main([*words, "--jobs", "2", "--output_dir", str(tmp_path / "compared")]) == 0


def test_a_recipe_runs_no_file(mine, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    mine.write_text(mine.read_text() + "\nopen('ran', 'w').close()\n")
    recipe = tmp_path / "resolved.yaml"
    recipe.write_text("model: {arch: 'mine.py:Mine'}\ndata: {task: listops}\n")
    assert main(["pretrain", "--recipe", str(recipe), "--output_dir", "run"]) == 2
    assert "a recipe runs no code: name the file on the command line" in capsys.readouterr().err
    assert not Path("ran").exists()
    assert main(["pretrain", "--recipe", str(recipe), "--arch", "mine.py:Mine", "--tiny", "--output_dir", "run"]) == 0
    assert Path("ran").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("longseq_mine", "longseq_s4"), "is the name of an architecture of this package"),
        (("longseq_mine", "mixer of mine"), "is not a name of small letters"),
        (("class MineModel", "class OtherModel"), "defines no MineModel"),
        (("(LongSeqModel)", "(nn.Module)"), "not a subclass of LongSeqModel"),
        (("import torch\n", "import torch, nowhere\n"), "does not run .*nowhere"),
    ],
)
def test_a_file_that_does_not_fit_is_one_sentence(mine, change, message):
    mine.write_text(mine.read_text().replace(*change))
    with pytest.raises(HfLongSeqError, match=message):
        own_architectures.import_architecture(f"{mine}:Mine")
    assert "mine" not in hf_longseq.ARCHITECTURES
