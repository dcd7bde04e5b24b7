"""BIDMC, on synthetic stand-in recordings in the .ts format, cut into overlapping windows like the real ones."""

import numpy as np
import pytest
from sklearn.model_selection import train_test_split
from stand_ins import PATIENTS, TS_HEADER, WINDOW, WINDOWS, cut_windows, write_bidmc

from hf_longseq.data.bidmc import recordings
from hf_longseq.data.collators import DataCollatorWithLongPadding
from hf_longseq.data.task import load_task


@pytest.fixture
def folder(tmp_path):
    return write_bidmc(tmp_path)


def load(folder, **options):
    return load_task("bidmc-hr", data_dir=str(folder), cache_dir=str(folder / "cache"), **options)


def test_windows_of_one_recording_are_recognised():
    windows, patients = cut_windows()
    order = np.random.default_rng(2).permutation(len(windows))
    groups = recordings([windows[i] for i in order])
    assert groups.max() + 1 == PATIENTS
    assert all(len(set(groups[patients[order] == patient])) == 1 for patient in range(PATIENTS))


def test_the_patient_split_shares_no_patient(folder):
    splits, spec = load(folder)
    patients = [set(split[:]["labels"].tolist()) for split in splits.values()]
    assert sum(map(len, patients)) == PATIENTS and not patients[0] & patients[2]
    assert sum(len(split) for split in splits.values()) == PATIENTS * WINDOWS
    assert spec.problem_type == "regression" and spec.metric == "rmse" and "split by recording" in spec.note
    batch = DataCollatorWithLongPadding.from_task(spec)([splits["train"][i] for i in range(3)])
    assert batch["input_values"].shape == (3, WINDOW, 2) and batch["labels"].dtype.is_floating_point


def test_the_published_split_is_scikit_learns_and_says_that_it_leaks(folder):
    splits, spec = load(folder, split="published")
    assert {name: len(split) for name, split in splits.items()} == {"train": 56, "validation": 12, "test": 12}
    assert "in train and test" in spec.note
    targets = np.concatenate([load(folder, split="original")[0][name][:]["labels"] for name in splits])
    train, rest = train_test_split(targets, test_size=0.3, random_state=0)
    validation, test = train_test_split(rest, test_size=0.5, random_state=1)
    for name, expected in (("train", train), ("validation", validation), ("test", test)):
        assert splits[name][:]["labels"].tolist() == expected.tolist()


def test_the_original_split_keeps_the_archives_test_windows(folder):
    splits, _ = load(folder, split="original")
    assert {name: len(split) for name, split in splits.items()} == {"train": 52, "validation": 8, "test": 20}


BAD = [
    ("1.0,2.0:3.0:70\n", r"line 6, has 2 dimensions of lengths \[1, 2\]"),
    ("1.0,2.0:70\n", "has 1 dimensions"),
    ("1.0,x:3.0,4.0:70\n", "line 6, is not a row of numbers"),
    ("1.0,nan:3.0,4.0:70\n", "line 6, holds a missing value"),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=[case[1] for case in BAD])
def test_bad_lines_are_named(text, message, folder):
    (folder / "deep" / "BIDMC32HR_TRAIN.ts").write_text(TS_HEADER + text)
    with pytest.raises(ValueError, match=message):
        load(folder)


def test_missing_data_name_the_command(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"curl .*zenodo.org/records/4001463/files/BIDMC32RR_TRAIN.ts"):
        load_task("bidmc-rr", data_dir=str(tmp_path))
    with pytest.raises(ValueError, match="split is 'random'"):
        load_task("bidmc-hr", split="random")
