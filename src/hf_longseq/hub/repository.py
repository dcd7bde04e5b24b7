# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Requests to the Hub: create a repository, list files, commit, recover from lost answers.

Any server that the stock client can talk to will do: nothing here depends on addresses, counts or codes beyond those
that the client itself understands, and what the client cannot make out is looked up again before it counts as failed.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, constants, errors
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils import validate_repo_id
from huggingface_hub.utils.sha import git_hash, sha_fileobj

from hf_longseq.errors import HfLongSeqError
from hf_longseq.training import run_folder

# The base of all errors of the client's HTTP library, whose name changes between releases of the client.
CLIENT_ERROR = errors.HfHubHTTPError.__bases__[0]
# What may be raised although the server did what was asked of it: the answer was lost on its way.
LOST = (CLIENT_ERROR, OSError, RuntimeError)
# What an earlier publication may have left that is not in the new folder.
OURS = (
    "configuration_",
    "modeling_",
    "longseq_",
    "ssm_",
    "mega_",
    "feature_extraction_",
    "image_processing_",
    "model-",
    "model.safetensors",
    "data/",
)


def check_name(repo_id: str) -> None:
    """Raise for a name that the Hub refuses."""
    try:
        validate_repo_id(repo_id)
    except errors.HFValidationError as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise HfLongSeqError(
            f"repo_id {repo_id!r} is no name the Hub allows ({reason}): use organisation/name."
        ) from None


def sign_in(api: HfApi) -> str:
    """Who the token belongs to."""
    with said_in_one_sentence("the Hub", api):
        return api.whoami()["name"]


@dataclass
class Told:
    """What is known of a repository, should the next request fail."""

    state: str = "was not changed"


@dataclass
class Repository:
    """A repository on the Hub: its full name, a branch (None is the main one), and its kind, model or dataset."""

    api: HfApi
    name: str
    revision: str | None = None
    kind: str = "model"
    told: Told = field(default_factory=Told)

    def make(self, private: bool) -> str:
        """Make the repository if there is none; returns its address."""
        held = self._info()
        if held is None:
            self.told.state = "may have been created, and is empty then"
            try:
                self.api.create_repo(self.name, private=private, exist_ok=True, repo_type=self.kind)
            except (KeyError, ValueError, *LOST):  # the answer says its address in another way, or did not arrive
                if self._info() is None:
                    self.told.state = "was not created"
                    raise
            self.told.state = "was created and is empty"
        elif private and not held.private:
            raise HfLongSeqError(
                f"{self.name} exists and is public, and --private is for new repositories: choose another repo_id, or "
                "make it private on the Hub first."
            )
        return f"{self.api.endpoint}/{'datasets/' if self.kind == 'dataset' else ''}{self.name}"

    def _info(self):
        try:
            return self.api.repo_info(self.name, repo_type=self.kind)
        except errors.GatedRepoError:
            raise
        except errors.HfHubHTTPError as error:
            if isinstance(error, errors.RepositoryNotFoundError) or error.response.status_code == 404:
                return None
            raise

    def _commit(self, revision: str | None) -> str:
        return self.api.repo_info(self.name, revision=revision, repo_type=self.kind).sha

    def files(self) -> list[str]:
        """Names of all files; none in a repository without a commit."""
        try:
            return self.api.list_repo_files(self.name, revision=self.revision, repo_type=self.kind)
        except (errors.RevisionNotFoundError, errors.EntryNotFoundError):
            if self.revision is None:
                return []
            raise

    def refuse_other_architecture(self, model_type: str, present: list[str]) -> None:
        """Raise if it already holds a model of another architecture, whose users would be surprised.

        A branch that was only just made holds what "main" holds, and nothing of its own.
        """
        if "config.json" not in present:
            return
        with tempfile.TemporaryDirectory() as scratch:
            path = self.api.hf_hub_download(self.name, "config.json", revision=self.revision, local_dir=scratch)
            held = run_folder.read_json(path).get("model_type")
        if held != model_type and not self.is_new_branch():
            raise HfLongSeqError(
                f"{self.name} holds a {held} model, but the run is a {model_type} model: choose another repo_id, or a "
                "--revision of its own."
            )

    def is_new_branch(self) -> bool:
        """Whether the branch holds what "main" holds, and nothing of its own."""
        return self.revision not in (None, "main") and self._commit(self.revision) == self._commit(None)

    def make_branch(self) -> None:
        """Make the branch if there is none of that name."""
        self.told.state += f" (apart from the branch {self.revision}, which may be new)"
        self.api.create_branch(self.name, branch=self.revision, exist_ok=True, repo_type=self.kind)

    def upload(
        self, folder: Path, message: str, present: list[str], stale: tuple[str, ...] = (".py", ".safetensors")
    ) -> str:
        """Commit a folder in one piece, with the removal of our files of an earlier publication; returns the commit.

        Where no answer comes, the branch is asked whether the commit was made before it counts as failed.
        """
        paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
        gone = [name for name in present if name not in paths and name.startswith(OURS) and name.endswith(stale)]

        def commit() -> str:
            operations = [CommitOperationAdd(name, str(path)) for name, path in paths.items()]
            operations += [CommitOperationDelete(name) for name in gone]
            before = self._commit(self.revision)
            try:
                return self.api.create_commit(
                    self.name, operations, commit_message=message, revision=self.revision, repo_type=self.kind
                ).oid
            except (ValueError, *LOST) as error:  # the answer says the address in another way, or did not arrive
                after = self._commit_made(before, paths, error)
                if after is None:
                    raise
                return after

        try:
            return commit()
        except (errors.HfHubHTTPError, RuntimeError, OSError) as error:
            if constants.HF_HUB_DISABLE_XET or "xet" not in f"{error} {error.__cause__ or ''}".lower():
                raise
        # a server that has only the older protocol for large files, which the client does not try by itself
        constants.HF_HUB_DISABLE_XET = True
        try:
            return commit()
        finally:
            constants.HF_HUB_DISABLE_XET = False

    def _commit_made(self, before: str, paths: dict[str, Path], error: Exception) -> str | None:
        """The commit that holds exactly these files, if there is one although its answer was lost."""
        lost = f"the connection to {self.api.endpoint} failed"
        again = "rerun the command, which writes only what is missing"
        try:
            after = self._commit(self.revision)
            found = self.api.get_paths_info(self.name, list(paths), revision=after, repo_type=self.kind)
            held = {file.path: file for file in found}
        except LOST:
            raise HfLongSeqError(
                f"{lost} while {self.name} was written ({type(error).__name__}), and again when asked whether it was, "
                f"so it may hold the new files or the old ones: {again}."
            ) from error
        if after == before:
            return None
        if not all(name in held and _same_content(path, held[name]) for name, path in paths.items()):
            raise HfLongSeqError(
                f"{lost} ({type(error).__name__}), and meanwhile {self.name} was changed by another commit, {after}: "
                f"{again}."
            ) from error
        return after


