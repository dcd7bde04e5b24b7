"""Upstream transformers' common model tests pointed at the wrapper that reads both ways, around Mamba-2."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from makers import adapter

SPEC = adapter(
    "mamba2_bidirectional",
    dict(model_type="mamba2", state_size=8, num_heads=4, head_dim=16, n_groups=1, chunk_size=8),
    bidirectional="shared",
)
