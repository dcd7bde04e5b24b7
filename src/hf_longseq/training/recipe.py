# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`Recipe`: the checked settings of one architecture on one task, from YAML and the command line.

A recipe has the sections `model`, `data`, `pretrain`, `finetune` and `scratch` (what differs from `finetune` when
training from scratch), for one architecture and one objective. `variants` holds named changes to it:

    variants:
      s4: {model: {arch: s4, hidden_size: 64}}    a model of its own, for a comparison too
      dlr: {pretrain: {ssm_learning_rate: 1e-4}}  for --arch dlr; that keeps hidden_size and num_hidden_layers
      causal: {model: {pooling: last}}            for the causal objective

Precedence: defaults < recipe < variant of the objective < of the architecture < of both (`dlr/causal`) < `--tiny` <
command line. Torch is imported when a recipe is checked, and not before.
"""

import copy
import typing
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from hf_longseq import recipes
from hf_longseq.data.task import TASKS
from hf_longseq.errors import HfLongSeqError, did_you_mean, explained
from hf_longseq.training.architectures import check_name, checked_fields, is_hf, tiny_fields
from hf_longseq.training.arguments import DataSection, ModelSection, build_section, convert, plain_scalar
from hf_longseq.training.run_folder import read_yaml

if TYPE_CHECKING:
    from hf_longseq.training.config import FinetuneConfig, SPTConfig

SECTIONS = ("model", "data", "pretrain", "finetune", "scratch")
PHASES = SECTIONS[2:]
VARIANTS = "variants"
# What another architecture keeps of a recipe's model.
SIZE = ("hidden_size", "num_hidden_layers")
# What tells how own data of any file are read; the rest describes one file.
READING = frozenset(("task", "max_length", "colour", "image_size", "sampling_rate"))

Raw = dict[str, Any]


@dataclass
class Recipe:
    """Checked settings of one architecture on one task.

    Make one with `Recipe.load`; `to_dict` is what `resolved.yaml` stores.
    """

    model: ModelSection
    data: DataSection
    pretrain: "SPTConfig"
    finetune: "FinetuneConfig"
    scratch: "FinetuneConfig"

    @classmethod
    def load(
        cls,
        source: "str | Path | Raw | None" = None,
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
            arch: The architecture, or the recipe's variant, to take.
            objective: "masked" or "causal", in place of the recipe's `pretrain.objective`.
            tiny: Toy sizes for a trial in seconds.

        Raises:
            HfLongSeqError: For an unknown key or a value of the wrong type; the message names the key.
        """
        from hf_longseq.training.config import build_phase

        raw, overrides = read_recipe(source), check_sections(overrides or {}, "the overrides")
        names = architectures_of(raw, overrides)
        if arch is None and len(names) > 1:
            raise HfLongSeqError(
                f"model.arch names {', '.join(names)}, but this takes one architecture: choose one with --arch."
            )
        name = arch or names[0]
        raw = without_another_task(raw, overrides)
        layers, objective = chosen(raw, overrides, name, objective)
        arch = merged(layers[1:], "model").get("arch", name)
        check_name(arch)
        small = {"model": tiny_fields(arch), "data": tiny_data(raw, overrides)} if tiny else {}
        small |= dict.fromkeys(("pretrain", "finetune"), TINY_PHASE) if tiny else {}
        sections = {section: merged([*layers, small, overrides], section) for section in SECTIONS}
        sections["model"]["arch"], sections["pretrain"]["objective"] = arch, objective
        if tiny:
            sections["scratch"] = {key: value for key, value in sections["scratch"].items() if key not in TINY_PHASE}
            sections["scratch"] |= overrides.get("scratch") or {}
        # Overrides of fine-tuning also reach the arms from scratch, unless `scratch` itself says otherwise.
        sections["scratch"] = {**sections["finetune"], **sections["scratch"]}
        model = build_section(ModelSection, sections["model"], "model")
        phases: dict[str, Any] = {name: build_phase(name, sections[name]) for name in PHASES}
        if not sections["data"].get("task"):
            raise HfLongSeqError("data.task is not set: name a task (see `hf-longseq tasks list`) or a recipe.")
        # The model section describes the fine-tuned model; causal pretraining makes it look back only.
        direction = {} if is_hf(arch) else {"bidirectional": True}
        model.fields = checked_fields(arch, {**direction, **model.fields})
        return cls(model, _checked_data(sections["data"]), **phases)

    def to_dict(self) -> Raw:
        """Plain mapping of all values in the shape of a recipe file; `Recipe.load` reads it back unchanged."""
        plain = copy.deepcopy({name: vars(getattr(self, name)) for name in ("model", "data")})
        plain |= {name: copy.deepcopy(getattr(self, name).settings()) for name in PHASES}
        fields = plain["model"].pop("fields")
        plain["model"] = {name: value for name, value in plain["model"].items() if value is not None} | fields
        plain["data"] |= plain["data"].pop("options")
        plain["scratch"] = _difference(plain["scratch"], plain["finetune"])
        return plain

    def changed(self, changes: Raw) -> "Recipe":
        """The recipe with some settings changed, checked anew: `{"pretrain": {"span_length": 8}}`."""
        from hf_longseq.training.config import build_phase

        phases = [name for name in PHASES if changes.get(name)]
        sections: Raw = {name: build_phase(name, changes[name], getattr(self, name)) for name in phases}
        if changes.get("model"):
            fields = {**vars(self.model), **self.model.fields, **changes["model"]}
            del fields["fields"]
            model = build_section(ModelSection, fields, "model")
            sections["model"] = replace(model, fields=checked_fields(model.arch, model.fields))
        if changes.get("data"):
            options = {**vars(self.data), **self.data.options, **changes["data"]}
            del options["options"]
            sections["data"] = _checked_data(options)
        return replace(self, **sections)


