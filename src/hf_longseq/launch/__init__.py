# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Configurations of `accelerate launch` for several GPUs and machines; processes and precision come from the command.

`--launch_config NAME` takes one of these, and `hf-longseq env --launch_config NAME` prints its path for accelerate.
"""

from pathlib import Path

from hf_longseq.errors import HfLongSeqError, did_you_mean


def names() -> list[str]:
    """Names of the shipped configurations."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.yaml"))


def find(name: str) -> Path:
    """Path of a shipped configuration, or of a file that the user names."""
    path = Path(name) if name.endswith((".yaml", ".yml", ".json")) else Path(__file__).with_name(f"{name}.yaml")
    if not path.is_file():
        raise HfLongSeqError(
            f"there is no launch configuration {name!r}{did_you_mean(name, names())}: give one of "
            f"{', '.join(names())}, or the path of a .yaml file of accelerate."
        )
    return path
