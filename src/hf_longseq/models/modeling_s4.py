# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""S4 and S4D: state spaces per channel, computed by the chunked scan or a Fourier convolution.

Axes: B batch, L length, H channels, S independent (A, B) copies, n conjugate pairs, N = 2n, D directions; a last axis
of 2 is (real, imaginary).
"""

import torch
from transformers import initialization as init
from transformers.cache_utils import Cache
from transformers.integrations import use_kernel_forward_from_hub

from .configuration_s4 import S4Config
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
from .ssm_convolution import ColumnsLinear, ConvolutionMixer, long_convolution
from .ssm_init import as_pairs, complex_normal, diagonal_poles, hippo_legs_dplr, log_uniform, ssm_parameter
from .ssm_plan import choose_method
from .ssm_powers import two_level_kernel
from .ssm_precision import wide_dtype
from .ssm_scan import chunked_scan, kernel
from .ssm_step import DiscreteSystem, check_finite, discretise, real_readout, step


@use_kernel_forward_from_hub("S4Mixer")
class S4Mixer(ConvolutionMixer):
    """GLU(Linear(GELU(scan(u) + D u))), with the paper's initialisation (Gu et al., "S4", 2022).

    State-space parameters are real, float32 whatever the model's dtype, and do not depend on any length. Masked inputs
    are zeroed; the state evolves over them, which is the only rule under which scan and step agree.
    """

    ssm_parameter_names = frozenset({"log_dt", "log_neg_A_real", "A_imag", "low_rank_P", "input_B"})

    def __init__(self, config: S4Config, layer_idx: int):
        super().__init__()
        self.layer_idx = layer_idx
        self.bidirectional = config.bidirectional
        self.dt_min, self.dt_max = config.dt_min, config.dt_max
        self.diagonal_init = config.diagonal_init
        channels, pairs = config.hidden_size, config.state_size // 2
        copies = config.num_ssm or channels
        directions = 2 if config.bidirectional else 1
        self.log_dt = ssm_parameter(channels)
        self.log_neg_A_real = ssm_parameter(copies, pairs)
        self.A_imag = ssm_parameter(copies, pairs)
        self.low_rank_P = ssm_parameter(copies, pairs, 2) if config.kernel == "dplr" else None
        self.input_B = ssm_parameter(copies, pairs, 2)
        self.output_C = ssm_parameter(directions, channels, pairs, 2)
        self.skip_D = ssm_parameter(channels)
        self.output_projection = ColumnsLinear(channels, 2 * channels)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        (channels,), (copies, pairs) = self.log_dt.shape, self.A_imag.shape
        if self.low_rank_P is not None:
            w_n, p_n, b_n = hippo_legs_dplr(2 * pairs)
            init.copy_(self.low_rank_P, as_pairs(p_n).expand(copies, -1, -1))
        else:
            w_n = diagonal_poles(2 * pairs, self.diagonal_init)
            b_n = hippo_legs_dplr(2 * pairs)[2] if self.diagonal_init == "legs" else torch.ones_like(w_n)
        init.copy_(self.input_B, as_pairs(b_n).expand(copies, -1, -1))
        init.copy_(self.log_neg_A_real, (-w_n.real).log().float().expand(copies, -1))
        init.copy_(self.A_imag, w_n.imag.float().expand(copies, -1))
        init.copy_(self.log_dt, log_uniform(channels, self.dt_min, self.dt_max))
        init.copy_(self.output_C, complex_normal(2, *self.output_C.shape[1:-1])[: len(self.output_C)])
        init.normal_(self.skip_D)

    def _system_parameters(self) -> tuple[torch.Tensor, ...]:
        parts = (self.log_dt, self.log_neg_A_real, self.A_imag, self.input_B, self.low_rank_P)
        return parts if self.low_rank_P is not None else parts[:-1]

    def discrete_system(self, dtype: torch.dtype = torch.float32) -> tuple[DiscreteSystem, torch.Tensor]:
        """The discretised model (float64 where the device has it) and its read-out rows (D, H, N), of ``dtype``."""
        parts = self._system_parameters()
        check_finite(self, (*parts, self.output_C))
        wide = torch.float32 if self.log_dt.device.type == "mps" else torch.float64
        log_dt, a_real, a_imag, *columns = (part.to(wide) for part in parts)
        columns = (torch.stack((-a_real.exp(), a_imag), dim=-1), *columns)
        if (repeats := log_dt.shape[0] // a_real.shape[0]) > 1:
            columns = (part.repeat(repeats, 1, 1) for part in columns)
        system = discretise(log_dt, *columns)
        return system, real_readout(self.output_C.to(dtype))

    def taps(self, length: int) -> torch.Tensor:
        return kernel(*self.discrete_system(wide_dtype(self.output_C.dtype)), length)

    def mix(self, u_HBL: torch.Tensor, past_key_values: Cache | None, direction: str | None = None) -> torch.Tensor:
        skip_H, length = self.skip_D.to(u_HBL.dtype), u_HBL.shape[-1]
        if past_key_values is None:
            system, readout_DHN = self.discrete_system(u_HBL.dtype)
            readout_DHN = one_direction(readout_DHN, direction)
            if choose_method(u_HBL.shape[1], length) == "scan":
                return chunked_scan(u_HBL, system, readout_DHN, skip_H)[0]
            return long_convolution(u_HBL, two_level_kernel(system, readout_DHN, length), skip_H)
        memory = recurrent_layer(past_key_values, self.layer_idx, self.bidirectional)
        state = memory.state
        if length == 1 and state is not None:
            u_BH = u_HBL[..., 0].t()
            parameters = (*self._system_parameters(), self.output_C)
            system, readout_HN = memory.prepared(lambda: self._step_system(u_BH.dtype), parameters)
            y_BH, state = step(system, readout_HN, state, u_BH)
            y_HBL = torch.addcmul(y_BH, skip_H, u_BH).t()[..., None]
        else:
            system, readout_DHN = self.discrete_system(u_HBL.dtype)
            y_HBL, state = chunked_scan(u_HBL, system, readout_DHN, skip_H, state, return_state=True)
        memory.advance(state, length)
        return y_HBL

    def _step_system(self, dtype: torch.dtype) -> tuple[DiscreteSystem, torch.Tensor]:
        """What :func:`step` needs, in ``dtype``."""
        system, readout_DHN = self.discrete_system(dtype)
        return system.cast(dtype), readout_DHN[0]


class S4PreTrainedModel(LongSeqPreTrainedModel):
    """What transformers needs to know of S4."""

    config: S4Config
    mixer_class = S4Mixer
    auto_map = full_auto_map("s4", "S4")


class S4Model(S4PreTrainedModel, LongSeqModel):
    """Trunk with S4 mixers."""


class S4ForMaskedLM(S4PreTrainedModel, LongSeqForMaskedLM):
    """Masked token prediction."""

    backbone_class = S4Model


class S4ForCausalLM(S4PreTrainedModel, LongSeqForCausalLM):
    """Next-token prediction and generation with a state of constant size."""

    backbone_class = S4Model


class S4ForPreTraining(S4PreTrainedModel, LongSeqForPreTraining):
    """Denoising or prediction of real values."""

    backbone_class = S4Model


class S4ForSequenceClassification(S4PreTrainedModel, LongSeqForSequenceClassification):
    """Classification and regression of sequences and pairs."""

    backbone_class = S4Model


class S4ForTokenClassification(S4PreTrainedModel, LongSeqForTokenClassification):
    """A label for every position: classes, several labels at once, or numbers."""

    backbone_class = S4Model


__all__ = [
    "S4ForCausalLM",
    "S4ForMaskedLM",
    "S4ForPreTraining",
    "S4ForSequenceClassification",
    "S4ForTokenClassification",
    "S4Model",
    "S4PreTrainedModel",
]
