# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Time and peak memory of one layer, forward and backward: ours, the plain paths, attention and Mamba-2.

Axes: B batch, L length, H channels.
"""

from collections.abc import Iterable
from functools import partial
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn
from transformers import PreTrainedConfig

from hf_longseq.models import LRUConfig, MegaConfig, S5Config
from hf_longseq.models.modeling_dlr import DLRMixer
from hf_longseq.models.modeling_lru import LRUMixer
from hf_longseq.models.modeling_mega import MegaMixer
from hf_longseq.models.modeling_s4 import S4Mixer
from hf_longseq.models.modeling_s5 import S5Mixer
from plain_kernels import cauchy_kernel, fft_convolution, vandermonde_kernel
from side_by_side import Settings, check_names

LENGTHS = (1024, 2048, 4096, 8192, 16384, 32768, 65536)
NAMES = ("s4", "s4_cauchy_fft", "dlr", "dlr_einsum_fft", "lru", "s5", "mega", "attention_sdpa", "mamba2")

# sizes of their authors' models of 128 channels; MEGA's attention stays within chunks
RIVALS = {
    "lru": (LRUMixer, LRUConfig, {"state_size": 256}),
    "s5": (S5Mixer, S5Config, {"state_size": 256, "num_blocks": 16}),
    "mega": (MegaMixer, MegaConfig, {"chunk_size": 128}),
}


VOCABULARY = 256


class PlainLayer(nn.Module):
    """What surrounds the convolution in both plain paths; it shares the parameters of the mixer it stands for."""

    def __init__(self, mixer: nn.Module):
        super().__init__()
        self.mixer = mixer

    def forward(self, u_BLH: torch.Tensor) -> torch.Tensor:
        u_BHL = u_BLH.transpose(1, 2)
        y_BHL = fft_convolution(u_BHL, self.kernel(u_BLH.shape[1])) + self.mixer.skip_D[:, None] * u_BHL
        return F.glu(self.mixer.output_projection(F.gelu(y_BHL).transpose(1, 2)), dim=-1)


class PlainS4(PlainLayer):
    """S4 by the Cauchy kernel at the roots of unity and the FFT, without a compiled extension."""

    whole_pairs = True

    def kernel(self, length: int) -> torch.Tensor:
        m = self.mixer
        w = torch.complex(-m.log_neg_A_real.exp(), m.A_imag)
        b, p, c = (torch.view_as_complex(x) for x in (m.input_B, m.low_rank_P, m.output_C))
        return cauchy_kernel(m.log_dt, w, b, p, c, length, self.whole_pairs)


class PlainDLR(PlainLayer):
    """DLR by a complex einsum over all powers and the FFT."""

    def kernel(self, length: int) -> torch.Tensor:
        m = self.mixer
        poles = torch.complex(-m.mode_decay_root.square(), m.mode_frequency)
        return vandermonde_kernel(torch.view_as_complex(m.mode_weight_W), poles, length)


class Attention(nn.Module):
    """Multi-head attention by PyTorch's fused kernel, every position to every position."""

    def __init__(self, hidden_size: int, heads: int):
        super().__init__()
        self.heads = heads
        self.inputs = nn.Linear(hidden_size, 3 * hidden_size)
        self.output = nn.Linear(hidden_size, hidden_size)

    def forward(self, u_BLH: torch.Tensor) -> torch.Tensor:
        q, k, v = self.inputs(u_BLH).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.output(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def mamba2_config(hidden_size: int, layers: int, state_size: int) -> PreTrainedConfig:
    """A Mamba-2 of the same width, depth and state as the S4 it is compared with."""
    from transformers import Mamba2Config

    return Mamba2Config(
        vocab_size=VOCABULARY,
        hidden_size=hidden_size,
        num_hidden_layers=layers,
        state_size=state_size,
        expand=2,
        head_dim=16,
        num_heads=hidden_size // 8,
        n_groups=1,
        chunk_size=64,
    )


class Mamba2(nn.Module):
    """transformers' own Mamba-2 mixer, in whatever form the machine can run."""

    def __init__(self, hidden_size: int, state_size: int):
        super().__init__()
        from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer

        self.mixer = Mamba2Mixer(mamba2_config(hidden_size, 1, state_size), 0)

    def forward(self, u_BLH: torch.Tensor) -> torch.Tensor:
        return self.mixer(u_BLH)


def _mixer(mixer_class: type[nn.Module], hidden_size: int, state_size: int, bidirectional: bool, dt_min: float):
    config = SimpleNamespace(
        hidden_size=hidden_size,
        state_size=state_size,
        bidirectional=bidirectional,
        kernel="dplr",
        diagonal_init="lin",
        num_ssm=None,
        dt_min=dt_min,
        dt_max=0.1,
    )
    mixer = mixer_class(config, 0)
    mixer.reset_parameters()
    return mixer


def _rival(name: str, hidden_size: int, bidirectional: bool) -> nn.Module:
    mixer_class, config_class, options = RIVALS[name]
    config = config_class(hidden_size=hidden_size, bidirectional=bidirectional, **options)
    config._attn_implementation = "sdpa"
    mixer = mixer_class(config, 0)
    mixer.reset_parameters()
    return mixer


def build_layers(
    names: Iterable[str] = NAMES,
    hidden_size: int = 128,
    s4_state: int = 64,
    dlr_state: int = 1024,
    bidirectional: bool = True,
) -> dict[str, nn.Module]:
    """The layers to compare, by name. Plain paths share the parameters of ours."""
    s4 = _mixer(S4Mixer, hidden_size, s4_state, bidirectional, 1e-3)
    dlr = _mixer(DLRMixer, hidden_size, dlr_state, bidirectional, 1e-4)
    makers = {
        "s4": lambda: s4,
        "s4_cauchy_fft": lambda: PlainS4(s4),
        "dlr": lambda: dlr,
        "dlr_einsum_fft": lambda: PlainDLR(dlr),
        **{name: partial(_rival, name, hidden_size, bidirectional) for name in RIVALS},
        "attention_sdpa": lambda: Attention(hidden_size, heads=4),
        "mamba2": lambda: Mamba2(hidden_size, s4_state),
    }
    return {name: makers[name]() for name in names}


def estimate_bytes(name: str, batch: int, length: int, hidden_size: int, s4_state: int, dlr_state: int) -> int:
    """Rough peak of the layers whose intermediates are much larger than their input; 0 for the others."""
    if name == "s4_cauchy_fft":  # six Cauchy sums, complex64, and what autograd keeps of them
        return 5 * 6 * hidden_size * s4_state * (length // 2 + 1) * 8
    if name == "dlr_einsum_fft":
        return 6 * dlr_state * length * 8
    if name == "mamba2":
        return 13 * batch * length * hidden_size * s4_state
    return 0


def forward_backward(layer: nn.Module, u_BLH: torch.Tensor, grad_BLH: torch.Tensor) -> None:
    """One forward and backward pass; gradients are dropped again."""
    y = layer(u_BLH)
    (y[0] if isinstance(y, tuple) else y).backward(grad_BLH)
    u_BLH.grad = None
    layer.zero_grad(set_to_none=True)


def benchmark_ops(**options) -> list[dict]:
    """Measures forward + backward of every layer at every length; the options are those of `Settings`.

    Returns:
        One row per layer and length: "op", "batch", "length", "hidden_size", "seconds" (median), "seconds_min",
        "cpu_seconds", "peak_mib", and "skipped" with the reason where there is no measurement.
    """
    settings = Settings(**{"lengths": LENGTHS, "names": NAMES, **options})
    contest, batch, hidden_size = settings.contest(), settings.batch, settings.hidden_size
    built = build_layers(check_names(settings.names, NAMES), hidden_size, **settings.states)
    layers = {name: layer.to(contest.device) for name, layer in built.items()}
    rows = []
    for length in settings.lengths:
        u = torch.randn(batch, length, hidden_size, device=contest.device, requires_grad=True)
        grad = torch.randn(batch, length, hidden_size, device=contest.device)
        runs = {name: partial(forward_backward, layer, u, grad) for name, layer in layers.items()}
        needs = {name: estimate_bytes(name, batch, length, hidden_size, **settings.states) for name in layers}
        for name, measured in contest.measure(runs, needs).items():
            rows.append({"op": name, "batch": batch, "length": length, "hidden_size": hidden_size, **measured})
    return rows