def _same_content(path: Path, held: RepoFile) -> bool:
    if held.lfs is None:
        return git_hash(path.read_bytes()) == held.blob_id
    with open(path, "rb") as file:
        return sha_fileobj(file).hex() == held.lfs.sha256


def add_to_collection(
    api: HfApi, title: str, repo_id: str, private: bool, kind: str = "model", note: str | None = None
) -> None:
    """Add a repository to a collection of its owner, which is made if it does not exist."""
    made = api.create_collection(title, namespace=repo_id.split("/")[0], private=private, exists_ok=True)
    api.add_collection_item(made.slug, repo_id, kind, note=note, exists_ok=True)


@contextmanager
def said_in_one_sentence(repo_id: str, api: HfApi, state: str = Told.state) -> Iterator[Told]:
    """Turn what the client raises into one sentence that says what to do, and in which state the repository is then:
    `state`, until the object that is yielded says otherwise."""
    told = Told(state)
    try:
        yield told
    except HfLongSeqError:
        raise
    except errors.LocalTokenNotFoundError as error:
        raise HfLongSeqError("there is no access token: run `hf auth login`, or set HF_TOKEN.") from error
    except errors.OfflineModeIsEnabled as error:
        raise HfLongSeqError("HF_HUB_OFFLINE is set, so nothing can be published: unset it.") from error
    except errors.RevisionNotFoundError as error:
        raise HfLongSeqError(f"{repo_id} has no such revision: publish to it once without --code_only.") from error
    except errors.GatedRepoError as error:
        raise HfLongSeqError(f"{repo_id} is gated, and your token has no access to it: ask for it first.") from error
    except errors.RepositoryNotFoundError as error:
        raise HfLongSeqError(f"{repo_id} does not exist on {api.endpoint}, or your token may not see it.") from error
    except (CLIENT_ERROR, errors.LocalEntryNotFoundError, OSError, RuntimeError) as error:
        cause = (
            error.__cause__ or error if isinstance(error, (RuntimeError, errors.LocalEntryNotFoundError)) else error
        )
        if isinstance(cause, errors.HfHubHTTPError):
            raise HfLongSeqError(_refusal(repo_id, api, cause, told.state)) from error
        raise HfLongSeqError(
            f"the connection to {api.endpoint} failed ({type(cause).__name__}) and {repo_id} {told.state}: "
            "rerun the command."
        ) from error
    except (ValueError, KeyError) as error:  # of the client: files that the server refuses, answers it cannot read
        reason = " ".join(str(error).split())[:300].rstrip(".")
        raise HfLongSeqError(f"{api.endpoint} did not accept {repo_id}, which {told.state}: {reason}.") from error


def _refusal(repo_id: str, api: HfApi, error: errors.HfHubHTTPError, state: str) -> str:
    status = error.response.status_code
    said = " ".join((error.server_message or "").split()).rstrip(".")
    because = f" ({said})" if said else ""
    if status == 401:
        return f"{api.endpoint} does not accept the access token{because}: run `hf auth login`, or correct HF_TOKEN."
    if status == 403:
        return (
            f"the access token may not write to {repo_id}{because}: use a token with write access to that namespace."
        )
    if status >= 500 or status in (408, 412, 429):
        return f"{api.endpoint} answered {status}{because} and {repo_id} {state}: rerun the command later."
    return f"{api.endpoint} refused {repo_id} with status {status}{because}; {repo_id} {state}."
