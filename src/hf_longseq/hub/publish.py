# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`publish`: a finished run becomes a repository on the Hub, after it was built and checked offline.

Model and configuration are saved anew with their code, and records are cleaned; nothing else goes up. A single commit
makes a repository hold a whole model or none. Publishing again changes only what differs. `publish_comparison` does so
with the best model of every arm, then with the page that links them, then makes the collection.
"""

import functools
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from safetensors.torch import load_file
from transformers.utils import SAFE_WEIGHTS_NAME

from hf_longseq import models
from hf_longseq.comparison.arms import is_baseline
from hf_longseq.comparison.plan import slug
from hf_longseq.comparison.results import RESULTS, Collected
from hf_longseq.comparison.scores import files_of, read_results
from hf_longseq.comparison.statistics import arm_means
from hf_longseq.comparison.write import write_report
from hf_longseq.errors import MALFORMED, HfLongSeqError, explained
from hf_longseq.escaping import markdown, without_paths
from hf_longseq.hub import pictures, records
from hf_longseq.hub.check import check_folder
from hf_longseq.hub.model_card import Snippets, eval_results_file, head_of, real_example, render_card, snippets
from hf_longseq.hub.model_files import save_model, save_processor
from hf_longseq.hub.records import Converted, Run
from hf_longseq.hub.repository import WHOLE, Publication, Repository, add_to_collection, said_in_one_sentence
from hf_longseq.models.modeling_longseq import LongSeqPreTrainedModel
from hf_longseq.training import run_folder
from hf_longseq.training.untrusted import open_model


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
    place = Repository.of(repo_id, token, private=private, revision=revision, dry_run=dry_run, output_dir=output_dir)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / repo_id.split("/")[-1]
        source, code = build_folder(finished, folder, place.name, license)
        check_folder(folder, source, place.name, code.here(place.name, folder))
        what = "converted" if isinstance(finished, Converted) else finished.settings["data"]["task"]
        usage = _usage(place.name, head_of(source.config), revision)
        refuse = functools.partial(_refuse_other_architecture, place, source.config.model_type)
        done = place.take(folder, f"Publish {what} model", usage, refuse)
    if collection is not None and not dry_run:
        with said_in_one_sentence(f"the collection {collection!r} was not made; {done.url} is published"):
            add_to_collection(place.api, collection, place.name, private)
    return done


def _refuse_other_architecture(place: Repository, model_type: str, present: list[str]) -> None:
    """Raise if a repository holds a model of another architecture."""
    held = run_folder.read_json(place.download("config.json")).get("model_type") if "config.json" in present else None
    if held not in (None, model_type):
        raise HfLongSeqError(
            f"{place.name} holds a {held} model, but the run is a {model_type} model: choose another repo_id, or a "
            "--revision of its own."
        )


def build_folder(run: Run | Converted, folder: Path, repo_id: str, license: str) -> tuple[Any, Snippets]:
    """Fill a new folder with every published file, written anew; returns the model and the code of its card."""
    folder.mkdir(parents=True)
    source = _open(run.folder)
    head = head_of(source.config)
    label, answer, weights = None, "", run.folder / SAFE_WEIGHTS_NAME
    # a converted file may hold the tensors of a second head
    save_model(source, folder, load_file(weights) if isinstance(run, Converted) and weights.is_file() else None)
    save_processor(run.folder, folder)
    with records.fit_together(run.folder):
        if isinstance(run, Converted):
            run_folder.write_json(folder / records.CONVERSION, run.record)
            has_classifier = run.record.get("classifier") is True
            code = snippets(source.config, head, repo_id, folder, classifier=has_classifier)
        else:
            task = run.settings["data"]["task"]
            example, label = real_example(task, run.settings["data"], folder)
            code = snippets(source.config, head, repo_id, folder, task, example)
            answer = code.printed(repo_id, folder) if code.pipeline and example else ""
            _write_records(run, folder)
        drawn = pictures.draw(run if isinstance(run, Run) else None, source, folder)
        card = render_card(run, source, repo_id, license, drawn, code, answer, label)
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


def _open(folder: Path) -> LongSeqPreTrainedModel:
    """The model of a folder under the head it was saved with, by this package's code."""
    with explained(f"{folder} holds no model", *MALFORMED, remedy="give another run"):
        held = run_folder.read_json(folder / "config.json")
        saved = getattr(models, str(held["architectures"][0]), None)
    config_class = isinstance(saved, type) and issubclass(saved, LongSeqPreTrainedModel) and saved.config_class
    if not config_class or held.get("model_type") != config_class.model_type:
        raise HfLongSeqError(
            f"{folder} holds a model of type {held.get('model_type')!r}, which is none of this package's "
            "architectures: give another run, or use push_to_hub of the model itself."
        )
    return open_model(saved, folder, dtype="float32")


