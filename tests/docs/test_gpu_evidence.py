"""The runs that take a GPU: their plan is made of shipped recipes and real options; a trial goes all the way."""

import importlib.util
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from hf_longseq import recipes
from hf_longseq.cli.compare import add_plan_options, listed
from hf_longseq.cli.options import Parser, add_recipe_options, common_overrides, split_dotted
from hf_longseq.comparison.settings import recipe_loader
from hf_longseq.data.task import describe_task
from hf_longseq.training.build import build_config
from hf_longseq.training.run_folder import write_json

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "gpu_evidence.sh"
pytestmark = pytest.mark.skipif(os.name == "nt", reason="a script for bash")


def script(*words: str, **variables: str) -> subprocess.CompletedProcess:
    own = ("TASKS", "SEEDS", "RESULTS", "MINUTES", "PRECISION")
    free = {name: value for name, value in os.environ.items() if name not in own}
    environment = {**free, "PYTHON": sys.executable, "OMP_NUM_THREADS": "1", **variables}
    return subprocess.run(["bash", str(SCRIPT), *words], env=environment, capture_output=True, text=True, timeout=900)


def of_scripts(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_plan_is_of_shipped_recipes_in_order_with_options_that_exist():
    lines = script("--plan", RUNS="/nowhere/gpu", SEEDS="0 1").stdout.splitlines()
    tasks = []
    for line in lines:
        command, name, *words = shlex.split(line)
        assert (command, name) == ("hf-longseq", "compare")
        parser = Parser(prog="hf-longseq compare")
        add_recipe_options(parser, ("pretrain", "finetune", "scratch"))
        add_plan_options(parser, [])
        words, overrides = split_dotted(words)
        options = parser.parse(words)
        overrides = common_overrides(options, overrides)
        assert options.seeds == ["0", "1"] and listed(options.inits) == ["scratch", "spt-masked"]
        assert options.output_dir == f"/nowhere/gpu/{options.task}"
        load, _ = recipe_loader(options.recipe, overrides, options.tiny)
        for arch in listed(options.arch):
            assert f"{options.task}/{arch}" in recipes.names()
            recipe = load(arch, "masked")
            build_config(recipe, describe_task(options.task), classifier=True)
            grouped = (options.task, arch) == ("listops", "transformer")  # S4's batch norm must not see it
            for phase in (recipe.pretrain, recipe.finetune, recipe.scratch):
                assert phase.bf16 and phase.lr_scheduler_type == "cosine" and phase.warmup_steps == 0.1
                assert (phase.train_sampling_strategy == "group_by_length") is grouped and phase.num_train_epochs <= 4
        tasks.append(options.task)
    assert tasks == ["listops", "pathfinder", "smnist", "pathx"]


@pytest.mark.parametrize(
    ("words", "variables", "sentence"),
    [
        (["--plan"], {"TASKS": "listops imdb"}, "TASKS holds 'imdb'"),
        (["--tiny"], {"TASKS": "imdb"}, "TASKS holds 'imdb'"),
        ([], {"MINUTES": "nine"}, "MINUTES is 'nine'"),
        (["--tiny"], {"MINUTES": "0"}, "MINUTES is '0'"),
        ([], {"PRECISION": "fp16"}, "PRECISION is 'fp16'"),
        (["--trial"], {}, "there is no option --trial"),
    ],
)
def test_a_mistake_is_one_sentence_and_writes_nothing(words, variables, sentence, tmp_path):
    ended = script(*words, RUNS=str(tmp_path / "gpu"), **variables)
    assert ended.returncode == 2 and sentence in ended.stderr and len(ended.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_without_a_gpu_it_says_so(tmp_path):
    ended = script(RUNS=str(tmp_path / "gpu"), CUDA_VISIBLE_DEVICES="")
    assert ended.returncode == 2 and not list(tmp_path.iterdir())
    assert ended.stderr.splitlines()[-1].startswith("gpu_evidence: there is no CUDA GPU here")


@pytest.fixture
def comparison(tmp_path):
    """A pretraining run that is finished, one that starts from it and is not, and two from scratch that are, of which
    one has no test score yet."""
    from hf_longseq.training.checkpoints import seal

    root = tmp_path / "gpu"
    runs = [{"name": "pre", "phase": "pretrain"}, {"name": "spt", "phase": "finetune", "pretrained": "pre"}]
    runs += [{"name": name, "phase": "finetune"} for name in ("scratch", "unscored")]
    write_json_in(root / "listops" / "plan.json", {"runs": [{"pretrained": None, **run} for run in runs]})
    for name in ("pre", "spt", "scratch", "unscored"):
        folder = root / "listops" / "runs" / name
        (folder / "checkpoints").mkdir(parents=True)
        (folder / "resolved.yaml").write_text("run: {}\n")
        if name != "spt":
            (folder / "model.safetensors").write_bytes(b"w" * 5000)
            (folder / "metrics.json").write_text('{"test": {}}' if name == "scratch" else "{}")
    for step in (2, 4, 6, 8):
        checkpoint = root / "listops" / "runs" / "spt" / "checkpoints" / f"checkpoint-{step}"
        write_json_in(checkpoint / "trainer_state.json", {"best_global_step": 2})
        (checkpoint / "optimizer.pt").write_bytes(bytes([step]) * 3000)
        seal(checkpoint)
    (checkpoint / "optimizer.pt").write_bytes(b"torn")
    (root / "listops" / ".lock").write_text("process 1 on elsewhere")
    return root


def write_json_in(path: Path, content) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, content)


def carried(root: Path) -> set[str]:
    return {path.relative_to(root / "listops").as_posix() for path in root.rglob("*") if path.is_file()}


def test_what_going_on_takes_is_carried_and_no_more(comparison, tmp_path):
    carry_runs = of_scripts("carry_runs")
    files = carry_runs.files_to_carry(comparison, weights_bytes=1000)
    said = carry_runs.pack(comparison, tmp_path / "state", files, part_bytes=4096)
    parts = sorted((tmp_path / "state").glob("state.0*"))
    assert len(parts) > 1 and all(part.stat().st_size <= 4096 for part in parts)
    assert "listops/runs/spt" in said
    carry_runs.unpack(tmp_path / "state", tmp_path / "next")
    there = carried(tmp_path / "next")
    assert {name for name in there if "checkpoint-" in name} == {
        f"runs/spt/checkpoints/checkpoint-{step}/{name}"
        for step in (2, 6)  # the best, and the newest that is whole
        for name in ("complete.json", "optimizer.pt", "trainer_state.json")
    }
    weights = {name.split("/")[1] for name in there if name.endswith(".safetensors")}
    assert weights == {"pre", "unscored"}
    assert {"plan.json", "runs/scratch/metrics.json"} <= there and ".lock" not in there


def test_a_run_with_too_much_state_stays_behind_whole(comparison):
    files = of_scripts("carry_runs").files_to_carry(comparison, weights_bytes=1000, run_bytes=4900)
    names = {path.relative_to(comparison / "listops" / "runs").parts[0] for path in files if "runs" in path.parts}
    assert names == {"scratch"}


def test_a_part_that_is_missing_or_damaged_is_noticed(comparison, tmp_path):
    carry_runs = of_scripts("carry_runs")
    carry_runs.pack(comparison, tmp_path / "state", carry_runs.files_to_carry(comparison), part_bytes=4096)
    (tmp_path / "state" / "state.001").unlink()
    with pytest.raises(ValueError, match="state.001 is missing or damaged"):
        carry_runs.unpack(tmp_path / "state", tmp_path / "next")
    assert not (tmp_path / "next").exists()
    (tmp_path / "state" / "state.json").write_text("{")
    with pytest.raises(ValueError, match="state.json is damaged"):
        carry_runs.unpack(tmp_path / "state", tmp_path / "next")


@pytest.mark.slow
def test_a_trial_in_pieces_that_are_carried_ends_as_one_that_nothing_disturbed(tmp_path):
    shared = {"HF_LONGSEQ_CACHE": str(tmp_path / "cache"), "TASKS": "listops"}
    ended = script("--tiny", RUNS=str(tmp_path / "gpu"), **shared)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "going on from what was carried" in ended.stdout and "everything is finished" in ended.stdout
    rows = json.loads((tmp_path / "gpu-tiny/results/gpu-listops/results.json").read_text())["rows"]
    assert len(rows) == 4 and (tmp_path / "gpu-tiny/report/report.md").is_file()

    words = [
        "--task",
        "listops",
        "--arch",
        "s4,transformer",
        "--inits",
        "scratch,spt-masked",
        "--seeds",
        "0",
        "--tiny",
    ]
    command = [sys.executable, "-m", "hf_longseq", "compare", *words, "--model.dropout", "0.1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **shared}
    subprocess.run([*command, "--output_dir", str(tmp_path / "whole")], env=environment, check=True)
    whole, pieces = tmp_path / "whole" / "runs", tmp_path / "gpu-tiny" / "listops" / "runs"
    assert len(list(whole.glob("*/model.safetensors"))) == 6
    assert not of_scripts("kill_loop").differences(whole, pieces)

    changed = script("--tiny", RUNS=str(tmp_path / "gpu"), SEEDS="1", **shared)
    assert changed.returncode == 2 and "holds another run (run.seeds" in changed.stderr
