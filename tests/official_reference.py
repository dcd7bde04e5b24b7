"""Random checkpoints in the official key layout, and what they compute: step by step in float64, without our models.

Written from the definitions of the layers alone (discretised recurrences, attention by its formula), so that a
conversion is compared with something that shares no code with it.

Axes: B batch, L length, H channels, N states, n = N / 2 conjugate pairs, D directions.
"""

import math

import torch
from torch.nn import functional as F

WIDTH, STATES, LENGTH, VOCABULARY = 8, 8, 24, 13
Tensors = dict[str, torch.Tensor]


class Drawn:
    """Draws tensors; each method adds a layer's tensors under its official names."""

    def __init__(self, seed: int):
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int, scale: float = 1.0) -> torch.Tensor:
        return torch.randn(*shape, generator=self.generator) * scale

    def dense(self, name: str, outputs: int, inputs: int = WIDTH) -> Tensors:
        return {f"{name}.weight": self.normal(outputs, inputs, scale=0.4), f"{name}.bias": self.normal(outputs)}

    def state_space(self, **kernel: torch.Tensor) -> Tensors:
        named = {f"kernel.{name.replace('__', '.')}": x for name, x in kernel.items()}
        return {**named, "D": self.normal(1, WIDTH), **self.dense("output_linear.0", 2 * WIDTH)}

    def s4(self, directions: int, copies: int, stored_length: int) -> Tensors:
        """DPLR; its read-out is C (I - dA^L) for the length L that is stored with it, or C itself for L = 0."""
        n = STATES // 2
        return self.state_space(
            kernel__C=self.normal(directions, WIDTH, n, 2),
            kernel__B=self.normal(1, copies, n, 2),
            kernel__P=self.normal(1, copies, n, 2, scale=0.3),
            kernel__log_dt=self.normal(WIDTH, scale=0.5) - 3,
            kernel__inv_w_real=self.normal(copies, n, scale=0.2) - 0.7,
            kernel__w_imag=self.normal(copies, n, scale=8).abs(),
            kernel__L=torch.tensor(stored_length),
        )

    def s4d(self, directions: int, copies: int) -> Tensors:
        n = STATES // 2
        return self.state_space(
            kernel__C=self.normal(directions, WIDTH, n, 2),
            kernel__B=self.normal(copies, n, 2),
            kernel__log_dt=self.normal(WIDTH, scale=0.5) - 3,
            kernel__inv_A_real=self.normal(copies, n, scale=0.2) - 0.7,
            kernel__A_imag=self.normal(copies, n, scale=8).abs(),
        )

    def dlr(self, directions: int) -> Tensors:
        return self.state_space(
            W=self.normal(directions, WIDTH, STATES, 2, scale=0.3),
            Lambda_im=self.normal(STATES),
            Lambda_log_neg_re=self.normal(STATES, scale=0.3).abs(),
        )

    def attention(self, heads: int, rotary: bool) -> Tensors:
        found = {}
        for number in range(4):
            found |= self.dense(f"linears.{number}", WIDTH)
        if rotary:
            size = WIDTH // heads
            found["rope.freqs"] = 10000.0 ** (-torch.arange(0, size, 2) / size)
        return found

    def feed_forward(self) -> Tensors:
        return {**self.dense("ff.0.0", 2 * WIDTH), **self.dense("ff.2", WIDTH, 2 * WIDTH)}

    def norm(self, kind: str) -> Tensors:
        found = {"norm.weight": 1 + self.normal(WIDTH, scale=0.1), "norm.bias": self.normal(WIDTH, scale=0.1)}
        if kind == "batch":
            found |= {"norm.running_mean": self.normal(WIDTH), "norm.running_var": 1 + self.normal(WIDTH).abs()}
            found["norm.num_batches_tracked"] = torch.tensor(7)
        return found


def sinusoids(length: int) -> torch.Tensor:
    """The table of positions, (length, H)."""
    angles = torch.arange(length)[:, None] * torch.exp(-math.log(10000.0) * torch.arange(0, WIDTH, 2) / WIDTH)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)


def backbone(layers: list[Tensors], norms: list[Tensors], final_norm: Tensors | None) -> Tensors:
    """All tensors under the names of a whole model; a final norm makes it pre-norm."""
    found = {}
    for index, (layer, norm) in enumerate(zip(layers, norms, strict=True)):
        found |= {f"model.layers.{index}.layer.{name}": x for name, x in layer.items()}
        found |= {f"model.layers.{index}.norm.{name}": x for name, x in norm.items()}
    return found | {f"model.norm.{name}": x for name, x in (final_norm or {}).items()}


