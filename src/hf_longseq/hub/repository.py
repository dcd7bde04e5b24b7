# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Requests to the Hub: create a repository, list files, commit.

Any server that the stock client can talk to will do: nothing here depends on addresses, counts or codes beyond those
that the client itself understands.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import HfApi, constants, errors
from huggingface_hub.utils import validate_repo_id

from hf_longseq.errors import HfLongSeqError
from hf_longseq.training import run_folder

# The base of all errors of the client's HTTP library, whose name changes between releases of the client.
CLIENT_ERROR = errors.HfHubHTTPError.__bases__[0]
# What may be raised although the server did what was asked: the answer was lost, or says the address in another way.
LOST = (CLIENT_ERROR, OSError, RuntimeError, KeyError, ValueError)
# What an earlier publication may have left that is not in the new folder.
CODE = (
    "configuration_*.py", "modeling_*.py", "longseq_*.py", "ssm_*.py", "mega_*.py", "mimetic_*.py",
    "feature_extraction_*.py", "image_processing_*.py",
)  # fmt: skip
NEEDS_OLDER = "a server without Xet storage needs HF_HUB_DISABLE_XET=1"
WHOLE = "holds all of the new files or none"
CODE_AND_WEIGHTS = (*CODE, "model.safetensors", "model-*.safetensors")


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
class Repository:
    """A repository on the Hub: its full name, a branch (None is the main one), and its kind, model or dataset."""

    api: HfApi
    name: str
    revision: str | None = None
    kind: str = "model"

    def make(self, private: bool) -> str:
        """Make the repository if there is none; returns its address."""
        held = self._info()
        if held is None:
            try:
                self.api.create_repo(self.name, private=private, exist_ok=True, repo_type=self.kind)
            except LOST:
                if self._info() is None:
                    raise
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

    def files(self) -> list[str]:
        """Names of all files; none in a repository without a commit."""
        try:
            return self.api.list_repo_files(self.name, revision=self.revision, repo_type=self.kind)
        except (errors.RevisionNotFoundError, errors.EntryNotFoundError):
            if self.revision is None:
                return []
            raise

    def refuse_other_architecture(self, model_type: str, present: list[str]) -> None:
        """Raise if it already holds a model of another architecture, whose users would be surprised."""
        if "config.json" not in present:
            return
        with tempfile.TemporaryDirectory() as scratch:
            path = self.api.hf_hub_download(self.name, "config.json", revision=self.revision, local_dir=scratch)
            held = run_folder.read_json(path).get("model_type")
        if held != model_type:
            raise HfLongSeqError(
                f"{self.name} holds a {held} model, but the run is a {model_type} model: choose another repo_id, or a "
                "--revision of its own."
            )

    def make_branch(self) -> None:
        """Make the branch if there is none of that name.

        It begins at the first commit, which is empty: what is published there then removes no file of "main".
        """
        first = self.api.list_repo_commits(self.name, repo_type=self.kind)[-1].commit_id
        self.api.create_branch(self.name, branch=self.revision, revision=first, exist_ok=True, repo_type=self.kind)

    def upload(self, folder: Path, message: str, stale: Sequence[str] = CODE_AND_WEIGHTS) -> str:
        """Commit a folder in one piece, with the removal of files that match `stale`; returns the commit."""
        place = {"repo_id": self.name, "revision": self.revision, "repo_type": self.kind}
        before = self.api.repo_info(**place).sha
        try:
            return self.api.upload_folder(
                folder_path=folder, commit_message=message, delete_patterns=list(stale), **place
            ).oid
        except LOST:
            last = self.api.list_repo_commits(**place)[0]
            if last.commit_id == before or last.title != message:
                raise
            return last.commit_id


def add_to_collection(
    api: HfApi, title: str, repo_id: str, private: bool, kind: str = "model", note: str | None = None
) -> None:
    """Add a repository to a collection of its owner, which is made if it does not exist."""
    made = api.create_collection(title, namespace=repo_id.split("/")[0], private=private, exists_ok=True)
    api.add_collection_item(made.slug, repo_id, kind, note=note, exists_ok=True)


@contextmanager
def said_in_one_sentence(repo_id: str, api: HfApi, state: str = WHOLE) -> Iterator[None]:
    """Turn what the client raises into one sentence that says what to do, and in which state a repository is then."""
    try:
        yield
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
    except LOST as error:
        # threads that upload raise another error from the client's
        cause = error if isinstance(error, errors.HfHubHTTPError) else error.__cause__ or error
        if isinstance(cause, errors.HfHubHTTPError):
            said = _refusal(repo_id, api, cause, state)
        elif isinstance(error, (ValueError, KeyError)) and not isinstance(error, CLIENT_ERROR):
            reason = " ".join(str(error).split())[:300].rstrip(".")
            said = f"{api.endpoint} did not accept {repo_id}, which {state}: {reason}."
        else:
            failed = f"the connection to {api.endpoint} failed ({type(cause).__name__})"
            older = "" if constants.HF_HUB_DISABLE_XET else f" ({NEEDS_OLDER})"
            said = f"{failed} and {repo_id} {state}: rerun the command{older}."
        raise HfLongSeqError(said) from error


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
