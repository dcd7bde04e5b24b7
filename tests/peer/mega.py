"""Upstream transformers' common model tests pointed at the Mega classes that read tokens."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from makers import tokens

SPEC = tokens(
    "mega",
    "Mega",
    ["hidden_size", "state_size"],
    dict(value_size=48, shared_representation_size=8, state_size=4),
    common_properties=["hidden_size", "num_hidden_layers"],
    tester=dict(num_attention_heads=1),
    attributes=dict(peer_state_shape=["hidden_size", "state_size"]),
)
