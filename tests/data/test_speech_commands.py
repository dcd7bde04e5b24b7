"""Speech Commands, on stand-ins in the official format."""

import numpy as np
import pytest
from stand_ins import clip, speech_files, write_files

from hf_longseq.data.collators import DataCollatorWithLongPadding
from hf_longseq.data.task import load_task


@pytest.fixture
def files():
    return speech_files() | {"bed/speaker0_nohash_0.wav": clip(5, samples=16_000)}


def load(source, cache, **options):
    return load_task("speech-commands", data_dir=str(source), cache_dir=str(cache), **options)


def test_clips_are_split_by_the_lists_and_keep_their_length(files, tmp_path):
    splits, spec = load(write_files(files, tmp_path / "speech"), tmp_path / "cache")
    assert all(len(split) == 35 for split in splits.values()) and len(spec.labels) == 35
    for split in ("validation", "test"):
        rows = splits[split][:]
        first = np.array([values[0] for values in rows["input_values"]])
        assert np.allclose(first * 32768, 100 * rows["labels"], atol=0.01)
    batch = DataCollatorWithLongPadding.from_task(spec)([splits["train"][i] for i in range(35)])
    assert batch["input_values"].shape == (35, 16_000, 1)
    assert sorted(batch["attention_mask"].sum(1).tolist())[-2:] == [1600, 16_000]


def test_every_second_sample(files, tmp_path):
    splits, spec = load(write_files(files, tmp_path / "speech"), tmp_path / "cache", subsample=2)
    assert spec.max_length == 8000 and len(splits["test"][0]["input_values"]) == 800


BAD = [
    ({"bed/speaker0_nohash_0.wav": clip(1, rate=8000)}, "bed/speaker0_nohash_0.wav has 1600 samples at 8000 Hz"),
    ({"bed/speaker0_nohash_0.wav": clip(1, channels=2)}, "2 channels"),
    ({"bed/speaker0_nohash_0.wav": clip(1, samples=0)}, "has 0 samples"),
    ({"bed/speaker0_nohash_0.wav": b""}, "not a readable wave file"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=[case[1] for case in BAD])
def test_bad_clips_are_named(change, message, files, tmp_path):
    with pytest.raises(ValueError, match=message):
        load(write_files(files | change, tmp_path / "speech"), tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*.arrow"))


def test_a_half_unpacked_archive_is_not_used(files, tmp_path):
    del files["zero/speaker2_nohash_0.wav"], files["yes/speaker1_nohash_0.wav"]
    with pytest.raises(ValueError, match="lacks 2 clips that its lists name, yes/speaker1_nohash_0.wav among them"):
        load(write_files(files, tmp_path / "speech"), tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*.arrow"))


def test_missing_data_name_the_command(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"curl .*speech_commands_v0.02.tar.gz"):
        load_task("speech-commands", cache_dir=str(tmp_path))
