"""Attention layers against numbers from the paper's own implementation."""

import pytest
import torch

from golden_files import load_golden, relative_error
from hf_longseq import LongTransformerConfig
from hf_longseq.models.longseq_attention import LongAttention, apply_rotary, rotary_angles, window_layout


@pytest.mark.parametrize("name", ["attention_rotary_full", "attention_rotary_causal", "attention_local_window"])
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_attention(name, implementation):
    golden, meta = load_golden(name)
    config = LongTransformerConfig(
        hidden_size=meta["d_model"],
        num_attention_heads=meta["n_heads"],
        bidirectional=not meta["causal"],
        attention_window=meta.get("window_size"),
        attn_implementation=implementation,
    )
    layer = LongAttention(config, 0)
    for index, proj in enumerate((layer.q_proj, layer.k_proj, layer.v_proj, layer.o_proj)):
        proj.load_state_dict({part: golden[f"param.linears.{index}.{part}"] for part in ("weight", "bias")})
    length = meta["length"]
    kwargs = {"rotary": rotary_angles(torch.arange(length)[None], config.head_dim, config.rope_theta)}
    if "window_size" in meta:
        kwargs["window"] = window_layout(length, meta["window_size"], 1, 1, None, None, torch.device("cpu"))
    elif meta["causal"] and implementation == "eager":
        kwargs["attention_mask"] = torch.full((length, length), -torch.inf).triu(1)
    with torch.no_grad():
        assert relative_error(layer(golden["input"], **kwargs)[0], golden["output"]) < 1e-5


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_eager_and_compiled_models_turn_by_the_same_angles(dtype, monkeypatch):
    angles = rotary_angles(torch.arange(50)[None], 16, 1e4, torch.promote_types(dtype, torch.float32))
    x_BLH = torch.randn(2, 50, 64, dtype=dtype, requires_grad=True)
    turned = []
    for compiling in (False, True):
        monkeypatch.setattr("torch.compiler.is_compiling", lambda compiling=compiling: compiling)
        y_BNLD = apply_rotary(x_BLH.view(2, 50, 4, 16).transpose(1, 2), *angles)
        turned.append((y_BNLD, *torch.autograd.grad(y_BNLD.square().sum(), x_BLH)))
    torch.testing.assert_close(turned[0], turned[1])
