# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Complete checkpoints: sealed after writing, verified before a run resumes from one.

    checkpoints/checkpoint-N/...            what transformers' Trainer writes, file by file
    checkpoints/checkpoint-N/complete.json  the seal, written last: size and hash of every other file

A run resumes from the newest folder whose files match its seal. Older checkpoints are deleted after a newer one is
sealed.
"""

import shutil
from pathlib import Path

from transformers import TrainerCallback

from hf_longseq.training.run_folder import file_hash, read_json, sync, write_json

SEAL = "complete.json"
STATE = "trainer_state.json"


def newest_intact(folder: Path) -> Path | None:
    """The newest checkpoint that is intact, as is its best one, by the hashes of all files; None without such."""
    for checkpoint in newest_first(folder):
        if is_intact(checkpoint):
            best = best_of(checkpoint)
            if best is None or best == checkpoint or is_intact(best):
                return checkpoint
    return None


def seal(checkpoint: Path) -> None:
    """Flush every file of a checkpoint to the disk, then write its seal."""
    content = {}
    for path in sorted(checkpoint.rglob("*")):
        if not path.is_file() or path.name == SEAL:
            continue
        sync(path)
        content[path.relative_to(checkpoint).as_posix()] = {"bytes": path.stat().st_size, "sha256": file_hash(path)}
    write_json(checkpoint / SEAL, content)


def is_intact(checkpoint: Path) -> bool:
    """Whether a checkpoint has a seal that every file matches."""
    try:
        content = read_json(checkpoint / SEAL)
        sizes_match = all((checkpoint / name).stat().st_size == facts["bytes"] for name, facts in content.items())
        return sizes_match and all(file_hash(checkpoint / name) == facts["sha256"] for name, facts in content.items())
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return False


def best_of(checkpoint: Path) -> Path | None:
    """The best checkpoint that one of them records, looked for beside it: the run may have moved."""
    try:
        step = read_json(checkpoint / STATE).get("best_global_step")
    except (OSError, ValueError, AttributeError):
        return None
    return checkpoint.with_name(f"checkpoint-{step}") if step else None


def discard_superseded(folder: Path, keep: int) -> None:
    """Delete all but the newest `keep` sealed checkpoints and the best ones that these name; call after sealing."""
    newest = newest_first(folder)
    kept = [checkpoint for checkpoint in newest if (checkpoint / SEAL).is_file()][:keep]
    kept += [best for checkpoint in kept if (best := best_of(checkpoint)) is not None]
    for checkpoint in newest:
        if checkpoint not in kept:
            # Without its seal first: half-deleted must not look complete.
            (checkpoint / SEAL).unlink(missing_ok=True)
            shutil.rmtree(checkpoint, ignore_errors=True)


class OwnBestCheckpoint(TrainerCallback):
    """Finds the best checkpoint of a resumed run in its own folder, if it is there: that may have moved."""

    def on_train_begin(self, args, state, control, **kwargs):
        if state.best_global_step:
            best = Path(args.output_dir) / f"checkpoint-{state.best_global_step}"
            recorded = state.best_model_checkpoint  # elsewhere, if the run goes on in another folder
            kept = recorded if recorded and Path(recorded).is_dir() else None
            state.best_model_checkpoint = str(best) if best.is_dir() else kept


def newest_first(folder: Path) -> list[Path]:
    found = [path for path in folder.glob("checkpoint-*") if path.is_dir() and path.name.split("-")[-1].isdigit()]
    return sorted(found, key=lambda path: int(path.name.split("-")[-1]), reverse=True)
