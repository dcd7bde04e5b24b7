"""Upstream transformers' common model tests pointed at the DLR classes that read tokens."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from makers import tokens

SPEC = tokens("dlr", "DLR", ["hidden_size", "state_size"], dict(state_size=8))
