# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Configuration of S4 and its diagonal variants."""

from huggingface_hub.dataclasses import strict

from .configuration_longseq import LongSeqConfig, require_choice, require_steps


@strict
class S4Config(LongSeqConfig):
    """Structured state spaces (Gu et al., "S4", 2022; "S4D", 2022). Shared fields are described in `LongSeqConfig`.

    Args:
        state_size: N real numbers of state per channel, held as N/2 conjugate pairs of modes.
        kernel: "dplr" (diagonal plus rank one, from HiPPO-LegS) or "diagonal" (S4D).
        diagonal_init: poles of the diagonal kernel, "inv", "lin" or "legs".
        num_ssm: independent (A, B) copies, shared by the channels in turn; None gives every channel its own.
        dt_min: smallest step at initialisation, in units of one position.
        dt_max: largest step at initialisation.
    """

    model_type = "longseq_s4"
    attribute_map = {**LongSeqConfig.attribute_map, "d_state": "state_size"}

    state_size: int = 64
    kernel: str = "dplr"
    diagonal_init: str = "lin"
    num_ssm: int | None = None
    dt_min: float | int = 1e-3
    dt_max: float | int = 0.1

    def validate_architecture(self) -> None:
        super().validate_architecture()
        require_choice(self, "kernel", ("dplr", "diagonal"))
        require_choice(self, "diagonal_init", ("inv", "lin", "legs"))
        if self.state_size < 2 or self.state_size % 2:
            raise ValueError(
                f"S4Config.state_size is {self.state_size}; give a positive even number, as modes come in conjugate "
                "pairs."
            )
        require_steps(self)
        if self.num_ssm is not None and (self.num_ssm < 1 or self.hidden_size % self.num_ssm):
            raise ValueError(
                f"S4Config.num_ssm is {self.num_ssm}, which does not divide hidden_size {self.hidden_size}; give a "
                "divisor of hidden_size, or None for one per channel."
            )


__all__ = ["S4Config"]
