"""An archive that was not downloaded to its end is never taken for a smaller one, wherever it was cut."""

import io
import tarfile

import pytest

from hf_longseq.data.archives import open_archive


def an_archive(path, mode):
    with tarfile.open(path, mode) as archive:
        for number in range(6):
            member = tarfile.TarInfo(f"folder/{number}.txt")
            member.size = 300
            archive.addfile(member, io.BytesIO(bytes([number + 65]) * 300))
    return path


def names(path):
    with open_archive(path) as archive:
        return [(member.name, archive.extractfile(member).read()[:1]) for member in archive]


@pytest.mark.parametrize("mode", ["w:gz", "w", "w:xz"])
def test_members_are_read_in_their_order(mode, tmp_path):
    found = names(an_archive(tmp_path / "a.tar", mode))
    assert found == [(f"folder/{n}.txt", bytes([n + 65])) for n in range(6)]


def test_every_cut_is_noticed(tmp_path):
    whole = an_archive(tmp_path / "a.tar.gz", "w:gz").read_bytes()
    refused = 0
    for end in range(len(whole)):
        (tmp_path / "cut.tar.gz").write_bytes(whole[:end])
        try:
            found = names(tmp_path / "cut.tar.gz")
        except (EOFError, tarfile.TarError, OSError):
            refused += 1
        else:
            assert len(found) == 6  # only the padding behind the last member is missing
    assert refused > len(whole) / 2
