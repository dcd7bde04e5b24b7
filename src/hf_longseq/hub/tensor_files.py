# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Reads the tensors of a checkpoint file, and only them: objects in the file stay bytes.

A Lightning checkpoint is a pickle that also holds configurations, callbacks and optimiser states of foreign classes.
`torch.load(weights_only=True)` refuses such files and `weights_only=False` executes whatever they say. Here every name
that a pickle asks for is answered by an inert object of this module, which remembers what it was called with; a
tensor is then made from such a memory, after its numbers have been checked against the size of the file's storage.
"""

import functools
import math
import os
import pickle
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from hf_longseq.errors import HfLongSeqError

# Pickled structure of the largest plausible checkpoint; the numbers themselves are stored outside of it. A tensor
# takes some 40 operations, each of which reads the file once or twice.
MAX_PICKLE_BYTES = 64 << 20
MAX_READS = 4_000_000
MAX_GLOBALS = 2000
# Pickles of the format before torch 1.6: a magic number, the format, the system, the content, the names of storages.
OLD_PICKLES = 5
# How many times the size of the file its tensors may have, where they share storages.
SHARING = 4

STORAGES = {
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "ComplexFloatStorage": torch.complex64,
    "ComplexDoubleStorage": torch.complex128,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}
TENSOR_CALL = "torch._utils._rebuild_tensor_v2"
PARAMETER_CALLS = ("torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state")


class Inert:
    """Stands for any global of a pickle and for whatever is built with it. Nothing done to it has an effect outside.

    `label` is the dotted name of the global, `args` what it was called with, `entries` the items put into it.
    """

    label = ""

    def __new__(cls, *args, **kwargs):
        self = object.__new__(cls)
        self.args, self.entries = args, {}
        return self

    def __init__(self, *args, **kwargs):
        """Arguments are kept by `__new__`, through which every way of unpickling leads."""

    def __call__(self, *args, **kwargs) -> "Inert":
        return Inert(*args)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.entries[key] = value

    def __setstate__(self, state: Any) -> None:
        """States are dropped, and so are the items of lists and sets."""

    def append(self, item: Any) -> None: ...

    def extend(self, items: Any) -> None: ...

    def add(self, item: Any) -> None: ...


class Storage(Inert):
    """The numbers of a tensor: its arguments are "storage", class, name of the file, device, number of elements."""


class _Counted:
    """A file that ends what reads from it too often: a small pickle can ask for hours and gigabytes."""

    def __init__(self, file):
        self.file, self.left = file, MAX_READS

    def read(self, size: int) -> bytes:
        self.left -= 1
        if self.left < 0:
            raise pickle.UnpicklingError("too many operations")
        return self.file.read(size)

    def readline(self) -> bytes:
        self.left -= 1
        return self.file.readline(1 << 12)


class _Reader(pickle._Unpickler):
    """The unpickler in Python, whose memo grows with what is put there and not with the numbers that are named.

    Keys are texts, small numbers or inert objects: the hash of a tuple that holds another one twice, and so on, takes
    for ever, and so does a dict of numbers with equal hashes.
    """

    def __init__(self, file):
        super().__init__(_Counted(file))
        self.globals: dict[str, type[Inert]] = {}

    def find_class(self, module: str, name: str) -> type[Inert]:
        label = f"{module}.{name}"
        if len(self.globals) > MAX_GLOBALS:
            raise pickle.UnpicklingError("too many globals")
        return self.globals.setdefault(label, type("Global", (Inert,), {"label": label}))

    def persistent_load(self, pid: Any) -> Storage:
        return Storage(*pid) if isinstance(pid, tuple) else Storage()


def _checked(code: bytes, step: int, last: int | None = None) -> Callable[[_Reader], None]:
    """The stock operation that puts things into a dict or a set, after a look at the keys on the stack."""
    stock = pickle._Unpickler.dispatch[code[0]]

    def load(reader: _Reader) -> None:
        for key in reader.stack[last::step]:
            known = isinstance(key, (str, bytes, type(None), type, Inert))
            if not known and not (isinstance(key, int) and abs(key) < 1 << 31):
                raise pickle.UnpicklingError("a key that is neither a text nor a small number")
        stock(reader)

    return load


def _refused(reader: _Reader) -> None:
    raise pickle.UnpicklingError("an operation that torch.save does not write")


_Reader.dispatch = pickle._Unpickler.dispatch | {
    pickle.SETITEM[0]: _checked(pickle.SETITEM, 2, last=-2),
    **{code[0]: _checked(code, 2) for code in (pickle.SETITEMS, pickle.DICT)},
    **{code[0]: _checked(code, 1) for code in (pickle.ADDITEMS, pickle.FROZENSET)},
    **{code[0]: _refused for code in (pickle.FRAME, pickle.BYTEARRAY8)},
}


def read_tensors(path: str | os.PathLike) -> dict[str, torch.Tensor]:
    """The tensors, in the stored dtypes, of a .safetensors, `torch.save` or Lightning checkpoint."""
    path = Path(path)
    if not path.is_file():
        raise HfLongSeqError(f"checkpoint {path} does not exist: give a .ckpt, .pt, .bin or .safetensors file.")
    if path.suffix == ".safetensors":
        try:
            return load_file(path)
        except (SafetensorError, OSError, ValueError) as error:
            raise HfLongSeqError(f"checkpoint {path} is no complete safetensors file: copy it again.") from error
    if not zipfile.is_zipfile(path):
        return _read_old_format(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return _read_archive(path, archive)
    except HfLongSeqError:
        raise
    except Exception as error:  # whatever a damaged or hostile pickle leads the unpickler to
        raise HfLongSeqError(
            f"checkpoint {path} cannot be read ({type(error).__name__}): it is damaged or no file of torch.save."
        ) from error


def _read_old_format(path: Path) -> dict[str, torch.Tensor]:
    """Files of torch before 1.6: torch's own restricted reader takes bare state dicts."""
    try:
        with open(path, "rb") as file:
            for _ in range(OLD_PICKLES):
                _Reader(file).load()  # raises for what would keep the reader of torch busy for ever
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise HfLongSeqError(
            f"checkpoint {path} is neither safetensors nor a zip file of torch.save, and holds more than tensors: "
            "save its state dict again with a current torch."
        ) from error
    content = content.get("state_dict", content) if isinstance(content, dict) else content
    if not isinstance(content, dict) or not all(isinstance(value, torch.Tensor) for value in content.values()):
        raise HfLongSeqError(f"checkpoint {path} holds no state dict: give a file with named tensors.")
    return {str(name): value for name, value in content.items()}


