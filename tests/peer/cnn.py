"""Upstream transformers' common model tests pointed at the CNN classes that read tokens."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from makers import tokens

# without growth every layer reaches back as far as the first
SPEC = tokens("cnn", "CNN", [1, "hidden_size"], dict(dilation_growth=1))
