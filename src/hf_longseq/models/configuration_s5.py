# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Configuration of S5, one state space with many inputs and outputs per layer."""

from huggingface_hub.dataclasses import strict

from .configuration_longseq import LongSeqConfig, require_at_least, require_choice, require_steps


@strict
class S5Config(LongSeqConfig):
    """Simplified state spaces (Smith et al., "Simplified State Space Layers for Sequence Modeling", 2023). Shared
    fields are described in `LongSeqConfig`.

    Args:
        state_size: size of the state space, driven and read by all channels.
        num_blocks: equal blocks of HiPPO-LegS that the state matrix starts from; must divide `state_size`.
        conjugate_symmetry: keep one of each conjugate pair of states, half as many; needs blocks of even size.
        readout_init: how C is drawn, "trunc_standard_normal", "lecun_normal" (smaller by the root of `hidden_size`) or
            "complex_normal".
        discretization: "zoh" (zero-order hold) or "bilinear".
        output_activation: after the state space, "gelu", "half_glu1", "half_glu2" or "full_glu".
        clip_eigenvalues: keep the real parts of the eigenvalues below -1e-4.
        dt_min: smallest step at initialisation, in units of one position.
        dt_max: largest step at initialisation.
        step_rescale: factor on all steps, such as 2.0 for data at half the sampling rate of training.
        parameter_grouping: how the optimizer treats B and C, under the authors' names: "standard" (B at the rate of
            the state space, without decay; C at the other rate, with decay), "BandCdecay" (B decayed as well),
            "BfastandCdecay" (B as C) or "noBCdecay" (C and D as B).
        dt_global: train the steps at the rate, and with the decay, of the rest of the model.
    """

    model_type = "longseq_s5"
    attribute_map = {**LongSeqConfig.attribute_map, "d_state": "state_size"}

    state_size: int = 64
    num_blocks: int = 1
    conjugate_symmetry: bool = True
    readout_init: str = "trunc_standard_normal"
    discretization: str = "zoh"
    output_activation: str = "half_glu1"
    clip_eigenvalues: bool = False
    dt_min: float | int = 1e-3
    dt_max: float | int = 0.1
    step_rescale: float | int = 1.0
    parameter_grouping: str = "standard"
    dt_global: bool = False

    @property
    def num_states(self) -> int:
        """Complex states that a layer carries."""
        return self.state_size // 2 if self.conjugate_symmetry else self.state_size

    def validate_architecture(self) -> None:
        super().validate_architecture()
        require_choice(self, "readout_init", ("trunc_standard_normal", "lecun_normal", "complex_normal"))
        require_choice(self, "discretization", ("zoh", "bilinear"))
        require_choice(self, "output_activation", ("gelu", "half_glu1", "half_glu2", "full_glu"))
        require_choice(self, "parameter_grouping", ("standard", "BandCdecay", "BfastandCdecay", "noBCdecay"))
        require_at_least(self, "state_size", 1)
        require_at_least(self, "num_blocks", 1)
        if self.state_size % self.num_blocks:
            raise ValueError(
                f"S5Config.state_size is {self.state_size}, which does not split into num_blocks={self.num_blocks} "
                "equal blocks; give a multiple of num_blocks."
            )
        if self.conjugate_symmetry and self.state_size // self.num_blocks % 2:
            raise ValueError(
                f"S5Config.state_size is {self.state_size}, which gives num_blocks={self.num_blocks} blocks of "
                f"odd size {self.state_size // self.num_blocks}; give blocks of even size, or set "
                "conjugate_symmetry=False."
            )
        require_steps(self)
        if not self.step_rescale > 0:
            raise ValueError(f"S5Config.step_rescale is {self.step_rescale}; give a positive factor.")


__all__ = ["S5Config"]
