"""Voices: labels from the names of files, pieces of one second without mean, splits that share no scene."""

import numpy as np
import pytest
from stand_ins import write_voices

from hf_longseq.data.collators import DataCollatorWithLongPadding
from hf_longseq.data.processors import task_processor
from hf_longseq.data.task import load_task
from hf_longseq.data.voices import LABELS, PEAK, cut, find_clips, split_scenes
from hf_longseq.errors import HfLongSeqError

soundfile = pytest.importorskip("soundfile")
pytest.importorskip("scipy")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(tmp_path / "cache"))


def test_whole_seconds_of_every_clip_with_the_voice_of_its_name(tmp_path):
    splits, spec = load_task("voices", data_dir=str(write_voices(tmp_path)), sampling_rate=400)
    # two whole seconds of four clips of eight scenes
    assert {name: len(rows) for name, rows in splits.items()} == {"train": 5 * 8, "validation": 8, "test": 2 * 8}
    assert spec.labels == LABELS and spec.max_length == spec.sampling_rate == 400
    for rows in splits.values():
        values = rows["input_values"][:]
        assert values.shape == (len(rows), 400) and np.allclose(np.abs(values).max(axis=1), PEAK)
        assert np.abs(values.mean(axis=1)).max() < 0.05
        # the tones of the voices: 0.02, 0.04, 0.06 and 0.08 radians at 8,000 Hz
        loudest = np.abs(np.fft.rfft(values)).argmax(axis=1)
        assert np.abs(loudest - 8000 * 0.02 * (rows["labels"][:] + 1) / (2 * np.pi)).max() <= 1


def test_other_characters_and_other_languages_are_left_out(tmp_path):
    write_voices(tmp_path, scenes=3)
    first = next(tmp_path.rglob("*-m-*.ogg"))
    first.with_name("sc-crab-hello.ogg").write_bytes(first.read_bytes())
    (first.parents[1] / "bg").mkdir()
    (first.parents[1] / "bg" / first.name).write_bytes(first.read_bytes())
    assert len(find_clips(tmp_path)) == 3 * 4


def test_silence_is_left_out(tmp_path):
    tone = np.sin(np.arange(8000) * 0.3)
    for name, loudness, pieces in (("loud", 0.5, 2), ("quiet", 0.005, 0), ("empty", 0, 0)):
        samples = np.tile(loudness * tone, 2) if loudness else tone[:0]  # the packages hold an empty clip
        soundfile.write(tmp_path / f"x-m-{name}.ogg", samples, 8000)
        assert len(cut(tmp_path / f"x-m-{name}.ogg", 1000)) == pieces


def test_scenes_are_dealt_out_whole_and_always_alike():
    scenes = [f"scene{number}" for number in range(71)]
    split_of = split_scenes(scenes)
    counts = [list(split_of.values()).count(split) for split in ("train", "validation", "test")]
    assert counts == [43, 9, 19] and split_of == split_scenes(scenes)


def test_the_saved_extractor_gives_the_rows_of_the_loader(tmp_path):
    folder = write_voices(tmp_path, scenes=3)
    splits, spec = load_task("voices", data_dir=str(folder), sampling_rate=400)
    clip = sorted(folder.rglob("*.ogg"))[0]
    batch = task_processor(spec)(cut(clip, 400)[0] * 0.1, sampling_rate=400, return_tensors="pt")
    assert np.allclose(batch["input_values"][0], cut(clip, 400)[0], atol=1e-5)
    assert DataCollatorWithLongPadding.from_task(spec)([splits["train"][0]])["input_values"].shape[:2] == (1, 400)


def test_what_is_missing_is_named_with_the_command(tmp_path):
    with pytest.raises(FileNotFoundError, match="no clips of the voice cs-m: run `apt-get download fillets"):
        load_task("voices", data_dir=str(tmp_path))
    write_voices(tmp_path, scenes=3)
    for path in tmp_path.rglob("nl/*-v-*"):
        path.unlink()
    with pytest.raises(FileNotFoundError, match="no clips of the voice nl-v"):
        load_task("voices", data_dir=str(tmp_path))
    with pytest.raises(HfLongSeqError, match="sampling_rate is 48000: use 100 to 22050"):
        load_task("voices", data_dir=str(tmp_path), sampling_rate=48_000)
