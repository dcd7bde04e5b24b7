# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`publish`: a finished run becomes a repository on the Hub, after it was built and checked offline.

The folder is made of what belongs into it, not of what the run folder holds: model and configuration are saved anew
with their code, records are cleaned, nothing else is copied. It goes up in a single commit, so that a repository holds
a whole model or none, and publishing again changes what has changed.
"""

import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, get_token, snapshot_download
from safetensors.torch import load_file
from transformers import PreTrainedModel
from transformers.utils import SAFE_WEIGHTS_NAME

from hf_longseq import models
from hf_longseq.errors import HfLongSeqError
from hf_longseq.hub import pictures, records
from hf_longseq.hub.check import check_folder
from hf_longseq.hub.model_card import eval_results_file, head_of, render_card
from hf_longseq.hub.model_files import save_model, save_processor
from hf_longseq.hub.records import Converted, Run
from hf_longseq.hub.repository import (
    CODE,
    CODE_AND_WEIGHTS,
    Repository,
    add_to_collection,
    check_name,
    said_in_one_sentence,
    sign_in,
)
from hf_longseq.hub.snippets import Snippets, printed, real_example, snippets
from hf_longseq.training import run_folder
from hf_longseq.training.untrusted import open_model


@dataclass(frozen=True)
class Publication:
    """What was published, or would be: no url and commit after a dry run; `usage` is Python that loads it."""

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


def publish(
    run: str | os.PathLike,
    repo_id: str,
    *,
    private: bool = False,
    revision: str | None = None,
    dry_run: bool = False,
    output_dir: str | os.PathLike | None = None,
    collection: str | None = None,
    license: str = "apache-2.0",
    token: str | None = None,
) -> Publication:
    """Build, check and upload a finished run, or a checkpoint that `convert` made.

    Args:
        run: Folder of a run of `pretrain` or `finetune`, or of a conversion.
        repo_id: "name" or "organisation/name".
        private: Make a new repository private; one that exists keeps its visibility.
        revision: Branch to publish on, made if it does not exist.
        dry_run: Build and check, upload nothing.
        output_dir: Keep the built folder here; must not exist, or be an earlier build.
        collection: Title of a collection to add the repository to, made if it does not exist.
        license: Licence of the weights.
        token: Access token; by default the one of `hf auth login` or HF_TOKEN.

    Raises:
        HfLongSeqError: If the run, the name, the token or the server does not allow it; the repository is unchanged.
    """
    with records.fit_together(Path(run)):
        finished = records.read_converted(run) or records.read_run(run)
    place = Destination.of(repo_id, token, private=private, revision=revision, dry_run=dry_run, output_dir=output_dir)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / repo_id.split("/")[-1]
        source, code = build_folder(finished, folder, place.name, license)
        check_folder(folder, source, place.name, code.here(place.name, folder))
        what = "converted" if isinstance(finished, Converted) else finished.settings["data"]["task"]
        usage = _usage(place.name, head_of(source.config), revision)
        refuse = functools.partial(place.refuse_other_architecture, source.config.model_type)
        done = place.take(folder, f"Publish {what} model", usage, refuse)
    if collection is not None and not dry_run:
        state = f"was not made; {done.url} is published"
        with said_in_one_sentence(f"the collection {collection!r}", place.api, state):
            add_to_collection(place.api, collection, place.name, private)
    return done


@dataclass(kw_only=True)
class Destination(Repository):
    """A repository, and what is asked of it; the fields are those of `publish`."""

    private: bool
    dry_run: bool
    output_dir: str | os.PathLike | None

    @classmethod
    def of(cls, repo_id: str, token: str | None, **options: Any) -> "Destination":
        """Raise for a name, token or `output_dir` that will not do, before anything is built."""
        check_name(repo_id)
        kept = options["output_dir"] and Path(options["output_dir"])
        if kept and (kept.is_file() or (kept.is_dir() and any(kept.iterdir()) and not (kept / "README.md").is_file())):
            raise HfLongSeqError(f"output_dir {kept} holds files that no build made: choose a new folder.")
        api = HfApi(token=token)
        owner = None if options["dry_run"] else sign_in(api)
        return cls(api, repo_id if "/" in repo_id or owner is None else f"{owner}/{repo_id}", **options)

    def take(
        self,
        folder: Path,
        message: str,
        usage: str,
        refuse: Callable[[list[str]], None] = lambda present: None,
        stale: Sequence[str] = CODE_AND_WEIGHTS,
    ) -> Publication:
        """Commit a built folder in one piece, unless it holds secrets or `refuse` raises for the files there."""
        records.refuse_secrets(folder, tuple(filter(None, (self.api.token, get_token()))))
        files = tuple(sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()))
        if self.output_dir is not None:
            run_folder.replace_folder(self.output_dir, lambda new: shutil.copytree(folder, new, dirs_exist_ok=True))
        if self.dry_run:
            return Publication(self.name, None, None, files, usage)
        with said_in_one_sentence(self.name, self.api):
            url = self.make(self.private)
            if self.revision is not None:
                self.make_branch()
            refuse(self.files())
            commit = self.upload(folder, message, stale)
        return Publication(self.name, url, commit, files, usage)


def refresh_code(
    repo_id: str, *, revision: str | None = None, dry_run: bool = False, token: str | None = None
) -> Publication:
    """Replace the model code of a published repository by that of this package, after checking that it still opens.

    The arguments are those of `publish`; with `dry_run` it is only checked.
    """
    place = Destination.of(repo_id, token, private=False, revision=revision, dry_run=False, output_dir=None)
    full_name = place.name
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "repository"
        with said_in_one_sentence(full_name, place.api):
            snapshot_download(
                full_name,
                revision=revision,
                local_dir=folder,
                token=token,
                allow_patterns=["*.json", "*.safetensors"],
                ignore_patterns=["*/*"],
            )
        source, fresh = _open(folder, full_name), Path(scratch) / "fresh"
        save_model(source, fresh)
        save_processor(folder, fresh)
        check_folder(fresh, source, full_name)
        for path in fresh.iterdir():
            if path.suffix != ".py" and path.name != "config.json":
                path.unlink()
        usage = _usage(full_name, head_of(source.config), revision)
        return replace(place, dry_run=dry_run).take(fresh, "Refresh the model code", usage, stale=CODE)


def build_folder(run: Run | Converted, folder: Path, repo_id: str, license: str) -> tuple[Any, Snippets]:
    """Fill a new folder with everything that is published; returns the model, and the code that its card shows.

    Every file is written anew from what this package knows of it.
    """
    folder.mkdir(parents=True)
    source = _open(run.folder, str(run.folder))
    head = head_of(source.config)
    if isinstance(run, Converted):
        # a converted file may hold the tensors of a second head
        weights = run.folder / SAFE_WEIGHTS_NAME
        save_model(source, folder, load_file(weights) if weights.is_file() else None)
    else:
        save_model(source, folder)
    save_processor(run.folder, folder)
    with records.fit_together(run.folder):
        if isinstance(run, Converted):
            run_folder.write_json(folder / records.CONVERSION, run.record)
            has_classifier = run.record.get("classifier") is True
            code = snippets(source.config, head, repo_id, folder, classifier=has_classifier)
            drawn = pictures.draw(None, source, folder)
            size = source.num_parameters()
            card = render_card(run, source.config, repo_id, license, drawn, code, num_parameters=size)
        else:
            task, given = run.settings["data"]["task"], run.settings["data"]
            example, label = real_example(task, given, folder)
            code = snippets(source.config, head, repo_id, folder, task, example)
            answer = printed(code, repo_id, folder) if code.pipeline and example else ""
            _write_records(run, folder)
            drawn = pictures.draw(run, source, folder)
            card = render_card(run, source.config, repo_id, license, drawn, code, answer, label)
    run_folder.write_whole(folder / "README.md", str(card))
    for path in folder.rglob("*"):
        path.chmod(0o644 if path.is_file() else 0o755)  # safetensors come out readable by their owner alone
    return source, code


def _write_records(run: Run, folder: Path) -> None:
    run_folder.write_yaml(folder / run_folder.RESOLVED, run.settings)
    if run.pretraining is not None:
        run_folder.write_yaml(folder / "pretraining.yaml", run.pretraining)
    run_folder.write_json(folder / run_folder.METRICS, run.metrics)
    run_folder.write_json(folder / run_folder.ENVIRONMENT, run.environment)
    for name, content in eval_results_file(run).items():
        (folder / name).parent.mkdir(exist_ok=True)
        run_folder.write_yaml(folder / name, content)


def _open(folder: Path, name: str):
    """The model of a folder under the head it was saved with, by this package's code."""
    held = run_folder.read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
    held = held if isinstance(held, dict) else {}
    own = [config_class for config_class, _ in models.ARCHITECTURES.values()]
    known = [config_class.model_type for config_class in (*own, models.AdapterConfig)]
    named = held.get("architectures")
    saved = getattr(models, str(named[0]), None) if isinstance(named, list) and named else None
    ours = isinstance(saved, type) and issubclass(saved, PreTrainedModel)
    if not ours or held.get("model_type") not in known:
        raise HfLongSeqError(
            f"{name} holds a model of type {held.get('model_type')!r}, which is none of this package's architectures: "
            "give another run or repository, or use push_to_hub of the model itself."
        )
    return open_model(saved, folder, dtype="float32")


def _usage(repo_id: str, head: str, revision: str | None) -> str:
    pinned = f', revision="{revision}"' if revision else ""
    return "\n".join(
        [
            f"from transformers import AutoModel{head}",
            f'model = AutoModel{head}.from_pretrained("{repo_id}"{pinned}, trust_remote_code=True)',
            "model.eval()",
        ]
    )
