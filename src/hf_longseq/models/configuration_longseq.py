# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""What every long-sequence architecture of this folder has in common: sizes, inputs, norms, pooling and heads."""

import dataclasses
import difflib

from huggingface_hub.dataclasses import strict
from transformers import GenerationConfig, PreTrainedConfig

# Names that transformers takes besides the fields of a configuration.
STANDARD = frozenset(
    "num_labels name_or_path torch_dtype output_attentions attn_implementation experts_implementation rope_theta "
    "rope_scaling".split()
)


def require_choice(config: PreTrainedConfig, field: str, choices: tuple) -> None:
    """Raise one sentence naming `field`, its value and the allowed `choices`."""
    value = getattr(config, field)
    if value not in choices:
        allowed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{type(config).__name__}.{field} is {value!r}; choose one of {allowed}.")


def require_at_least(config: PreTrainedConfig, field: str, minimum: int) -> None:
    """Raise one sentence when the number in `field` is below `minimum` (None passes)."""
    value = getattr(config, field)
    if value is not None and value < minimum:
        raise ValueError(f"{type(config).__name__}.{field} is {value}; give a number of at least {minimum}.")


def require_probability(config: PreTrainedConfig, field: str) -> None:
    """Raise one sentence unless the number in `field` is in [0, 1)."""
    if not 0 <= getattr(config, field) < 1:
        value = getattr(config, field)
        raise ValueError(f"{type(config).__name__}.{field} is {value}; give a probability in [0, 1).")


def require_steps(config: PreTrainedConfig) -> None:
    """Raise one sentence unless 0 < `dt_min` < `dt_max`."""
    if not 0 < config.dt_min < config.dt_max:
        found = f"dt_min={config.dt_min} and dt_max={config.dt_max}"
        raise ValueError(f"{type(config).__name__} has {found}; give 0 < dt_min < dt_max.")


def require_inputs_and_heads(config: PreTrainedConfig) -> None:
    """Raise one sentence for a wrong field of those that our inputs and heads read, whatever is between them."""
    require_choice(config, "input_type", ("tokens", "values"))
    require_choice(config, "pooling", ("mean", "max", "first", "last"))
    require_choice(config, "pretraining_objective", ("masked", "causal"))
    problems = ("regression", "single_label_classification", "multi_label_classification")
    require_choice(config, "problem_type", (None, *problems))
    require_at_least(config, "num_channels", 1)
    require_at_least(config, "classifier_hidden_size", 1)
    require_at_least(config, "num_levels", 2)
    if (config.label_mean is None) != (config.label_scale is None) or min(config.label_scale or [1.0]) <= 0:
        raise ValueError(
            f"{type(config).__name__}.label_mean is {config.label_mean} and label_scale {config.label_scale}; give "
            "both, one number per target, with deviations above 0, or neither."
        )


