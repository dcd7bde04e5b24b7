# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Architectures from a file of the user's own.

`register_architecture` makes the heads and the name known in this process, and `import_architecture` runs a file that
the command line names (`--arch mine.py:Mine`). Recipes, records and checkpoints hold the name alone, never the file.
"""

import hashlib
import importlib.util
import logging
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import hf_longseq
from hf_longseq import models
from hf_longseq.errors import HfLongSeqError, explained
from hf_longseq.models.configuration_longseq import LongSeqConfig
from hf_longseq.models.longseq_heads import make_heads
from hf_longseq.models.modeling_longseq import LongSeqModel

logger = logging.getLogger(__name__)

# FILE.py:NAME among the names behind --arch; the settings of a comparison's variant follow it
REFERENCE = re.compile(r"[^,]+\.py:\w+")
# Architectures of this process that other processes need too: name -> FILE.py:NAME.
_files: dict[str, str] = {}

HEADS = """

from .longseq_heads import make_heads  # the heads, as hf_longseq.register_architecture makes them

globals().update(make_heads({config}, {model}, __name__.rsplit(".", 1)[-1]))
"""


def register_architecture(name: str, config_class: type[LongSeqConfig], model_class: type[LongSeqModel]) -> None:
    """Make an architecture known by a name to trainers, recipes, commands and transformers' Auto classes.

    The five heads are made from the model class and join its module: `MineModel` gives `MineForMaskedLM` and the
    others, unless the module has one of that name. What is saved carries the file of the class as
    `modeling_NAME.py`, with the files of `hf_longseq.models` that it imports.

    Args:
        name: A word of letters, digits and underscores; `config_class.model_type` is "longseq_" and this.
        config_class: A `@strict` subclass of `LongSeqConfig`.
        model_class: A subclass of `LongSeqModel` with a `mixer_class`, named `...Model`, at the top of its module.

    Raises:
        HfLongSeqError: For a name that is taken, or classes that do not fit each other.

    Example:
        >>> register_architecture("mine", MineConfig, MineModel)  # doctest: +SKIP
        >>> SPTTrainer(model="mine", args=SPTConfig("runs/mine"), train_dataset=rows)  # doctest: +SKIP
    """
    _check(name, config_class, model_class)
    module = sys.modules[model_class.__module__]
    for head_name, head in make_heads(config_class, model_class, f"modeling_{name}").items():
        setattr(module, head_name, head)
    model_class.code_files = _code(name, config_class, model_class)
    models.register(config_class, model_class)
    models.ARCHITECTURES[name] = (config_class, model_class)
    hf_longseq.ARCHITECTURES[name] = model_class.__name__.removesuffix("Model")


def _check(name: str, config_class: type, model_class: type) -> None:
    problem, label = None, getattr(config_class, "__name__", config_class)
    known = models.ARCHITECTURES.get(name)
    if known and known[0].__module__.startswith("hf_longseq."):
        problem = "is the name of an architecture of this package: choose another"
    elif not re.fullmatch(r"[a-z][a-z0-9_]*", str(name)):
        problem = "is not a name of small letters, digits and underscores: choose one"
    elif not (isinstance(config_class, type) and issubclass(config_class, LongSeqConfig)):
        problem = f"has the configuration {label}, no subclass of LongSeqConfig: derive it from that"
    elif config_class.model_type != f"longseq_{name}":
        problem = f"needs {label}.model_type = 'longseq_{name}', which is {config_class.model_type!r}: set it"
    elif not (isinstance(model_class, type) and issubclass(model_class, LongSeqModel)):
        problem = "has a model that is not a subclass of LongSeqModel: derive it from that"
    elif not model_class.__name__.endswith("Model") or not hasattr(model_class, "mixer_class"):
        problem = f"has the model {model_class.__name__}: name it ...Model and give it a mixer_class"
    if problem:
        raise HfLongSeqError(f"architecture {name!r} {problem}.")


def import_architecture(reference: str, announce: bool = True) -> str:
    """Run the file of `FILE.py:NAME` and register its `NAMEConfig` and `NAMEModel`; the name of the architecture.

    For files that the user names: the code in them runs with the user's rights, and `announce` says so on the screen.
    """
    named, _, prefix = reference.rpartition(":")
    if not (named.endswith(".py") and prefix.isidentifier()):
        raise HfLongSeqError(f"{reference!r} names no class in a file: write FILE.py:NAME, as mine.py:Mine.")
    file = Path(named).expanduser().resolve()
    if not file.is_file():
        raise HfLongSeqError(f"--arch {reference}: there is no file {named}.")
    for name, place in _files.items():
        if place == f"{file}:{prefix}":
            return name
    if announce:
        print(f"hf-longseq: runs the code of {file}, which defines the architecture {prefix}", file=sys.stderr)
    module = _module(file)
    lacks = [f"{prefix}{part}" for part in ("Config", "Model") if not hasattr(module, f"{prefix}{part}")]
    if lacks:
        raise HfLongSeqError(f"--arch {reference}: {file} defines no {lacks[0]}: add the class, or name another.")
    config_class, model_class = (getattr(module, f"{prefix}{part}") for part in ("Config", "Model"))
    name = str(getattr(config_class, "model_type", "")).removeprefix("longseq_")
    register_architecture(name, config_class, model_class)
    _files[name] = f"{file}:{prefix}"
    return name


def _module(file: Path) -> ModuleType:
    """The module of a file, run once in a process."""
    name = f"own_architecture_{hashlib.sha256(os.fsencode(file)).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec and spec.loader  # Python has a loader for files that end in .py
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        with explained(f"{file} does not run", Exception, remedy="put it right"):  # a user's code may raise anything
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def named_on_command_line(words: Iterable[str], announce: bool = True) -> list[str]:
    """The words of a command, with `FILE.py:NAME` behind `--arch` imported and replaced by the architecture's name."""
    result, behind = [], False
    for word in words:
        behind = word == "--arch" or (behind and not word.startswith("--"))
        if behind:
            word = REFERENCE.sub(lambda found: import_architecture(found[0], announce), word)
        result.append(word)
    return result


def files() -> tuple[str, ...]:
    """`FILE.py:NAME` of the architectures that the command line named, for other processes of the same command."""
    return tuple(_files.values())


# `from hf_longseq.models.longseq_layers import ...` in a file that travels alone
_SIBLING = re.compile(r"^(\s*from )hf_longseq\.models(\.\w+ import)", re.MULTILINE)
_RELATIVE = re.compile(r"^\s*from \.(\w+) import", re.MULTILINE)


def _code(name: str, config_class: type, model_class: type) -> dict[str, str]:
    """Files of Python by their names that open what is saved without this package, `modeling_NAME.py` among them."""
    file = getattr(sys.modules[model_class.__module__], "__file__", None)
    if file is None or config_class.__module__ != model_class.__module__:
        logger.warning(
            "architecture %r: its checkpoints do not carry its code, because its two classes are not in one file; "
            "they open where register_architecture was called.", name,
        )  # fmt: skip
        return {}
    text = _SIBLING.sub(r"\1\2", Path(file).read_text(encoding="utf-8"))
    text = text.rstrip() + HEADS.format(config=config_class.__name__, model=model_class.__name__)
    found, wanted = {f"modeling_{name}.py": text}, _RELATIVE.findall(text)
    while wanted:
        path = Path(models.__file__).with_name(f"{wanted.pop()}.py")
        if path.name not in found and path.is_file():
            found[path.name] = path.read_text(encoding="utf-8")
            wanted += _RELATIVE.findall(found[path.name])
    return found
