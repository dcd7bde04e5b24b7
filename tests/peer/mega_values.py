"""Upstream transformers' common model tests pointed at the Mega classes that read real values."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from makers import recurrent, values

SPEC = values("mega_values", "Mega", dict(value_size=48, shared_representation_size=8, state_size=4), **recurrent())
