"""Writes our models in the key layout of the official code, for tests of the conversion back."""

import torch

from golden_files import load_golden
from hf_longseq.models.longseq_attention import sinusoidal_positions


def golden_backbone(name: str) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """A backbone of the official code, and what it computed."""
    golden, _ = load_golden(name)
    weights = {key.split(".", 1)[1]: x for key, x in golden.items() if key.startswith(("param.", "buffer."))}
    return weights, golden


def official_tensors(model) -> dict[str, torch.Tensor]:
    """The weights of a DLR or Transformer of ours under the official names."""
    config, weights = model.config, model.state_dict()
    if not any(name.startswith("model.") for name in weights):
        weights = {f"model.{name}": x for name, x in weights.items()}
    official = {}
    step = 1 if config.intermediate_size is None else 2
    for name, x in weights.items():
        leaf = name.rsplit(".", 1)[-1]
        if name.startswith("model.embed"):
            official[f"encoder.0.{leaf}"] = x
        elif name.startswith("model.norm"):
            official[f"model.norm.norm.{leaf}"] = x
        elif name.startswith(("lm_head", "reconstruction_head", "classifier.out_proj")):
            place = "" if getattr(getattr(model, "classifier", None), "dense", None) is None else ".2"
            official[f"decoder.0.output_transform{place}.{leaf}"] = x
        elif name.startswith("classifier.dense"):
            official[f"decoder.0.output_transform.0.{leaf}"] = x
        else:
            _, _, index, part, *rest = name.split(".")
            number = step * int(index) + part.startswith("feed_forward")
            names = {
                "mode_decay_root": "kernel.Lambda_log_neg_re", "mode_frequency": "kernel.Lambda_im",
                "mode_weight_W": "kernel.W", "skip_D": "D", "output_projection": "output_linear.0",
                "q_proj": "linears.0", "k_proj": "linears.1", "v_proj": "linears.2", "o_proj": "linears.3",
                "up_proj": "ff.0.0", "down_proj": "ff.2",
            }  # fmt: skip
            if part.endswith("norm"):
                official[f"model.layers.{number}.norm.norm.{leaf}"] = x
            else:
                inner = ".".join([names[rest[0]], *rest[1:]])
                official[f"model.layers.{number}.layer.{inner}"] = x[None] if rest == ["skip_D"] else x
    if getattr(config, "position_embedding", None) == "sinusoidal":
        official["encoder.1.pe"] = sinusoidal_positions(torch.arange(40)[None], config.hidden_size)[0]
    if getattr(config, "position_embedding", None) == "rotary":
        exponents = torch.arange(0, config.head_dim, 2) / config.head_dim
        for number in range(0, 2 * config.num_hidden_layers, 2):
            official[f"model.layers.{number}.layer.rope.freqs"] = 10000.0**-exponents
    return official
