"""Names and settings are checked before torch is imported and before data are generated; a rerun says where it is."""

import json
import subprocess
import sys

import pytest

from hf_longseq.cli.main import main

TINY = ["--task", "listops", "--tiny", "--max_steps", "1"]


def fresh(*words):
    """A command in a process of its own: exit code, both outputs, and whether torch was imported."""
    code = "import sys; from hf_longseq.cli.main import main; code = main(); print('torch' in sys.modules); exit(code)"
    done = subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True)
    *said, heavy = done.stdout.splitlines()
    return done.returncode, "\n".join(said), done.stderr, heavy == "True"


def test_a_finished_command_trains_nothing_and_says_where_its_result_is(tmp_path, capsys):
    folder = tmp_path / "run"
    words = ["pretrain", *TINY, "--arch", "s4", "--output_dir", str(folder)]
    assert main(words) == 0
    first, written = capsys.readouterr().out, (folder / "model.safetensors").stat().st_mtime_ns
    assert main(words) == 0
    assert capsys.readouterr().out == first and f"model and records in {folder}" in first
    assert (folder / "model.safetensors").stat().st_mtime_ns == written


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pretrain", "--task", "listop"], "There is no task 'listop' (did you mean 'listops'"),
        (["spt", "--task", "listops", "--arch", "s44"], "model.arch is 's44' (did you mean 's4'"),
        (["compare", "--recipe", "listops-tny"], "did you mean 'listops-tiny'"),
    ],
)
def test_names_are_checked_before_torch_is_imported(tmp_path, words, message):
    code, _, said, heavy = fresh(*words, "--output_dir", tmp_path / "run")
    assert code == 2 and message in said and not heavy
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pretrain", "--task", "listops", "--mask_ratio", "0"], "mask_ratio is 0"),
        (["spt", "--task", "listops", "--finetune.max_steps", "many"], "finetune.max_steps is 'many'"),
    ],
)
def test_settings_are_checked_before_data_are_generated(tmp_path, monkeypatch, capsys, words, message):
    for module in ("training.run.load_data", "comparison.execute.load_task"):
        monkeypatch.setattr(f"hf_longseq.{module}", lambda *_, **__: pytest.fail("data were generated"))
    assert main([*words, "--output_dir", str(tmp_path / "run")]) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_fields_that_do_not_go_together_are_refused_before_data_are_generated(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("hf_longseq.training.run.load_data", lambda *_: pytest.fail("data were generated"))
    words = ["pretrain", "--task", "listops", "--arch", "transformer", "--model.num_attention_heads", "7"]
    assert main([*words, "--output_dir", str(tmp_path / "run")]) == 2
    assert "num_attention_heads is 7, which does not divide" in capsys.readouterr().err


def test_settings_of_arms_and_grids_are_checked_before_data_are_generated(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("hf_longseq.comparison.execute.load_task", lambda *_, **__: pytest.fail("data were generated"))
    words = ["compare", "--task", "listops", "--arch", "s4", "--output_dir", str(tmp_path / "run"), "--inits"]
    for more, message in (
        (["spt@span_length=0"], "span_length is 0"),
        (["spt", "--grid", "finetune.weight_decay=-1"], "weight_decay is -1"),
        (["spt@direction=both"], "the recipe pretrains masked"),
    ):
        assert main([*words, *more]) == 2
        assert message in capsys.readouterr().err


def test_a_log_holds_lines_and_no_bars(tmp_path, capsys, undrawn):
    rows = "".join(f"text {i},{i % 2}\n" for i in range(40))
    (tmp_path / "texts.csv").write_text("text,label\n" + rows)
    words = ["spt", "--data", str(tmp_path / "texts.csv"), "--tiny", "--max_steps", "2", "--arch", "s4"]
    assert main([*words, "--output_dir", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().err
    assert "step/s" not in said and "it/s" not in said and "%|" not in said and "\r" not in said
    assert sum("step 2/2: validation" in line for line in said.splitlines()) >= 3  # one line per evaluation
    assert said.count("examples, the largest class") == 1  # what was split how, once
    assert "stuck at chance" not in said  # two steps teach nothing
    assert json.loads((tmp_path / "run" / "results.json").read_text())
