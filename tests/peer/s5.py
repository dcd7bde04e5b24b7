"""Upstream transformers' common model tests pointed at the S5 classes that read tokens."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from makers import tokens

SPEC = tokens("s5", "S5", ["num_states", 2], dict(state_size=8))
