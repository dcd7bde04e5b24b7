# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The five heads, written once for all architectures: masked tokens, next token, real values, whole sequences, and
a label for every position. None scores padding, whatever label stands there.

An architecture derives its classes from these and from its own pretrained-model class, and names its base model in
`backbone_class`. Axes: B batch, L length, C channels, H hidden size, V vocabulary, Q levels, K labels.
"""

import sys

import torch
from torch import nn
from transformers.cache_utils import Cache
from transformers.generation import GenerationMixin
from transformers.modeling_outputs import (
    CausalLMOutputWithPast,
    MaskedLMOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils.generic import can_return_tuple

from .configuration_longseq import LongSeqConfig
from .longseq_layers import ClassifierHead, pool
from .longseq_losses import (
    check_class_labels,
    classification_loss,
    cross_entropy_loss,
    in_units,
    next_token_loss,
    only_after_valid,
    only_valid,
    reconstruction_loss,
)
from .modeling_longseq import LongSeqModel, LongSeqPreTrainedModel, full_auto_map


class LongSeqForMaskedLM(LongSeqPreTrainedModel):
    """Predicts the tokens behind masked positions (masked self-pretraining on tokens)."""

    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}
    backbone_class: type[LongSeqModel]

    def __init__(self, config: LongSeqConfig):
        super().__init__(config)
        require_tokens(self)
        self.model = self.backbone_class(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs,
    ) -> MaskedLMOutput:
        """Logits (B, L, V). `labels` (B, L) hold the original token at masked positions and -100 elsewhere."""
        num_items = kwargs.pop("num_items_in_batch", None)
        outputs = self.model(input_ids, attention_mask, None, inputs_embeds, position_ids, use_cache=False, **kwargs)
        logits = self.lm_head(outputs.last_hidden_state)
        loss = None
        if labels is not None:
            labels = only_valid(labels, attention_mask)
            check_class_labels(labels, self.config.vocab_size)
            loss = cross_entropy_loss(logits, labels, num_items)
        return MaskedLMOutput(
            loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )


class LongSeqForCausalLM(LongSeqPreTrainedModel, GenerationMixin):
    """Predicts the next token (causal self-pretraining on tokens) and generates."""

    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}
    _tp_plan = {"lm_head": "colwise_gather_output"}
    backbone_class: type[LongSeqModel]

    def __init__(self, config: LongSeqConfig):
        super().__init__(config)
        require_tokens(self)
        if config.bidirectional:
            raise ValueError(
                f"{type(self).__name__} predicts the next token but bidirectional is True; set bidirectional=False (a "
                "checkpoint that was trained bidirectionally cannot be made causal)."
            )
        self.model = self.backbone_class(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    def _prepare_cache_for_generation(
        self, generation_config, model_kwargs, generation_mode, batch_size, max_cache_length
    ) -> None:
        """The model's own cache; of fixed size, which transformers compiles on an accelerator, where generation asks
        for `cache_implementation="static"`: as long as the longest before it, so that a shorter text is no reason to
        compile again."""
        if generation_config.use_cache is False or model_kwargs.get("past_key_values") is not None:
            return
        length = None
        if "static" in (generation_config.cache_implementation or ""):
            asked = getattr(generation_config, "max_cache_len", None) or 0
            length = max(max_cache_length, asked, getattr(self, "_previous_max_cache_length", 0))
            self._previous_max_cache_length = length
        model_kwargs["past_key_values"] = self.model.make_cache(length)

    @staticmethod
    def create_masks_for_generate(config, inputs_embeds, attention_mask, **kwargs) -> torch.Tensor | None:
        """The mask that a step with a compileable cache gets: a recurrence reads the new positions (B, L) alone."""
        return None if attention_mask is None else attention_mask[:, -inputs_embeds.shape[1] :]

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past_key_values: Cache | None = None,
        use_cache: bool | None = None,
        labels: torch.Tensor | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        **kwargs,
    ) -> CausalLMOutputWithPast:
        """Logits (B, L, V), or of the positions in `logits_to_keep`. `labels` (B, L) are the tokens themselves, -100
        where nothing is to be predicted; the shift by one happens here, unless `shift_labels` holds labels that were
        shifted before the sequence was divided among processes."""
        num_items = kwargs.pop("num_items_in_batch", None)
        shift_labels = kwargs.pop("shift_labels", None)
        inputs = (input_ids, attention_mask, None, inputs_embeds, position_ids)
        outputs = self.model(*inputs, past_key_values=past_key_values, use_cache=use_cache, **kwargs)
        logits = self.lm_head(keep_positions(outputs.last_hidden_state, logits_to_keep))
        loss = None
        if shift_labels is not None:
            loss = cross_entropy_loss(logits, only_valid(shift_labels, attention_mask), num_items)
        elif labels is not None:
            labels = only_after_valid(labels, attention_mask)
            check_class_labels(labels, self.config.vocab_size)
            loss = next_token_loss(logits, labels, num_items)
        return CausalLMOutputWithPast(
            loss=loss,
            logits=logits,
            past_key_values=outputs.past_key_values,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )


class LongSeqForPreTraining(LongSeqPreTrainedModel):
    """Reconstructs masked real values, or predicts the next one, as `config.pretraining_objective` says."""

    main_input_name = "input_values"
    backbone_class: type[LongSeqModel]

    def __init__(self, config: LongSeqConfig):
        super().__init__(config)
        if config.input_type != "values":
            raise ValueError(
                f"{type(self).__name__} reconstructs real values but input_type is {config.input_type!r}; set "
                "input_type='values', or use the masked or causal language model for tokens."
            )
        self.model = self.backbone_class(config)
        self.reconstruction_head = nn.Linear(config.hidden_size, config.num_channels * (config.num_levels or 1))
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_values: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        bool_masked_pos: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs,
    ) -> MaskedLMOutput:
        """Logits (B, L, C), or (B, L, C, Q) with `num_levels`. `labels` (B, L, C) hold the true values (or levels)
        and -100 where nothing is scored; a causal model compares the output at t with the label at t + 1."""
        num_items = kwargs.pop("num_items_in_batch", None)
        inputs = (None, attention_mask, input_values, inputs_embeds, position_ids)
        outputs = self.model(*inputs, bool_masked_pos=bool_masked_pos, use_cache=False, **kwargs)
        logits = self.reconstruction_head(outputs.last_hidden_state)
        if self.config.num_levels is not None:
            logits = logits.unflatten(-1, (self.config.num_channels, self.config.num_levels))
        loss = None
        if labels is not None:
            causal = self.config.pretraining_objective == "causal"
            labels = (only_after_valid if causal else only_valid)(labels, attention_mask)
            if self.config.num_levels is not None:
                check_class_labels(labels, self.config.num_levels)
            loss = reconstruction_loss(logits, labels, causal, num_items)
        return MaskedLMOutput(
            loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )


class LongSeqForSequenceClassification(LongSeqPreTrainedModel):
    """Classifies whole sequences, or pairs of them; regression and multi-label by `config.problem_type`."""

    pools_positions = True
    backbone_class: type[LongSeqModel]

    def __init__(self, config: LongSeqConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = self.backbone_class(config)
        self.classifier = ClassifierHead(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        input_values: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        input_ids_2: torch.Tensor | None = None,
        attention_mask_2: torch.Tensor | None = None,
        input_values_2: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs,
    ) -> SequenceClassifierOutput:
        """Logits (B, K). `labels` are class ids (B,), floats (B, K) for several labels, or numbers to regress
        (in their own units, in which the logits then are too, see `label_mean` of the configuration).

        With `config.pair_classification` the second document comes in `input_ids_2` or `input_values_2`; both are
        encoded by the same trunk and joined as [a, b, a - b, a * b] (paper, Retrieval).
        """
        num_items = kwargs.pop("num_items_in_batch", None)
        inputs = (input_ids, attention_mask, input_values, inputs_embeds, position_ids)
        first = self.model(*inputs, use_cache=False, **kwargs)
        pooled = pool(first.last_hidden_state, attention_mask, self.config.pooling)
        if self.config.pair_classification:
            if input_ids_2 is None and input_values_2 is None:
                raise ValueError(
                    "this model classifies pairs; pass the second document as input_ids_2 or input_values_2."
                )
            second = self.model(
                input_ids_2, attention_mask=attention_mask_2, input_values=input_values_2, use_cache=False, **kwargs
            )
            other = pool(second.last_hidden_state, attention_mask_2, self.config.pooling)
            pooled = torch.cat([pooled, other, pooled - other, pooled * other], dim=-1)
        elif input_ids_2 is not None or input_values_2 is not None:
            raise ValueError("a second document was given; set pair_classification=True to classify pairs.")
        logits = self.classifier(pooled)
        loss = None
        if labels is not None:
            loss = classification_loss(logits, labels, self.config, num_items)
        logits = in_units(logits, self.config)
        return SequenceClassifierOutput(
            loss=loss, logits=logits, hidden_states=first.hidden_states, attentions=first.attentions
        )


class LongSeqForTokenClassification(LongSeqPreTrainedModel):
    """Labels every position: a class, several labels, or numbers, as `config.problem_type` says."""

    backbone_class: type[LongSeqModel]

    def __init__(self, config: LongSeqConfig):
        super().__init__(config)
        if config.pair_classification:
            raise ValueError(
                f"{type(self).__name__} labels the positions of one sequence but pair_classification is True; set "
                "pair_classification=False."
            )
        self.num_labels = config.num_labels
        self.model = self.backbone_class(config)
        self.classifier = ClassifierHead(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        input_values: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs,
    ) -> TokenClassifierOutput:
        """Logits (B, L, K). `labels` are class ids (B, L), floats (B, L, K) for several labels, or numbers to
        regress, (B, L, K) or with one target (B, L), in their own units (see `label_mean` of the configuration).

        Positions labelled -100 are not scored.
        """
        num_items = kwargs.pop("num_items_in_batch", None)
        inputs = (input_ids, attention_mask, input_values, inputs_embeds, position_ids)
        outputs = self.model(*inputs, use_cache=False, **kwargs)
        logits = self.classifier(outputs.last_hidden_state)
        loss = None
        if labels is not None:
            loss = classification_loss(logits, only_valid(labels, attention_mask), self.config, num_items)
        return TokenClassifierOutput(
            loss=loss,
            logits=in_units(logits, self.config),
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )


def make_heads(config_class: type[LongSeqConfig], model_class: type[LongSeqModel], stem: str) -> dict[str, type]:
    """The five heads of an architecture by their names, made from its trunk `...Model`: those that its module lacks.

    They have the bases of the trunk besides `LongSeqModel`, and the trunk gets its `auto_map`: `stem` is the name of
    the one file that holds configuration, trunk and heads.
    """
    prefix, module = model_class.__name__.removesuffix("Model"), sys.modules[model_class.__module__]
    places = {auto: place.split(".")[1] for auto, place in full_auto_map("", prefix).items()}
    model_class.config_class = config_class
    model_class.auto_map = {auto: f"{stem}.{name}" for auto, name in places.items()}
    model_class.auto_map["AutoConfig"] = f"{stem}.{config_class.__name__}"
    shared = tuple(base for base in model_class.__bases__ if base is not LongSeqModel)
    fields = {field: getattr(model_class, field) for field in ("config_class", "mixer_class", "auto_map")}
    fields |= {"__module__": module.__name__, "backbone_class": model_class}
    kinds = (
        *(LongSeqForMaskedLM, LongSeqForCausalLM, LongSeqForPreTraining),
        *(LongSeqForSequenceClassification, LongSeqForTokenClassification),
    )
    heads = {}
    for kind in kinds:
        name = prefix + kind.__name__.removeprefix("LongSeq")
        if getattr(vars(module).get(name), "backbone_class", None) is not model_class:
            heads[name] = type(name, (*shared, kind), {**fields, "__doc__": kind.__doc__})
    return heads


def require_tokens(model: LongSeqPreTrainedModel) -> None:
    """Raise when a language-model head is asked of a model of real values."""
    if model.config.input_type != "tokens":
        raise ValueError(
            f"{type(model).__name__} predicts tokens but input_type is {model.config.input_type!r}; set "
            "input_type='tokens', or use the ...ForPreTraining class for real values."
        )


def keep_positions(hidden_BLH: torch.Tensor, positions: int | torch.Tensor) -> torch.Tensor:
    """The last so many positions (0 for all), those of a list (K,) or of one per row (B, K), or where a mask (B, L)
    says; a mask gives (positions kept, H)."""
    if isinstance(positions, int):
        return hidden_BLH[:, -positions:] if positions else hidden_BLH
    if positions.ndim == 1:
        return hidden_BLH[:, positions]
    if positions.dtype == torch.bool:
        return hidden_BLH[positions]
    return torch.take_along_dim(hidden_BLH, positions[..., None], dim=1)
