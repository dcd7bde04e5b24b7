# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Tasks that lie on the Hub as data sets: how their rows are written there, and read back with the same content.

`hub/task_dataset.py` publishes them. A repository holds `data/<split>-00000-of-00004.parquet` and `task.json`: the
`TaskSpec`, the options of the loader, and the hash of every split. Pictures stand in a column `image` (PNG), sounds in
a column `audio` (WAV), both without loss; all other columns are as the task has them. Nothing in a repository is run.
"""

import dataclasses
import hashlib
import io
import json
import re
import typing
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from datasets import Audio, ClassLabel, DatasetDict, Features, Image, List, Value
from datasets.arrow_writer import TypedSequence
from datasets.table import array_cast
from huggingface_hub import constants
from huggingface_hub.dataclasses import validate_typed_dict
from huggingface_hub.errors import StrictDataclassError
from scipy.io import wavfile

from hf_longseq.data.cache import load_converted
from hf_longseq.data.own_reader import pillow
from hf_longseq.data.parquet_source import download, read_batches
from hf_longseq.data.row_hashes import BATCH, INPUTS, add_to, content_hash
from hf_longseq.data.task_spec import TaskSpec
from hf_longseq.errors import MALFORMED, HfLongSeqError, explained

TASK_FILE = "task.json"
FORMAT = 1
SOURCE = re.compile(r"hub:(?P<repo>[\w.-]+/[\w.-]+)(@(?P<revision>\S+))?")
# Options that say where and how data are made, and nothing of what they are.
WAYS = ("num_workers", "cache_dir")


def media_kind(features: Features, spec: TaskSpec) -> str | None:
    """ "image" for pictures, "audio" for sounds of one channel, else None."""
    kind = features[next(name for name in INPUTS if name in features)]
    dtype = getattr(getattr(kind, "feature", kind), "dtype", None)
    if spec.image_shape is not None and dtype == "uint8":
        return "image"
    return "audio" if spec.sampling_rate is not None and dtype in ("uint8", "float32") and type(kind) is List else None


def published_features(features: Features, spec: TaskSpec) -> Features:
    """Columns of the published files for those of a task."""
    media = media_kind(features, spec)
    kinds = {}
    for name, kind in features.items():
        if name in INPUTS and media:
            kinds[media] = Image() if media == "image" else Audio(sampling_rate=spec.sampling_rate)
        elif name == "labels" and spec.per_position and kind == List(Value("int16")):
            kinds[name] = List(ClassLabel(names=list(spec.labels)))
        else:
            kinds[name] = kind
    return Features(kinds)


def to_published(table: pa.Table, features: Features, spec: TaskSpec) -> pa.Table:
    """Rows of a task as the published files have them."""
    media, there = media_kind(features, spec), published_features(features, spec)
    columns = []
    for name in features:
        column = table[name].combine_chunks()
        if name in INPUTS and media:
            files = [{"bytes": _encode(row, spec), "path": None} for row in column.to_numpy(zero_copy_only=False)]
            columns.append(pa.array(files, there.arrow_schema.field(media).type))
        else:
            columns.append(column.cast(there.arrow_schema.field(name).type))
    return pa.table(columns, schema=there.arrow_schema)


def from_published(batch: pa.RecordBatch, features: Features, spec: TaskSpec) -> pa.Table:
    """Rows of a task from rows of the published files."""
    media, types = media_kind(features, spec), features.arrow_schema
    columns = {}
    for name, kind in features.items():
        if name in INPUTS and media:
            rows = [_decode(file["bytes"], spec) for file in batch[media].to_pylist()]
            columns[name] = pa.array(TypedSequence(rows, type=kind))
        else:
            columns[name] = array_cast(batch[name], types.field(name).type)
    return pa.table(columns, schema=types)


def _encode(row: np.ndarray, spec: TaskSpec) -> bytes:
    """A sequence as a PNG or WAV file."""
    target = io.BytesIO()
    if spec.image_shape is None:
        wavfile.write(target, spec.sampling_rate, row)
    else:
        pillow().fromarray(row.reshape(*spec.image_shape, *row.shape[1:])).save(target, "PNG")
    return target.getvalue()


def _decode(content: bytes, spec: TaskSpec) -> np.ndarray:
    """The sequence in anybody's PNG or WAV file."""
    if spec.image_shape is None:
        rate, samples = wavfile.read(io.BytesIO(content))
        if rate != spec.sampling_rate or samples.ndim != 1:
            raise ValueError(f"a sound of {rate} Hz with shape {samples.shape}")
        return samples
    with pillow().open(io.BytesIO(content), formats=("PNG",)) as picture:
        if picture.size != spec.image_shape[::-1]:
            raise ValueError(f"a picture of {picture.size} pixels")
        pixels = np.asarray(picture)
    return pixels.reshape(-1, *pixels.shape[2:])


