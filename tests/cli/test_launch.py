"""`--num_processes N`: one answer from several processes, one message for an error, one exit code."""

import os
import signal
import subprocess
import sys
import time

import pytest
import torch.distributed as dist
import yaml

from hf_longseq import launch
from hf_longseq.cli.launch import run_as_one_of_several, take_options
from hf_longseq.cli.main import main
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training import distributed, run_folder

LISTOPS = ["--task", "listops", "--arch", "s4", "--tiny"]


def command(*words, module="hf_longseq"):
    words = [sys.executable, "-m", module, *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    environment.pop("HF_LONGSEQ_TRACEBACK", None)
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


# The command, in which the second process meets a bad row in its third batch.
ONE_FAILS = """
import os, sys
from hf_longseq.cli.main import main
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.sampling import FillerCollator
collate, batches = FillerCollator.__call__, []
def bad_row(self, rows):
    batches.append(rows)
    if os.environ["RANK"] == "1" and len(batches) == 3:
        raise HfLongSeqError("row 7 is bad: mend it.")
    return collate(self, rows)
FillerCollator.__call__ = bad_row
sys.exit(main())
"""


@pytest.mark.parametrize(
    "words, message",
    [
        (["pretrain", "--num_processes", "0"], "num_processes is 0: give 1 or more"),
        (["pretrain", "--num_processes", "two"], "num_processes is 'two': give a whole number"),
        (["pretrain", "--num_processes", "2", "--launch_config", "fsdp"], "did you mean 'fsdp2'"),
        (["pretrain", "--launch_config", "ddp"], "without num_processes"),
        (["compare", "--num_processes", "0"], "num_processes is 0: give 1 or more"),
        (["spt", "--launch_config", "ddp"], "without num_processes"),
    ],
)
def test_mistakes_are_found_before_a_process_is_started(words, message, capsys):
    assert main([*words, *LISTOPS, "--output_dir", "x"]) == 2
    assert message in capsys.readouterr().err


def test_the_launcher_takes_its_options_and_leaves_the_rest():
    words = ["--num_processes", "4", "--arch", "s4", "--launch_config", "fsdp2", "--tiny"]
    assert take_options("pretrain", words) == (["--arch", "s4", "--tiny"], 4, "fsdp2")
    assert take_options("finetune", ["--seed", "1"]) == (["--seed", "1"], 1, "ddp")


def test_accelerate_that_starts_one_process_in_place_of_several_is_refused(monkeypatch, capsys, tmp_path):
    """`accelerate launch --cpu --num_processes 2` starts one, and names a port at which it would meet the other."""
    for name, value in {"ACCELERATE_USE_CPU": "True", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}.items():
        monkeypatch.setenv(name, value)
    assert main(["pretrain", *LISTOPS, "--output_dir", str(tmp_path / "run")]) == 2
    assert "`accelerate launch --cpu` starts one process" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", launch.names())
def test_shipped_configurations_state_neither_processes_nor_precision(name, capsys):
    content = yaml.safe_load(launch.find(name).read_text())
    assert not {"num_processes", "num_machines", "mixed_precision", "machine_rank"} & set(content)
    assert main(["env", "--launch_config", name]) == 0
    assert capsys.readouterr().out.strip() == str(launch.find(name))


@pytest.mark.slow
def test_an_error_is_said_once_and_leaves_nothing(tmp_path):
    words = ["--num_processes", 2, "--output_dir", tmp_path / "run", "--global_batch_size", 9]
    process = command("pretrain", *LISTOPS, *words)
    _, err = process.communicate(timeout=200)
    assert process.returncode == 2, err
    assert err.count("hf-longseq: error:") == 1 and "Traceback" not in err
    assert "global_batch_size=9 cannot be shared by 2 processes: make it a multiple of 2" in err
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_an_error_of_one_process_ends_all_under_accelerate_launch(tmp_path):
    (tmp_path / "one_fails.py").write_text(ONE_FAILS)
    words = ["--config_file", launch.find("ddp"), "--num_processes", 2, "--main_process_port", 0]
    words += [tmp_path / "one_fails.py", "pretrain", *LISTOPS, "--output_dir", tmp_path / "run"]
    process = command(*words, module="accelerate.commands.launch")
    _, err = process.communicate(timeout=200)
    assert process.returncode != 0
    assert err.count("hf-longseq: error:") == 1 and "hf-longseq: error: row 7 is bad: mend it." in err


def test_a_process_leaves_its_group_before_the_interpreter_ends(monkeypatch):
    monkeypatch.setenv("TORCH_CPP_LOG_LEVEL", "ERROR")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    in_a_group = []
    run_as_one_of_several(lambda words: in_a_group.append(dist.is_initialized()), [])
    assert in_a_group == [True] and not dist.is_initialized()


def test_more_processes_than_examples_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(HfLongSeqError, match="4 processes are more than the 3 training examples: start at most 3"):
        distributed.check_enough(3)
    assert distributed.check_enough(4) is None


@pytest.mark.slow
def test_a_launcher_that_is_killed_takes_its_processes_along_and_the_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder, "SECONDS_TO_DIE", 0)
    words = ["pretrain", *LISTOPS, "--num_processes", 2, "--output_dir", tmp_path / "run"]
    words += ["--max_steps", 40, "--eval_steps", 5]
    process = command(*words)
    checkpoints = tmp_path / "run" / "checkpoints"
    deadline = time.monotonic() + 150
    while not list(checkpoints.glob("*/complete.json")) and time.monotonic() < deadline:
        time.sleep(0.1)
    with pytest.raises(HfLongSeqError, match="in use by another command"):
        with run_folder.holding(tmp_path / "run"):
            pass
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)  # ends when the last of its processes closes the pipe
    assert not (tmp_path / "run" / "metrics.json").exists()
    again = command(*words)
    out, err = again.communicate(timeout=200)
    assert again.returncode == 0, err
    assert "step 5/40" not in err and err.count("step 40/40") == 1
    # two processes answer like one
    assert out.count("pretrained s4") == 1 and len(out.splitlines()) == 3
    assert "(micro batch 4 x accumulation 1 x processes 2)" in err
    assert (tmp_path / "run" / "model.safetensors").is_file() and not (tmp_path / "run" / ".lock").exists()
