"""Every task by its name: two steps of pretraining, two of fine-tuning, a table."""

import pandas as pd
import pytest
from stand_ins import (
    cut_windows,
    digits,
    lra_files,
    speech_files,
    write_bidmc,
    write_cifar_parquet,
    write_files,
    write_fly,
    write_imdb,
    write_voices,
    write_wheel,
)

from hf_longseq.cli.main import main
from hf_longseq.data.task import TASKS

SOURCES = {
    "text": write_imdb,
    "retrieval": lambda folder: write_files(lra_files(), folder),
    "image": write_cifar_parquet,
    "scifar": write_cifar_parquet,
    "speech-commands": lambda folder: write_files(speech_files(), folder),
    "bidmc-hr": write_bidmc,
    "bidmc-rr": lambda folder: write_bidmc(folder, "RR"),
    "bidmc-spo2": lambda folder: write_bidmc(folder, "SpO2"),
    "fly-exons": write_fly,
    "fly-repeats": write_fly,
    "voices": write_voices,
    "smnist": lambda folder: write_wheel(folder, digits(40, 16, 16)),
}


def options_for(name, folder):
    """Loader options that point to stand-in files, where the data are not generated or embedded."""
    if name == "own-data":
        import numpy as np

        windows, patients = cut_windows()
        np.savez(folder / "own.npz", x=np.stack(windows)[:, :64], y=patients % 2, patient=patients)
        return [f"--data.data={folder / 'own.npz'}", "--data.group_column=patient"]
    if name in ("gene-starts", "gene-spans"):  # linear models of all labels take their time
        return [f"--data.num_{split}_examples=50" for split in ("train", "validation", "test")]
    if name in ("pathx", "pathx-256"):  # up to 65,536 steps a picture
        few = ["--data.train_examples=4", "--data.eval_examples=2", "--data.margins=2"]
        return [*few, "--pretrain.global_batch_size=1", "--finetune.global_batch_size=1"]
    return [f"--data.data_dir={SOURCES[name](folder)}"] if name in SOURCES else []


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_spt_runs_on_every_task(name, tmp_path, monkeypatch, undrawn):
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(tmp_path / "cache"))
    words = ["spt", "--task", name, "--tiny", "--max_steps=2", "--inits=spt", f"--output_dir={tmp_path / 'run'}"]
    folder = tmp_path / "source"
    folder.mkdir()
    assert main([*words, *options_for(name, folder)]) == 0
    scores = pd.read_csv(tmp_path / "run" / "scores.csv")
    assert set(scores["task"]) == {name} and len(scores["architecture"].unique()) > 1  # linear models
    scores = scores[~scores["architecture"].str.startswith("linear:")]
    assert len(scores) and set(scores["arm"]) <= {"spt-masked", "spt-causal"}
