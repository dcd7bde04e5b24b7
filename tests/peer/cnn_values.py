"""Upstream transformers' common model tests pointed at the CNN classes that read real values."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from makers import recurrent, values

SPEC = values("cnn_values", "CNN", {}, **recurrent())
