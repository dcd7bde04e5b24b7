"""Upstream transformers' common model tests pointed at the wrapper that reads both ways, around Llama."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from makers import adapter

SPEC = adapter(
    "llama_bidirectional",
    dict(model_type="llama", num_attention_heads=4, num_key_value_heads=2, intermediate_size=37),
    bidirectional="separate",
    direction_join="concat",
)
