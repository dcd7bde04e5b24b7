"""Runs of the toy tasks, in this process or in several: `python run_cases.py CASES.json [--fsdp]` under a launcher.

A case is a mapping: phase ("pretrain" or "finetune"), task, arch, sections of a recipe, output_dir, and, if wanted,
init_from and stop_at (the step before which every process stops, as a kill would have it). Of phase "rows" it is
output_dir, stream (whether the trainer gets the rows as one) and options (fields of TrainingArguments).
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import torch

NAMES = ("waves", "heights", "tags", "twins")


def add_toy_tasks(put=dict.__setitem__) -> None:
    """Put the toy tasks into the task table of this process, as `put` does it."""
    from hf_longseq.data.task import TASKS, TaskEntry

    for name in NAMES:
        put(TASKS, name, TaskEntry(f"toy_tasks:{name}", "toy", "generated", "32 rows"))


def run_case(case: dict) -> dict | None:
    """Run one case; its metrics, or None if it was stopped."""
    from hf_longseq import Recipe, finetune, pretrain
    from hf_longseq.training.callbacks import ProgressReport

    sections = {name: dict(values) for name, values in case["sections"].items()}
    sections.setdefault("data", {})["task"] = case["task"]
    sections.setdefault("model", {})["arch"] = case["arch"]
    recipe = Recipe.load(None, sections, tiny=True)
    step_end = ProgressReport.on_step_end

    def stop(self, args, state, control, **kwargs):
        step_end(self, args, state, control, **kwargs)
        if state.global_step == case.get("stop_at"):
            raise KeyboardInterrupt

    ProgressReport.on_step_end = stop
    try:
        if case["phase"] == "pretrain":
            return pretrain(recipe, case["output_dir"]).metrics
        return finetune(recipe, case["output_dir"], init_from=case.get("init_from")).metrics
    except KeyboardInterrupt:
        return None
    finally:
        ProgressReport.on_step_end = step_end


def read_rows(case: dict) -> None:
    """Train on twelve numbered rows, and write which of them each step of this process read."""
    from datasets import Dataset
    from transformers import TrainingArguments

    from hf_longseq import LongSeqTrainer, S4Config
    from hf_longseq.data.task import TaskSpec

    rows = Dataset.from_dict({"input_ids": [[index, 12, 12] for index in range(12)], "labels": [0, 1] * 6})
    rows = rows.to_iterable_dataset() if case["stream"] else rows
    config = S4Config(hidden_size=8, num_hidden_layers=1, state_size=4, bidirectional=True)
    spec = TaskSpec("own", "tokens", 3, vocab_size=15, mask_token_id=13, pad_token_id=14, labels=("a", "b"))
    args = TrainingArguments(case["output_dir"], report_to="none", disable_tqdm=True, save_strategy="no",
                             **case["options"])  # fmt: skip
    trainer, steps = LongSeqTrainer(config, args, train_dataset=rows, spec=spec), []
    step = trainer.training_step

    def noting(model, inputs, *more):
        steps.append(inputs["input_ids"][:, 0].tolist())
        return step(model, inputs, *more)

    trainer.training_step = noting
    trainer.train()
    Path(case["output_dir"], f"rows-{args.process_index}.json").write_text(json.dumps(steps))


def shard_on_cpu() -> None:
    """Let accelerate shard a model (FSDP2) on the CPU, which it does for accelerators only."""
    import transformers
    from accelerate.state import DistributedType, PartialState

    os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
    PartialState._prepare_backend = lambda self, *args, **kwargs: ("gloo", DistributedType.MULTI_GPU)
    torch.accelerator.is_available = lambda: True  # or the CPU is asked for, where accelerate does not shard
    transformers.training_args.is_torch_bf16_gpu_available = lambda: True


def launch(cases: list[dict], folder: Path, number: int = 2, config: str = "ddp", port: int = 0) -> None:
    """Run the cases in `number` processes started by accelerate's launcher."""
    from hf_longseq import launch as configurations

    path = folder / f"cases-{config}.json"
    path.write_text(json.dumps(cases))
    command = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(configurations.find(config))]
    command += ["--num_processes", str(number), "--main_process_port", str(port), "--num_cpu_threads_per_process", "1"]
    command += [__file__, str(path), *(["--fsdp"] if config == "fsdp2" else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-6000:]


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    sys.path.insert(0, str(Path(__file__).parents[1]))  # the toy tasks
    torch.set_num_threads(1)
    if "--fsdp" in sys.argv:
        shard_on_cpu()
    add_toy_tasks()
    for case in json.loads(Path(sys.argv[1]).read_text()):
        read_rows(case) if case["phase"] == "rows" else run_case(case)
    if torch.distributed.is_initialized():  # its threads do not outlive the interpreter
        torch.distributed.destroy_process_group()