def _usage(repo_id: str, head: str, revision: str | None) -> str:
    pinned = f', revision="{revision}"' if revision else ""
    return (
        f"from transformers import AutoModel{head}\n"
        f'model = AutoModel{head}.from_pretrained("{repo_id}"{pinned}, trust_remote_code=True)\n'
        "model.eval()"
    )


def publish_comparison(
    comparison: str | os.PathLike,
    repo_id: str,
    collection: str,
    *,
    private: bool = False,
    dry_run: bool = False,
    output_dir: str | os.PathLike | None = None,
    license: str = "apache-2.0",
    token: str | None = None,
) -> list[Publication]:
    """Publish the best run of every arm, by validation, a page with the report, and a collection of them.

    Args:
        comparison: Output folder of a finished `compare` or `spt`.
        repo_id: The page; the models are `repo_id-ARCH-ARM`.
        collection: Title of the collection, made if it does not exist.
        private, dry_run, license, token: As for `publish`.
        output_dir: Keep the built folders in this one.

    Returns:
        The models, and the page as the last.

    Raises:
        HfLongSeqError: As for `publish`; and if the comparison is not finished, or `repo_id` holds something else.
    """
    folder = Path(comparison)
    if not (folder / RESULTS).is_file():
        raise HfLongSeqError(f"{folder} holds no {RESULTS}: let the comparison end first.")
    scores, found = read_results([str(folder)]).scores, files_of(folder)

    def place(name: str) -> Path | None:
        return None if output_dir is None else Path(output_dir) / name

    options: dict[str, Any] = {"private": private, "dry_run": dry_run}
    there = Repository.of(repo_id, token, output_dir=place("page"), kind="dataset", **options)
    api, page = there.api, there.name
    with records.fit_together(folder):
        arms = _arms(found.results, scores, page)
        if not dry_run:
            with said_in_one_sentence(f"{page} {WHOLE}"):
                held = there.files() if api.repo_exists(page, repo_type="dataset") else []
            if set(held) - {".gitattributes"} and not {RESULTS, "README.md"} <= set(held):
                raise HfLongSeqError(f"{page} holds files that are of no comparison: choose another repo_id.")
        done = [
            publish(folder / run, name, output_dir=place(name.split("/")[-1]), license=license, token=token, **options)
            for name, (run, _) in arms.items()
        ]
        with tempfile.TemporaryDirectory() as scratch:
            built = Path(scratch) / "page"
            _build_page(folder, found, arms, built, license)
            done.append(there.take(built, "Publish a comparison", "", stale=("figures/*",)))
        if not dry_run:
            with said_in_one_sentence(f"the collection {collection!r} was not completed; {done[-1].url} is published"):
                add_to_collection(api, collection, page, private, "dataset", "The table and the figures")
                for name, (_, note) in arms.items():
                    add_to_collection(api, collection, name, private, note=note)
    return done


def _arms(results: dict[str, Any], scores: pd.DataFrame, page: str) -> dict[str, tuple[str, str]]:
    """Of each arm the repository, its best run by validation, and its note in the collection."""
    if results["unfinished"] or not len(scores):
        raise HfLongSeqError("the comparison is unfinished: give its command again, and publish it then.")
    metric, arms = results["metric"], {}
    for row in arm_means(scores[~scores["architecture"].map(is_baseline)]).to_dict("records"):
        sign = 1 if row["greater_is_better"] else -1
        best = max(range(row["n"]), key=lambda place: sign * row["validations"][place])
        fraction = [f"f{row['fraction']:g}"] if scores["fraction"].nunique() > 1 else []
        words = "-".join([row["architecture"], row["arm"], *fraction])
        name = f"{page}-{re.sub('-+', '-', slug(words).replace('.', '-'))}"[:96].rstrip("-")
        if name in arms or not re.fullmatch(r"runs/[\w.@=+-]+", row["runs"][best]):
            raise HfLongSeqError(f"two arms would be called {name}, or a run lies elsewhere: publish them one by one.")
        note = f"test {metric} {row['mean']:.4g}, {row['n']} seeds, {row['labels']:,} labels"
        arms[name] = (row["runs"][best], note)
    return arms


def _build_page(folder: Path, found: Collected, arms: dict[str, tuple[str, str]], built: Path, license: str):
    about = {"license": license, "tags": ["hf-longseq", "self-pretraining"], "viewer": False}
    best = [f"- [{name}](https://huggingface.co/{name}): {markdown(note)}" for name, (_, note) in arms.items()]
    # written anew: `report/` may be anybody's
    report = write_report([folder], built)
    page = (built / "report.md").read_text(encoding="utf-8")
    for name in report.files:
        if not name.startswith("figures/"):
            (built / name).unlink()
    lines = ["---", yaml.safe_dump(about).strip(), "---", "", page.split("## Where the numbers come from")[0]]
    lines += ["## Models", "", "The best run of every arm, by validation:", "", *best, ""]
    run_folder.write_whole(built / "README.md", "\n".join(lines))
    found._replace(results=without_paths(found.results)).write(built)
