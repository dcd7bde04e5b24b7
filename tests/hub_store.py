"""What the Hub of the tests keeps: repositories with their commits, branches, tags and files, in memory."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone

import yaml


@dataclass(frozen=True)
class Blob:
    """The content of a file; `lfs` says how it was uploaded."""

    data: bytes
    lfs: bool

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def pointer(self) -> bytes:
        return (
            f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {len(self.data)}\n".encode()
        )

    @property
    def oid(self) -> str:
        """What git calls the content it stores: that of the pointer, for LFS."""
        stored = self.pointer if self.lfs else self.data
        return hashlib.sha1(b"blob %d\0" % len(stored) + stored).hexdigest()

    def info(self, path: str) -> dict:
        info = {"type": "file", "path": path, "oid": self.oid, "size": len(self.data)}
        if self.lfs:
            info["lfs"] = {"oid": self.sha256, "size": len(self.data), "pointerSize": len(self.pointer)}
        return info


@dataclass(frozen=True)
class Commit:
    """A state of all files."""

    oid: str
    title: str
    files: dict[str, Blob]
    parent: "Commit | None" = None
    date: str = field(default_factory=lambda: datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z"))

    def child(self, title: str, files: dict[str, Blob]) -> "Commit":
        named = [self.oid, title, *(f"{path}:{blob.oid}" for path, blob in sorted(files.items()))]
        return Commit(hashlib.sha1("\n".join(named).encode()).hexdigest(), title, files, self)

    def history(self) -> Iterator["Commit"]:
        commit: Commit | None = self
        while commit is not None:
            yield commit
            commit = commit.parent


@dataclass
class Repo:
    """A repository: who may read it, its branches and tags, and the LFS objects it was sent."""

    kind: str
    name: str
    private: bool
    branches: dict[str, Commit]
    tags: dict[str, Commit] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)

    @property
    def files(self) -> dict[str, bytes]:
        """Content of the main branch."""
        return {path: blob.data for path, blob in self.branches["main"].files.items()}

    def at(self, revision: str) -> Commit | None:
        named = {**self.tags, **self.branches}.get(revision.removeprefix("refs/heads/"))
        if named is not None or len(revision) < 7:
            return named
        commits = (commit for head in (*self.branches.values(), *self.tags.values()) for commit in head.history())
        return next((commit for commit in commits if commit.oid.startswith(revision)), None)

    def describe(self, commit: Commit) -> dict:
        """What the Hub tells of a repository at a commit."""
        card = re.match(r"---\n(.*?)\n---", commit.files.get("README.md", Blob(b"", False)).data.decode(), re.DOTALL)
        data = (yaml.safe_load(card[1]) or {}) if card else {}
        siblings = [{"rfilename": path} for path in sorted(commit.files)]
        return {
            "_id": commit.oid, "id": self.name, "modelId": self.name, "author": self.name.split("/")[0],
            "sha": commit.oid, "lastModified": commit.date, "createdAt": commit.date, "private": self.private,
            "gated": False, "disabled": False, "downloads": 0, "likes": 0, "tags": list(data.get("tags") or []),
            "cardData": data, "siblings": siblings, "pipeline_tag": data.get("pipeline_tag"),
            "library_name": data.get("library_name"), "usedStorage": 0,
        }  # fmt: skip
