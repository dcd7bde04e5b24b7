"""Reading foreign checkpoint files: the tensors, all of them, and nothing else of what the file says."""

import io
import os
import pickle
import resource
import zipfile
from collections import OrderedDict

import pytest
import torch
from safetensors.torch import save_file

from hf_longseq.errors import HfLongSeqError
from hf_longseq.hub.tensor_files import read_tensors


class Foreign:
    """Stands for OmegaConf, callbacks and whatever else Lightning pickles."""

    def __init__(self):
        self.content = {"lr": 0.1, "nested": [1, {"a": OrderedDict(b=2)}]}

    def __setstate__(self, state):
        raise AssertionError("the file's object was built")


class ForeignDict(dict):
    pass


class Hostile:
    """Asks the unpickler to call something when it is built."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def state_dict():
    return OrderedDict(
        {
            "a.weight": torch.arange(6.0).view(2, 3),
            "a.half": torch.ones(3, dtype=torch.float16),
            "a.count": torch.tensor(7),
            "a.view": torch.arange(12.0).view(3, 4).t()[1:, :2],
            "a.empty": torch.empty(0, 3),
            "a.parameter": torch.nn.Parameter(torch.full((2,), 0.5)),
        }
    )


def assert_same(found, expected):
    assert list(found) == list(expected)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor.detach())


@pytest.mark.parametrize("plain", [True, False], ids=["dict", "OrderedDict"])
def test_a_bare_state_dict(tmp_path, plain):
    torch.save(dict(state_dict()) if plain else state_dict(), tmp_path / "m.pt")
    assert_same(read_tensors(tmp_path / "m.pt"), state_dict())


def test_a_lightning_checkpoint_with_foreign_objects(tmp_path):
    content = {
        "epoch": 3,
        "callbacks": {Foreign: Foreign()},
        "hyper_parameters": ForeignDict(config=Foreign()),
        "optimizer_states": [{"state": {0: {"exp_avg": torch.ones(4)}}}],
        "state_dict": state_dict(),
    }
    torch.save(content, tmp_path / "m.ckpt")
    assert_same(read_tensors(tmp_path / "m.ckpt"), state_dict())


def test_a_safetensors_file(tmp_path):
    tensors = {name: tensor.detach().contiguous() for name, tensor in state_dict().items()}
    save_file(tensors, tmp_path / "m.safetensors")
    assert set(read_tensors(tmp_path / "m.safetensors")) == set(tensors)


@pytest.mark.parametrize("place", ["beside", "inside", "as the value"])
@pytest.mark.parametrize("old_format", [False, True])
def test_a_hostile_pickle_is_inert(tmp_path, place, old_format):
    mark = tmp_path / "mark"
    evil = Hostile(os.system, f"touch {mark}")
    content = {
        "beside": {"hyper_parameters": evil, "state_dict": state_dict()},
        "inside": {"state_dict": OrderedDict(evil=evil, **state_dict())},
        "as the value": evil,
    }[place]
    torch.save(content, tmp_path / "m.ckpt", _use_new_zipfile_serialization=not old_format)
    if place == "beside" and not old_format:
        assert_same(read_tensors(tmp_path / "m.ckpt"), state_dict())
    else:
        with pytest.raises(HfLongSeqError, match="m.ckpt"):
            read_tensors(tmp_path / "m.ckpt")
    assert not mark.exists()


@pytest.mark.parametrize(
    "function, arguments",
    [
        (exec, ("raise SystemExit('executed')",)),
        (eval, ("__import__('os').abort()",)),
        (getattr, ("text", "upper")),
        (type, ("Evil", (object,), {})),
        (setattr, (HfLongSeqError, "poisoned", True)),
    ],
)
def test_no_builtin_is_called(tmp_path, function, arguments):
    torch.save({"hyper_parameters": Hostile(function, *arguments), "state_dict": state_dict()}, tmp_path / "m.ckpt")
    assert_same(read_tensors(tmp_path / "m.ckpt"), state_dict())
    assert not hasattr(HfLongSeqError, "poisoned")


def write_archive(path, data_pkl: bytes, compression=zipfile.ZIP_STORED, **entries):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("m/data.pkl", data_pkl)
        for name, content in entries.items():
            archive.writestr(f"m/data/{name}", content)


class Described:
    """A tensor as torch describes it in a pickle, with any numbers."""

    def __init__(self, size, stride, offset=0, numel=4):
        self.call = (
            torch._utils._rebuild_tensor_v2,
            (torch.FloatStorage, offset, size, stride, False, OrderedDict()),
        )
        self.numel = numel

    def __reduce__(self):
        return self.call


def pickled(content, numel=4) -> bytes:
    """As torch.save writes it: storages by a persistent id."""

    class Once(pickle.Pickler):
        seen = False

        def persistent_id(self, value):
            if value is torch.FloatStorage and not self.seen:
                self.seen = True  # the class inside the id itself is pickled as it is
                return ("storage", torch.FloatStorage, "0", "cpu", numel)
            return None

    buffer = io.BytesIO()
    Once(buffer, protocol=2).dump(content)
    return buffer.getvalue()


def test_described_tensors_are_made_from_the_archive(tmp_path):
    write_archive(
        tmp_path / "m.pt", pickled({"w": Described((2, 2), (2, 1))}), **{"0": torch.ones(4).numpy().tobytes()}
    )
    assert torch.equal(read_tensors(tmp_path / "m.pt")["w"], torch.ones(2, 2))


@pytest.mark.parametrize(
    "size, stride, offset",
    [
        ((2, 3), (3, 1), 0),
        ((2, 2), (2, 1), 1),
        ((1 << 40,), (0,), 0),
        ((-1,), (1,), 0),
        ((2,), (-1,), 3),
        ((2,), (1, 1), 0),
    ],
)
def test_a_tensor_outside_of_its_storage_is_refused(tmp_path, size, stride, offset):
    data = pickled({"w": Described(size, stride, offset)})
    write_archive(tmp_path / "m.pt", data, **{"0": torch.ones(4).numpy().tobytes()})
    with pytest.raises(HfLongSeqError, match="'w', which is not a plain tensor"):
        read_tensors(tmp_path / "m.pt")


def test_what_is_no_checkpoint_is_said_in_one_sentence(tmp_path):
    good = tmp_path / "good.pt"
    torch.save(state_dict(), good)
    files = {
        "missing.pt": None,
        "text.pt": b"hello",
        "empty.ckpt": b"",
        "cut.pt": good.read_bytes()[:300],
        "cut.safetensors": b"\x00" * 20,
    }
    for name, content in files.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(HfLongSeqError) as error:
            read_tensors(tmp_path / name)
        assert name in str(error.value) and "\n" not in str(error.value)
    for name, content in {"list.pt": [1, 2], "number.pt": {"a": 1}, "keys.pt": {3: torch.ones(1)}}.items():
        torch.save(content, tmp_path / name)
        with pytest.raises(HfLongSeqError, match=name):
            read_tensors(tmp_path / name)
    write_archive(tmp_path / "packed.pt", pickle.dumps({}), compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(HfLongSeqError, match="packed as torch.save never does"):
        read_tensors(tmp_path / "packed.pt")
    write_archive(tmp_path / "torn.pt", pickled({"w": Described((2, 2), (2, 1))}))
    with pytest.raises(HfLongSeqError, match="torn.pt"):
        read_tensors(tmp_path / "torn.pt")


def written(*operations: bytes) -> bytes:
    return pickle.PROTO + b"\x02" + b"".join(operations) + pickle.STOP


BOMBS = {
    "memo": written(pickle.NONE, pickle.LONG_BINPUT + b"\xff\xff\xff\x7f"),
    "bytes": written(pickle.BYTEARRAY8 + (1 << 40).to_bytes(8, "little")),
}


@pytest.mark.parametrize("name, old_format", [("memo", False), ("bytes", False), ("memo", True)])
def test_a_small_pickle_does_not_ask_for_gigabytes(tmp_path, name, old_format):
    path = tmp_path / "m.ckpt"
    if old_format:
        heads = [pickle.dumps(head, 2) for head in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})]
        path.write_bytes(b"".join([*heads, BOMBS[name], pickle.dumps([], 2)]))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", BOMBS[name])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(HfLongSeqError, match="m.ckpt"):
        read_tensors(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kilobytes


def test_tensors_that_share_a_storage_do_not_multiply_it(tmp_path):
    one = torch.zeros(100_000)
    torch.save({"a": one, "b": one}, tmp_path / "tied.pt")
    assert set(read_tensors(tmp_path / "tied.pt")) == {"a", "b"}
    torch.save({str(index): one.view(-1) for index in range(50)}, tmp_path / "many.pt")
    with pytest.raises(HfLongSeqError, match="the same numbers many times"):
        read_tensors(tmp_path / "many.pt")
