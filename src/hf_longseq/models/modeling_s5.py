# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""S5: one diagonal state space with many inputs and outputs per layer, with a step per state.

Axes: B batch, L length, H channels, N size of the state space, J blocks, n = N/J, P stored complex states (N/2 with
conjugate symmetry), D directions; a last axis of 2 is (real, imaginary).
"""

import torch
from torch import nn
from transformers import initialization as init
from transformers.integrations import use_kernel_forward_from_hub

from .configuration_s5 import S5Config
from .longseq_heads import (
    LongSeqForCausalLM,
    LongSeqForMaskedLM,
    LongSeqForPreTraining,
    LongSeqForSequenceClassification,
    LongSeqForTokenClassification,
)
from .longseq_layers import LongSeqDropout
from .modeling_longseq import LongSeqModel, LongSeqPreTrainedModel, full_auto_map
from .ssm_init import as_pairs, legs_normal_part, log_uniform, ssm_parameter
from .ssm_mimo import MimoMixer, MimoSystem, lecun_normal
from .ssm_step import check_finite


@use_kernel_forward_from_hub("S5Mixer")
class S5Mixer(MimoMixer):
    """x <- exp(lam dt) x + B' u, y = 2 Re(C x) + D u, then an activation that may gate (Smith et al., "S5", 2023).

    A bidirectional mixer shares the state space and reads a second scan, from the end, with a second C. Parameters of
    the state space are real and float32 whatever the model's dtype. Masked inputs are zeroed; the state evolves over
    them.
    """

    ssm_parameter_names = frozenset({"eigenvalue_real", "eigenvalue_imag", "log_dt", "input_B"})

    def __init__(self, config: S5Config, layer_idx: int):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.bidirectional = config.bidirectional
        channels, states = config.hidden_size, config.num_states

        self.eigenvalue_real = ssm_parameter(states)
        self.eigenvalue_imag = ssm_parameter(states)
        self.log_dt = ssm_parameter(states)
        self.input_B = ssm_parameter(states, channels, 2)
        self.output_C = ssm_parameter(2 if config.bidirectional else 1, channels, states, 2)
        self.skip_D = ssm_parameter(channels)
        self.value_projection = self.gate_projection = self.dropout = None
        if config.output_activation != "gelu":
            # what leaves the mixer is dropped by the trunk; a gate is dropped before it as well
            self.dropout = LongSeqDropout(config.dropout, config.tied_dropout)
            self.gate_projection = nn.Linear(channels, channels)
        if config.output_activation == "full_glu":
            self.value_projection = nn.Linear(channels, channels)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        config, channels = self.config, self.skip_D.shape[0]
        size, blocks = config.state_size, config.num_blocks
        lam_n, v_nn = legs_normal_part(size // blocks)
        kept = config.num_states // blocks
        lam_k, v_nk = lam_n[:kept], v_nn[:, :kept]
        init.copy_(self.eigenvalue_real, lam_k.real.float().repeat(blocks))
        init.copy_(self.eigenvalue_imag, lam_k.imag.float().repeat(blocks))
        init.copy_(self.log_dt, log_uniform(config.num_states, config.dt_min, config.dt_max))
        b_JnH = lecun_normal(blocks, size // blocks, channels, std=size**-0.5).to(v_nk.dtype)
        init.copy_(self.input_B, as_pairs((v_nk.conj().T @ b_JnH).flatten(0, 1)))
        init.copy_(self.output_C, torch.stack([self._draw_readout(v_nk) for _ in range(2)])[: len(self.output_C)])
        init.normal_(self.skip_D)
        for projection in (self.value_projection, self.gate_projection):
            if projection is not None:
                init.copy_(projection.weight, lecun_normal(channels, channels, std=channels**-0.5).float())
                init.zeros_(projection.bias)

    def _draw_readout(self, v_nk: torch.Tensor) -> torch.Tensor:
        """C of one direction, (H, P, 2)."""
        kind, size, channels = self.config.readout_init, self.config.state_size, self.skip_D.shape[0]
        if kind == "complex_normal":
            return torch.randn(channels, self.config.num_states, 2, dtype=torch.float32, device="cpu") * 0.5**0.5
        std = size**-0.5 if kind == "trunc_standard_normal" else (channels * size) ** -0.5
        c_HJn = torch.view_as_complex(lecun_normal(channels, self.config.num_blocks, v_nk.shape[0], 2, std=std))
        return as_pairs((c_HJn @ v_nk).flatten(1))

    def discrete_system(self, dtype: torch.dtype = torch.float32) -> MimoSystem:
        """The discretised model, in ``dtype``."""
        real, imag, log_dt = (p.to(dtype) for p in (self.eigenvalue_real, self.eigenvalue_imag, self.log_dt))
        check_finite(self, (real, imag, log_dt, self.input_B, self.output_C))
        if self.config.clip_eigenvalues:
            real = real.clamp(max=-1e-4)
        dt = self.config.step_rescale * log_dt.exp()
        a, b = real * dt, imag * dt
        if self.config.discretization == "zoh":
            # exp(a + ib) - 1 without the difference of nearly equal numbers
            minus_one = torch.expm1(a) * b.cos() - 2 * (0.5 * b).sin().square(), a.exp() * b.sin()
            lam_P2 = torch.stack((1 + minus_one[0], minus_one[1]), dim=-1)
            norm = real.square() + imag.square()
            gain = (
                (minus_one[0] * real + minus_one[1] * imag) / norm,
                (minus_one[1] * real - minus_one[0] * imag) / norm,
            )
        else:
            norm = (1 - a / 2).square() + (b / 2).square()
            lam_P2 = torch.stack(((1 - (a / 2).square() - (b / 2).square()) / norm, b / norm), dim=-1)
            gain = dt * (1 - a / 2) / norm, dt * (b / 2) / norm
        b_real, b_imag = self.input_B.to(dtype).unbind(-1)
        gain = gain[0][:, None], gain[1][:, None]
        input_PH2 = torch.stack((gain[0] * b_real - gain[1] * b_imag, gain[0] * b_imag + gain[1] * b_real), dim=-1)
        factor = 2 if self.config.conjugate_symmetry else 1
        return MimoSystem(lam_P2, input_PH2, factor * self.output_C.to(dtype), self.skip_D.to(dtype))

    def output(self, y_BLH: torch.Tensor, activated_BLH: torch.Tensor) -> torch.Tensor:
        if self.gate_projection is None:
            return activated_BLH
        activated_BLH = self.dropout(activated_BLH)
        gate = torch.sigmoid(self.gate_projection(activated_BLH))
        if self.config.output_activation == "half_glu1":
            return activated_BLH * gate
        if self.config.output_activation == "half_glu2":
            return y_BLH.to(activated_BLH.dtype) * gate
        return self.value_projection(activated_BLH) * gate


MOVED_PARAMETERS = {
    "standard": {},
    "BandCdecay": {"input_B": "ssm_decay"},
    "BfastandCdecay": {"input_B": "decay"},
    "noBCdecay": {"output_C": "ssm", "skip_D": "ssm"},
}
"""Parameters that the authors' options of the optimizer put into another group than the trunk does."""


