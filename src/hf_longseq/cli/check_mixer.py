# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`hf-longseq check-mixer FILE`: what every mixer has to keep to, tried on toy models of your own architecture."""

import re
from pathlib import Path

from hf_longseq.cli.options import Parser
from hf_longseq.errors import HfLongSeqError


def run(argv: list[str]) -> int:
    """Parse, run the file, print a line per check; 1 if one failed."""
    parser = Parser(prog="hf-longseq check-mixer", description="Check a mixer of your own on toy models, in seconds.")
    parser.add_argument("file", metavar="FILE.py[:NAME]", help="file that defines NAMEConfig and NAMEModel; it is run")
    options = parser.parse(argv)
    reference = options.file if ":" in options.file[2:] else f"{options.file}:{_only_name(options.file)}"

    from hf_longseq import models
    from hf_longseq.training import check_mixer
    from hf_longseq.training.architectures import TINY, model_field_types
    from hf_longseq.training.own_architectures import import_architecture
    from hf_longseq.training.progress import quiet_libraries

    quiet_libraries()
    name = import_architecture(reference)
    sizes = {field: size for field, size in TINY.items() if field in model_field_types(name)}
    failed = 0
    for check, state, why in check_mixer.check_mixer(check_mixer.toy_models(models.ARCHITECTURES[name][0], **sizes)):
        failed += state == "failed"
        print(f"{check:<42}{state}{': ' if why else ''}{' '.join(why.split())[:300]}")
    print(f"{name}: {failed} of {len(check_mixer.CHECKS)} checks failed" if failed else f"{name}: all checks passed")
    return 1 if failed else 0


def _only_name(file: str) -> str:
    """NAME of the one class NAMEModel that a file defines, found without running it."""
    if not Path(file).is_file():
        raise HfLongSeqError(f"{file} is not a file: give the file of your mixer.")
    names = re.findall(r"^class (\w+)Model\(", Path(file).read_text(encoding="utf-8"), re.MULTILINE)
    names = [name for name in names if not name.endswith("PreTrained")]
    if len(names) != 1:
        found = ", ".join(names) or "none"
        raise HfLongSeqError(f"{file} defines several or no classes NAMEModel ({found}): write {file}:NAME.")
    return names[0]
