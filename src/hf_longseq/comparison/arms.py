# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Names, order, markers and colours of arms and architectures: tables and figures take them from here.

An arm is how a model starts: from scratch, from scratch with the budget of pretraining added, or self-pretrained.
A variant carries its settings, as `spt-masked@span_length=8` or `transformer@position_embedding=sinusoidal`.
"""

import re
from typing import Any, NamedTuple


class ArmStyle(NamedTuple):
    """How an arm looks: heading of a column, name in a legend, colour, marker."""

    heading: str
    label: str
    colour: str
    marker: str


ARMS = {
    "scratch": ArmStyle("scratch", "from scratch", "#6e7781", "o"),
    "scratch-tied": ArmStyle("equal budget", "from scratch, equal budget", "#bf6a02", "D"),
    "spt-masked": ArmStyle("masked", "self-pretrained, masked", "#0b63b8", "o"),
    "spt-causal": ArmStyle("causal", "self-pretrained, causal", "#8a3fb0", "^"),
}
GAIN, LOSS = "#1a7f37", "#b3261e"
ARCHITECTURES = {"s4": "S4", "dlr": "DLR", "lru": "LRU", "s5": "S5", "mega": "MEGA", "cnn": "CNN"}


# A linear model is an architecture of its own in tables, which knows one arm.
BASELINE = "linear:"


def is_baseline(architecture: str) -> bool:
    """Whether a row is a linear model's."""
    return architecture.startswith(BASELINE)


def split_name(name: str) -> tuple[str, dict[str, str]]:
    """Name and settings of a variant.

    Example:
        >>> split_name("s4@bidirectional=false")
        ('s4', {'bidirectional': 'false'})
    """
    plain, *settings = name.split("@")
    return plain, {key: value for key, _, value in (word.partition("=") for word in settings)}


def canonical(arm: str, objective: str | None) -> str:
    """The arm by its objective: `spt` with masked denoising is `spt-masked`, in short and long comparisons alike."""
    plain, at, settings = arm.partition("@")
    return f"spt-{objective}{at}{settings}" if plain == "spt" and objective else arm


def from_scratch(arm: str) -> bool:
    """Whether an arm does without pretraining."""
    return arm.startswith("scratch")


def is_tied(arm: str) -> bool:
    """Whether an arm from scratch has the budget of pretraining added, in whatever unit."""
    return split_name(arm)[0] == "scratch-tied"


def style(arm: str) -> ArmStyle:
    """How an arm is named and drawn, a variant with its settings in words."""
    plain, settings = split_name(arm)
    look, words = ARMS.get(plain, ArmStyle(plain, plain, "#12806a", "s")), settings_text(settings)
    return look._replace(label=f"{look.label}, {words}") if words else look


def arch_label(architecture: str) -> str:
    """An architecture as people say it.

    Example:
        >>> arch_label("transformer@position_embedding=sinusoidal")
        'transformer, sinusoidal'
    """
    plain, settings = split_name(architecture)
    words = settings_text(settings)
    if is_baseline(plain):
        return f"{plain.removeprefix(BASELINE)}, linear"
    plain = ARCHITECTURES.get(plain, plain.removeprefix("hf:"))
    return f"{plain}, {words}" if words else plain


def settings_text(settings: dict[str, Any]) -> str:
    """Settings in words: `span length 8`; a value that is a word of its own stands for its key."""
    words = []
    for key, value in settings.items():
        key, text = key.replace("_", " "), str(value).replace("_", " ")
        if key == "direction":
            words.append(f"{text} direction{'s' if text == 'both' else ''}")
        elif text.lower() in ("true", "false"):
            words.append(key if text.lower() == "true" else f"not {key}")
        else:
            words.append(text if re.fullmatch(r"[A-Za-z][A-Za-z -]*", text) else f"{key} {text}".strip())
    return ", ".join(words)


def point_text(point: str) -> str:
    """A grid point in words.

    Example:
        >>> point_text("lr=0.002 pretrain.learning_rate=0.004")
        'lr 0.002, pretrain.learning rate 0.004'
    """
    return settings_text({key: value for key, _, value in (word.partition("=") for word in point.split())})


def rank(arm: str) -> tuple:
    """Sorts arms: scratch, equal budget, masked, causal, others; variants after them, small numbers first."""
    plain, _, settings = arm.partition("@")
    order = list(ARMS)
    numbers = re.sub(r"\d+", lambda found: found[0].zfill(9), settings)
    return (order.index(plain) if plain in order else len(order), plain, numbers)
