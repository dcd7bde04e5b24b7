"""Upstream transformers' common model tests pointed at the LRU classes that read tokens."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from makers import tokens

SPEC = tokens("lru", "LRU", ["state_size", 2], dict(state_size=8))
