"""Evaluation of pretraining at length 16,384 in a fresh process: peak memory, which must not grow with the split."""

import json
from pathlib import Path

import pytest

from fresh_process import answer, run_fresh

CODE = """
import json
from pathlib import Path
import numpy as np, torch
from datasets import Dataset
torch.set_num_threads(1)
from hf_longseq.data.task import TaskSpec
from hf_longseq import Recipe
from hf_longseq.training.trainer import SPTTrainer
arch, fields = json.loads('{model}')
spec = TaskSpec(
    "long", "tokens", 16384, vocab_size=256, pad_token_id=0, mask_token_id=1, labels=("a", "b"), mask_ratio=0.3
)
recipe = Recipe.load(None, {{"data": {{"task": "text"}}, "model": {{"arch": arch, **fields}}}})
recipe.pretrain.global_batch_size = recipe.pretrain.per_device_eval_batch_size = 1
rng = np.random.default_rng(0)
rows = [{{"input_ids": rng.integers(2, 256, 16384).astype(np.int32), "labels": 0}} for _ in range(4)]
trainer = SPTTrainer(
    model=recipe.model, args=recipe.pretrain.of_run(Path("run"), steps=1, seed=0, metric="loss"),
    train_dataset=Dataset.from_list(rows[:1]), eval_dataset=Dataset.from_list(rows), spec=spec,
)
def peak(examples):
    trainer.evaluate(trainer.eval_dataset.select(range(examples)))
    # Not ru_maxrss: that begins with the memory of the process that started this one.
    line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024
# Two at least: the second batch still finds memory in use that the first one left.
print(json.dumps([peak(2), peak(4)]))
"""

MODELS = {
    "s4": {"hidden_size": 128, "num_hidden_layers": 2, "state_size": 64, "bidirectional": True},
    "transformer": {
        "hidden_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "attention_window": 512,
        "position_embedding": "rotary",
    },
}
LIMIT_MB = {"s4": 900, "transformer": 900}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize("arch", MODELS)
def test_evaluation_at_16384_stays_below_the_stated_memory_however_many_examples(arch, tmp_path):
    code = CODE.format(model=json.dumps([arch, MODELS[arch]]))
    at_once = {"MALLOC_MMAP_THRESHOLD_": "1000000"}  # freed tensors leave the process
    done = run_fresh(code, tmp_path, copied=False, **at_once)
    few, more = json.loads(answer(done).splitlines()[-1])
    assert more < LIMIT_MB[arch]
    assert more - few < 16  # kept logits would be 32 MB
