# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""What batches of similar length save: padding, and examples per second of two small models.

    python benchmarks/length_grouping.py --task listops --train_examples 5000 --out FILE.csv
    python benchmarks/length_grouping.py --task own-data --data reviews.csv --max_length 4096 --out FILE.csv

Both orders see the same number of batches, in turn; the time is that of one thread, which other programs disturb
least.
"""

import argparse
import csv
import time
from pathlib import Path

import numpy as np
import torch
import yaml

from hf_longseq import (
    DataCollatorForMaskedDenoising,
    LongTransformerConfig,
    LongTransformerForMaskedLM,
    S4Config,
    S4ForMaskedLM,
    load_task,
)
from hf_longseq.training.run_folder import cpu_name, git_commit
from hf_longseq.training.sampling import LengthGroupedOrder, sequence_lengths

MODELS = {"s4": (S4Config, S4ForMaskedLM), "transformer": (LongTransformerConfig, LongTransformerForMaskedLM)}


def padded_share(lengths: list[int], order: list[int], batch: int) -> float:
    """Share of the positions of all batches that are padding."""
    chosen = [order[start : start + batch] for start in range(0, len(order), batch)]
    return 1 - sum(lengths) / sum(len(rows) * max(lengths[row] for row in rows) for rows in chosen)


def speeds(dataset, spec, orders: dict[str, list[int]], batch: int, batches: int) -> dict[tuple[str, str], float]:
    """Examples per second of (model, order), forward and backward, over some batches drawn at random."""
    collate = DataCollatorForMaskedDenoising.from_task(spec)
    starts = np.random.default_rng(0).choice(len(dataset) // batch, batches, replace=False) * batch
    found = {}
    for arch, (config, model_class) in MODELS.items():
        model = model_class(
            config(vocab_size=spec.vocab_size, hidden_size=32, num_hidden_layers=2, bidirectional=True)
        )
        seconds = dict.fromkeys(orders, 0.0)
        for start in starts:
            for kind, order in orders.items():
                rows = collate([dataset[row] for row in order[start : start + batch]])
                begun = time.process_time()
                model(**rows).loss.backward()
                seconds[kind] += time.process_time() - begun
        found |= {(arch, kind): batch * batches / passed for kind, passed in seconds.items()}
    return found


def main() -> None:
    """Measure one task and append to the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", required=True)
    parser.add_argument("--batch_size", type=int, nargs="+", default=[16, 32])
    parser.add_argument("--batches", type=int, default=12, help="batches that are timed; 0 counts padding only")
    parser.add_argument("--out", type=Path)
    options, rest = parser.parse_known_args()
    loader_options = {name[2:]: yaml.safe_load(value) for name, value in zip(rest[::2], rest[1::2], strict=True)}
    torch.set_num_threads(1)
    splits, spec = load_task(options.task, **loader_options)
    dataset, rows = splits["train"], []
    lengths = sequence_lengths(dataset)
    for batch in options.batch_size:
        orders = {
            "random": np.random.default_rng(0).permutation(len(lengths)).tolist(),
            "grouped": list(LengthGroupedOrder(lengths, batch, 0, lambda: 0)),
        }
        measured = speeds(dataset, spec, orders, batch, options.batches) if options.batches else {}
        for kind, order in orders.items():
            row = {"task": options.task, "max_length": spec.max_length, "examples": len(lengths), "batch_size": batch}
            row |= {"order": kind, "padded_share": round(padded_share(lengths, order, batch), 4)}
            row |= {f"{arch}_examples_per_second": round(measured.get((arch, kind), 0), 2) or "" for arch in MODELS}
            rows.append(row | {"cpu": cpu_name(), "threads": 1, "torch": torch.__version__, "commit": git_commit()})
            print(row, flush=True)
    if options.out:
        new = not options.out.exists()
        with options.out.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            if new:
                writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
