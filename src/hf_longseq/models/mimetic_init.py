# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Mimetic initialisation: random weights whose products have the structure that pretraining gives them.

For attention (Trockman and Kolter, "Mimetic Initialization of Self-Attention Layers", ICML 2023) the product of query
and key maps is close to the identity and that of value and output maps to minus the identity. For selective state
spaces (Trockman et al., "Mimetic Initialization Helps State Space Models Learn to Recall", arXiv 2410.11135) a layer
begins as linear attention over everything read so far: a state that does not decay, steps of 1, outputs C that lean
on inputs B, and a short convolution that is the identity. The paper wants B and C alike and not equal; that C is the
mean of B and of its own draw is how we read it. Its abstract and its reviews could be checked, its formulas could not:
take the constants below for ours.

Everything is written through transformers' guarded functions, so that loaded weights are left alone.
Axes: H hidden size, N heads, D = H / N head size.
"""

import math

import torch
from torch import nn
from transformers import initialization as init

QUERY_KEY = (0.7, 0.7)  # weights of noise and identity (ICML 2023, section 4)
VALUE_OUTPUT = (0.4, -0.4)
CLOSENESS = 0.5  # share of B in C
SLOW_DECAY = -8.0  # log of -A: the state keeps exp(-exp(-8)) = 0.9997 of itself in a step of 1
UNIT_STEP = math.log(math.expm1(1.0))  # softplus of it is 1


def near_identity(size: int, noise: float, identity: float) -> torch.Tensor:
    """noise * Z + identity * I with Z of independent normal entries of variance 1 / size: (size, size), float32."""
    normal = torch.randn(size, size, dtype=torch.float32)  # by default it would have the type of the model
    return noise * normal / size**0.5 + identity * torch.eye(size, dtype=torch.float32)


def halves(matrix: torch.Tensor, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two (size, rank) factors A and B of the best approximation A @ B.T of a square matrix with that rank."""
    left, singular, right = torch.linalg.svd(matrix)
    root = singular[:rank].sqrt()
    return left[:, :rank] * root, right[:rank].T * root


@torch.no_grad()
def mimetic_attention_(query: nn.Linear, key: nn.Linear, value: nn.Linear, output: nn.Linear, num_heads: int) -> None:
    """Fill the four maps of an attention layer (H to H each), and zero their biases.

    For every head the map of scores, x_i W_Q W_K' x_j', is `near_identity(H, 0.7, 0.7)` reduced to rank D. The values
    of all heads together go through W_V W_O = `near_identity(H, 0.4, -0.4)`.
    """
    size, head_size = query.in_features, query.out_features // num_heads
    heads = [halves(near_identity(size, *QUERY_KEY), head_size) for _ in range(num_heads)]
    init.copy_(query.weight, torch.cat([left.T for left, _ in heads]))
    init.copy_(key.weight, torch.cat([right.T for _, right in heads]))
    into_values, out_of_values = halves(near_identity(size, *VALUE_OUTPUT), size)
    init.copy_(value.weight, into_values.T)
    init.copy_(output.weight, out_of_values)
    for layer in (query, key, value, output):
        if layer.bias is not None:
            init.zeros_(layer.bias)


@torch.no_grad()
def mimetic_selective_ssm_(mixer: nn.Module) -> None:
    """Change a freshly drawn mixer of Mamba or Mamba-2, as transformers has them, into linear attention; once, for a
    head initialises its trunk again."""
    if getattr(mixer, "begins_mimetic", False):
        return
    mixer.begins_mimetic = True
    init.constant_(mixer.A_log, SLOW_DECAY)
    identity = torch.zeros_like(mixer.conv1d.weight)
    identity[..., -1] = 1.0
    init.copy_(mixer.conv1d.weight, identity)
    if mixer.conv1d.bias is not None:
        init.zeros_(mixer.conv1d.bias)
    if hasattr(mixer, "dt_bias"):  # Mamba-2 projects to gate, x, B, C and the step at once
        rows = mixer.in_proj.weight.clone()
        states = mixer.n_groups * mixer.ssm_state_size
        lean_on_inputs(rows, 2 * mixer.intermediate_size, states)
        rows[-mixer.num_heads :] = 0.0
        init.copy_(mixer.in_proj.weight, rows)
        init.constant_(mixer.dt_bias, UNIT_STEP)
    else:  # Mamba projects x to the step, B and C
        rows = mixer.x_proj.weight.clone()
        lean_on_inputs(rows, mixer.time_step_rank, mixer.ssm_state_size)
        init.copy_(mixer.x_proj.weight, rows)
        init.zeros_(mixer.dt_proj.weight)
        init.constant_(mixer.dt_proj.bias, UNIT_STEP)


def lean_on_inputs(rows: torch.Tensor, start: int, states: int) -> None:
    """Move the rows that project to C, which follow those of B from ``start`` on, half of the way to these."""
    inputs, outputs = rows[start : start + 2 * states].chunk(2)
    outputs.lerp_(inputs, CLOSENESS)


def selective_ssm_mixers(model: nn.Module) -> list[nn.Module]:
    """The mixers of a model that `mimetic_selective_ssm_` can fill: those of Mamba and Mamba-2."""
    return [module for module in model.modules() if type(module).__name__ in ("MambaMixer", "Mamba2Mixer")]
