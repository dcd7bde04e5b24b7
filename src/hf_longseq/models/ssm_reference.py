# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The textbook discretisation of a state space, against which the engine is tested and checkpoints are converted.

Axes: H channels, N state, n = N/2 conjugate pairs; complex tensors here.
"""

import torch


def dense_system(
    log_dt_H: torch.Tensor, w_Hn: torch.Tensor, b_Hn: torch.Tensor, p_Hn: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Bilinear discretisation by a dense solve on the whole, conjugate-completed state.

    Returns:
        dA (H, N, N) and dB (H, N), complex. Source: Gu et al., "S4", 2022, equation 3.
    """
    w_HN, b_HN = torch.cat((w_Hn, w_Hn.conj()), -1), torch.cat((b_Hn, b_Hn.conj()), -1)
    a_HNN = torch.diag_embed(w_HN)
    if p_Hn is not None:
        p_HN = torch.cat((p_Hn, p_Hn.conj()), -1)
        a_HNN = a_HNN - p_HN[:, :, None] * p_HN[:, None, :].conj()
    dt = log_dt_H.exp()[:, None, None]
    identity = torch.eye(w_HN.shape[-1], dtype=w_HN.dtype, device=w_HN.device)
    right = torch.cat((identity + dt / 2 * a_HNN, dt * b_HN[..., None]), dim=-1)
    solved = torch.linalg.solve(identity - dt / 2 * a_HNN, right)
    return solved[..., :-1], solved[..., -1]