def _read_archive(path: Path, archive: zipfile.ZipFile) -> dict[str, torch.Tensor]:
    pickles = [entry for entry in archive.infolist() if entry.filename.split("/")[-1] == "data.pkl"]
    if len(pickles) != 1:
        raise HfLongSeqError(f"checkpoint {path} is a zip file without one data.pkl: give a file of torch.save.")
    packed = any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist())
    if packed or pickles[0].file_size > MAX_PICKLE_BYTES:
        raise HfLongSeqError(f"checkpoint {path} is packed as torch.save never does: save its state dict again.")
    root = pickles[0].filename.removesuffix("data.pkl")
    if f"{root}byteorder" in archive.namelist() and archive.read(f"{root}byteorder") != sys.byteorder.encode():
        raise HfLongSeqError(f"checkpoint {path} has the byte order of another machine: save it again on this one.")
    with archive.open(pickles[0]) as file:
        content = _Reader(file).load()

    entries = _mapping(content)
    if entries is not None and "state_dict" in entries:
        entries = _mapping(entries["state_dict"])
    if not entries:
        raise HfLongSeqError(f"checkpoint {path} holds no state dict: give a file with named tensors.")
    tensors = {}
    read = functools.cache(archive.read)  # tensors may share a storage, and a million of them the largest
    room = SHARING * sum(entry.file_size for entry in archive.infolist())
    for name, memory in entries.items():
        if not isinstance(name, str):
            raise HfLongSeqError(
                f"checkpoint {path} has an entry whose name is no text: give a file of named tensors."
            )
        tensor = _build(memory, read, root)
        if tensor is None:
            raise HfLongSeqError(
                f"checkpoint {path} holds {name[:80]!r}, which is no plain tensor: save a bare state dict."
            )
        room -= tensor.nbytes
        if room < 0:
            raise HfLongSeqError(f"checkpoint {path} holds the same numbers many times: save its state dict again.")
        tensors[name] = tensor
    return tensors


def _mapping(content: Any) -> dict | None:
    """The items of a dict, or of what an OrderedDict has become."""
    if isinstance(content, dict):
        return content
    if isinstance(content, Inert) and content.label == "collections.OrderedDict":
        return content.entries
    return None


def _build(memory: Any, read: Callable[[str], bytes], root: str) -> torch.Tensor | None:
    """Make the tensor that a remembered call describes; None if it describes something else, or no sound tensor."""
    label = memory.label if isinstance(memory, Inert) else ""
    if label in PARAMETER_CALLS and memory.args:
        memory = memory.args[0]
    if not isinstance(memory, Inert) or memory.label != TENSOR_CALL or len(memory.args) < 4:
        return None
    storage, offset, size, stride = memory.args[:4]
    if not isinstance(storage, Storage) or len(storage.args) != 5 or not isinstance(storage.args[2], str):
        return None
    if not isinstance(size, tuple) or not isinstance(stride, tuple) or len(size) != len(stride):
        return None
    _, storage_class, file_name, _, _ = storage.args
    dtype = STORAGES.get(getattr(storage_class, "label", "").removeprefix("torch."))
    if dtype is None or not all(type(number) is int and number >= 0 for number in (offset, *size, *stride)):
        return None
    elements = math.prod(size)
    if elements == 0:
        return torch.empty(size, dtype=dtype)
    data = read(f"{root}data/{file_name}")
    count = len(data) // dtype.itemsize
    last = offset + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    if last >= count or elements > count:
        return None  # reaches beyond its storage, or would repeat it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that bytes cannot be written to, which the copy can
        return torch.frombuffer(data, dtype=dtype, count=count).as_strided(size, stride, offset).clone()
