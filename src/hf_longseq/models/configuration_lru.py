# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Configuration of the LRU, the linear recurrent unit."""

from huggingface_hub.dataclasses import strict

from .configuration_longseq import LongSeqConfig, require_at_least


@strict
class LRUConfig(LongSeqConfig):
    """Linear recurrent unit (Orvieto et al., "Resurrecting Recurrent Neural Networks for Long Sequences", 2023).
    Shared fields are described in `LongSeqConfig`.

    Args:
        state_size: N complex states, driven and read by all channels.
        r_min: smallest modulus of the eigenvalues at initialisation, in [0, 1].
        r_max: largest modulus at initialisation, in [0, 1].
        max_phase: largest phase at initialisation, in radians per position.
    """

    model_type = "longseq_lru"
    attribute_map = {**LongSeqConfig.attribute_map, "d_state": "state_size"}

    state_size: int = 128
    r_min: float | int = 0.0
    r_max: float | int = 1.0
    max_phase: float | int = 6.28

    def validate_architecture(self) -> None:
        super().validate_architecture()
        require_at_least(self, "state_size", 1)
        if not 0 <= self.r_min <= self.r_max <= 1:
            raise ValueError(
                f"LRUConfig has r_min={self.r_min} and r_max={self.r_max}; give radii with 0 <= r_min <= r_max <= 1."
            )
        if not self.max_phase > 0:
            raise ValueError(f"LRUConfig.max_phase is {self.max_phase}; give a positive angle in radians.")


__all__ = ["LRUConfig"]
