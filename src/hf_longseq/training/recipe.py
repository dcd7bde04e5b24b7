# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""From a recipe file, the toy sizes of `--tiny` and the command line to the checked settings of one architecture.

A recipe is YAML with the sections `model`, `data`, `pretrain`, `finetune` and `scratch` (overrides of `finetune` when
training from scratch). A mapping named after an architecture inside a section holds for that architecture alone, so
one recipe can compare several: `model: {arch: [s4, transformer], hidden_size: 64, s4: {state_size: 32}}`; one named
`masked` or `causal` holds for that objective, also within an architecture: `transformer: {causal: {pooling: last}}`.
Precedence: defaults < recipe < `--tiny` < command line; within each, what is said for all < for the objective < for
the architecture < for both.
"""

import copy
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from hf_longseq import recipes
from hf_longseq.data.task import TASKS
from hf_longseq.errors import HfLongSeqError, did_you_mean, explained
from hf_longseq.training.architectures import KNOWN, check_model, check_model_fields, check_name, is_hf, tiny_fields
from hf_longseq.training.arguments import (
    SECTIONS,
    DataSection,
    FinetuneSection,
    ModelSection,
    PretrainSection,
    build_section,
    convert,
    plain_scalar,
    section_options,
)
from hf_longseq.training.run_folder import read_yaml

OBJECTIVES = ("masked", "causal")
PHASES = ("pretrain", "finetune", "scratch")
_DATA_OPTIONS = frozenset(field.name for field in section_options(DataSection))

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

Raw = dict[str, Any]


@dataclass
class Recipe:
    """Checked settings of one architecture on one task.

    Make one with `Recipe.load`. The sections hold every value explicitly; `to_dict` is what `resolved.yaml` stores.
    """

    model: ModelSection = field(default_factory=ModelSection)
    data: DataSection = field(default_factory=DataSection)
    pretrain: PretrainSection = field(default_factory=PretrainSection)
    finetune: FinetuneSection = field(default_factory=FinetuneSection)
    scratch: FinetuneSection = field(default_factory=FinetuneSection)

    @classmethod
    def load(
        cls,
        source: "str | Path | Raw | Recipe | None" = None,
        overrides: Raw | None = None,
        *,
        arch: str | None = None,
        objective: str | None = None,
        tiny: bool = False,
    ) -> "Recipe":
        """Read a recipe and check it.

        Args:
            source: Name of a shipped recipe, path of a YAML file (a run's `resolved.yaml` too), a nested mapping, or
                None for the defaults.
            overrides: Nested mapping that wins over the recipe: `{"pretrain": {"max_steps": 100}}`.
            arch: The architecture to take if the recipe names several.
            objective: "masked" or "causal", in place of the recipe's `pretrain.objective`.
            tiny: Toy sizes for a trial in seconds.

        Raises:
            HfLongSeqError: For an unknown key or a value of the wrong type; the message names the key.
        """
        if isinstance(source, Recipe):
            source = source.to_dict()
        raw, overrides = read_recipe(source), check_sections(overrides or {}, "the overrides")
        archs = architectures_of(raw, overrides)
        if arch is None:
            if len(archs) > 1:
                raise HfLongSeqError(
                    f"model.arch names {', '.join(archs)}, but this takes one architecture: choose one with --arch."
                )
            arch = archs[0]
        check_name(arch)
        raw = _without_another_task(raw, overrides)
        layers = [raw, _tiny_sections(raw, overrides, arch) if tiny else {}, overrides]
        if objective is None:
            said = merged(layers, "pretrain", arch, None).get("objective", OBJECTIVES[0])
            objective = convert(said, Literal[OBJECTIVES], "pretrain.objective")
        sections = {name: merged(layers, name, arch, objective) for name in SECTIONS}
        sections["model"]["arch"] = arch
        sections["pretrain"]["objective"] = objective
        if tiny:
            sections["scratch"] = {key: value for key, value in sections["scratch"].items() if key not in TINY_PHASE}
            sections["scratch"] |= merged([overrides], "scratch", arch, objective)
        # Overrides of fine-tuning also reach the arms from scratch, unless `scratch` itself says otherwise.
        sections["scratch"] = {**sections["finetune"], **sections["scratch"]}
        recipe = cls(**{name: build_section(SECTIONS[name], sections[name], name) for name in SECTIONS})
        if not recipe.data.task:
            raise HfLongSeqError("data.task is not set: name a task (see `hf-longseq tasks list`) or a recipe.")
        recipe.data.options = loader_options(recipe.data.task, recipe.data.options)
        fields = check_model_fields(arch, recipe.model.fields)
        # The model section describes the fine-tuned model; causal pretraining makes it look back only (`build.py`).
        own = {} if is_hf(arch) else {"bidirectional": True}
        recipe.model.fields = {**own, **fields}
        check_model(arch, recipe.model.fields)
        return recipe

    def to_dict(self) -> Raw:
        """Plain mapping of all values in the shape of a recipe file; `Recipe.load` reads it back unchanged."""
        plain = copy.deepcopy({name: vars(getattr(self, name)) for name in ("model", "data")})
        plain |= {name: copy.deepcopy(getattr(self, name).settings()) for name in PHASES}
        fields = plain["model"].pop("fields")
        plain["model"] = {name: value for name, value in plain["model"].items() if value is not None} | fields
        plain["data"] |= plain["data"].pop("options")
        plain["scratch"] = {k: v for k, v in plain["scratch"].items() if (k, v) not in plain["finetune"].items()}
        return plain


def joint_settings(recipes: "list[Recipe]", names: list[str] | None = None) -> Raw:
    """The settings of a comparison in the shape of one recipe.

    Of several architectures, each has its settings under its name; of several objectives of one architecture, the
    first recipe has the plain settings, and another what differs from them under the objective's name. `names` are
    those under which the recipes are compared, where one architecture stands there in several variants.
    """
    plain: dict[str, Raw] = {}
    for name, recipe in zip(names or [recipe.model.arch for recipe in recipes], recipes, strict=True):
        own = recipe.to_dict()
        base = plain.setdefault(name, own)
        if base is not own:
            _add_objective(base, own)
    if list(plain) == [recipes[0].model.arch]:
        return plain[recipes[0].model.arch]
    model = {name: {k: v for k, v in own["model"].items() if (k, v) != ("arch", name)} for name, own in plain.items()}
    phases = {name: {arch: own[name] for arch, own in plain.items()} for name in PHASES}
    return {"model": {"arch": list(plain), **model}, "data": recipes[0].to_dict()["data"], **phases}


def _add_objective(base: Raw, own: Raw) -> None:
    """Note in the plain settings of one objective what those of another one have different."""
    objective = own["pretrain"]["objective"]
    inherited = {**base, "scratch": {**own["finetune"], **base["scratch"]}}
    full = {**own, "scratch": {**own["finetune"], **own["scratch"]}}
    for name in ("model", *PHASES):
        changed = {k: v for k, v in full[name].items() if v != inherited[name].get(k) and k != "objective"}
        if changed:
            base[name][objective] = changed


def read_recipe(source: "str | Path | Raw | None") -> Raw:
    """Return the raw sections of a recipe, which may come by name, as a file or as a mapping."""
    if source is None:
        return {}
    if isinstance(source, dict):
        return check_sections(source, "the recipe")
    path = recipes.find(str(source))
    with explained(f"recipe {path} is not valid YAML", ValueError):
        content = read_yaml(path)
    if not isinstance(content, dict):
        raise HfLongSeqError(f"recipe {path} holds no sections: write {', '.join(SECTIONS)}, each with its options.")
    return check_sections(content, f"recipe {path}")


def check_sections(raw: Raw, where: str) -> Raw:
    """Raise for a section that does not exist or is no mapping; leave out what a run recorded about itself."""
    raw = {name: values for name, values in raw.items() if name != "run"}
    for name, values in raw.items():
        if name not in SECTIONS:
            raise HfLongSeqError(
                f"{where} has no section {name!r}{did_you_mean(name, SECTIONS)}: {', '.join(SECTIONS)}."
            )
        if values is not None and not isinstance(values, dict):
            raise HfLongSeqError(f"section {name!r} of {where} is {values!r}: give a mapping of options.")
    return raw


def architectures_of(*layers: Raw) -> list[str]:
    """The architectures that the last layer with a `model.arch` names: a word, `a,b`, or a list."""
    arch: Any = "s4"
    for layer in layers:
        arch = (layer.get("model") or {}).get("arch", arch)
    names = convert(arch, list[str], "model.arch")
    return list(dict.fromkeys(name.strip() for name in names))


def merged(layers: list[Raw], section: str, arch: str, objective: str | None) -> Raw:
    """A section as it holds for an architecture and an objective: later layers win, and within a layer what is said
    for fewer cases wins over what is said for all."""
    names = (*KNOWN, arch, *OBJECTIVES)

    def flat(layer: Raw) -> Raw:
        nested = {key for key in layer if isinstance(layer[key], dict) and (key in names or is_hf(key))}
        found = {key: value for key, value in layer.items() if key not in nested}
        for name in (objective, arch):
            if isinstance(layer.get(name), dict):
                found |= flat(layer[name])
        return found

    return {key: value for layer in layers for key, value in flat(layer.get(section) or {}).items()}


def _tiny_sections(raw: Raw, overrides: Raw, arch: str) -> Raw:
    """Toy sizes, limited to what the architecture and the task's loader have."""
    task = ((overrides.get("data") or {}).get("task")) or ((raw.get("data") or {}).get("task"))
    options: Raw = {}
    if task in TASKS and "source" not in (overrides.get("data") or {}):  # what lies on the Hub has its size
        parameters = TASKS[task].parameters
        options = {key: value for key, value in TINY_COUNTS.items() if key in parameters} | TINY_OPTIONS.get(task, {})
    limits = {"num_validation_examples": TINY_EXAMPLES, "num_test_examples": TINY_EXAMPLES}
    # Four steps need no small training split, and a small one might lack a class.
    data = {"train_fraction": None, "num_train_examples": None, **limits, **options}
    phase = dict(TINY_PHASE)
    return {"model": tiny_fields(arch), "data": data, "pretrain": phase, "finetune": phase}


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
            converted[name] = _yaml_value(value)
    return converted


# What tells how own data are read, whatever file they stand in; the rest describes one file.
READING = frozenset(("task", "max_length", "colour", "image_size", "sampling_rate"))


def _without_another_task(raw: Raw, overrides: Raw) -> Raw:
    """The recipe without what its data section says of another task, or of another file of own data."""
    own, other = (layer.get("data") or {} for layer in (raw, overrides))
    if own.get("task") and other.get("task") and own["task"] != other["task"]:
        return {**raw, "data": {}}
    if own.get("data") and other.get("data") and own["data"] != other["data"]:
        return {**raw, "data": {name: value for name, value in own.items() if name in READING}}
    return raw


def _yaml_value(text: Any) -> Any:
    """What a word of the command line means in YAML; a word that is no YAML, such as `*`, is itself."""
    try:
        return yaml.safe_load(text) if isinstance(text, str) else text
    except yaml.YAMLError:
        return text


def set_dotted(nested: Raw, dotted: str, text: Any) -> None:
    """Store a command-line value under `section.key` (or `section.arch.key`) of a nested mapping."""
    value = _yaml_value(text)
    section, *path = dotted.split(".")
    if section not in SECTIONS or not path or not all(path):
        raise HfLongSeqError(
            f"--{dotted} does not name an option{did_you_mean(section, SECTIONS)}: write --SECTION.NAME with a "
            f"section from {', '.join(SECTIONS)}."
        )
    place = nested.setdefault(section, {})
    for key in path[:-1]:
        place = place.setdefault(key, {})
    if section == "data" and path[-1] not in _DATA_OPTIONS and isinstance(plain_scalar(value), (int, float)):
        # Perhaps the name of a column: the task's loader, not known here, declares what it is.
        value = value if isinstance(value, bool) else text
    elif not isinstance(value, (dict, list)):
        value = plain_scalar(value)
    place[path[-1]] = value
