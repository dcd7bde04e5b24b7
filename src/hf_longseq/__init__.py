# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Self-pretraining for long sequences in the Hugging Face ecosystem.

`import hf_longseq` registers the architectures with transformers' Auto classes. Torch, the models and the trainers are
imported when one of them is first used.
"""

import importlib

from . import auto_names
from .version import __version__

# name of an architecture on the command line and in recipes -> prefix of its classes
ARCHITECTURES = {
    "s4": "S4",
    "dlr": "DLR",
    "transformer": "LongTransformer",
    "lru": "LRU",
    "s5": "S5",
    "mega": "Mega",
    "cnn": "CNN",
}
_HEADS = (
    *("Config", "Model", "ForMaskedLM", "ForCausalLM", "ForPreTraining"),
    *("ForSequenceClassification", "ForTokenClassification"),
)
_HOME = {
    **{f"{prefix}{head}": "models" for prefix in ARCHITECTURES.values() for head in _HEADS},
    "AdapterConfig": "models",
    "LongSeqImageProcessor": "models",
    "LongSeqFeatureExtractor": "models",
    "DataCollatorForMaskedDenoising": "data.collators",
    "DataCollatorForCausalDenoising": "data.collators",
    "DataCollatorWithLongPadding": "data.collators",
    "TaskSpec": "data.task",
    "load_task": "data.task",
    "Recipe": "training.recipe",
    "register_architecture": "training.own_architectures",
    "LongSeqTrainer": "training.trainer",
    "FinetuneConfig": "training.config",
    "SPTConfig": "training.config",
    "SPTTrainer": "training.trainer",
    "pretrain": "training.run",
    "finetune": "training.run",
    "evaluate": "training.inference",
    "predict": "training.inference",
    "compare": "comparison",
    "publish": "hub.publish",
}

__all__ = ["ARCHITECTURES", "__version__", *_HOME]


def import_on_demand(package: str, home: dict[str, str], name: str):
    """What a package gives for a name that is first asked for, from the module in `home` that it lives in."""
    if name not in home:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{package}.{home[name]}"), name)


def __getattr__(name: str):
    return import_on_demand(__name__, _HOME, name)


def __dir__() -> list[str]:
    return sorted(__all__)


auto_names.add({**{f"longseq_{name}": f"{prefix}Config" for name, prefix in ARCHITECTURES.items()},
                "longseq_adapter": "AdapterConfig"})  # fmt: skip