def _checked_data(values: Raw) -> DataSection:
    data = build_section(DataSection, values, "data")
    data.options = loader_options(data.task, data.options)
    return data


def joint_settings(recipes: Mapping[tuple[str, str | None], Recipe]) -> Raw:
    """The settings of a comparison as one recipe: those of the first name, and variants.

    Keys are the names under which recipes are compared, with an objective, or None for the recipe's own.
    """
    plain: dict[str, Raw] = {}
    variants: Raw = {}
    for (name, _), recipe in recipes.items():
        own, first = recipe.to_dict(), plain.get(name)
        if first is None:
            plain[name] = own
            if len(plain) > 1:
                variants[name] = {"model": own["model"], **_changes(own, next(iter(plain.values())), PHASES)}
        elif changes := _changes(own, first, ("model", *PHASES)):
            variants[f"{name}/{own['pretrain']['objective']}"] = changes
    name, base = next(iter(plain.items()))
    if name != base["model"]["arch"]:
        variants = {name: {"model": base["model"]}, **variants}
    return {**base, VARIANTS: variants} if variants else base


def _changes(own: Raw, base: Raw, sections: tuple[str, ...]) -> Raw:
    """What a recipe has different from another one, as a variant of it."""
    inherited = {**base, "scratch": {**own["finetune"], **base["scratch"]}}
    full = {**own, "scratch": {**own["finetune"], **own["scratch"]}}
    found = {name: _difference(full[name], inherited[name]) for name in sections}
    found["pretrain"].pop("objective", None)
    return {name: changes for name, changes in found.items() if changes}


def _difference(own: Raw, base: Raw) -> Raw:
    return {name: value for name, value in own.items() if name not in base or base[name] != value}


