# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""DLR: a diagonal linear recurrence whose many modes are shared by all channels.

Axes: B batch, L length, H channels, D directions, N complex modes; a last axis of 2 is (real, imaginary).
"""

import torch
from transformers import initialization as init
from transformers.cache_utils import Cache
from transformers.integrations import use_kernel_forward_from_hub

from .configuration_dlr import DLRConfig
from .longseq_heads import (
    LongSeqForCausalLM,
    LongSeqForMaskedLM,
    LongSeqForPreTraining,
    LongSeqForSequenceClassification,
    LongSeqForTokenClassification,
)
from .longseq_layers import one_direction
from .modeling_longseq import LongSeqModel, LongSeqPreTrainedModel, full_auto_map
from .ssm_cache import recurrent_layer
from .ssm_convolution import (
    ColumnsLinear,
    ConvolutionMixer,
    final_mode_state,
    long_convolution,
    mode_kernel,
    mode_multiplier,
    mode_readout,
    mode_step,
    propagate_modes,
)
from .ssm_init import complex_normal, dlr_modes, ssm_parameter
from .ssm_precision import wide_dtype
from .ssm_step import check_finite, check_state


@use_kernel_forward_from_hub("DLRMixer")
class DLRMixer(ConvolutionMixer):
    """GLU(Linear(GELU(k * u + D u))) with k[t] = Re sum_n W_n exp(Lambda_n t) and Lambda = -a^2 + i omega.

    There is no step, no input matrix and no discretisation (Gupta et al., 2022). Parameters are real and float32
    whatever the model's dtype. Masked inputs are zeroed; the state evolves over them.
    """

    ssm_parameter_names = frozenset({"mode_decay_root", "mode_frequency", "mode_weight_W"})

    def __init__(self, config: DLRConfig, layer_idx: int):
        super().__init__()
        self.layer_idx = layer_idx
        self.bidirectional = config.bidirectional
        self.dt_min, self.dt_max = config.dt_min, config.dt_max
        channels, modes = config.hidden_size, config.state_size
        directions = 2 if config.bidirectional else 1
        self.mode_decay_root = ssm_parameter(modes)
        self.mode_frequency = ssm_parameter(modes)
        self.mode_weight_W = ssm_parameter(directions, channels, modes, 2)
        self.skip_D = ssm_parameter(channels)
        self.output_projection = ColumnsLinear(channels, 2 * channels)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        modes = self.mode_frequency.shape[0]
        decay_root_N, omega_N = dlr_modes(modes, self.dt_min, self.dt_max)
        init.copy_(self.mode_decay_root, decay_root_N)
        init.copy_(self.mode_frequency, omega_N)
        weight_W = complex_normal(2, *self.mode_weight_W.shape[1:-1], variance=2 / modes)
        init.copy_(self.mode_weight_W, weight_W[: len(self.mode_weight_W)])
        init.normal_(self.skip_D)

    def taps(self, length: int) -> torch.Tensor:
        dtype = wide_dtype(self.mode_weight_W.dtype)
        return self._taps(self.mode_weight_W.to(dtype), *self._modes(dtype), length)

    def _taps(
        self, weight_DHN2: torch.Tensor, decay_N: torch.Tensor, omega_N: torch.Tensor, length: int
    ) -> torch.Tensor:
        """Kernels (D, H, L); the second begins one position ahead."""
        taps = mode_kernel(weight_DHN2.flatten(0, 1), decay_N, omega_N, length)
        check_finite(self, (taps,))  # as the weights are, and fewer
        return taps.view(*weight_DHN2.shape[:2], length)

    def mix(self, u_HBL: torch.Tensor, past_key_values: Cache | None, direction: str | None = None) -> torch.Tensor:
        weight_DHN2, skip_H = self.mode_weight_W.to(u_HBL.dtype), self.skip_D.to(u_HBL.dtype)
        length, memory, state = u_HBL.shape[-1], None, None
        if past_key_values is not None:
            memory = recurrent_layer(past_key_values, self.layer_idx, self.bidirectional)
            state = memory.state
        if state is not None:
            check_state(state, (u_HBL.shape[1], u_HBL.shape[0], weight_DHN2.shape[2]), is_complex=True)
        if state is not None and length == 1:
            u_BH = u_HBL[..., 0].t()
            parameters = (self.mode_decay_root, self.mode_frequency, self.mode_weight_W)
            multiplier_2N, readout_HK = memory.prepared(lambda: self._step_system(u_BH.dtype), parameters)
            y_BH, state = mode_step(state, multiplier_2N, readout_HK, u_BH)
            memory.advance(state, 1)
            return torch.addcmul(y_BH, skip_H, u_BH).t()[..., None]

        decay_N, omega_N = self._modes(u_HBL.dtype)
        kernel_DHL = one_direction(self._taps(weight_DHN2, decay_N, omega_N, length), direction)
        y_HBL = long_convolution(u_HBL, kernel_DHL, skip_H)
        if memory is None:
            return y_HBL
        reached = final_mode_state(u_HBL, decay_N, omega_N)
        if state is not None:
            after_HBL, left = propagate_modes(state, weight_DHN2[0], decay_N, omega_N, length)
            y_HBL, reached = y_HBL + after_HBL, reached + left
        memory.advance(reached, length)
        return y_HBL

    def _modes(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Decay and frequency per position, in ``dtype``."""
        check_finite(self, (self.mode_decay_root, self.mode_frequency))
        return self.mode_decay_root.to(dtype).square(), self.mode_frequency.to(dtype)

    def _step_system(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """What :func:`mode_step` multiplies with."""
        check_finite(self, (self.mode_weight_W,))
        return mode_multiplier(*self._modes(dtype)), mode_readout(self.mode_weight_W[0].to(dtype))


class DLRPreTrainedModel(LongSeqPreTrainedModel):
    """What transformers needs to know of DLR."""

    config: DLRConfig
    mixer_class = DLRMixer
    auto_map = full_auto_map("dlr", "DLR")


class DLRModel(DLRPreTrainedModel, LongSeqModel):
    """Trunk with DLR mixers."""


class DLRForMaskedLM(DLRPreTrainedModel, LongSeqForMaskedLM):
    """Masked token prediction."""

    backbone_class = DLRModel


class DLRForCausalLM(DLRPreTrainedModel, LongSeqForCausalLM):
    """Next-token prediction and generation with a state of constant size."""

    backbone_class = DLRModel


class DLRForPreTraining(DLRPreTrainedModel, LongSeqForPreTraining):
    """Denoising or prediction of real values."""

    backbone_class = DLRModel


class DLRForSequenceClassification(DLRPreTrainedModel, LongSeqForSequenceClassification):
    """Classification and regression of sequences and pairs."""

    backbone_class = DLRModel


class DLRForTokenClassification(DLRPreTrainedModel, LongSeqForTokenClassification):
    """A label for every position: classes, several labels at once, or numbers."""

    backbone_class = DLRModel


__all__ = [
    "DLRForCausalLM",
    "DLRForMaskedLM",
    "DLRForPreTraining",
    "DLRForSequenceClassification",
    "DLRForTokenClassification",
    "DLRModel",
    "DLRPreTrainedModel",
]
