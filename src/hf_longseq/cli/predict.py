# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`hf-longseq predict`: label your own files, or examples of a run's task, with a finished run."""

import json
from pathlib import Path
from typing import Any

from hf_longseq.cli.options import Parser, add_model_options, check_model_options
from hf_longseq.errors import HfLongSeqError

ENDINGS = (".jsonl", ".json", ".csv", ".parquet", ".html")


def run(argv: list[str]) -> None:
    """Parse, classify, print one JSON line per example or write them to a file."""
    parser = Parser(prog="hf-longseq predict", description="Label your own files, or examples of a run's task.")
    add_model_options(
        parser,
        "raw inputs: csv, tsv, jsonl, parquet, npy, npz, a folder or file of pictures or sounds, a Hub data set, "
        "or - for lines of standard input",
    )
    parser.add_argument("--limit", type=int, help="only the first examples")
    parser.add_argument(
        "--output_file",
        help=".jsonl, .csv or .parquet to write instead of printing, the rows of --data with their predictions; .html "
        "shows spans in colour",
    )
    options = parser.parse(argv)
    check_model_options(options)
    ending = Path(options.output_file).suffix.lower() if options.output_file else ".jsonl"
    if ending not in ENDINGS:
        raise HfLongSeqError(f"--output_file {options.output_file} ends in {ending!r}: use {', '.join(ENDINGS)}.")
    if options.output_file and Path(options.output_file).is_dir():
        raise HfLongSeqError(f"--output_file {options.output_file} is a folder: name a file in it.")
    if ending == ".html" and options.data:
        raise HfLongSeqError(f"--output_file {options.output_file} shows a split: use .jsonl, .csv or .parquet.")

    from hf_longseq.training.inference import finished_run, predict
    from hf_longseq.training.progress import quiet_libraries

    quiet_libraries()
    if ending == ".html":
        from hf_longseq.analysis.span_page import write_span_page

        page, split = options.output_file, options.split or "test"
        written = write_span_page(finished_run(options.model), page, split=split, limit=options.limit or 20)
        print(f"spans in colour: {written}")
        return
    names = ("split", "input_column", "second_input_column", "limit", "batch_size")
    answers = predict(options.model, source=options.data, **{name: getattr(options, name) for name in names})
    if options.output_file:
        write_answers(Path(options.output_file), answers, options.data)
        print(f"{len(answers)} predictions in {options.output_file}")
    else:
        print("\n".join(map(_line, answers)))


def _line(answer: dict[str, Any]) -> str:
    return json.dumps(answer, ensure_ascii=False, default=str)  # of dates, say


def write_answers(path: Path, answers: list[dict[str, Any]], source: str | None = None) -> None:
    """Write predictions whole or not at all: JSON lines as they are, tables with `probability.NAME`
    for every class and lists as JSON. Of a csv `source`, a csv file repeats the cells to the letter."""
    from hf_longseq.training.run_folder import write_whole

    if path.suffix.lower() in (".jsonl", ".json"):
        write_whole(path, "".join(_line(answer) + "\n" for answer in answers))
        return
    import pandas as pd

    table = pd.json_normalize(answers).rename(columns=lambda name: name.replace("probabilities.", "probability.", 1))
    table = table.map(lambda cell: json.dumps(cell, ensure_ascii=False) if isinstance(cell, list) else cell)
    if path.suffix.lower() == ".parquet":
        write_whole(path, table.to_parquet(index=False))
        return
    if source is not None and (ending := Path(source).suffix.lower()) in (".csv", ".tsv"):
        separator = "\t" if ending == ".tsv" else ","
        written = pd.read_csv(Path(source).expanduser(), sep=separator, dtype=str, keep_default_na=False)
        new = {"prediction", "score", "spans", *(name for name in table if name.startswith("probability."))}
        for name in [name for name in written if name in table and name not in new]:
            table[name] = written[name][: len(table)]
    write_whole(path, table.to_csv(index=False))
