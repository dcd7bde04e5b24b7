# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The architectures: configurations, one shared trunk with its heads, a mixer per architecture and the state-space
engine. A flat folder that travels to the Hub with every checkpoint; importing it registers the Auto classes.
"""

from transformers import AutoConfig, AutoFeatureExtractor, AutoImageProcessor
from transformers.models.auto import modeling_auto
from transformers.utils import is_vision_available

from .configuration_adapter import AdapterConfig
from .configuration_dlr import DLRConfig
from .configuration_long_transformer import LongTransformerConfig
from .configuration_lru import LRUConfig
from .configuration_mega import MegaConfig
from .configuration_s4 import S4Config
from .configuration_s5 import S5Config
from .feature_extraction_longseq import LongSeqFeatureExtractor
from .image_processing_longseq import LongSeqImageProcessor
from .modeling_adapter import (
    AdapterForMaskedLM,
    AdapterForPreTraining,
    AdapterForSequenceClassification,
    AdapterModel,
)
from .modeling_dlr import (
    DLRForCausalLM,
    DLRForMaskedLM,
    DLRForPreTraining,
    DLRForSequenceClassification,
    DLRModel,
)
from .modeling_long_transformer import (
    LongTransformerForCausalLM,
    LongTransformerForMaskedLM,
    LongTransformerForPreTraining,
    LongTransformerForSequenceClassification,
    LongTransformerModel,
)
from .modeling_lru import (
    LRUForCausalLM,
    LRUForMaskedLM,
    LRUForPreTraining,
    LRUForSequenceClassification,
    LRUModel,
)
from .modeling_mega import (
    MegaForCausalLM,
    MegaForMaskedLM,
    MegaForPreTraining,
    MegaForSequenceClassification,
    MegaModel,
)
from .modeling_s4 import (
    S4ForCausalLM,
    S4ForMaskedLM,
    S4ForPreTraining,
    S4ForSequenceClassification,
    S4Model,
)
from .modeling_s5 import (
    S5ForCausalLM,
    S5ForMaskedLM,
    S5ForPreTraining,
    S5ForSequenceClassification,
    S5Model,
)

# architecture name on the command line and in recipes -> its configuration and base model
ARCHITECTURES = {
    "s4": (S4Config, S4Model),
    "dlr": (DLRConfig, DLRModel),
    "transformer": (LongTransformerConfig, LongTransformerModel),
    "lru": (LRUConfig, LRUModel),
    "s5": (S5Config, S5Model),
    "mega": (MegaConfig, MegaModel),
}

__all__ = [
    "ARCHITECTURES",
    "AdapterConfig",
    "AdapterForMaskedLM",
    "AdapterForPreTraining",
    "AdapterForSequenceClassification",
    "AdapterModel",
    "DLRConfig",
    "DLRForCausalLM",
    "DLRForMaskedLM",
    "DLRForPreTraining",
    "DLRForSequenceClassification",
    "DLRModel",
    "LRUConfig",
    "LRUForCausalLM",
    "LRUForMaskedLM",
    "LRUForPreTraining",
    "LRUForSequenceClassification",
    "LRUModel",
    "LongTransformerConfig",
    "LongTransformerForCausalLM",
    "LongTransformerForMaskedLM",
    "LongTransformerForPreTraining",
    "LongTransformerForSequenceClassification",
    "LongTransformerModel",
    "LongSeqFeatureExtractor",
    "LongSeqImageProcessor",
    "MegaConfig",
    "MegaForCausalLM",
    "MegaForMaskedLM",
    "MegaForPreTraining",
    "MegaForSequenceClassification",
    "MegaModel",
    "S4Config",
    "S4ForCausalLM",
    "S4ForMaskedLM",
    "S4ForPreTraining",
    "S4ForSequenceClassification",
    "S4Model",
    "S5Config",
    "S5ForCausalLM",
    "S5ForMaskedLM",
    "S5ForPreTraining",
    "S5ForSequenceClassification",
    "S5Model",
]


def _register(config_class, heads) -> None:
    """Make the Auto classes open `heads` for `config_class`, and ship the code with whatever is saved."""
    AutoConfig.register(config_class.model_type, config_class, exist_ok=True)
    config_class.register_for_auto_class()
    for head in heads:
        names = [name for name, cls in head.auto_map.items() if cls.endswith(f".{head.__name__}")]
        for auto_name in names:
            getattr(modeling_auto, auto_name).register(config_class, head, exist_ok=True)
        head.register_for_auto_class(names[0])
    AutoFeatureExtractor.register(config_class, LongSeqFeatureExtractor, exist_ok=True)
    if is_vision_available():  # without Pillow, transformers has no AutoImageProcessor
        # the one processor serves as either of transformers' backends
        backends = dict.fromkeys(("pil", "torchvision"), LongSeqImageProcessor)
        AutoImageProcessor.register(config_class, image_processor_classes=backends, exist_ok=True)


LongSeqFeatureExtractor.register_for_auto_class()
LongSeqImageProcessor.register_for_auto_class()
_register(S4Config, (S4Model, S4ForMaskedLM, S4ForCausalLM, S4ForPreTraining, S4ForSequenceClassification))
_register(DLRConfig, (DLRModel, DLRForMaskedLM, DLRForCausalLM, DLRForPreTraining, DLRForSequenceClassification))
_register(
    LongTransformerConfig,
    (
        LongTransformerModel,
        LongTransformerForMaskedLM,
        LongTransformerForCausalLM,
        LongTransformerForPreTraining,
        LongTransformerForSequenceClassification,
    ),
)
_register(LRUConfig, (LRUModel, LRUForMaskedLM, LRUForCausalLM, LRUForPreTraining, LRUForSequenceClassification))
_register(S5Config, (S5Model, S5ForMaskedLM, S5ForCausalLM, S5ForPreTraining, S5ForSequenceClassification))
_register(
    MegaConfig,
    (MegaModel, MegaForMaskedLM, MegaForCausalLM, MegaForPreTraining, MegaForSequenceClassification),
)
# any architecture of transformers behind our inputs and heads
_register(AdapterConfig, (AdapterModel, AdapterForMaskedLM, AdapterForPreTraining, AdapterForSequenceClassification))