def read_files(folder: Path, record: dict[str, Any], where: str) -> Iterator[tuple[str, pa.Table]]:
    """Rows of a published task from a repository's files, split by split, as `load_converted` takes them.

    Rows that are not those of which the `record` (its `task.json`) holds the hash raise at the end of their split, so
    that a caller keeps nothing before the last. `where` is what messages call the repository.
    """
    spec, every = record["spec"], record["features"]
    for split, stated in record["splits"].items():
        files = sorted((folder / "data").glob(f"{split}-*.parquet"))
        features = Features({name: kind for name, kind in every.items() if name != "labels" or split != "unlabelled"})
        digest, rows = hashlib.sha256(), 0
        for batch in read_batches(files, list(published_features(features, spec)), BATCH):
            kinds = (OSError, ValueError, TypeError, KeyError, SyntaxError)  # of Pillow, scipy and pyarrow
            other = f"{where} has rows in {split} that are none of {spec.name}"
            with explained(other, *kinds, remedy="name another revision"):
                table = from_published(batch, features, spec)
            add_to(digest, table)
            rows += len(table)
            yield split, table
        if (rows, digest.hexdigest()) != (stated["num_examples"], stated["sha256"]):
            raise HfLongSeqError(
                f"{where} has other rows in {split} ({rows}, SHA-256 {digest.hexdigest()[:12]}) than its {TASK_FILE} "
                f"states ({stated['num_examples']}, {stated['sha256'][:12]}): name the revision that was published."
            )


def make_record(name: str, spec: TaskSpec, options: dict[str, Any], splits: DatasetDict) -> dict[str, Any]:
    """The content of `task.json`."""
    plain = json.loads(json.dumps({key: value for key, value in options.items() if key not in (*WAYS, "data_dir")}))
    return {
        "format": FORMAT,
        "task": name,
        "spec": json.loads(json.dumps(dataclasses.asdict(spec))),
        "options": plain,
        "features": splits["train"].features.to_dict(),
        "splits": {s: {"num_examples": len(rows), "sha256": content_hash(rows)} for s, rows in splits.items()},
    }


def fingerprint_of(record: dict[str, Any]) -> str:
    """One hash for all splits of a `task.json`."""
    splits = {name: stated["sha256"] for name, stated in record["splits"].items()}
    return hashlib.sha256(json.dumps(splits, sort_keys=True).encode()).hexdigest()[:16]


class _Split(typing.TypedDict):
    num_examples: int
    sha256: str


class _Record(typing.TypedDict):
    format: int
    task: str
    spec: dict
    options: dict
    features: dict
    splits: dict[str, dict]


def read_record(path: Path, where: str) -> dict[str, Any]:
    """Read and check anybody's `task.json`; `spec` and `features` become objects."""
    kinds = typing.get_type_hints(TaskSpec)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        validate_typed_dict(_Record, record)  # type: ignore[type-var]
        for stated in record["splits"].values():
            validate_typed_dict(_Split, stated)  # type: ignore[type-var]
        spec = {key: _tuples(value) for key, value in record["spec"].items()}
        # mypy allows TypedDict for literal fields alone
        validate_typed_dict(typing.TypedDict("TaskSpec", kinds, total=False), spec)  # type: ignore[operator]
        if record["format"] != FORMAT or not {"train", "validation", "test"} <= set(record["splits"]):
            raise ValueError(f"format {record['format']}, splits {', '.join(record['splits'])}")
        if not all(re.fullmatch("[a-z]+", split) for split in record["splits"]):
            raise ValueError(f"splits {', '.join(record['splits'])}")
        found = {"spec": TaskSpec(**spec), "features": Features.from_dict(record["features"])}
        if not any(name in found["features"] for name in INPUTS):
            raise ValueError(f"columns {', '.join(found['features'])}")
    except (*MALFORMED, OSError, RecursionError, StrictDataclassError) as error:
        reason = " ".join(str(error).split())[:200]
        raise HfLongSeqError(
            f"{where} has no {TASK_FILE} that this version can read ({reason}): name a repository that "
            "`hf-longseq tasks publish` made, or read its columns with --data."
        ) from error
    return record | found


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def load_published(name: str, source: str, options: dict[str, Any]) -> tuple[DatasetDict, TaskSpec]:
    """Load a task from the Hub, from "hub:owner/name", with "@" and a branch, tag or commit to pin what it holds.

    Of the options, `cache_dir` is obeyed, and those of the task's loader must be what the data were made with.
    """
    named = SOURCE.fullmatch(str(source))
    if named is None:
        raise HfLongSeqError(f"data.source is {source!r}: write hub:owner/name, or hub:owner/name@revision.")
    repo_id, revision = named["repo"], named["revision"]
    pinned = f" --revision {revision}" if revision else ""
    command = f"hf download {repo_id} --repo-type dataset{pinned}"
    folder = download(repo_id, command, revision, [TASK_FILE, "data/*.parquet"])
    record = read_record(folder / TASK_FILE, repo_id)
    if record["task"] != name:
        raise HfLongSeqError(f"{repo_id} holds the task {record['task']!r}, not {name!r}: name that task.")
    held = record["options"]
    for key, value in options.items():
        if key not in WAYS and (key not in held or held[key] != json.loads(json.dumps(value))):
            raise HfLongSeqError(
                f"{repo_id} holds {name} with {key}={held.get(key)!r}, not {value!r}: leave data.{key} out, or "
                "data.source."
            )
    commit, rows = folder.name, partial(read_files, folder, record, repo_id)
    made = {"version": 2, "repository": repo_id, "commit": commit, "splits": record["splits"]}
    splits = tuple(record["splits"])
    splits = load_converted(name, made, [], record["features"], rows, options.get("cache_dir"), splits)
    return splits, dataclasses.replace(record["spec"], source=f"{constants.ENDPOINT}/datasets/{repo_id}/tree/{commit}")
