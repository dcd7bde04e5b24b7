# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`hf-longseq env`: versions and hardware."""

from hf_longseq import launch
from hf_longseq.cli.options import Parser


def run(argv: list[str]) -> None:
    """Print one line per fact."""
    parser = Parser(prog="hf-longseq env", description="Versions and hardware.")
    parser.add_argument("--launch_config", metavar="NAME", help="print the path of a file for `accelerate launch`")
    options = parser.parse(argv)
    if options.launch_config:
        print(launch.find(options.launch_config))
        return

    from hf_longseq.training.run_folder import environment

    for name, value in environment().items():
        print(f"{name + ':':<14}{', '.join(value) or 'none' if isinstance(value, list) else value}")
