"""Upstream transformers' common model tests pointed at the wrapper that reads both ways, around RWKV.

Transformers' RWKV ignores attention_mask, so the padding checks show the wrapper at work.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from makers import adapter

SPEC = adapter(
    "rwkv_bidirectional",
    dict(model_type="rwkv", attention_hidden_size=32, intermediate_size=37, context_length=64),
    bidirectional="shared",
)
