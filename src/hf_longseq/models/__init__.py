# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The architectures: configurations, one shared trunk with its heads, a mixer per architecture and the state-space
engine. A flat folder that travels to the Hub with every checkpoint; importing it registers the Auto classes.
"""

import sys

from transformers import AutoConfig, AutoFeatureExtractor, AutoImageProcessor
from transformers.models.auto import modeling_auto
from transformers.utils import is_vision_available

from .configuration_adapter import AdapterConfig
from .configuration_cnn import CNNConfig
from .configuration_dlr import DLRConfig
from .configuration_long_transformer import LongTransformerConfig
from .configuration_lru import LRUConfig
from .configuration_mega import MegaConfig
from .configuration_s4 import S4Config
from .configuration_s5 import S5Config
from .feature_extraction_longseq import LongSeqFeatureExtractor
from .image_processing_longseq import LongSeqImageProcessor
from .modeling_adapter import *  # noqa: F403
from .modeling_adapter import AdapterModel
from .modeling_cnn import *  # noqa: F403
from .modeling_cnn import CNNModel
from .modeling_dlr import *  # noqa: F403
from .modeling_dlr import DLRModel
from .modeling_long_transformer import *  # noqa: F403
from .modeling_long_transformer import LongTransformerModel
from .modeling_lru import *  # noqa: F403
from .modeling_lru import LRUModel
from .modeling_mega import *  # noqa: F403
from .modeling_mega import MegaModel
from .modeling_s4 import *  # noqa: F403
from .modeling_s4 import S4Model
from .modeling_s5 import *  # noqa: F403
from .modeling_s5 import S5Model

# architecture name on the command line and in recipes -> its configuration and base model
ARCHITECTURES = {
    "s4": (S4Config, S4Model),
    "dlr": (DLRConfig, DLRModel),
    "transformer": (LongTransformerConfig, LongTransformerModel),
    "lru": (LRUConfig, LRUModel),
    "s5": (S5Config, S5Model),
    "mega": (MegaConfig, MegaModel),
    "cnn": (CNNConfig, CNNModel),
}

# any architecture of transformers behind our inputs and heads
_ALL = {**ARCHITECTURES, "adapter": (AdapterConfig, AdapterModel)}


def register(config_class, base_model) -> None:
    """Make the Auto classes open the heads that `base_model.auto_map` names."""
    AutoConfig.register(config_class.model_type, config_class, exist_ok=True)
    module = sys.modules[base_model.__module__]
    names_of: dict[str, list[str]] = {}
    for auto_name, path in base_model.auto_map.items():
        names_of.setdefault(path.split(".")[1], []).append(auto_name)
    for head_name, auto_names in names_of.items():
        if auto_names == ["AutoConfig"]:
            continue
        head = getattr(module, head_name)
        for auto_name in auto_names:
            getattr(modeling_auto, auto_name).register(config_class, head, exist_ok=True)
        if base_model.__module__.startswith(__name__):  # transformers then ships the code with what is saved
            head.register_for_auto_class(auto_names[0])
    AutoFeatureExtractor.register(config_class, LongSeqFeatureExtractor, exist_ok=True)
    if is_vision_available():  # without Pillow, transformers has no AutoImageProcessor
        # the one processor serves as either of transformers' backends
        backends = dict.fromkeys(("pil", "torchvision"), LongSeqImageProcessor)
        AutoImageProcessor.register(config_class, image_processor_classes=backends, exist_ok=True)


LongSeqFeatureExtractor.register_for_auto_class()
LongSeqImageProcessor.register_for_auto_class()
for _config_class, _base_model in _ALL.values():
    _config_class.register_for_auto_class()
    register(_config_class, _base_model)
