# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""One repository on the Hub: make it, list its files, commit a built folder."""

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from huggingface_hub import HfApi, get_token, metadata_load
from huggingface_hub.utils import validate_repo_id

from hf_longseq.data.parquet_source import HUB_FAILURES
from hf_longseq.errors import HfLongSeqError, explained
from hf_longseq.hub.records import refuse_secrets
from hf_longseq.training import run_folder

# Files of an earlier publication that go if the new folder lacks them: they would speak for other weights. Files of
# other names, which somebody added, stay.
OF_A_PUBLICATION = (
    "configuration_*.py", "modeling_*.py", "longseq_*.py", "ssm_*.py", "mega_*.py", "mimetic_*.py",
    "feature_extraction_*.py", "image_processing_*.py", "model.safetensors", "model-*.safetensors",
    "generation_config.json", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json", "resolved.yaml",
    "pretraining.yaml", "metrics.json", "environment.json", "conversion.json", "learning_curve.png", "kernels.png",
    "example.wav", "example.png", ".eval_results/*.yaml",
)  # fmt: skip
Kind = Literal["model", "dataset"]
TAG = "hf-longseq"
WHOLE = "holds all of the new files or none"


@dataclass(frozen=True)
class Publication:
    """A publication, without url and commit after a dry run; `usage` is Python that loads it."""

    repo_id: str
    url: str | None
    commit: str | None
    files: tuple[str, ...]
    usage: str

    def __str__(self) -> str:
        if self.url is None:
            done = f"checked, and not uploaded: {self.repo_id} would hold {', '.join(self.files)}"
        else:
            done = f"published: {self.url} at commit {self.commit}"
        return f"{done}\n{self.usage}"


@dataclass
class Repository:
    """A repository of kind "model" or "dataset"; the other fields are those of `publish`."""

    api: HfApi
    name: str
    revision: str | None = None
    kind: Kind = "model"
    private: bool = False
    dry_run: bool = False
    output_dir: str | os.PathLike | None = None

    @classmethod
    def of(cls, repo_id: str, token: str | None = None, **options: Any) -> "Repository":
        """Raise for a bad name, token or `output_dir`, before anything is built."""
        with explained(
            f"repo_id {repo_id!r} is not a name the Hub allows", ValueError, remedy="use organisation/name"
        ):
            validate_repo_id(repo_id)
        if options.get("output_dir"):
            _check_earlier_build(Path(options["output_dir"]))
        api = HfApi(token=token)
        if options.get("dry_run"):
            return cls(api, repo_id, **options)
        with said_in_one_sentence(f"nothing was published at {api.endpoint}"):
            owner = api.whoami()["name"]
        return cls(api, repo_id if "/" in repo_id else f"{owner}/{repo_id}", **options)

    def make(self) -> str:
        """Make the repository and the branch, if new; returns its address. A new branch begins empty."""
        url = self.api.create_repo(self.name, private=self.private, exist_ok=True, repo_type=self.kind)
        if self.private and not self.api.repo_info(self.name, repo_type=self.kind).private:
            raise HfLongSeqError(
                f"{self.name} exists and is public, and --private is for new repositories: choose another repo_id, or "
                "make it private on the Hub first."
            )
        if self.revision is not None:
            first = self.api.list_repo_commits(self.name, repo_type=self.kind)[-1].commit_id
            self.api.create_branch(self.name, branch=self.revision, revision=first, repo_type=self.kind, exist_ok=True)
        return str(url)

    def files(self) -> list[str]:
        """Names of all files."""
        return self.api.list_repo_files(self.name, revision=self.revision, repo_type=self.kind)

    def download(self, name: str) -> Path:
        """A file of the repository."""
        return Path(self.api.hf_hub_download(self.name, name, revision=self.revision, repo_type=self.kind))

    def take(
        self,
        folder: Path,
        message: str,
        usage: str,
        refuse: Callable[[list[str]], None] = lambda present: None,
        stale: Sequence[str] = OF_A_PUBLICATION,
    ) -> Publication:
        """Commit a built folder, and remove files that match `stale`; raises for secrets, or if `refuse` does for the
        present files."""
        refuse_secrets(folder, [token for token in (self.api.token, get_token()) if isinstance(token, str)])
        files = tuple(sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()))
        if self.output_dir is not None:
            run_folder.replace_folder(self.output_dir, lambda new: shutil.copytree(folder, new, dirs_exist_ok=True))
        if self.dry_run:
            return Publication(self.name, None, None, files, usage)
        with said_in_one_sentence(f"{self.name} {WHOLE}"):
            url = self.make()
            refuse(self.files())
            commit = self.api.upload_folder(
                repo_id=self.name, folder_path=folder, commit_message=message, revision=self.revision,
                repo_type=self.kind, delete_patterns=list(stale),
            )  # fmt: skip
        return Publication(self.name, url, commit.oid, files, usage)


def add_to_collection(
    api: HfApi, title: str, repo_id: str, private: bool, kind: Kind = "model", note: str | None = None
) -> None:
    """Add a repository to a collection of its owner, new or not."""
    made = api.create_collection(title, namespace=repo_id.split("/")[0], private=private, exists_ok=True)
    api.add_collection_item(made.slug, repo_id, kind, note=note, exists_ok=True)


def said_in_one_sentence(state: str) -> AbstractContextManager[None]:
    """Turn errors of the client into one sentence that begins with the state of the repository."""
    return explained(state, *HUB_FAILURES, KeyError, remedy="put that right and rerun the command")


def _check_earlier_build(folder: Path) -> None:
    """Raise if an output folder holds files, but no card of this package, or what no build leaves."""
    run_folder.check_replaceable(folder, "README.md", "build")
    kept = [path for pattern in (".git", "checkpoint*") for path in folder.glob(pattern)]
    card = folder / "README.md"
    with explained(f"{card} is not readable as a card", Exception, remedy="choose a new output_dir"):
        others = card.is_file() and TAG not in ((metadata_load(card) or {}).get("tags") or ())
    if kept or others:
        raise HfLongSeqError(
            f"output_dir {folder} holds {(kept or [card])[0].name}, which no build made: choose a new folder."
        )
