# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`publish --collection` of a whole comparison: the best model of every arm, and a page with its table and figures.

Each model goes up into a repository, then the page that links them, a data set with `scores.csv`, then the collection.
A rerun of the command resumes: unchanged folders make no commit.
"""

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from hf_longseq.comparison.arms import is_baseline
from hf_longseq.comparison.plan import slug
from hf_longseq.comparison.results import RESULTS
from hf_longseq.comparison.scores import files_of, read_results
from hf_longseq.comparison.statistics import arm_means
from hf_longseq.comparison.write import write_report
from hf_longseq.errors import HfLongSeqError
from hf_longseq.escaping import markdown, without_paths
from hf_longseq.hub.publish import publish
from hf_longseq.hub.records import fit_together
from hf_longseq.hub.repository import WHOLE, Publication, Repository, add_to_collection, said_in_one_sentence
from hf_longseq.training import run_folder


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
    results, scores = run_folder.read_json(folder / RESULTS), read_results([str(folder)]).scores

    def place(name: str) -> Path | None:
        return None if output_dir is None else Path(output_dir) / name

    options: dict[str, Any] = {"private": private, "dry_run": dry_run}
    there = Repository.of(repo_id, token, output_dir=place("page"), kind="dataset", **options)
    api, page = there.api, there.name
    with fit_together(folder):
        arms = _arms(results, scores, page)
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
            _build_page(folder, results, arms, built, license)
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


def _build_page(folder: Path, results: dict[str, Any], arms: dict[str, tuple[str, str]], built: Path, license: str):
    built.mkdir()
    about = {"license": license, "tags": ["hf-longseq", "self-pretraining"], "viewer": False}
    models = [f"- [{name}](https://huggingface.co/{name}): {markdown(note)}" for name, (_, note) in arms.items()]
    # written anew: `report/` may be anybody's
    report = write_report([folder], built / "report")
    page = (built / "report" / "report.md").read_text(encoding="utf-8")
    for name in report.files:
        if name.startswith("figures/"):
            (built / name).parent.mkdir(exist_ok=True)
            (built / "report" / name).rename(built / name)
    shutil.rmtree(built / "report")
    lines = ["---", yaml.safe_dump(about).strip(), "---", "", page.split("## Where the numbers come from")[0]]
    lines += ["## Models", "", "The best run of every arm, by validation:", "", *models, ""]
    run_folder.write_whole(built / "README.md", "\n".join(lines))
    files_of(folder)._replace(results=without_paths(results)).write(built)
