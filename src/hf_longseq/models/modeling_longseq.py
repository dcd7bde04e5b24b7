# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The trunk that all architectures share, from the input to the last hidden state.

- Inputs are token ids or real values; values carry one more channel that is 1 where a position is masked.
- A block is a mixer and, where `intermediate_size` is set, a feed-forward sub-block, each with its norm and residual.
- An architecture is a mixer class. `mixer_inputs` and `make_cache` are the two hooks a mixer may need besides; one
  that sets `adds_residual` gets the block's input as `residual` and mixes it in itself (a gated residual).
- `attention_mask` reaches everything: mixers zero or ignore padding, batch norm leaves it out, pooling skips it.
  Holes between real positions are removed for attention; for recurrent mixers time passes there.

Axes: B batch, L length, C channels, H hidden size.
"""

import shutil
from pathlib import Path

import torch
from torch import nn
from transformers import initialization as init
from transformers.cache_utils import Cache
from transformers.masking_utils import create_recurrent_attention_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.modeling_utils import PreTrainedModel
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .configuration_longseq import LongSeqConfig
from .longseq_layers import (
    DIRECTIONS,
    FeedForward,
    LongSeqBatchNorm,
    LongSeqDropout,
    LongSeqScaleNorm,
    WindowBlocks,
    apply_norm,
    build_norm,
)
from .longseq_losses import check_lengths, check_token_ids, check_values, real_positions, without_padding
from .longseq_streaming import LongSeqStream
from .ssm_cache import RecurrentCache, StaticRecurrentCache


class LongSeqBlock(GradientCheckpointingLayer):
    """One block: norm, mixer, residual; then norm, feed-forward, residual where the configuration asks for it."""

    def __init__(self, config: LongSeqConfig, layer_idx: int, mixer_class: type[nn.Module]):
        super().__init__()
        self.pre_norm = config.norm_position == "pre"
        self.mixer_norm = build_norm(config)
        self.mixer = mixer_class(config, layer_idx)
        self.mixer_adds_residual = getattr(mixer_class, "adds_residual", False)
        self.feed_forward_norm = self.feed_forward = None
        if config.intermediate_size is not None:
            self.feed_forward_norm = build_norm(config)
            self.feed_forward = FeedForward(config)
        self.dropout = LongSeqDropout(config.dropout, config.tied_dropout)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        valid_mask: torch.Tensor | None = None,
        past_key_values: Cache | None = None,
        blocks: WindowBlocks | None = None,
        **kwargs,
    ) -> torch.Tensor:
        """(B, L, H) to (B, L, H). `attention_mask` is in the mixer's own form, `valid_mask` (B, L) is 1 at real
        positions or None when all are; with `blocks` the mixer reads those."""
        residual = hidden_states
        if self.pre_norm:
            hidden_states = apply_norm(self.mixer_norm, hidden_states, valid_mask)
        if self.mixer_adds_residual:
            kwargs["residual"] = residual if blocks is None else blocks.cut(residual)
        mixed = hidden_states if blocks is None else blocks.cut(hidden_states)
        mixed, _ = self.mixer(mixed, attention_mask=attention_mask, past_key_values=past_key_values, **kwargs)
        mixed = mixed if blocks is None else blocks.join(mixed, residual.shape[1])
        hidden_states = mixed if self.mixer_adds_residual else residual + self.dropout(mixed)
        if not self.pre_norm:
            hidden_states = apply_norm(self.mixer_norm, hidden_states, valid_mask)
        if self.feed_forward is None:
            return hidden_states

        residual = hidden_states
        if self.pre_norm:
            hidden_states = apply_norm(self.feed_forward_norm, hidden_states, valid_mask)
        hidden_states = residual + self.dropout(self.feed_forward(hidden_states))
        if not self.pre_norm:
            hidden_states = apply_norm(self.feed_forward_norm, hidden_states, valid_mask)
        return hidden_states


class LongSeqPreTrainedModel(PreTrainedModel):
    """Initialisation, saving and parameter groups. An architecture sets `mixer_class` and `auto_map`."""

    config: LongSeqConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["LongSeqBlock"]
    _is_stateful = True
    _can_compile_fullgraph = True
    _can_record_outputs = {"hidden_states": LongSeqBlock}
    # a classifier opened from a denoising checkpoint leaves its reconstruction head behind, and the other way round
    _keys_to_ignore_on_load_unexpected = [r"^lm_head\.", r"^reconstruction_head\.", r"^classifier\."]

    mixer_class: type[nn.Module]
    auto_map: dict[str, str]
    # name -> text of the files of code that are saved with an architecture from elsewhere than this folder
    code_files: dict[str, str] = {}

    def __init__(self, config: LongSeqConfig, *args, **kwargs):
        super().__init__(config, *args, **kwargs)
        if config.input_type == "values":
            self.main_input_name = "input_values"

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if self.config.initializer_range is None and isinstance(module, nn.Linear):
            # PyTorch's own default, written through the guarded functions so that loaded weights are left alone
            bound = module.in_features**-0.5
            init.uniform_(module.weight, -bound, bound)
            if module.bias is not None:
                init.uniform_(module.bias, -bound, bound)
        elif self.config.initializer_range is None and isinstance(module, nn.Embedding):
            init.normal_(module.weight)
        elif isinstance(module, (self.mixer_class, LongSeqBatchNorm, LongSeqScaleNorm)):
            module.reset_parameters()
        else:
            super()._init_weights(module)

    def save_pretrained(self, save_directory, *args, **kwargs):
        """As in transformers; the saved configuration names every head, so that any Auto class opens the folder."""
        self.config.auto_map = dict(self.auto_map)
        saved = super().save_pretrained(save_directory, *args, **kwargs)
        code = getattr(self, "backbone_class", type(self)).code_files
        if kwargs.get("is_main_process", True):
            for name, text in code.items():
                Path(save_directory, name).write_text(text, encoding="utf-8")
            for weights in Path(save_directory).glob("*.safetensors"):  # safetensors writes them for their owner alone
                shutil.copymode(Path(save_directory, "config.json"), weights)
        return saved

    def stream(self) -> LongSeqStream:
        """Begin to read a stream in pieces of any size (causal models, for inference)."""
        return LongSeqStream(self)

    def parameter_groups(
        self, learning_rate: float, weight_decay: float = 0.0, ssm_learning_rate: float | None = None
    ) -> list[dict]:
        """Groups for an optimizer, in which state-space parameters are not decayed and may have their own rate.

        Biases, norms and the skip D are not decayed either. `ssm_learning_rate` None means `learning_rate`. Frozen
        parameters and empty groups are left out. Each group has "name", "params", "lr" and "weight_decay" (paper,
        appendix C; the parameters that a mixer lists in `ssm_parameter_names`).
        """
        ssm_rate = learning_rate if ssm_learning_rate is None else ssm_learning_rate
        groups = {
            "ssm": {"lr": ssm_rate, "weight_decay": 0.0},
            "ssm_decay": {"lr": ssm_rate, "weight_decay": weight_decay},
            "no_decay": {"lr": learning_rate, "weight_decay": 0.0},
            "decay": {"lr": learning_rate, "weight_decay": weight_decay},
        }
        params: dict[str, list[nn.Parameter]] = {name: [] for name in groups}
        for name, parameter in self.named_parameters():
            if parameter.requires_grad:
                params[self.group_of(name.rsplit(".", 1)[-1], parameter)].append(parameter)
        return [{"name": name, "params": params[name], **groups[name]} for name in groups if params[name]]

    def group_of(self, leaf: str, parameter: nn.Parameter) -> str:
        """The group of a parameter whose name ends in `leaf`; "ssm_decay" has the rate of "ssm" and is decayed."""
        owner = getattr(self, "mixer_class", self)  # a model around a trunk of transformers names them itself
        if leaf in getattr(owner, "ssm_parameter_names", frozenset()):
            return "ssm"
        return "no_decay" if parameter.ndim < 2 else "decay"

    def trainer_optimizer(self, args, ssm_learning_rate: float | None = None) -> tuple[type, dict]:
        """What the stock `Trainer` needs to build its optimizer from `parameter_groups`.

        By itself it finds the parameters to decay by their names, and would decay those of state spaces:

            Trainer(model, args, optimizer_cls_and_kwargs=model.trainer_optimizer(args), ...)

        Args:
            args: `TrainingArguments`; `optim`, `learning_rate` and `weight_decay` are read.
            ssm_learning_rate: As for `parameter_groups`.
        """
        from transformers import Trainer  # heavy, and of no use to a model that predicts

        optimizer_class, arguments = Trainer.get_optimizer_cls_and_kwargs(args, self)
        groups = self.parameter_groups(args.learning_rate, args.weight_decay, ssm_learning_rate)
        return optimizer_class, {**arguments, "params": groups}


class LongSeqModel(LongSeqPreTrainedModel):
    """Inputs, blocks and the final norm."""

    def __init__(self, config: LongSeqConfig):
        super().__init__(config)
        if config.input_type == "tokens":
            self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        else:
            self.embed_values = nn.Linear(config.num_channels + 1, config.hidden_size)
        self.layers = nn.ModuleList(
            [LongSeqBlock(config, layer_idx, self.mixer_class) for layer_idx in range(config.num_hidden_layers)]
        )
        self.norm = build_norm(config) if config.norm_position == "pre" else None
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embed_tokens if self.config.input_type == "tokens" else self.embed_values

    def set_input_embeddings(self, value: nn.Module) -> None:
        if self.config.input_type == "tokens":
            self.embed_tokens = value
        else:
            self.embed_values = value

    def embed(
        self,
        input_ids: torch.Tensor | None = None,
        input_values: torch.Tensor | None = None,
        bool_masked_pos: torch.Tensor | None = None,
        valid_mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Token ids (B, L), or values (B, L, C) or (B, L) with flags (B, L), to (B, L, H); values are zeroed where
        `valid_mask` (B, L) is 0."""
        if self.config.input_type == "tokens":
            check_token_ids(input_ids, self.config.vocab_size)
            return self.embed_tokens(input_ids)
        dtype = self.embed_values.weight.dtype
        channels = self.config.num_channels
        return self.embed_values(flagged_values(input_values, bool_masked_pos, channels, dtype, valid_mask))

    def make_cache(self, max_length: int | None = None) -> Cache:
        """An empty cache for causal inference; with `max_length` one of fixed size, for a compiled step."""
        return RecurrentCache(self.config) if max_length is None else StaticRecurrentCache(self.config)

    def mixer_inputs(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None,
        position_ids: torch.Tensor | None,
        past_key_values: Cache | None,
        direction: str | None = None,
    ) -> tuple[torch.Tensor, dict]:
        """What the mixers get besides hidden states, prepared once per forward; also the place to add positions.

        Returns the hidden states and keyword arguments for every mixer, "attention_mask" among them: here a (B, L)
        mask of this call's positions, or None when nothing is padded.
        """
        if attention_mask is not None and attention_mask.ndim == 2 and hidden_states.shape[1] == 1:
            # transformers takes a single position for a generated one, never padded; in a stream it may be
            return hidden_states, {"attention_mask": attention_mask[:, -1:]}
        mask = create_recurrent_attention_mask(self.config, hidden_states, attention_mask, past_key_values)
        return hidden_states, {"attention_mask": mask, **({"direction": direction} if direction else {})}

    def _window_inputs(
        self,
        inputs_embeds: torch.Tensor,
        valid_mask: torch.Tensor | None,
        position_ids: torch.Tensor | None,
        direction: str | None,
    ) -> tuple[torch.Tensor, dict]:
        """As `mixer_inputs`, for mixers that read blocks of the window; positions are still those of the sequence."""
        batch, length, _ = inputs_embeds.shape
        blocks = WindowBlocks.of(inputs_embeds, valid_mask, self.config.window)
        if position_ids is None and valid_mask is None:
            position_ids = torch.arange(length, device=inputs_embeds.device)[None]
        elif position_ids is None:
            position_ids = (valid_mask.long().cumsum(-1) - 1).clamp(min=0)
        positions = blocks.cut(position_ids.expand(batch, -1)[..., None])[..., 0]
        hidden_states, kwargs = self.mixer_inputs(
            blocks.cut(inputs_embeds), blocks.valid_MW, positions, None, direction
        )
        return blocks.join(hidden_states, length), {**kwargs, "blocks": blocks}

    def _check_window(self, attention_mask: torch.Tensor | None, past_key_values: Cache | None) -> None:
        if past_key_values is not None:
            raise ValueError(
                f"past_key_values were given to a model with window={self.config.window}, which reads whole sequences "
                "in blocks; leave them out, and generate with use_cache=False."
            )
        if attention_mask is not None and attention_mask.ndim != 2:
            raise ValueError(
                f"attention_mask has shape {tuple(attention_mask.shape)}; a model with window={self.config.window} "
                "takes a mask (batch, length)."
            )

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        input_values: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past_key_values: Cache | None = None,
        use_cache: bool | None = None,
        **kwargs,
    ) -> BaseModelOutputWithPast:
        """Encode a batch.

        Args:
            input_ids: (B, L) int64, for models of tokens.
            attention_mask: (B, L), 1 at real positions; with a cache (B, positions seen + L). Padding on either side
                changes nothing. Zeros between real positions are holes: attention removes them and numbers the real
                positions alone; in recurrent mixers and convolutions they are zero inputs over which time passes, so
                that states decay. MEGA does both, each in its part.
            input_values: (B, L, C) or, with one channel, (B, L), for models of real values.
            inputs_embeds: (B, L, H) instead of either.
            position_ids: (B, L), counted from the first real position when not given.
            past_key_values: a cache that `make_cache` or an earlier call returned (causal models).
            use_cache: return the cache.
            kwargs: `bool_masked_pos` (B, L), true where a value is masked (its channels are zeroed and its flag set);
                `direction`, by which a bidirectional model sees only the present and what lies before it ("forward")
                or after it ("backward"); the rest goes to the mixers.

        Raises:
            ValueError: For inputs that do not fit the model, an unknown direction, or one of a causal model.
        """
        bool_masked_pos, direction = kwargs.pop("bool_masked_pos", None), kwargs.pop("direction", None)
        if direction is not None and (direction not in DIRECTIONS or not self.config.bidirectional):
            raise ValueError(
                f"direction is {direction!r} with bidirectional={self.config.bidirectional}; give a bidirectional "
                f"model one of {', '.join(DIRECTIONS)}, or leave it out."
            )
        given = next((x for x in (inputs_embeds, input_ids, input_values) if x is not None), None)
        valid_mask = real_positions(attention_mask, given, past_key_values is not None)
        if inputs_embeds is None:
            inputs_embeds = self.embed(input_ids, input_values, bool_masked_pos, valid_mask)
        inputs_embeds = without_padding(inputs_embeds, valid_mask)
        # with a cache the first piece of a left-padded row may be all padding
        check_lengths(inputs_embeds.shape[1], attention_mask if past_key_values is None else None)
        use_cache = bool(use_cache) and not self.config.bidirectional and self.config.window is None
        if past_key_values is not None and self.config.bidirectional:
            raise ValueError("past_key_values were given to a bidirectional model; only causal models carry a cache.")
        if use_cache and past_key_values is None and not self.training:
            past_key_values = self.make_cache()

        if inputs_embeds.shape[0] == 0:  # no sequence at all: nothing to mix
            return BaseModelOutputWithPast(inputs_embeds, past_key_values=past_key_values if use_cache else None)
        if self.config.window is None:
            hidden_states, mixer_kwargs = self.mixer_inputs(
                inputs_embeds, attention_mask, position_ids, past_key_values, direction
            )
        else:
            self._check_window(attention_mask, past_key_values)
            hidden_states, mixer_kwargs = self._window_inputs(inputs_embeds, valid_mask, position_ids, direction)
        for layer in self.layers:
            hidden_states = layer(
                hidden_states, valid_mask=valid_mask, past_key_values=past_key_values, **mixer_kwargs, **kwargs
            )
        if self.norm is not None:
            hidden_states = apply_norm(self.norm, hidden_states, valid_mask)
        return BaseModelOutputWithPast(
            last_hidden_state=hidden_states, past_key_values=past_key_values if use_cache else None
        )