def read_recipe(source: "str | Path | Raw | None") -> Raw:
    """Return the raw sections of a recipe that comes by name, as a file or as a mapping."""
    if source is None or isinstance(source, dict):
        return check_sections(source or {}, "the recipe")
    if not isinstance(source, str | Path):
        raise HfLongSeqError(
            f"the recipe is {type(source).__name__}: give a name, a file or a mapping, with data as "
            '{"data": {"task": "own-data", "data": ...}}.'
        )
    path = recipes.find(str(source))
    with explained(f"recipe {path} is not valid YAML", ValueError):
        content = read_yaml(path)
    if not isinstance(content, dict):
        raise HfLongSeqError(f"recipe {path} holds no sections: write {', '.join(SECTIONS)}, each with its options.")
    return check_sections(content, f"recipe {path}")


def check_sections(raw: Raw, where: str) -> Raw:
    """Raise for a section that does not exist or is not a mapping; leave out what a run recorded about itself."""
    raw, known = {name: values for name, values in raw.items() if name != "run"}, (*SECTIONS, VARIANTS)
    for name, values in raw.items():
        if name not in known:
            raise HfLongSeqError(f"{where} has no section {name!r}{did_you_mean(name, known)}: {', '.join(known)}.")
        if values is not None and not isinstance(values, dict):
            raise HfLongSeqError(f"section {name!r} of {where} is {values!r}: give a mapping of options.")
    for name, sections in (raw.get(VARIANTS) or {}).items():
        check_sections(sections, f"variant {name!r} of {where}")
    section = raw.get("data") or {}
    for name in [name for name in ("data", "unlabelled") if not isinstance(section.get(name), str | None)]:
        from hf_longseq.data.own_sources import keep_object

        # records and other processes name an object of Python by its copy in the cache
        raw["data"] = section = {**section, name: keep_object(section[name], section.get("cache_dir"))}
    return raw


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
        objective = merged([base, own, overrides], "pretrain").get("objective", "masked")
    model = base.get("model") or {}
    if "arch" in (own.get("model") or {}):
        base = {**base, "model": {}}
    elif name != architectures_of(base)[0]:
        base = {**base, "model": {key: model[key] for key in SIZE if key in model}}
    keys = (objective, name, f"{name}/{objective}")
    return [base, *(variants[key] for key in keys if key in variants)], objective


def merged(layers: list[Raw], section: str) -> Raw:
    """A section of which later layers win; their epochs win over steps that an earlier one gives."""
    found: Raw = {}
    for layer in layers:
        own = layer.get(section) or {}
        found |= ({"max_steps": None} if "max_steps" in found and own.get("num_train_epochs") else {}) | own
    return found


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
        else:  # data is a path
            converted[name] = value if name == "data" else _yaml_value(value)
    return converted


def _yaml_value(text: Any) -> Any:
    """What a word of the command line means in YAML; a word that is not YAML, such as `*`, is itself."""
    try:
        return yaml.safe_load(text) if isinstance(text, str) else text
    except yaml.YAMLError:
        return text


def set_dotted(nested: Raw, dotted: str, text: Any) -> None:
    """Store a command-line value under `section.key` of a nested mapping.

    A word of the data section stays one, for it may name a column: the task's loader declares what it is.
    """
    section, _, key = dotted.partition(".")
    if section not in SECTIONS or not key or "." in key:
        raise HfLongSeqError(
            f"--{dotted} does not name an option{did_you_mean(section, SECTIONS)}: write --SECTION.NAME with a "
            f"section from {', '.join(SECTIONS)}; of one architecture of several, --arch ARCH@NAME=VALUE."
        )
    nested.setdefault(section, {})[key] = text if section == "data" else plain_scalar(_yaml_value(text))


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
    task = merged([raw, overrides], "data").get("task", "")
    options: Raw = {}
    if task in TASKS and "source" not in (overrides.get("data") or {}):  # what lies on the Hub has its size
        parameters = TASKS[task].parameters
        options = {key: value for key, value in TINY_COUNTS.items() if key in parameters} | TINY_OPTIONS.get(task, {})
    # Four steps need no small training split, and a small one might lack a class.
    limits = {"num_validation_examples": TINY_EXAMPLES, "num_test_examples": TINY_EXAMPLES}
    return {"train_fraction": None, "num_train_examples": None, **limits, **options}
