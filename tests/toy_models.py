"""Toy configurations of every architecture, for the tests that run over all of them."""

import torch

import hf_longseq
from hf_longseq.models import ARCHITECTURES
from hf_longseq.training.check_mixer import make_inputs  # noqa: F401  used by the tests of models

SMALL = {
    "s4": dict(state_size=8),
    "dlr": dict(state_size=16),
    "transformer": dict(num_attention_heads=4),
    "lru": dict(state_size=8),
    "s5": dict(state_size=8, num_blocks=2),
    "mega": dict(shared_representation_size=8, state_size=4),
    "cnn": dict(),
}
VARIANTS = {
    "s4": dict(arch="s4"),
    "s4-diagonal-shared": dict(arch="s4", kernel="diagonal", num_ssm=2),
    "s4-batch-norm-post": dict(arch="s4", norm="batch", norm_position="post"),
    "dlr": dict(arch="dlr"),
    "dlr-feed-forward-rms": dict(arch="dlr", intermediate_size=24, norm="rms"),
    "transformer": dict(arch="transformer"),
    "transformer-sinusoidal": dict(arch="transformer", position_embedding="sinusoidal"),
    "transformer-window": dict(arch="transformer", attention_window=3),
    "transformer-local-bias": dict(arch="transformer", attention_bias="local", position_embedding="none"),
    "transformer-window-local-mimetic": dict(
        arch="transformer", attention_window=3, attention_bias="local", init="mimetic"
    ),
    "transformer-post-norm": dict(arch="transformer", norm_position="post", position_embedding="none"),
    "lru": dict(arch="lru"),
    "s5": dict(arch="s5"),
    "s5-bilinear-full-glu": dict(arch="s5", discretization="bilinear", output_activation="full_glu", num_blocks=1),
    "mega": dict(arch="mega"),
    "mega-chunk-rotary": dict(arch="mega", chunk_size=3, position_bias="rotary"),
    "mega-laplace-scale-post": dict(arch="mega", attention_function="laplace", norm="scale", norm_position="post"),
    "mega-relu2-chunk-batch": dict(arch="mega", attention_function="relu2", chunk_size=4, norm="batch"),
    "cnn": dict(arch="cnn"),
    "cnn-wide-feed-forward": dict(arch="cnn", kernel_size=5, max_dilation=2, intermediate_size=24),
}
# those whose cache, or step, differs; the others differ in norms, activations and initialisation
CACHED = ("s4", "s4-diagonal-shared", "dlr", "transformer", "transformer-sinusoidal", "transformer-window",
          "transformer-local-bias", "lru", "s5", "mega", "mega-chunk-rotary", "cnn")  # fmt: skip
HEADS = ("ForMaskedLM", "ForCausalLM", "ForPreTraining", "ForSequenceClassification", "ForTokenClassification")


def make_config(variant: str, **options):
    """A toy configuration: 16 channels, 2 layers, 30 tokens."""
    fields = dict(VARIANTS[variant])
    arch = fields.pop("arch")
    config_class, _ = ARCHITECTURES[arch]
    return config_class(
        **{**dict(vocab_size=30, hidden_size=16, num_hidden_layers=2), **SMALL[arch], **fields, **options}
    )


def head_class(config, head: str):
    """The class of `config`'s architecture with that head, e.g. "ForMaskedLM"; "Model" is the base model."""
    return getattr(hf_longseq, type(config).__name__.removesuffix("Config") + head)


def make_model(variant: str, head: str, **options):
    """A seeded toy model in evaluation mode."""
    torch.manual_seed(0)
    config = make_config(variant, **options)
    return head_class(config, head)(config).eval()