def flagged_values(
    input_values: torch.Tensor | None,
    bool_masked_pos: torch.Tensor | None,
    num_channels: int,
    dtype: torch.dtype,
    valid_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Values (B, L, C), or (B, L) of one channel, with the mask flag as one more channel: (B, L, C + 1); zero where
    `valid_mask` (B, L) is 0, whatever stands there."""
    if input_values is None:
        raise ValueError("this model reads real values; pass input_values (or inputs_embeds), not input_ids.")
    if input_values.ndim == 2:
        input_values = input_values[..., None]
    input_values = without_padding(input_values, valid_mask)
    check_values(input_values, num_channels)
    input_values = input_values.to(dtype)
    if bool_masked_pos is None:
        flags_BL1 = torch.zeros_like(input_values[..., :1])
    else:
        flags_BL1 = bool_masked_pos[..., None].to(dtype)
        # zeroed here as well, so that a caller's own mask cannot leak what it hides
        input_values = input_values * (1 - flags_BL1)
    return torch.cat([input_values, flags_BL1], dim=-1)


def full_auto_map(stem: str, prefix: str) -> dict[str, str]:
    """Every Auto class that opens a checkpoint of one architecture: `modeling_<stem>`, classes `<prefix>...`."""
    heads = {
        "AutoModel": "Model",
        "AutoModelForMaskedLM": "ForMaskedLM",
        "AutoModelForCausalLM": "ForCausalLM",
        "AutoModelForPreTraining": "ForPreTraining",
        "AutoModelForSequenceClassification": "ForSequenceClassification",
        "AutoModelForTokenClassification": "ForTokenClassification",
        # the same head, under the names that the pipelines for pictures and sounds ask for
        "AutoModelForImageClassification": "ForSequenceClassification",
        "AutoModelForAudioClassification": "ForSequenceClassification",
    }
    return {
        "AutoConfig": f"configuration_{stem}.{prefix}Config",
        **{auto: f"modeling_{stem}.{prefix}{head}" for auto, head in heads.items()},
    }
