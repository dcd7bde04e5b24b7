# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Reads packed archives member by member, and notices when one is cut off.

tarfile takes an archive that ends between two members for complete. Read through `gzip`, which knows that its stream
has not ended, a half download never passes for a smaller data set.
"""

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from hf_longseq.errors import explained

GZIP_MAGIC = b"\x1f\x8b"


@contextmanager
def open_archive(path: Path) -> Iterator[tarfile.TarFile]:
    """The archive, packed or not, to be read from its beginning to its end.

    Raises:
        EOFError, tarfile.TarError, zlib.error, OSError: If it is cut off, damaged, or no archive.
    """
    with open(path, "rb") as file:
        packed = file.read(2) == GZIP_MAGIC
    with gzip.open(path) if packed else open(path, "rb") as stream:
        with tarfile.open(fileobj=stream, mode="r|" if packed else "r|*") as archive:
            yield archive


def readable(place: Path, url: str) -> AbstractContextManager[None]:
    """Errors of a damaged archive, from `url`, as one sentence."""
    remedy = f"finish it with `curl -C - -L -o {place} {url}`"
    return explained(
        f"{place} is cut off or no archive", tarfile.TarError, EOFError, zlib.error, OSError, remedy=remedy
    )
