"""Upstream transformers' common model tests pointed at the long Transformer's classes that read tokens."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from makers import INPUT_IDS, tokens

SPEC = tokens(
    "long_transformer",
    "LongTransformer",
    None,
    dict(num_attention_heads=4, intermediate_size=37),
    inputs={**INPUT_IDS, "attention_mask": dict(kind="mask", shape=["batch_size", "seq_length"])},
)
