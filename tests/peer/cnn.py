"""Upstream transformers' common model tests pointed at the CNN classes that read tokens."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from makers import recurrent, tokens

SPEC = tokens("cnn", "CNN", None, {}, mixins=["peer_mixins:RecurrentStateOnlyPeer"], **recurrent())
