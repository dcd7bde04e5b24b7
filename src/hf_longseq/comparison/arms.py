# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Names, order, markers and colours of arms and architectures: tables and figures take them from here.

An arm is how a model starts: from scratch, from scratch with the budget of pretraining added, or self-pretrained.
A variant carries its settings, as `spt-masked@span_length=8` or `transformer@position_embedding=sinusoidal`.
"""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple


class ArmStyle(NamedTuple):
    """How an arm looks: heading of a column, name in a legend, colour on light and dark paper, marker."""

    heading: str
    label: str
    colours: tuple[str, str]
    marker: str


ARMS = {
    "scratch": ArmStyle("scratch", "from scratch", ("#6e7781", "#a3adba"), "o"),
    "scratch-tied": ArmStyle("equal budget", "from scratch, equal budget", ("#bf6a02", "#f0a44b"), "D"),
    "spt-masked": ArmStyle("masked", "self-pretrained, masked", ("#0b63b8", "#5fb0ff"), "o"),
    "spt-causal": ArmStyle("causal", "self-pretrained, causal", ("#8a3fb0", "#c893ec"), "^"),
}
SPARE = ("#12806a", "#4fcbb0"), ("#8a6d00", "#d8b93c"), ("#4d6a8f", "#93b4dd"), ("#5b4a3f", "#c2a892")
GAIN, LOSS = ("#1a7f37", "#56d364"), ("#b3261e", "#ff8a80")
ARCHITECTURES = {"s4": "S4", "dlr": "DLR", "lru": "LRU", "s5": "S5", "mega": "MEGA", "cnn": "CNN"}


def split_name(name: str) -> tuple[str, dict[str, str]]:
    """Name and settings of a variant.

    Example:
        >>> split_name("s4@bidirectional=false")
        ('s4', {'bidirectional': 'false'})
    """
    plain, *settings = name.split("@")
    return plain, {key: value for key, _, value in (word.partition("=") for word in settings)}


def canonical(init: str, objective: str | None) -> str:
    """The arm by its objective: `spt` with masked denoising is `spt-masked`, in short and long comparisons alike."""
    plain, at, settings = init.partition("@")
    return f"spt-{objective}{at}{settings}" if plain == "spt" and objective else init


def from_scratch(init: str) -> bool:
    """Whether an arm does without pretraining."""
    return init.startswith("scratch")


def is_tied(init: str) -> bool:
    """Whether an arm from scratch has the budget of pretraining added, in whatever unit."""
    return split_name(init)[0] == "scratch-tied"


def arm(init: str, among: Iterable[str] = ()) -> ArmStyle:
    """How an arm is named and drawn; unknown ones take a spare colour by their place among the others."""
    plain, settings = split_name(init)
    words = settings_text(settings)
    if plain in ARMS:
        known = ARMS[plain]
        return known._replace(label=f"{known.label}, {words}") if words else known
    others = sorted({name for name in map(lambda one: split_name(one)[0], among) if name not in ARMS} | {plain})
    name = plain.removeprefix("spt-").replace("-", " ")
    place = others.index(plain) % len(SPARE)
    label = name if from_scratch(plain) else f"self-pretrained, {name}".removesuffix(", spt")
    return ArmStyle(name, f"{label}, {words}" if words else label, SPARE[place], "sPXv"[place])


def arch_label(arch: str) -> str:
    """An architecture as people say it.

    Example:
        >>> arch_label("transformer@position_embedding=sinusoidal")
        'transformer, sinusoidal'
    """
    plain, settings = split_name(arch)
    words = settings_text(settings)
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


def rank(name: str) -> tuple:
    """Sorts arms: scratch, equal budget, masked, causal, others; variants after them, small numbers first."""
    plain, _, settings = name.partition("@")
    order = list(ARMS)
    numbers = re.sub(r"\d+", lambda found: found[0].zfill(9), settings)
    return (order.index(plain) if plain in order else len(order), plain, numbers)
