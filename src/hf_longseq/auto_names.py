# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Makes transformers' Auto classes know our model types by name; a class is imported when it is first asked for.

transformers looks up `config.model_type` in tables of names, and imports the module of a name when it is asked for.
Our names join these tables as soon as transformers has them: at once if it is imported already, else when it is. The
modules that belong to them are `hf_longseq` itself, whose classes are imported on demand; importing a class registers
it with its heads (`models/__init__.py`).
"""

import importlib.abc
import importlib.machinery
import sys

FOLDER = "transformers.models.auto"
_config_names: dict[str, str] = {}


def add(config_names: dict[str, str]) -> None:
    """Add model types to the Auto classes, with the names of their configuration classes in `hf_longseq`."""
    _config_names.update(config_names)
    for model_type in config_names:
        sys.modules[f"transformers.models.{model_type}"] = sys.modules["hf_longseq"]
    sys.meta_path.insert(0, _AfterImport())
    for module in _TABLES.keys() & sys.modules.keys():
        _add_names(sys.modules[module])


# module -> its table of names, and what it says of each of our types: the configuration class, or the same for all
_TABLES: dict[str, tuple[str, object]] = {
    f"{FOLDER}.configuration_auto": ("CONFIG_MAPPING_NAMES", None),
    f"{FOLDER}.feature_extraction_auto": ("FEATURE_EXTRACTOR_MAPPING_NAMES", "LongSeqFeatureExtractor"),
    # the one processor serves as either of transformers' backends
    f"{FOLDER}.image_processing_auto": (
        "IMAGE_PROCESSOR_MAPPING_NAMES",
        dict.fromkeys(("pil", "torchvision"), "LongSeqImageProcessor"),
    ),
}


def _add_names(module) -> None:
    table, name = _TABLES[module.__name__]
    getattr(module, table).update(dict.fromkeys(_config_names, name) if name else _config_names)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds the modules of `_TABLES` as Python does, and adds the names when they have been executed."""

    def find_spec(self, name, path=None, target=None):
        if name not in _TABLES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None:
            execute = spec.loader.exec_module

            def execute_and_add(module):
                execute(module)
                _add_names(module)

            spec.loader.exec_module = execute_and_add
        return spec
