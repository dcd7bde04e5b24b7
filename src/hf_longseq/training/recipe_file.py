# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Recipes as mappings: read from YAML, chosen for an architecture and an objective, changed by the command line.

A recipe has the sections `model`, `data`, `pretrain`, `finetune` and `scratch` (what differs from `finetune` when
training from scratch), for one architecture and one objective. `variants` holds named changes to it:

    variants:
      s4: {model: {arch: s4, hidden_size: 64}}    a model of its own, which a comparison takes too
      dlr: {pretrain: {ssm_learning_rate: 1e-4}}  for --arch dlr, which keeps hidden_size and num_hidden_layers
      causal: {model: {pooling: last}}            for the causal objective

Precedence: defaults < recipe < variant of the objective < of the architecture < of both (`dlr/causal`) < `--tiny` <
command line. Nothing here imports torch.
"""

import typing
from pathlib import Path
from typing import Any, Literal

import yaml

from hf_longseq import recipes
from hf_longseq.data.task import TASKS
from hf_longseq.errors import HfLongSeqError, did_you_mean, explained
from hf_longseq.training.architectures import KNOWN
from hf_longseq.training.arguments import DataSection, convert, plain_scalar, section_options
from hf_longseq.training.run_folder import read_yaml

SECTIONS = ("model", "data", "pretrain", "finetune", "scratch")
PHASES = SECTIONS[2:]
OBJECTIVES = ("masked", "causal")
VARIANTS = "variants"
# What another architecture keeps of a recipe's model.
SIZE = ("hidden_size", "num_hidden_layers")
# What tells how own data are read, whatever file they stand in; the rest describes one file.
READING = frozenset(("task", "max_length", "colour", "image_size", "sampling_rate"))
_DATA_OPTIONS = frozenset(field.name for field in section_options(DataSection))

Raw = dict[str, Any]


def read_recipe(source: "str | Path | Raw | None") -> Raw:
    """Return the raw sections of a recipe, which may come by name, as a file or as a mapping."""
    if source is None or isinstance(source, dict):
        return check_sections(source or {}, "the recipe")
    path = recipes.find(str(source))
    with explained(f"recipe {path} is not valid YAML", ValueError):
        content = read_yaml(path)
    if not isinstance(content, dict):
        raise HfLongSeqError(f"recipe {path} holds no sections: write {', '.join(SECTIONS)}, each with its options.")
    return check_sections(content, f"recipe {path}")


def check_sections(raw: Raw, where: str) -> Raw:
    """Raise for a section that does not exist or is no mapping; leave out what a run recorded about itself."""
    raw, known = {name: values for name, values in raw.items() if name != "run"}, (*SECTIONS, VARIANTS)
    for name, values in raw.items():
        if name not in known:
            raise HfLongSeqError(f"{where} has no section {name!r}{did_you_mean(name, known)}: {', '.join(known)}.")
        if values is not None and not isinstance(values, dict):
            raise HfLongSeqError(f"section {name!r} of {where} is {values!r}: give a mapping of options.")
    for name, sections in (raw.get(VARIANTS) or {}).items():
        check_sections(sections, f"variant {name!r} of {where}")
    if not isinstance((raw.get("data") or {}).get("data", ""), str):
        from hf_longseq.data.own_sources import keep_object

        # records and other processes name an object of Python by its copy in the cache
        raw["data"] = {**raw["data"], "data": keep_object(raw["data"]["data"], raw["data"].get("cache_dir"))}
    return _unnested(raw)


def _unnested(raw: Raw) -> Raw:
    """Recipes and records of version 0.2, which hold in each section what is for one architecture or objective alone
    (`model: {arch: [s4, dlr], s4: {...}}`), as variants."""
    named = convert((raw.get("model") or {}).get("arch", []), list[str], "model.arch")
    archs, variants = [name.strip() for name in named], dict(raw.get(VARIANTS) or {})
    sections: Raw = {}
    for section, values in raw.items():
        mappings = {key: value for key, value in (values or {}).items() if isinstance(value, dict)}
        known = (*archs, *KNOWN, *OBJECTIVES)
        nested = [key for key in mappings if section not in ("data", VARIANTS) and (key in known or key[:3] == "hf:")]
        sections[section] = {key: value for key, value in (values or {}).items() if key not in nested}
        for key in nested:
            inner = {name: value for name, value in mappings[key].items() if name in OBJECTIVES}
            own = {name: value for name, value in mappings[key].items() if name not in inner}
            for name, changes in ((key, own), *((f"{key}/{name}", value) for name, value in inner.items())):
                variants[name] = {**variants.get(name, {}), section: changes}
    for name in archs[1:]:
        model = {**sections["model"], "arch": name, **(variants.get(name, {}).get("model") or {})}
        variants[name] = {**variants.get(name, {}), "model": model}
    if archs:
        sections["model"]["arch"] = archs[0]
    return {**sections, VARIANTS: variants} if variants else sections


def architectures_of(*layers: Raw) -> list[str]:
    """The architectures that the last layer with a `model.arch` names (a word, `a,b`, or a list), and the variants of
    that layer with a model of their own."""
    names = ["s4"]
    for layer in layers:
        if "arch" in (layer.get("model") or {}):
            own = [name for name, variant in (layer.get(VARIANTS) or {}).items() if "arch" in variant.get("model", {})]
            names = [*convert(layer["model"]["arch"], list[str], "model.arch"), *own]
    return list(dict.fromkeys(name.strip() for name in names))


def chosen(raw: Raw, overrides: Raw, name: str, objective: str | None) -> tuple[list[Raw], str]:
    """The layers of a recipe that hold for an architecture or variant and an objective, and the objective itself."""
    base, variants = {key: raw[key] for key in raw if key != VARIANTS}, raw.get(VARIANTS) or {}
    own = variants.get(name, {})
    if objective is None:
        said = merged([base, own, overrides], "pretrain").get("objective", OBJECTIVES[0])
        objective = convert(said, Literal[OBJECTIVES], "pretrain.objective")
    model = base.get("model") or {}
    if "arch" in (own.get("model") or {}):
        base = {**base, "model": {}}
    elif name != architectures_of(base)[0]:
        base = {**base, "model": {key: model[key] for key in SIZE if key in model}}
    keys = (objective, name, f"{name}/{objective}")
    return [base, *(variants[key] for key in keys if key in variants)], objective


def merged(layers: list[Raw], section: str) -> Raw:
    """A section of which later layers win."""
    return {key: value for layer in layers for key, value in (layer.get(section) or {}).items()}


def without_another_task(raw: Raw, overrides: Raw) -> Raw:
    """The recipe without what its data section says of another task, or of another file of own data."""
    own, other = (layer.get("data") or {} for layer in (raw, overrides))
    if own.get("task") and other.get("task") and own["task"] != other["task"]:
        return {**raw, "data": {}}
    if own.get("data") and other.get("data") and own["data"] != other["data"]:
        return {**raw, "data": {name: value for name, value in own.items() if name in READING}}
    return raw


def loader_options(task: str, options: Raw) -> Raw:
    """Convert options of a task's loader to the types that it declares, so that a column named 3 stays a name.

    Unknown options are left for `load_task` to refuse.
    """
    parameters = TASKS[task].parameters if task in TASKS else {}
    converted: Raw = {}
    for name, value in options.items():
        kind = parameters[name].annotation if name in parameters else None
        if kind is not None and set(typing.get_args(kind) or (kind,)) <= {str, int, float, bool, type(None)}:
            converted[name] = convert(value, kind, f"data.{name}")
        else:
            converted[name] = yaml_value(value)
    return converted


def yaml_value(text: Any) -> Any:
    """What a word of the command line means in YAML; a word that is no YAML, such as `*`, is itself."""
    try:
        return yaml.safe_load(text) if isinstance(text, str) else text
    except yaml.YAMLError:
        return text


def set_dotted(nested: Raw, dotted: str, text: Any) -> None:
    """Store a command-line value under `section.key` of a nested mapping."""
    value = yaml_value(text)
    section, _, key = dotted.partition(".")
    if section not in SECTIONS or not key or "." in key:
        raise HfLongSeqError(
            f"--{dotted} does not name an option{did_you_mean(section, SECTIONS)}: write --SECTION.NAME with a "
            f"section from {', '.join(SECTIONS)}; of one architecture of several, --arch ARCH@NAME=VALUE."
        )
    if section == "data" and key not in _DATA_OPTIONS and isinstance(plain_scalar(value), (int, float)):
        # Perhaps the name of a column: the task's loader, not known here, declares what it is.
        value = value if isinstance(value, bool) else text
    elif not isinstance(value, (dict, list)):
        value = plain_scalar(value)
    nested.setdefault(section, {})[key] = value


TINY_EXAMPLES = 32
# Options by which a task's loader makes less or shorter data; the number of examples where it can be chosen.
TINY_COUNTS = {"train_examples": 64, "eval_examples": 32}
TINY_OPTIONS = {
    "listops": {"min_length": 4, "max_length": 64},
    "smnist": {"size": 14},
    "gene-starts": {"length": 128},
    "voices": {"sampling_rate": 400},
}
TINY_PHASE = {"max_steps": 4, "global_batch_size": 8, "per_device_train_batch_size": None,
              "eval_steps": 2, "dataloader_num_workers": 0}  # fmt: skip


def tiny_data(raw: Raw, overrides: Raw) -> Raw:
    """Toy sizes of the data, limited to what the task's loader has."""
    task = merged([raw, overrides], "data").get("task")
    options: Raw = {}
    if task in TASKS and "source" not in (overrides.get("data") or {}):  # what lies on the Hub has its size
        parameters = TASKS[task].parameters
        options = {key: value for key, value in TINY_COUNTS.items() if key in parameters} | TINY_OPTIONS.get(task, {})
    # Four steps need no small training split, and a small one might lack a class.
    limits = {"num_validation_examples": TINY_EXAMPLES, "num_test_examples": TINY_EXAMPLES}
    return {"train_fraction": None, "num_train_examples": None, **limits, **options}
