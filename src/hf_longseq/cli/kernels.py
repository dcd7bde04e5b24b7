# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`hf-longseq kernels`: pictures and numbers of what checkpoints learned, side by side."""

import sys
from pathlib import Path

from hf_longseq.cli.options import Parser
from hf_longseq.errors import HfLongSeqError


def run(argv: list[str]) -> None:
    """Parse, look, write pictures and CSV, print the table."""
    parser = Parser(prog="hf-longseq kernels", description="Kernels, receptive fields and attention of checkpoints.")
    parser.add_argument("checkpoints", nargs="+", help="folders of finished runs, side by side in the pictures")
    parser.add_argument("--output_dir", required=True, help="new folder for pictures and CSV")
    parser.add_argument("--labels", help="names of the checkpoints, for example scratch,SPT [their folders' names]")
    parser.add_argument("--task", help="take examples of this task [the run's own; without one, random inputs]")
    parser.add_argument("--length", type=int, help="steps looked at [the task's length, up to 2048]")
    parser.add_argument("--examples", type=int, default=8, help="inputs for gradients and attention [8]")
    options = parser.parse(argv)
    folder = Path(options.output_dir)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise HfLongSeqError(f"output_dir {folder} is not empty: choose a new folder, pictures are not overwritten.")

    from hf_longseq.analysis import kernel_figures, kernels
    from hf_longseq.training.progress import quiet_libraries
    from hf_longseq.training.run_folder import replace_folder, write_whole

    kernel_figures.load_pyplot()  # before any work is done
    quiet_libraries()
    found = kernels.analyse(
        options.checkpoints,
        [word.strip() for word in options.labels.split(",")] if options.labels else None,
        **{name: getattr(options, name) for name in ("task", "length", "examples")},
    )
    for one in found:
        print(f"{one.label}: {one.arch}, {one.inputs}", file=sys.stderr)

    def fill(fresh: Path) -> None:
        write_whole(fresh / "kernels.csv", kernels.measure_rows(found).to_csv(index=False))
        write_whole(fresh / "curves.csv", kernels.curve_rows(found).to_csv(index=False))
        kernel_figures.draw(found, fresh)

    replace_folder(folder, fill)
    print(kernels.table(found))
    print(f"\nin {folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")