@strict
class LongSeqConfig(PreTrainedConfig):
    """Fields shared by all architectures; an architecture's own configuration adds those of its mixer.

    Args:
        input_type: "tokens" (`input_ids`) or "values" (real-valued `input_values`, with a mask-flag channel).
        vocab_size: number of token ids, special ones included ("tokens" only).
        num_channels: real channels per position ("values" only).
        num_levels: what `...ForPreTraining` predicts of each channel: None for the value itself (L1 loss), or the
            number of grey levels it was quantised to (cross-entropy).
        hidden_size: width H of the trunk.
        num_hidden_layers: number of blocks.
        intermediate_size: width of the feed-forward sub-block; None leaves it out, as state-space models do.
        hidden_act: activation of the feed-forward sub-block, by its name in transformers.
        norm: "layer", "rms", "batch" (batch statistics over valid positions only) or "scale" (root mean square,
            with one factor for all channels).
        norm_position: "pre" (norm, mixer, add; one more norm at the end) or "post" (mixer, add, norm).
        norm_eps: added to the variance.
        dropout: probability, applied to what each sub-block adds to the residual stream.
        tied_dropout: drop whole channels of a sequence, with one mask for all its positions.
        bidirectional: whether a position sees what follows it. Causal models can generate and stream.
        window: None, or a number w of positions: the mixers read blocks of w positions, each as a sequence of its own,
            so that nothing in a block depends on what lies outside it; heads pool over all blocks. Shows what length
            is worth. Such a model keeps no cache.
        pooling: "mean", "max", "first" or "last", over valid positions; with a `window` one of the first two.
        pair_classification: the classifier reads two documents, joined as [a, b, a - b, a * b].
        classifier_hidden_size: width of a hidden layer in the classifier; None for a linear classifier.
        classifier_act: activation of that hidden layer.
        label_mean, label_scale: mean and deviation of a regression's targets, one number each; the classifier learns
            standardised targets and answers in the targets' own units. None for targets taken as they are.
        pretraining_objective: what `...ForPreTraining` does with `labels`: "masked" scores position t against
            `labels[t]`, "causal" against `labels[t + 1]`.
        initializer_range: standard deviation of normal initialisation of dense layers and embeddings; None keeps
            PyTorch's defaults (the paper's choice).
        use_cache: return a cache from causal models by default.
        mask_token_id: the token that replaces masked ones ("tokens" only; read by the collators).
        tie_word_embeddings: share the token embedding with the language-model heads.
    """

    keys_to_ignore_at_inference = ["past_key_values"]
    # the names of the state-space literature
    attribute_map = {"d_model": "hidden_size", "n_layers": "num_hidden_layers", "n_layer": "num_hidden_layers"}

    input_type: str = "tokens"
    vocab_size: int = 256
    num_channels: int = 1
    num_levels: int | None = None
    hidden_size: int = 128
    num_hidden_layers: int = 4
    intermediate_size: int | None = None
    hidden_act: str = "gelu"
    norm: str = "layer"
    norm_position: str = "pre"
    norm_eps: float | int = 1e-5
    dropout: float | int = 0.0
    tied_dropout: bool = False
    bidirectional: bool = False
    window: int | None = None
    pooling: str = "mean"
    pair_classification: bool = False
    classifier_hidden_size: int | None = None
    classifier_act: str = "gelu"
    label_mean: list[float] | None = None
    label_scale: list[float] | None = None
    pretraining_objective: str = "masked"
    initializer_range: float | int | None = None
    use_cache: bool = True
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    mask_token_id: int | None = None
    tie_word_embeddings: bool = False

    def __post_init__(self, **kwargs):
        known = [field.name for field in dataclasses.fields(self)] + list(self.attribute_map)
        standard = STANDARD | GenerationConfig._get_default_generation_params().keys()
        # a saved configuration names its version, and may hold what another version knows
        for name in kwargs if self.transformers_version is None else ():
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
            if close and name not in {*known, *standard} and not name.endswith("_token_id"):
                raise ValueError(f"{type(self).__name__} has no field {name!r}; did you mean {close[0]!r}?")
        self.use_cache = self.use_cache and self.window is None
        super().__post_init__(**kwargs)

    @property
    def layer_types(self) -> list[str]:
        """The kind of each layer in transformers' own vocabulary; recurrent unless an architecture says otherwise."""
        return ["linear_attention"] * self.num_hidden_layers

    def validate_architecture(self) -> None:
        super().validate_architecture()
        require_inputs_and_heads(self)
        require_choice(self, "norm", ("layer", "rms", "batch", "scale"))
        require_choice(self, "norm_position", ("pre", "post"))
        for field in ("vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size", "window"):
            require_at_least(self, field, 1)
        if self.window is not None and self.pooling in ("first", "last"):
            raise ValueError(
                f"{type(self).__name__}.pooling is {self.pooling!r} with window={self.window}, so that a classifier "
                "would see one block alone; set pooling to 'mean' or 'max'."
            )
        require_probability(self, "dropout")
        if self.pretraining_objective == "causal" and self.bidirectional:
            raise ValueError(
                f"{type(self).__name__}.pretraining_objective is 'causal' but bidirectional is True, so the model "
                "would see what it predicts; set bidirectional=False."
            )


__all__ = ["LongSeqConfig"]
