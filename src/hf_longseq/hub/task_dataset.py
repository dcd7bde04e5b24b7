# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`tasks publish`: a task becomes a data set on the Hub, with a card and the registration of a benchmark.

The folder is written, read back hash for hash, and then goes up in a single commit. `data/published.py` has the format
of its files and reads them for `load_task`.
"""

import inspect
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from datasets import Dataset, DatasetDict, DatasetInfo, Features
from datasets.info import DatasetInfosDict
from huggingface_hub import DatasetCardData

from hf_longseq.data import genomes, published
from hf_longseq.data.task import TASKS, TaskSpec, describe_task, load_task
from hf_longseq.data.task_spec import EMBEDDED
from hf_longseq.errors import HfLongSeqError
from hf_longseq.escaping import render
from hf_longseq.hub.repository import Publication, Repository
from hf_longseq.training import run_folder
from hf_longseq.training.assemble import all_labels
from hf_longseq.training.sampling import sequence_lengths
from hf_longseq.version import __version__

TEMPLATE = Path(__file__).parent / "templates" / "task_card.md.jinja"
SHARD_BYTES = 256 << 20
# Beginnings of `TaskSpec.license`, and the Hub's names; other licences forbid passing data on.
LICENSES = {
    "Apache-2.0": "apache-2.0",
    "CC BY 3.0": "cc-by-3.0",
    "CC BY 4.0": "cc-by-4.0",
    "CC BY-SA 3.0": "cc-by-sa-3.0",
    "GPL-2": "gpl-2.0",
    "ODC-By 1.0": "odc-by",
    "none needed": "other",
}


def publish_task(
    name: str,
    repo_id: str,
    *,
    options: dict[str, Any] | None = None,
    private: bool = False,
    revision: str | None = None,
    dry_run: bool = False,
    output_dir: str | os.PathLike | None = None,
    token: str | None = None,
) -> Publication:
    """Write, check and upload a task as a data set.

    Args:
        name: The task, a key of `TASKS`.
        repo_id: "name" or "organisation/name".
        options: Options of the task's loader; its defaults otherwise.
        private, revision, dry_run, output_dir, token: As for `publish`.

    Raises:
        HfLongSeqError: If the licence, the name, the token, what the repository holds or the server does not allow
            it; the repository is unchanged.
    """
    if name == "own-data":
        raise HfLongSeqError("own-data is what you brought: publish it with `push_to_hub` of the library datasets.")
    if name in TASKS and (described := describe_task(name)) is not None:
        check_license(described)
    place = Repository.of(
        repo_id, token, private=private, revision=revision, dry_run=dry_run, output_dir=output_dir, kind="dataset"
    )
    splits, spec = load_task(name, **(options or {}))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "task"
        record = build_task_folder(name, splits, spec, options or {}, folder, place.name)
        done = place.take(
            folder,
            f"Publish {name} task",
            usage(name, place.name, revision),
            lambda present: refuse_other_content(place, record, present),
            stale=("data/*.parquet",),
        )
    return done if dry_run else replace(done, usage=usage(name, place.name, done.commit))


def check_license(spec: TaskSpec) -> str:
    """The Hub's name of a task's licence; raise if its data may not be passed on."""
    found = next((hub_name for begin, hub_name in LICENSES.items() if spec.license.startswith(begin)), None)
    if found is None:
        allowed = ", ".join(name for name, entry in TASKS.items() if entry.source in ("generated", "embedded"))
        raise HfLongSeqError(
            f"task {spec.name!r} may not be published, for its licence ({spec.license or 'none is stated'}) gives no "
            f"right to pass the data on: publish one of {allowed}."
        )
    return found


def build_task_folder(
    name: str, splits: DatasetDict, spec: TaskSpec, options: dict[str, Any], folder: Path, repo_id: str
) -> dict[str, Any]:
    """Fill a new folder with every published file, and read it back; returns the content of `task.json`."""
    defaults = {key: parameter.default for key, parameter in TASKS[name].parameters.items()}
    given = {**defaults, **TASKS[name].options, **options}
    record = published.make_record(name, spec, given, splits)
    for split, rows in splits.items():
        write_split(split, rows, spec, folder / "data")
    run_folder.write_json(folder / published.TASK_FILE, record)
    description = f"{TASKS[name].summary}. Metric: {spec.metric}, on the test split."
    tasks = [{"id": name, "config": "default", "split": "test"}]
    benchmark = {"name": f"{name} (long sequences)", "description": description}
    run_folder.write_yaml(folder / "eval.yaml", {**benchmark, "evaluation_framework": "hf-longseq", "tasks": tasks})
    version = getattr(inspect.getmodule(TASKS[name].function), "VERSION", None)
    generator = {"version": version, "seed": given.get("seed")}
    run_folder.write_whole(folder / "README.md", task_card(name, splits, spec, record, generator, repo_id))
    for _ in published.read_files(folder, published.read_record(folder / published.TASK_FILE, str(folder)), repo_id):
        pass  # raises where a hash differs
    return record


def write_split(split: str, rows: Dataset, spec: TaskSpec, folder: Path) -> None:
    """Write a split as parquet files that carry the features, each a multiple of `BATCH` rows."""
    folder.mkdir(parents=True, exist_ok=True)
    per_file = max(SHARD_BYTES * len(rows) // max(rows.data.nbytes, 1) // published.BATCH, 1) * published.BATCH
    starts = range(0, len(rows), per_file)
    schema = published.published_features(rows.features, spec).arrow_schema
    for number, start in enumerate(starts):
        path = folder / f"{split}-{number:05d}-of-{len(starts):05d}.parquet"
        part = rows.select(range(start, min(start + per_file, len(rows)))).with_format("arrow")
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for table in part.iter(batch_size=published.BATCH):
                writer.write_table(published.to_published(table, rows.features, spec))


def task_card(
    name: str, splits: DatasetDict, spec: TaskSpec, record: dict[str, Any], generator: dict[str, Any], repo_id: str
) -> str:
    """The card: metadata for the Hub, origin, licence, generator, options, hashes and statistics."""
    license = check_license(spec)
    category = task_category(splits["train"].features, spec)
    configs = {"default": [split for split in splits if split != "unlabelled"]}
    if "unlabelled" in splits:  # it has other columns
        configs["unlabelled"] = ["unlabelled"]
    data = DatasetCardData(
        license=license,
        license_name="no-restriction" if license == "other" else None,
        task_categories=[category] if category else None,
        tags=["hf-longseq", "long-sequences", "benchmark"],
        pretty_name=name,
        configs=[
            {"config_name": name, "data_files": [{"split": split, "path": f"data/{split}-*"} for split in held]}
            for name, held in configs.items()
        ],
    )
    info = DatasetInfo(features=published.published_features(splits["train"].features, spec), config_name="default")
    DatasetInfosDict({"default": info}).to_dataset_card_data(data)
    return render(
        TEMPLATE,
        card_data=data.to_yaml(),
        repo_id=repo_id,
        task=name,
        summary=TASKS[name].summary,
        spec=spec,
        kind=TASKS[name].source,
        origin=embedded_origin(name) if TASKS[name].source == "embedded" else "",
        generator=generator,
        version=__version__,
        options={key: value for key, value in record["options"].items() if value is not None},
        fingerprint=published.fingerprint_of(record),
        hashes={split: stated["sha256"] for split, stated in record["splits"].items()},
        statistics={split: statistics(rows, spec) for split, rows in splits.items()},
        usage=usage(name, repo_id, None),
    )


def embedded_origin(name: str) -> str:
    """Origin, licence and changes of data that travel with the package."""
    own = EMBEDDED / f"{name}.md"
    text = (own if own.exists() else genomes.EMBEDDED_FILE.with_suffix(".md")).read_text(encoding="utf-8")
    return text.split("\n", 2)[2]  # without the heading


def task_category(features: Features, spec: TaskSpec) -> str | None:
    """The Hub's name of the problem; None without one."""
    if spec.problem_type != "single_label_classification":
        return None
    if spec.per_position:
        return "token-classification" if spec.modality == "tokens" else None
    kind = published.media_kind(features, spec) or "text"
    return f"{kind}-classification" if kind != "text" or spec.modality == "tokens" else None


