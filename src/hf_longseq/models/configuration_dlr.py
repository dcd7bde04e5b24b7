# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Configuration of DLR, the diagonal linear recurrence."""

from huggingface_hub.dataclasses import strict

from .configuration_longseq import LongSeqConfig, require_steps


@strict
class DLRConfig(LongSeqConfig):
    """Diagonal linear RNN (Gupta et al., "Simplifying and Understanding State Space Models with Diagonal Linear RNNs",
    2022). Shared fields are described in `LongSeqConfig`.

    Args:
        state_size: N complex modes, shared by all channels and both directions.
        dt_min: bound of the decay at initialisation: half of it is the smallest decay per position.
        dt_max: bound of the decay at initialisation: half of it is the largest decay per position.
    """

    model_type = "longseq_dlr"
    attribute_map = {**LongSeqConfig.attribute_map, "d_state": "state_size"}

    state_size: int = 1024
    dt_min: float | int = 1e-4
    dt_max: float | int = 0.1

    def validate_architecture(self) -> None:
        super().validate_architecture()
        if self.state_size < 1:
            raise ValueError(f"DLRConfig.state_size is {self.state_size}; give at least one mode.")
        require_steps(self)


__all__ = ["DLRConfig"]
