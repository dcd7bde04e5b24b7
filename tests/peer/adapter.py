"""Upstream transformers' common model tests pointed at our heads around RoFormer, which reads both ways itself."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from makers import adapter

SPEC = adapter("adapter", dict(model_type="roformer", num_attention_heads=4, intermediate_size=37))
