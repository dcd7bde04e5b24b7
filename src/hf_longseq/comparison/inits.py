# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The arms of a comparison as words, `NAME` or `NAME@WORD@WORD`, such as `spt-causal@direction=one`.

`docs/comparing.md` says what each of them is.
"""

from dataclasses import dataclass, field
from typing import Any

from hf_longseq.errors import HfLongSeqError, did_you_mean
from hf_longseq.training.arguments import plain_scalar
from hf_longseq.training.config import DENOISING, USUAL, SPTConfig, phase_fields
from hf_longseq.training.recipe import Raw

# Arm -> its objective; None is that of the recipe.
OBJECTIVE_OF = {"spt": None, "spt-masked": "masked", "spt-causal": "causal"}
INITS = ("scratch", *OBJECTIVE_OF, "scratch-tied")
# What `scratch-tied` may have in equal amount; the first is what it ties without a word.
TIES = ("epochs", "steps", "flops")


@dataclass(frozen=True)
class Init:
    """An arm.

    `objective` is the one that it names; None is the recipe's. `tie` is the quantity that `scratch-tied` ties. A
    `direction` "one" keeps a causally pretrained model one-directional, "both" pretrains it in both directions; None
    pretrains the forward one and opens the model when it is fine-tuned. `changes` are to settings of pretraining and
    data.
    """

    label: str
    name: str
    objective: str | None = None
    tie: str | None = None
    direction: str | None = None
    changes: Raw = field(default_factory=dict)

    @classmethod
    def parse(cls, label: str) -> "Init":
        """Read an arm."""
        name, *words = label.split("@")
        if name not in INITS:
            raise HfLongSeqError(f"inits holds {label!r}{did_you_mean(name, INITS)}: choose from {', '.join(INITS)}.")
        if name == "scratch-tied":
            if len(words) > 1 or (words and words[0] not in TIES):
                raise HfLongSeqError(
                    f"inits holds {label!r}{did_you_mean(words[0], TIES)}: tie one quantity, as "
                    f"{', '.join(f'scratch-tied@{tie}' for tie in TIES)}."
                )
            return cls(label, name, tie=words[0] if words else TIES[0])
        fields = variant_fields(label)
        if fields and not pretrains(name):
            raise HfLongSeqError(
                f"inits holds {label!r}: only arms that pretrain have variants, as spt-masked@span_length=8."
            )
        direction = fields.pop("direction", None)
        if direction not in (None, "one", "both"):
            raise HfLongSeqError(
                f"inits holds {label!r}: direction is one, both, or left out to pretrain one and fine-tune both."
            )
        if direction and name == "spt-masked":
            raise HfLongSeqError(f"inits holds {label!r}: only causal pretraining has directions, as spt-causal has.")
        return cls(label, name, OBJECTIVE_OF.get(name), None, direction, _changes(label, fields))

    @property
    def pretrains(self) -> bool:
        return self.name in OBJECTIVE_OF


def _changes(label: str, fields: dict[str, Any]) -> Raw:
    known = [name for name in (*USUAL, *DENOISING) if name != "objective"]
    changes: dict[str, dict] = {}
    for name, value in fields.items():
        if name == "objective" or name not in (*phase_fields(SPTConfig), "pretrain_inputs"):
            raise HfLongSeqError(
                f"inits holds {label!r}, and {name} is no option of pretraining"
                f"{did_you_mean(name, [*known, 'pretrain_inputs', 'direction'])}: see `hf-longseq pretrain --help`."
            )
        changes.setdefault("data" if name == "pretrain_inputs" else "pretrain", {})[name] = value
    return changes


def plain(label: str) -> str:
    """The architecture or arm of a variant: `s4` of `s4@init_normal=0.1`."""
    return label.split("@")[0]


def pretrains(label: str) -> bool:
    """Whether an arm begins with self-pretraining."""
    return plain(label) in OBJECTIVE_OF


def variant_fields(label: str) -> dict[str, Any]:
    """The settings that a variant changes: those of the model section for `s4@init_normal=0.1@bidirectional=false`."""
    fields = {}
    for word in label.split("@")[1:]:
        name, equals, text = word.partition("=")
        if not name or not equals or name in fields:
            raise HfLongSeqError(f"variant {label!r}: write NAME@FIELD=VALUE, each field once, as s4@init_normal=0.1.")
        fields[name] = scalar(text)
    return fields


def scalar(value: Any) -> Any:
    """A word of the command line as none, true, false or a number, if it is one."""
    words = {"none": None, "null": None, "true": True, "false": False}
    return words.get(value.lower(), plain_scalar(value)) if isinstance(value, str) else value
