"""Upstream transformers' common model tests pointed at the S4 classes that read tokens."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from makers import tokens

SPEC = tokens("s4", "S4", ["hidden_size", "state_size"], dict(state_size=8))
