# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`Recipe`: the checked settings of one architecture on one task, from a recipe file and the command line."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.architectures import check_model, check_model_fields, check_name, is_hf, tiny_fields
from hf_longseq.training.arguments import DataSection, ModelSection, build_section
from hf_longseq.training.config import FinetuneConfig, SPTConfig, build_phase, change_phase
from hf_longseq.training.recipe_file import (
    PHASES,
    SECTIONS,
    TINY_PHASE,
    VARIANTS,
    Raw,
    architectures_of,
    check_sections,
    chosen,
    loader_options,
    merged,
    read_recipe,
    tiny_data,
    without_another_task,
)


@dataclass
class Recipe:
    """Checked settings of one architecture on one task.

    Make one with `Recipe.load`; `to_dict` is what `resolved.yaml` stores.
    """

    model: ModelSection = field(default_factory=ModelSection)
    data: DataSection = field(default_factory=DataSection)
    pretrain: SPTConfig = field(default_factory=lambda: build_phase("pretrain", {}))
    finetune: FinetuneConfig = field(default_factory=lambda: build_phase("finetune", {}))
    scratch: FinetuneConfig = field(default_factory=lambda: build_phase("scratch", {}))

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
            arch: The architecture, or the recipe's variant, to take.
            objective: "masked" or "causal", in place of the recipe's `pretrain.objective`.
            tiny: Toy sizes for a trial in seconds.

        Raises:
            HfLongSeqError: For an unknown key or a value of the wrong type; the message names the key.
        """
        if isinstance(source, Recipe):
            source = source.to_dict()
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
        phases = {name: build_phase(name, sections[name]) for name in PHASES}
        if not sections["data"].get("task"):
            raise HfLongSeqError("data.task is not set: name a task (see `hf-longseq tasks list`) or a recipe.")
        # The model section describes the fine-tuned model; causal pretraining makes it look back only.
        model.fields = {**({} if is_hf(arch) else {"bidirectional": True}), **model.fields}
        return cls(_checked_model(model), _checked_data(sections["data"]), **phases)

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
        phases = [name for name in PHASES if changes.get(name)]
        sections = {name: change_phase(name, getattr(self, name), changes[name]) for name in phases}
        if changes.get("model"):
            fields = {**vars(self.model), **self.model.fields, **changes["model"]}
            del fields["fields"]
            sections["model"] = _checked_model(build_section(ModelSection, fields, "model"))
        if changes.get("data"):
            options = {**vars(self.data), **self.data.options, **changes["data"]}
            del options["options"]
            sections["data"] = _checked_data(options)
        return replace(self, **sections)


def _checked_model(model: ModelSection) -> ModelSection:
    model.fields = check_model_fields(model.arch, model.fields)
    check_model(model.arch, model.fields)
    return model


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
