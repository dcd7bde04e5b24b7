# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`hf-longseq predict`: classify examples of a split, or rows of a file, with a finished run."""

import json

from hf_longseq.cli.options import Parser


def run(argv: list[str]) -> None:
    """Parse, classify, print one JSON line per example or write them to a file."""
    parser = Parser(prog="hf-longseq predict", description="Classify examples with a finished run of finetune.")
    parser.add_argument("--model", required=True, help="folder of a finished run")
    parser.add_argument("--split", help="train, validation or test of the run's task [test]")
    parser.add_argument("--input_file", help=".jsonl or .parquet file with input_ids or input_values")
    parser.add_argument("--limit", type=int, help="only the first examples")
    parser.add_argument("--batch_size", type=int, default=32, help="examples per forward pass [32]")
    parser.add_argument(
        "--output_file", help="write JSON lines here instead of printing them; to a .html file, spans in colour"
    )
    options = parser.parse(argv)

    from hf_longseq.training import predict
    from hf_longseq.training.progress import quiet_libraries
    from hf_longseq.training.run_folder import write_whole

    quiet_libraries()
    if options.output_file and options.output_file.endswith(".html") and options.input_file is None:
        from hf_longseq.analysis.span_page import write_span_page

        shown = {"split": options.split or "test", "limit": options.limit or 20}
        print(f"spans in colour: {write_span_page(options.model, options.output_file, **shown)}")
        return
    answers = predict(
        options.model,
        split=options.split,
        input_file=options.input_file,
        limit=options.limit,
        batch_size=options.batch_size,
    )
    lines = [json.dumps(answer, ensure_ascii=False) for answer in answers]
    if options.output_file:
        write_whole(options.output_file, "\n".join(lines) + "\n")
        print(f"{len(lines)} predictions in {options.output_file}")
    else:
        print("\n".join(lines))
