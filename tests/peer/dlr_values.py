"""Upstream transformers' common model tests pointed at the DLR classes that read real values."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from makers import recurrent, values

SPEC = values("dlr_values", "DLR", dict(state_size=8), **recurrent())
