#!/usr/bin/env python
# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Try random cases of what the package promises, and print how to repeat each one that fails.

    python scripts/fuzz.py --seed 0 --cases 10000 --minutes 60

padding     random models, heads and batches: padding changes no output and no loss
collators   random rows: labels, masks and inputs belong together, and nothing is lost
files       damaged tables and arrays, read as own data: they load, or one sentence says why they do not
records     damaged folders of runs and comparisons, given to the commands: the same

A case depends on the seed and its number alone. It fails by an unexpected exception, a promise that does not hold, or
more than five minutes. The exit code is 1 if any case failed. POSIX only.
"""

import argparse
import contextlib
import io
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

import torch
import yaml

import hf_longseq
from hf_longseq.cli.main import main as command_line
from hf_longseq.data import collators

SECONDS_PER_CASE = 300
FIELDS = {
    "s4": dict(state_size=[4, 8], kernel=["dplr", "diagonal"]),
    "dlr": dict(state_size=[4, 16]),
    "transformer": dict(num_attention_heads=[1, 4], position_embedding=["rotary", "sinusoidal", "none"],
                        attention_window=[None, None, 3, 5], attention_bias=[None, "local"]),
    "lru": dict(state_size=[4, 8]),
    "s5": dict(state_size=[8], num_blocks=[1, 2], discretization=["zoh", "bilinear"]),
    "mega": dict(shared_representation_size=[8], state_size=[2, 4], chunk_size=[None, 3, 4],
                 attention_function=["softmax", "laplace", "relu2"], position_bias=["simple", "rotary"]),
    "cnn": dict(kernel_size=[3, 5], max_dilation=[None, 2]),
}  # fmt: skip
COMMON = dict(
    hidden_size=[16], num_hidden_layers=[1, 2], vocab_size=[30], norm=["layer", "rms", "batch"],
    norm_position=["pre", "post"], intermediate_size=[None, 24], num_channels=[1, 3], num_labels=[3],
    window=[None, None, 1, 4, 100],
)  # fmt: skip
HEADS = ("ForMaskedLM", "ForCausalLM", "ForPreTraining", "ForSequenceClassification", "ForTokenClassification")
RUBBISH = (1e20, -1e30, float("nan"), float("inf"))
ODD_VALUES = (None, "", "x", "../x", -1, 0, 1.5, True, [], {}, [1, "a"], {"a": {"b": 1}}, "\x1b[31m", "nan", 1e308)


class TooSlow(BaseException):
    """A case took too long; commands that report errors as a sentence let it through."""


def padding(rng: np.random.Generator, _: Path) -> None:
    """A batch of rows, each padded on its own side, against the same rows one at a time."""
    arch, head = pick(rng, list(FIELDS)), pick(rng, HEADS)
    fields = {name: pick(rng, values) for name, values in {**COMMON, **FIELDS[arch]}.items()}
    fields["bidirectional"] = head != "ForCausalLM" and bool(rng.integers(2))
    values = head == "ForPreTraining" or (head.endswith("Classification") and bool(rng.integers(2)))
    fields["input_type"] = "values" if values else "tokens"
    if head == "ForPreTraining" and not fields["bidirectional"]:
        fields["pretraining_objective"] = "causal"
    if head == "ForSequenceClassification":
        fields["pooling"] = pick(rng, ["mean", "max"] if fields["window"] else ["mean", "max", "first", "last"])
    prefix = hf_longseq.ARCHITECTURES[arch]
    config = getattr(hf_longseq, f"{prefix}Config")(**fields)
    model = getattr(hf_longseq, f"{prefix}{head}")(config).eval()

    lengths = rng.integers(1, 40, rng.integers(1, 6))
    longest = max(lengths) + rng.integers(0, 6)
    if values:
        name, filler = "input_values", torch.tensor(pick(rng, RUBBISH))
        rows = [torch.from_numpy(rng.normal(size=(n, config.num_channels))).float() for n in lengths]
    else:
        name, filler = "input_ids", torch.tensor(int(rng.integers(30)))
        rows = [torch.from_numpy(rng.integers(0, 30, n)) for n in lengths]
    batch = filler.expand(len(rows), longest, *rows[0].shape[1:]).clone()
    mask = torch.zeros(len(rows), longest, dtype=torch.long)
    starts = [int(pick(rng, [0, longest - n])) for n in lengths]
    for index, (row, start) in enumerate(zip(rows, starts, strict=True)):
        batch[index, start : start + len(row)] = row
        mask[index, start : start + len(row)] = 1
    with torch.no_grad():
        together = model(**{name: batch}, attention_mask=mask).logits
        for index, (row, start) in enumerate(zip(rows, starts, strict=True)):
            alone = model(**{name: row[None]}).logits[0]
            found = together[index] if head == "ForSequenceClassification" else together[index, start:][: len(row)]
            torch.testing.assert_close(found, alone, atol=2e-4, rtol=1e-3, msg=lambda text: f"{config}\n{text}")
        if head in ("ForMaskedLM", "ForCausalLM", "ForTokenClassification"):
            labels = torch.from_numpy(rng.integers(0, 3, (len(rows), longest)))
            losses = [
                model(**{name: batch}, attention_mask=mask, labels=torch.where(mask == 1, labels, other)).loss
                for other in (-100, 2)
            ]
            torch.testing.assert_close(*losses, msg=lambda text: f"labels at padding count: {config}\n{text}")


def collating(rng: np.random.Generator, _: Path) -> None:
    """A batch of each collator against its rows."""
    values = bool(rng.integers(2))
    lengths = rng.integers(1, 50, rng.integers(1, 7))
    if values:
        name, made = "input_values", [rng.normal(size=(n, 2)).astype(np.float32) for n in lengths]
    else:
        name, made = "input_ids", [rng.integers(0, 20, n) for n in lengths]
    rows = [{name: row, "labels": int(rng.integers(3))} for row in made]
    multiple = pick(rng, [None, 4, 16])
    shared = dict(pad_to_multiple_of=multiple, vocab_size=None if values else 21)

    plain = collators.DataCollatorWithLongPadding(num_labels=3, **shared)(rows)
    masked = collators.DataCollatorForMaskedDenoising(
        mask_token_id=20, mask_ratio=float(rng.uniform(0.05, 0.95)), span_length=int(rng.integers(1, 6)),
        seed=int(rng.integers(100)), deterministic=True, **shared,
    )  # fmt: skip
    first, again = masked(rows), masked(rows[::-1])
    causal = collators.DataCollatorForCausalDenoising(**shared)(rows)
    expect(plain["labels"].tolist() == [row["labels"] for row in rows], "labels are those of the rows")
    width = plain[name].shape[1]
    expect(width >= max(lengths) and (not multiple or width % multiple == 0), "the length is a multiple")
    for index, (row, n) in enumerate(zip(made, lengths, strict=True)):
        for batch in (plain, first, causal):
            expect(batch["attention_mask"][index].tolist() == [1] * n + [0] * (width - n), "the mask is of the row")
        real = torch.from_numpy(row)
        expect(torch.equal(plain[name][index, :n], real) and torch.equal(causal[name][index, :n], real), "inputs stay")
        labels, shown = first["labels"][index], first[name][index]
        hidden = (labels != -100).reshape(width, -1).all(-1)
        expect(not hidden[n:].any() and (labels[n:] == -100).all(), "padding is never a target")
        expect(torch.equal(labels[hidden], real[hidden[:n]]), "targets are what was hidden")
        expect(torch.equal(shown[:n][~hidden[:n]], real[~hidden[:n]]), "what is not hidden is shown")
        expect(bool((shown[hidden] == (0 if values else 20)).all()), "what is hidden is not shown")
        expect(torch.equal(again["labels"][len(rows) - 1 - index], labels), "a mask depends on its row alone")
        scored = causal["labels"][index]
        expect(torch.equal(scored[values:n], real[values:]), "the next step is the target")
        expect(bool((scored[n:] == -100).all()), "padding is never a target")


def files(rng: np.random.Generator, work: Path) -> None:
    """A damaged file of own data."""
    name = pick(rng, ["rows.csv", "rows.tsv", "rows.jsonl", "rows.parquet", "rows.npy", "rows.npz"])
    path = work / name
    path.write_bytes(damaged(rng, table(name, rng)))
    run_command("tasks", "show", "own-data", "--data.data", str(path), "--examples", "1")


def table(name: str, rng: np.random.Generator) -> bytes:
    """A small file with inputs and labels: text, series of numbers, or spans."""
    import pandas as pd

    count, out = 30, io.BytesIO()
    labels = [int(x) for x in rng.integers(0, 2, count)]
    series = rng.normal(size=(count, 12, 2)).astype(np.float32)
    texts = ["".join(rng.choice(list("abc de"), 20)) for _ in range(count)]
    spans = [[{"start": 2, "end": 5, "label": "x"}] for _ in range(count)]
    if name.endswith("npy"):
        np.save(out, series)
    elif name.endswith("npz"):
        np.savez(out, x=series, y=np.array(labels))
    elif name.endswith("jsonl"):
        kinds = [
            {"text": texts, "label": labels},
            {"x": series.tolist(), "label": labels},
            {"text": texts, "spans": spans},
        ]
        columns = pick(rng, kinds)
        return "".join(
            json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in zip(*columns.values(), strict=True)
        ).encode()
    elif name.endswith("parquet"):
        pd.DataFrame({"x": series[..., 0].tolist(), "label": labels}).to_parquet(out)
    else:
        pd.DataFrame({"text": texts, "label": labels}).to_csv(
            out, index=False, sep="\t" if name.endswith("tsv") else ","
        )
    return out.getvalue()


def damaged(rng: np.random.Generator, content: bytes) -> bytes:
    """The content cut, with bytes changed, or with a piece missing, twice there or put in."""
    content, kind = bytearray(content), rng.integers(5)
    place = int(rng.integers(len(content) + 1))
    size = int(rng.integers(1, 40))
    if kind == 0:
        return bytes(content[:place])
    if kind == 1:
        for at in rng.integers(0, max(len(content), 1), min(size, len(content))):
            content[at] = rng.integers(256)
    elif kind == 2:
        del content[place : place + size]
    elif kind == 3:
        content[place:place] = content[place : place + size]
    else:
        content[place:place] = rng.bytes(size)
    return bytes(content)


def records(rng: np.random.Generator, work: Path) -> None:
    """A finished run, or a comparison, one file of which is damaged, under a command that reads it."""
    whole = finished_runs()
    kind = pick(rng, ["run", "run", "comparison"])
    folder = work / kind
    shutil.copytree(whole / kind, folder)
    known = {".json", ".yaml", ".safetensors"}
    path = pick(rng, sorted(path for path in folder.rglob("*") if path.suffix in known and "cache" not in path.parts))
    content = path.read_bytes()
    if path.suffix != ".safetensors" and rng.integers(2):
        path.write_text(changed_field(rng, content.decode(), path.suffix), encoding="utf-8")
    else:
        path.write_bytes(damaged(rng, content))
    if kind == "comparison":
        command = ["report", str(folder), "--output_dir", str(work / "report")]
    else:
        rows, model = ["--data", str(whole / "rows.csv")], ["--model", str(folder)]
        commands = [
            ["evaluate", *model],
            ["predict", *model, "--limit", "2"],
            ["predict", *model, *rows, "--limit", "2"],
            ["finetune", "--init_from", str(folder), *rows, "--max_steps", "1", "--output_dir", str(work / "next")],
            ["publish", str(folder), "--repo_id", "owner/name", "--dry_run"],
        ]
        command = commands[rng.choice(5, p=[0.24, 0.24, 0.24, 0.24, 0.04])]  # publishing takes many seconds
    run_command(*command)


def changed_field(rng: np.random.Generator, text: str, ending: str) -> str:
    """A record, one value of which, somewhere within, is replaced by something odd."""
    content = json.loads(text) if ending == ".json" else yaml.safe_load(text)
    holder, places = None, content
    while isinstance(places, (dict, list)) and places and (holder is None or rng.integers(4)):
        holder, key = places, pick(rng, list(places) if isinstance(places, dict) else range(len(places)))
        places = holder[key]
    if holder is not None:
        holder[key] = pick(rng, ODD_VALUES)
    return json.dumps(content) if ending == ".json" else yaml.safe_dump(content)


_made: list[Path] = []


def finished_runs() -> Path:
    """A folder with a finished run, a comparison and the rows that both were trained on; made once."""
    if not _made:
        folder = Path(tempfile.mkdtemp(prefix="fuzz-runs-"))
        _made.append(folder)
        rows = [f"{'good fine nice' if n % 2 else 'bad poor sad'} {n},{n % 2}" for n in range(60)]
        (folder / "rows.csv").write_text("\n".join(["text,label", *rows]) + "\n")
        common = ["--data", str(folder / "rows.csv"), "--arch", "s4", "--tiny", "--max_steps", "1"]
        for words in (["finetune", "--from_scratch", "--output_dir", str(folder / "run")],
                      ["spt", "--seeds", "0", "--output_dir", str(folder / "comparison")]):  # fmt: skip
            said = run_command(words[0], *common, *words[1:])
            expect(said == "", f"the undamaged command ends well: {said}")
    return _made[0]


def run_command(*words: str) -> str:
    """The sentence of a command that ended with an error, empty if it ended well; any other end is a defect."""
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        code = command_line(list(words))
    sentences = [line for line in errors.getvalue().splitlines() if line.startswith("hf-longseq: error:")]
    expect((code, len(sentences)) in ((0, 0), (2, 1)), f"exit code {code} with {len(sentences)} sentences")
    return sentences[0] if sentences else ""


KINDS: dict[str, tuple[float, Callable[[np.random.Generator, Path], None]]] = {
    "padding": (0.5, padding),
    "collators": (0.25, collating),
    "files": (0.17, files),
    "records": (0.08, records),
}


def pick(rng: np.random.Generator, choices):
    return choices[int(rng.integers(len(choices)))]


def expect(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(f"does not hold: {what}")


def one_case(seed: int, number: int, kinds: tuple[str, ...] = tuple(KINDS)) -> tuple[str, str | None]:
    """The kind of case ``number``, and what is wrong with it or None."""
    rng = np.random.default_rng([seed, number])
    shares = np.array([KINDS[kind][0] for kind in kinds])
    kind = str(rng.choice(kinds, p=shares / shares.sum()))
    torch.manual_seed(int(rng.integers(2**31)))

    def stop(*_):
        raise TooSlow(f"more than {SECONDS_PER_CASE} seconds")

    signal.signal(signal.SIGALRM, stop)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as work:
        os.environ["HF_LONGSEQ_CACHE"] = f"{work}/cache"
        if kind == "records":
            finished_runs()  # outside of the time of the case
        signal.alarm(SECONDS_PER_CASE)
        try:
            KINDS[kind][1](rng, Path(work))
        except (Exception, TooSlow) as error:
            frames = traceback.extract_tb(error.__traceback__)
            ours = [f"    {frame.filename}:{frame.lineno}" for frame in frames if "hf_longseq" in frame.filename]
            return kind, "\n".join([f"{type(error).__name__}: {str(error)[:1500]}", *ours[-4:]])
        finally:
            signal.alarm(0)
    return kind, None


def fuzz(seed: int, cases: range, minutes: float = 60, kinds: tuple[str, ...] = tuple(KINDS)) -> int:
    """Run cases until they or the time are spent; print what failed with its reproduction; return how many did."""
    began, defects, done = time.monotonic(), 0, Counter()
    for number in cases:
        if time.monotonic() - began > 60 * minutes:
            print(f"stopped after {minutes:g} minutes")
            break
        kind, wrong = one_case(seed, number, kinds)
        done[kind] += 1
        if wrong:
            defects += 1
            again = ["python", "scripts/fuzz.py", "--seed", str(seed), "--only", str(number), "--kinds", *kinds]
            print(f"DEFECT in case {number} ({kind}): {wrong}\n    repeat: {shlex.join(again)}", flush=True)
        if sum(done.values()) % 500 == 0:
            print(f"{sum(done.values()):,} cases, {defects} defects", flush=True)
    said = ", ".join(f"{kind} {count:,}" for kind, count in sorted(done.items()))
    print(f"{sum(done.values()):,} cases ({said}), seed {seed}: {defects} defects, {time.monotonic() - began:.0f} s")
    return defects


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=60, help="end after this time")
    parser.add_argument("--only", type=int, help="number of the one case to repeat")
    parser.add_argument("--kinds", nargs="+", choices=tuple(KINDS), default=tuple(KINDS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    cases = range(options.cases) if options.only is None else range(options.only, options.only + 1)
    try:
        return min(1, fuzz(options.seed, cases, options.minutes, tuple(options.kinds)))
    finally:
        for folder in _made:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
