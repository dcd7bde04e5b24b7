# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""LRU: a complex diagonal recurrence in discrete time, stable by construction.

Axes: B batch, L length, H channels, N complex states, D directions; a last axis of 2 is (real, imaginary).
"""

import torch
import torch.nn.functional as F
from torch import nn
from transformers import initialization as init
from transformers.integrations import use_kernel_forward_from_hub

from .configuration_lru import LRUConfig
from .longseq_heads import (
    LongSeqForCausalLM,
    LongSeqForMaskedLM,
    LongSeqForPreTraining,
    LongSeqForSequenceClassification,
    LongSeqForTokenClassification,
)
from .longseq_layers import LongSeqDropout
from .modeling_longseq import LongSeqModel, LongSeqPreTrainedModel, full_auto_map
from .ssm_init import normal_directions, ssm_parameter
from .ssm_mimo import MimoMixer, MimoSystem, lecun_normal
from .ssm_step import check_finite


@use_kernel_forward_from_hub("LRUMixer")
class LRUMixer(MimoMixer):
    """GLU(Linear(GELU(Re(C x) + D u))) with x <- lam x + exp(gamma) B u and |lam| = exp(-exp(nu)) < 1.

    A bidirectional mixer shares lam, gamma and B, and reads a second scan, from the end, with a second C. Parameters
    of the recurrence are real and float32 whatever the model's dtype. Masked inputs are zeroed; the state evolves
    over them. Source: Orvieto et al., 2023, with the block of their experiments.
    """

    ssm_parameter_names = frozenset({"nu_log", "theta_log", "gamma_log", "input_B"})

    def __init__(self, config: LRUConfig, layer_idx: int):
        super().__init__()
        self.layer_idx = layer_idx
        self.bidirectional = config.bidirectional
        self.r_min, self.r_max, self.max_phase = config.r_min, config.r_max, config.max_phase
        channels, states = config.hidden_size, config.state_size

        self.nu_log = ssm_parameter(states)
        self.theta_log = ssm_parameter(states)
        self.gamma_log = ssm_parameter(states)
        self.input_B = ssm_parameter(states, channels, 2)
        self.output_C = ssm_parameter(2 if config.bidirectional else 1, channels, states, 2)
        self.skip_D = ssm_parameter(channels)
        self.dropout = LongSeqDropout(config.dropout, config.tied_dropout)
        self.output_projection = nn.Linear(channels, 2 * channels)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        states, channels, _ = self.input_B.shape
        unit = torch.rand(2, states, dtype=torch.float64, device="cpu").clamp(min=1e-7)
        # uniform by area on the ring; the ends would be infinite logarithms
        square = (unit[0] * (self.r_max**2 - self.r_min**2) + self.r_min**2).clamp(1e-12, 1 - 1e-7)
        init.copy_(self.nu_log, torch.log(-0.5 * square.log()).float())
        init.copy_(self.theta_log, torch.log(self.max_phase * unit[1]).float())
        init.copy_(self.gamma_log, (0.5 * torch.log1p(-square)).float())
        init.normal_(self.input_B, std=(2 * channels) ** -0.5)
        init.copy_(self.output_C, normal_directions(self.output_C, 1, std=states**-0.5))
        init.normal_(self.skip_D)
        init.copy_(self.output_projection.weight, lecun_normal(2 * channels, channels, std=channels**-0.5).float())
        init.zeros_(self.output_projection.bias)

    def discrete_system(self, dtype: torch.dtype = torch.float32) -> MimoSystem:
        """lam, exp(gamma) B, C and D in ``dtype``."""
        nu, theta, gamma = (p.to(dtype) for p in (self.nu_log, self.theta_log, self.gamma_log))
        check_finite(self, (nu, theta, gamma, self.input_B, self.output_C))
        modulus, phase = torch.exp(-nu.exp()), theta.exp()
        lam_N2 = torch.stack((modulus * phase.cos(), modulus * phase.sin()), dim=-1)
        input_NH2 = gamma.exp()[:, None, None] * self.input_B.to(dtype)
        return MimoSystem(lam_N2, input_NH2, self.output_C.to(dtype), self.skip_D.to(dtype))

    def output(self, y_BLH: torch.Tensor, activated_BLH: torch.Tensor) -> torch.Tensor:
        return F.glu(self.output_projection(self.dropout(activated_BLH)), dim=-1)


class LRUPreTrainedModel(LongSeqPreTrainedModel):
    """What transformers needs to know of the LRU."""

    config: LRUConfig
    mixer_class = LRUMixer
    auto_map = full_auto_map("lru", "LRU")


class LRUModel(LRUPreTrainedModel, LongSeqModel):
    """Trunk with LRU mixers."""


class LRUForMaskedLM(LRUPreTrainedModel, LongSeqForMaskedLM):
    """Masked token prediction."""

    backbone_class = LRUModel


class LRUForCausalLM(LRUPreTrainedModel, LongSeqForCausalLM):
    """Next-token prediction and generation with a state of constant size."""

    backbone_class = LRUModel


class LRUForPreTraining(LRUPreTrainedModel, LongSeqForPreTraining):
    """Denoising or prediction of real values."""

    backbone_class = LRUModel


class LRUForSequenceClassification(LRUPreTrainedModel, LongSeqForSequenceClassification):
    """Classification and regression of sequences and pairs."""

    backbone_class = LRUModel


class LRUForTokenClassification(LRUPreTrainedModel, LongSeqForTokenClassification):
    """A label for every position: classes, several labels at once, or numbers."""

    backbone_class = LRUModel


__all__ = [
    "LRUForCausalLM",
    "LRUForMaskedLM",
    "LRUForPreTraining",
    "LRUForSequenceClassification",
    "LRUForTokenClassification",
    "LRUModel",
    "LRUPreTrainedModel",
]