def run_backbone(x_BLH, layers, norms, final_norm, heads: int, causal: bool, activation) -> torch.Tensor:
    """Final hidden state (B, L, H), float64."""
    for layer, norm in zip(layers, norms, strict=True):
        layer, norm = _double(layer), _double(norm)
        inner = _norm(norm, x_BLH) if final_norm else x_BLH
        if "ff.2.weight" in layer:
            out = _dense(layer, "ff.2", activation(_dense(layer, "ff.0.0", inner)))
        elif "linears.0.weight" in layer:
            out = _attention(layer, inner, heads, causal)
        else:
            out = _state_space(layer, inner)
        x_BLH = x_BLH + out if final_norm else _norm(norm, x_BLH + out)
    return _norm(_double(final_norm), x_BLH) if final_norm else x_BLH


def _double(tensors: Tensors) -> Tensors:
    return {name: x.double() for name, x in tensors.items()}


def _dense(tensors: Tensors, name: str, x: torch.Tensor) -> torch.Tensor:
    return F.linear(x, tensors[f"{name}.weight"], tensors[f"{name}.bias"])


def _norm(tensors: Tensors, x: torch.Tensor) -> torch.Tensor:
    scale, shift = tensors["norm.weight"], tensors["norm.bias"]
    if "norm.running_mean" in tensors:
        x = (x - tensors["norm.running_mean"]) / (tensors["norm.running_var"] + 1e-5).sqrt()
        return x * scale + shift
    return F.layer_norm(x, (WIDTH,), scale, shift)


def _attention(tensors: Tensors, u: torch.Tensor, heads: int, causal: bool) -> torch.Tensor:
    batch, length, _ = u.shape
    q, k, v = (_dense(tensors, f"linears.{i}", u).view(batch, length, heads, -1).transpose(1, 2) for i in range(3))
    if "rope.freqs" in tensors:
        turn = torch.polar(torch.ones(()).double(), torch.arange(length).double()[:, None] * tensors["rope.freqs"])
        q, k = (torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * turn).flatten(-2) for x in (q, k))
    scores = q @ k.mT / (WIDTH // heads) ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -torch.inf)
    return _dense(tensors, "linears.3", (scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def _state_space(tensors: Tensors, u: torch.Tensor) -> torch.Tensor:
    kernel_DHL = _dlr_kernel(tensors) if "kernel.W" in tensors else _s4_kernel(tensors)
    lags = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)  # output time minus input time
    causal_HLL = torch.where(lags >= 0, kernel_DHL[0][:, lags.clamp(min=0)], 0.0)
    if len(kernel_DHL) == 2:
        causal_HLL = causal_HLL + torch.where(lags < 0, kernel_DHL[1][:, (-lags - 1).clamp(min=0)], 0.0)
    y = torch.einsum("hij,bjh->bih", causal_HLL, u) + tensors["D"] * u
    return F.glu(_dense(tensors, "output_linear.0", F.gelu(y)), dim=-1)


def _dlr_kernel(tensors: Tensors) -> torch.Tensor:
    rate = torch.complex(-tensors["kernel.Lambda_log_neg_re"].square(), tensors["kernel.Lambda_im"])
    powers = (rate[:, None] * torch.arange(LENGTH)).exp()
    return torch.einsum("dhn,nl->dhl", torch.view_as_complex(tensors["kernel.W"]), powers).real


def _s4_kernel(tensors: Tensors) -> torch.Tensor:
    """Each channel's dense system, discretised by the bilinear rule and stepped."""
    part = {name.split(".")[-1]: x for name, x in tensors.items()}
    dplr = "w_imag" in part
    w_Sn = torch.complex(-part["inv_w_real" if dplr else "inv_A_real"].exp(), part["w_imag" if dplr else "A_imag"])
    b_Sn = torch.view_as_complex(part["B"]).reshape(w_Sn.shape)
    p_Sn = torch.view_as_complex(part["P"]).reshape(w_Sn.shape) if dplr else torch.zeros_like(w_Sn)
    c_DHn, one = torch.view_as_complex(part["C"]), torch.eye(STATES, dtype=w_Sn.dtype)
    found = torch.zeros(len(c_DHn), WIDTH, LENGTH, dtype=torch.double)
    for channel in range(WIDTH):
        copy, dt = channel % len(w_Sn), part["log_dt"][channel].exp()
        w, b, p = (torch.cat((x[copy], x[copy].conj())) for x in (w_Sn, b_Sn, p_Sn))
        a = torch.diag(w) - torch.outer(p, p.conj())
        step = torch.linalg.solve(one - dt / 2 * a, one + dt / 2 * a)
        state = torch.linalg.solve(one - dt / 2 * a, dt * b)
        c_DN = torch.cat((c_DHn[:, channel], c_DHn[:, channel].conj()), dim=-1)
        if dplr and part["L"] > 0:
            c_DN = torch.linalg.solve(one - torch.linalg.matrix_power(step, int(part["L"])), c_DN, left=False)
        for lag in range(LENGTH):
            found[:, channel, lag] = (c_DN @ state).real
            state = step @ state
    return found