class S5PreTrainedModel(LongSeqPreTrainedModel):
    """What transformers needs to know of S5."""

    config: S5Config
    mixer_class = S5Mixer
    auto_map = full_auto_map("s5", "S5")

    def group_of(self, leaf: str, parameter: nn.Parameter) -> str:
        """As for every model, except for what the configuration's `parameter_grouping` and `dt_global` move."""
        moved = MOVED_PARAMETERS[self.config.parameter_grouping] | (
            {"log_dt": "decay"} if self.config.dt_global else {}
        )
        return moved.get(leaf) or super().group_of(leaf, parameter)


class S5Model(S5PreTrainedModel, LongSeqModel):
    """Trunk with S5 mixers."""


class S5ForMaskedLM(S5PreTrainedModel, LongSeqForMaskedLM):
    """Masked token prediction."""

    backbone_class = S5Model


class S5ForCausalLM(S5PreTrainedModel, LongSeqForCausalLM):
    """Next-token prediction and generation with a state of constant size."""

    backbone_class = S5Model


class S5ForPreTraining(S5PreTrainedModel, LongSeqForPreTraining):
    """Denoising or prediction of real values."""

    backbone_class = S5Model


class S5ForSequenceClassification(S5PreTrainedModel, LongSeqForSequenceClassification):
    """Classification and regression of sequences and pairs."""

    backbone_class = S5Model


class S5ForTokenClassification(S5PreTrainedModel, LongSeqForTokenClassification):
    """A label for every position: classes, several labels at once, or numbers."""

    backbone_class = S5Model


__all__ = [
    "S5ForCausalLM",
    "S5ForMaskedLM",
    "S5ForPreTraining",
    "S5ForSequenceClassification",
    "S5ForTokenClassification",
    "S5Model",
    "S5PreTrainedModel",
]
