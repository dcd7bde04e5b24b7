"""Upstream transformers' common model tests pointed at the long Transformer's classes that read real values."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from makers import values

SPEC = values("long_transformer_values", "LongTransformer", dict(num_attention_heads=4, intermediate_size=37))
