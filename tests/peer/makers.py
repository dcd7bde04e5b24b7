"""What the specs of this folder have in common: one maker for tokens, for real values, and for the adapter."""

TOKEN_IDS = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
SIZES = dict(vocab_size=99, hidden_size=32, num_hidden_layers=2)
INPUT_IDS = dict(input_ids=dict(kind="ids", shape=["batch_size", "seq_length"]))
POSITION_LABELS = dict(labels=dict(labels=dict(kind="full", value=1, shape=["batch_size", "seq_length"])))
HEADS = {
    "base": "Model",
    "causal_lm": "ForCausalLM",
    "masked_lm": "ForMaskedLM",
    "sequence_classification": "ForSequenceClassification",
    "token_classification": "ForTokenClassification",
}


def tokens(name: str, prefix: str, state_shape: list | None, sizes: dict, **fields) -> dict:
    """The spec of an architecture's classes that read tokens; `state_shape` is that of a recurrent state."""
    spec = dict(
        name=name,
        imports=["hf_longseq"],
        config_class=f"hf_longseq:{prefix}Config",
        heads={head: f"hf_longseq:{prefix}{suffix}" for head, suffix in HEADS.items()},
        config_kwargs={**SIZES, **TOKEN_IDS, **sizes},
        inputs=INPUT_IDS,
        per_class={f"{prefix}ForTokenClassification": POSITION_LABELS},
        config_tester_kwargs=dict(hidden_size=37),
    )
    if state_shape is not None:
        spec |= recurrent(peer_state_shape=state_shape)
        spec["mixins"] = ["peer_mixins:RecurrentStateOnlyPeer"]
    return {**spec, **fields}


def values(name: str, prefix: str, sizes: dict, **fields) -> dict:
    """The spec of an architecture's classes that read real values of two channels."""
    target = dict(kind="full", value=0.5, dtype="float32", shape=["batch_size", "seq_length", 2])
    spec = dict(
        name=name,
        imports=["hf_longseq"],
        config_class=f"hf_longseq:{prefix}Config",
        heads=dict(other=[f"hf_longseq:{prefix}ForPreTraining"], base=[f"hf_longseq:{prefix}Model"]),
        config_kwargs=dict(input_type="values", num_channels=2, hidden_size=32, num_hidden_layers=2, **sizes),
        inputs=dict(input_values=dict(kind="floats", shape=["batch_size", "seq_length", 2])),
        per_class={f"{prefix}ForPreTraining": dict(labels=dict(labels=target))},
        config_tester_kwargs=dict(hidden_size=37),
        has_text_modality=False,
        tester=dict(num_masks=3, seq_length=8),
        mixins=["peer_mixins:NoTokenEmbeddingPeer"],
        gaps_skip={"test_padding_does_not_change_real_positions": "pads token ids only; ours pad values"},
    )
    return {**spec, **fields}


def recurrent(**attributes) -> dict:
    """What upstream is told of a mixer without attention weights."""
    return dict(
        common_properties=["hidden_size", "num_hidden_layers"], attributes=dict(has_attentions=False, **attributes)
    )


def adapter(name: str, trunk: dict, **fields) -> dict:
    """The spec of our heads around a trunk of transformers that reads tokens; `fields` are of its configuration."""
    prefix = "hf_longseq.models:Adapter"
    return dict(
        name=name,
        imports=["hf_longseq"],
        config_class=f"{prefix}Config",
        heads={head: f"{prefix}{suffix}" for head, suffix in HEADS.items() if head != "causal_lm"},
        config_kwargs=dict(input_type="tokens", backbone_config={**SIZES, **TOKEN_IDS, **trunk}, **fields),
        inputs=INPUT_IDS,
        per_class={"AdapterForTokenClassification": POSITION_LABELS},
        tester=SIZES,
        attributes=dict(has_attentions=False),
        skip={"test_config": "upstream's check begins with a configuration without a trunk, which is refused"},
    )