def statistics(rows: Dataset, spec: TaskSpec) -> dict[str, Any]:
    """Number of examples, steps (fewest, median, most), and how often each class occurs."""
    steps = [int(number) for number in np.quantile(sequence_lengths(rows), (0, 0.5, 1), method="nearest")]
    counts = {}
    if "labels" in rows.column_names and spec.problem_type == "single_label_classification":
        labels = all_labels(rows)
        found = np.bincount(labels[labels >= 0].astype(np.int64), minlength=len(spec.labels))
        counts = dict(zip(spec.labels, found.tolist(), strict=True))
    return {"examples": len(rows), "steps": steps, "labels": counts}


def refuse_other_content(place: Repository, record: dict[str, Any], present: list[str]) -> None:
    """Raise if the repository holds anything but this task with these rows."""
    others = [name for name in present if name not in (".gitattributes", "README.md")]
    if not others:
        return
    remedy = "choose another repo_id, or a --revision of its own"
    if published.TASK_FILE not in present:
        raise HfLongSeqError(f"{place.name} holds {others[0]!r}, which is of no published task: {remedy}.")
    held = published.read_record(place.download(published.TASK_FILE), place.name)
    if (held["task"], held["splits"]) != (record["task"], record["splits"]):
        raise HfLongSeqError(
            f"{place.name} holds {held['task']} with other rows (fingerprint {published.fingerprint_of(held)}, not "
            f"{published.fingerprint_of(record)}): {remedy}."
        )


def usage(name: str, repo_id: str, revision: str | None) -> str:
    """Two lines of Python that load the task from the Hub."""
    pinned = f"@{revision}" if revision else ""
    call = f'load_task("{name}", source="hub:{repo_id}{pinned}")'
    return f"from hf_longseq import load_task\nsplits, spec = {call}"
