"""Rebuilds the embedded spoken-tones data from the Debian package gcin-voice.

    apt-get download gcin-voice && dpkg-deb -x gcin-voice_*.deb gcin
    python scripts/embed_spoken_tones.py gcin/usr/share/gcin-voice/ogg

Needs soundfile and scipy (the extra `audio`). Only the recordings under CC BY 3.0 (`5.ogg`) are read.
"""

import re
import sys
from pathlib import Path

import numpy as np
import soundfile
from datasets import ClassLabel, Dataset, Features, List, Value
from scipy.signal import resample_poly

TARGET = Path(__file__).parent.parent / "src" / "hf_longseq" / "data" / "embedded"
TONES = ("first", "second", "third", "fourth")
SHARES = {"test": 0.28, "validation": 0.14}  # of the base syllables; training has the rest


def recordings(folder: Path):
    """Yield (base syllable, tone 0..3, samples at 1 kHz as 8-bit integers around 128).

    A folder is named by a syllable and its tone: no digit is the first tone, 2 to 4 are the others. The 24 folders
    with a 1 hold the neutral tone, which is too rare to learn, and are left out. One kilohertz keeps the pitch of the
    voice (80 to 400 Hz) and little else.
    """
    for path in sorted(folder.iterdir()):
        syllable, digit = re.fullmatch(r"(\D+)(\d?)", path.name).groups()
        recording = path / "5.ogg"
        if digit == "1" or not recording.exists():
            continue
        samples, rate = soundfile.read(recording)
        samples = resample_poly(samples, 1_000, rate)
        samples -= samples.mean()
        samples /= np.abs(samples).max() + 1e-9
        quantised = np.clip(np.round(samples * 127) + 128, 1, 255).astype(np.uint8)
        yield syllable, (int(digit) - 1 if digit else 0), quantised


def main(folder: str) -> None:
    rows = list(recordings(Path(folder)))
    syllables = sorted({syllable for syllable, _, _ in rows})
    order = [syllables[i] for i in np.random.RandomState(0).permutation(len(syllables))]
    tests, validations = (int(share * len(order)) for share in SHARES.values())
    split_of = {
        syllable: "test" if i < tests else "validation" if i < tests + validations else "train"
        for i, syllable in enumerate(order)
    }
    features = Features(
        input_values=List(Value("uint8")), labels=ClassLabel(names=list(TONES)), syllable=Value("string")
    )
    for split in ("train", "validation", "test"):
        chosen = [row for row in rows if split_of[row[0]] == split]
        columns = {
            "input_values": [samples for _, _, samples in chosen],
            "labels": [tone for _, tone, _ in chosen],
            "syllable": [syllable for syllable, _, _ in chosen],
        }
        path = TARGET / f"spoken-tones-{split}.parquet"
        Dataset.from_dict(columns, features=features).to_parquet(path)
        print(f"{path.name}: {len(chosen)} recordings, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
