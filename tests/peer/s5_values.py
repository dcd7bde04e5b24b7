"""Upstream transformers' common model tests pointed at the S5 classes that read real values."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from makers import recurrent, values

SPEC = values("s5_values", "S5", dict(state_size=8), **recurrent())
