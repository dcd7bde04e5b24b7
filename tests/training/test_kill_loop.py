"""A command that is killed with SIGKILL again and again ends with the weights of the one that was not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LOOP = Path(__file__).parents[2] / "scripts" / "kill_loop.py"
STEPS = ["--max_steps", "8", "--pretrain.eval_steps", "3", "--finetune.eval_steps", "3"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="runs are forked")
def test_kills_at_random_moments_change_no_byte_of_the_weights(tmp_path):
    command = ["spt", *"--task listops --tiny --arch s4 --inits spt --model.dropout 0.1".split(), *STEPS]
    done = subprocess.run(
        [sys.executable, str(LOOP), "--kills", "3", "--seed", "0", "--work", str(tmp_path / "runs"), *command],
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_LONGSEQ_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("3 kills,") and "as undisturbed" in done.stdout
