# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Reads the tensors of a checkpoint file, and only them: objects in the file stay bytes.

A Lightning checkpoint is a pickle that also holds configurations, callbacks and optimiser states of foreign classes.
`torch.load(weights_only=True)` refuses such files and `weights_only=False` executes them. Here an inert class answers
for every name in a pickle and remembers its arguments; a tensor is made from these after a check against the size of
its storage.
"""

import math
import os
import pickle
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from hf_longseq.errors import HfLongSeqError, explained

# Tensors that share storages may have this many times the size of the file.
SHARING = 4
STORAGES = {
    "Double": torch.float64, "Float": torch.float32, "Half": torch.float16, "BFloat16": torch.bfloat16,
    "ComplexFloat": torch.complex64, "ComplexDouble": torch.complex128, "Long": torch.int64, "Int": torch.int32,
    "Short": torch.int16, "Char": torch.int8, "Byte": torch.uint8, "Bool": torch.bool,
}  # fmt: skip
TENSOR = "torch._utils._rebuild_tensor_v2"
PARAMETERS = ("torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state")


class Inert(dict):
    """Stands for any global of a pickle and for what is built with it; keeps its items.

    `label` is the dotted name of the global, `called_with` its arguments.
    """

    label = ""
    called_with: tuple = ()
    __hash__ = object.__hash__  # type: ignore[assignment]  # unlike any dict, a key of other dicts

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        self.called_with = args
        return self

    def __init__(self, *args, **kwargs):
        """Nothing is done with the arguments."""

    def __setstate__(self, state: Any) -> None: ...

    def append(self, item: Any) -> None: ...

    def extend(self, items: Any) -> None: ...

    def add(self, item: Any) -> None: ...


class _Reader(pickle._Unpickler):
    """The unpickler in Python: its memo grows with its content, the one in C with the numbers that a file names."""

    def find_class(self, module: str, name: str) -> type[Inert]:
        return type("Global", (Inert,), {"label": f"{module}.{name}"})

    def persistent_load(self, pid: Any) -> Inert:
        """A storage: "storage", class, name of the file, device, number of elements."""
        return Inert(*pid)


def read_tensors(path: str | os.PathLike) -> dict[str, torch.Tensor]:
    """The tensors of a .safetensors, `torch.save` or Lightning checkpoint, in their dtypes.

    Raises:
        HfLongSeqError: If the file is damaged, packed, or holds no state dict of plain tensors.
    """
    path = Path(path)
    if not path.is_file():
        raise HfLongSeqError(f"checkpoint {path} does not exist: give a .ckpt, .pt, .bin or .safetensors file.")
    # libraries raise anything for damaged or hostile files
    with explained(f"checkpoint {path} cannot be read", Exception, remedy="save its state dict again"):
        if path.suffix == ".safetensors":
            return load_file(path)
        with zipfile.ZipFile(path) as archive:
            return _read_archive(path, archive)


def _read_archive(path: Path, archive: zipfile.ZipFile) -> dict[str, torch.Tensor]:
    entries = archive.infolist()
    pickles = [entry.filename for entry in entries if entry.filename.split("/")[-1] == "data.pkl"]
    if len(pickles) != 1 or any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise HfLongSeqError(f"checkpoint {path} is packed as torch.save never does: save its state dict again.")
    root = pickles[0].removesuffix("data.pkl")
    if f"{root}byteorder" in archive.namelist() and archive.read(f"{root}byteorder") != sys.byteorder.encode():
        raise HfLongSeqError(f"checkpoint {path} has the byte order of another machine: save it again on this one.")
    with archive.open(pickles[0]) as file:
        content = _Reader(file).load()
    content = content.get("state_dict", content) if isinstance(content, dict) else None
    if not isinstance(content, dict) or not content:
        raise HfLongSeqError(f"checkpoint {path} holds no state dict: give a file with named tensors.")
    tensors, room = {}, SHARING * sum(entry.file_size for entry in entries)
    for name, memory in content.items():
        tensor = _build(memory, lambda file: archive.read(f"{root}data/{file}"))
        if tensor is None or not isinstance(name, str):
            raise HfLongSeqError(
                f"checkpoint {path} holds {name!r}, which is not a plain tensor: save a bare state dict."
            )
        tensors[name], room = tensor, room - tensor.nbytes
        if room < 0:
            raise HfLongSeqError(f"checkpoint {path} holds the same numbers many times: save its state dict again.")
    return tensors


def _build(memory: Any, read: Callable[[str], bytes]) -> torch.Tensor | None:
    """Make the tensor of a remembered call; None if it describes another thing or an unsound tensor."""
    if getattr(memory, "label", None) in PARAMETERS:
        memory = memory.called_with[0]
    if getattr(memory, "label", None) != TENSOR:
        return None
    storage, offset, size, stride = memory.called_with[:4]
    _, kind, name, _, _ = storage.called_with
    dtype = STORAGES.get(kind.label.removeprefix("torch.").removesuffix("Storage"))
    if dtype is None or len(size) != len(stride):
        return None
    if not all(type(number) is int and number >= 0 for number in (offset, *size, *stride)):
        return None
    if math.prod(size) == 0:
        return torch.empty(size, dtype=dtype)
    data = bytearray(read(name))
    count = len(data) // dtype.itemsize
    last = offset + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    if last >= count or math.prod(size) > count:
        return None  # reaches beyond its storage, or would repeat it
    return torch.frombuffer(data, dtype=dtype, count=count).as_strided(size, stride, offset).clone()
