"""State spaces position by position: obviously right, and slow.

Axes: B batch, L length, H channels, N state, D directions; complex tensors here.
"""

import torch


def recurrence(
    dA_HNN: torch.Tensor, dB_HN: torch.Tensor, c_HN: torch.Tensor, u_HBL: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """x_t = dA x_(t-1) + dB u_t, y_t = Re(c x_t), position by position: y (H, B, L) and the last x (H, B, N)."""
    state = u_HBL.new_zeros(*u_HBL.shape[:2], dA_HNN.shape[-1]).to(dA_HNN.dtype)
    outputs = []
    for t in range(u_HBL.shape[-1]):
        state = torch.einsum("hmn,hbn->hbm", dA_HNN, state) + dB_HN[:, None] * u_HBL[..., t, None]
        outputs.append(torch.einsum("hn,hbn->hb", c_HN, state).real)
    return torch.stack(outputs, -1), state


def bidirectional_recurrence(dA_HNN, dB_HN, c_DHN, u_HBL) -> torch.Tensor:
    """Lags by the recurrence, leads 1, 2, ... by the recurrence on the reversed input, one position late."""
    y, _ = recurrence(dA_HNN, dB_HN, c_DHN[0], u_HBL)
    if c_DHN.shape[0] == 2:
        leads, _ = recurrence(dA_HNN, dB_HN, c_DHN[1], u_HBL.flip(-1))
        y = y + torch.nn.functional.pad(leads.flip(-1)[..., 1:], (0, 1))
    return y
