# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The fields of transformers' `TrainingArguments` that a recipe may set, and those it refuses, with the reason.

Any field may stand in a phase of a recipe, or on the command line as `--finetune.optim adafactor`. A few are refused,
because a run sets them itself to keep comparisons fair or its folder whole.
"""

import dataclasses
import enum
import functools
import typing
from collections.abc import Iterable
from typing import Any

from hf_longseq.errors import HfLongSeqError, did_you_mean

_CHOICE = "is set by the run, which keeps the best checkpoint on validation at every evaluation: set eval_steps"
_BATCHES = "is set by the collators and metrics of the phase: leave it out"
_HUB = "would upload an unfinished run: publish the finished one (hf-longseq publish)"
_LAUNCH = "is a matter of the launch: see --launch_config"
_ALONE = "has no meaning in a run: leave it out"
_EVERY = "would change which examples a run sees, and every arm of a comparison sees all of them: leave it out"

# field -> why a recipe cannot set it, and what to do
REFUSED: dict[str, str] = {
    "output_dir": "is the folder of the run: give it as --output_dir",
    "run_name": "is the name of the run's folder: give it as --output_dir",
    **dict.fromkeys(("seed", "data_seed"), "is the seed of the run: give it as --seed"),
    "gradient_accumulation_steps": "follows from global_batch_size and per_device_train_batch_size: set those",
    "auto_find_batch_size": "would change the examples of a step, which global_batch_size fixes: set "
    "per_device_train_batch_size",
    **dict.fromkeys(("dataloader_drop_last", "ignore_data_skip"), _EVERY),
    "label_smoothing_factor": "would change the loss that is compared: leave it out",
    "average_tokens_across_devices": "keeps the losses of several processes those of one: leave it out",
    "logging_nan_inf_filter": "would hide a loss that is no number, on which a run stops: leave it out",
    **dict.fromkeys(
        "eval_strategy eval_delay save_strategy save_steps save_total_limit save_only_model load_best_model_at_end "
        "metric_for_best_model greater_is_better enable_jit_checkpoint".split(),
        _CHOICE,
    ),
    **dict.fromkeys(
        ("resume_from_checkpoint", "restore_callback_states_from_checkpoint"),
        "is automatic: rerun the command to resume",
    ),
    **dict.fromkeys(
        "remove_unused_columns label_names batch_eval_metrics include_for_metrics eval_do_concat_batches "
        "prediction_loss_only eval_use_gather_object length_column_name".split(),
        _BATCHES,
    ),
    **dict.fromkeys(
        "push_to_hub hub_token hub_private_repo hub_model_id hub_strategy hub_always_push hub_revision".split(), _HUB
    ),
    **dict.fromkeys("fsdp fsdp_config deepspeed parallelism_config accelerator_config local_rank".split(), _LAUNCH),
    **dict.fromkeys(("do_train", "do_eval", "do_predict"), _ALONE),
    "disable_tqdm": "is set by the command, which shows the progress itself: leave it out",
}


@functools.cache
def trainer_fields() -> dict[str, Any]:
    """Names and types of the fields of `TrainingArguments`. Imports torch."""
    from transformers import TrainingArguments

    hints = typing.get_type_hints(TrainingArguments)
    return {field.name: hints[field.name] for field in dataclasses.fields(TrainingArguments) if field.init}


def is_trainer_field(name: str) -> bool:
    """Whether a recipe may set a field of `TrainingArguments` of this name."""
    return name not in REFUSED and name in trainer_fields()


def check_trainer_field(name: str, value: Any, where: str, known: Iterable[str]) -> Any:
    """The value of a field of `TrainingArguments` in its type.

    `known` are the fields of the section `where` itself, among which a mistyped name is looked for first.
    """
    from hf_longseq.training.arguments import convert

    if name in REFUSED:
        raise HfLongSeqError(f"{where}.{name} {REFUSED[name]}.")
    known = list(known)
    if name not in trainer_fields():
        close = did_you_mean(name, known) or did_you_mean(name, [n for n in trainer_fields() if n not in REFUSED])
        raise HfLongSeqError(
            f"{where}.{name} is not an option{close}: {where} knows {', '.join(known)}, and the fields of "
            "transformers' TrainingArguments."
        )
    kind = trainer_fields()[name]
    for member in typing.get_args(kind) or (kind,):
        if isinstance(member, type) and issubclass(member, enum.Enum):
            kind = typing.Literal[tuple(one.value for one in member)]
    return convert(value, kind, f"{where}.{name}")
