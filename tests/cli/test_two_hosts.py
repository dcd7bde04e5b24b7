"""One job on two network hosts: two network namespaces joined by a cable, started as docs/launching.md says."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hf_longseq.cli.main import main

APART = ["unshare", "--map-root-user", "--net", "--mount"]
TINY = ["pretrain", "--task", "listops", "--arch", "s4", "--tiny"]


def may_make_hosts() -> bool:
    """Whether the system lets this user make network namespaces, with a cable between them."""
    if not (shutil.which("unshare") and shutil.which("ip")):
        return False
    trial = "mount -t tmpfs hosts /run && ip netns add a && ip link add x netns a type veth peer name y && "
    trial += "ip netns exec a unshare --uts hostname a"
    try:
        return subprocess.run([*APART, "sh", "-c", trial], capture_output=True, timeout=30).returncode == 0
    except subprocess.TimeoutExpired:
        return False


@pytest.mark.slow
def test_two_hosts_train_one_model(tmp_path):
    if not may_make_hosts():
        pytest.skip("this system does not permit network namespaces")
    script = Path(__file__).with_name("two_hosts.sh")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    words = [*APART, "sh", script, sys.executable, tmp_path, *TINY, "--output_dir", tmp_path / "two"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=500)
    said = [(tmp_path / f"host{number}.log").read_text() for number in (1, 2)]
    assert done.returncode == 0, done.stderr + "\n".join(said)
    assert "pretrained s4 on listops" in said[0] and "pretrained" not in said[1]
    assert main([*TINY, "--per_device_train_batch_size", "4", "--output_dir", str(tmp_path / "one")]) == 0
    two, one = (json.loads((tmp_path / name / "metrics.json").read_text())["validation"] for name in ("two", "one"))
    assert two == pytest.approx(one, abs=1e-5)
