"""Upstream transformers' common model tests pointed at the Mega classes that read tokens."""

SPEC = dict(
    name="mega",
    imports=["hf_longseq"],
    config_class="hf_longseq:MegaConfig",
    heads=dict(
        base="hf_longseq:MegaModel",
        causal_lm="hf_longseq:MegaForCausalLM",
        masked_lm="hf_longseq:MegaForMaskedLM",
        sequence_classification="hf_longseq:MegaForSequenceClassification",
        token_classification="hf_longseq:MegaForTokenClassification",
    ),
    config_kwargs=dict(
        vocab_size=99,
        hidden_size=32,
        num_hidden_layers=2,
        value_size=48,
        shared_representation_size=8,
        state_size=4,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    ),
    inputs=dict(input_ids=dict(kind="ids", shape=["batch_size", "seq_length"])),
    per_class={
        "MegaForTokenClassification": dict(
            labels=dict(labels=dict(kind="full", value=1, shape=["batch_size", "seq_length"])),
        )
    },
    common_properties=["hidden_size", "num_hidden_layers"],
    config_tester_kwargs=dict(hidden_size=37),
    tester=dict(num_attention_heads=1),
    attributes=dict(peer_state_shape=["hidden_size", "state_size"]),
    mixins=["peer_mixins:RecurrentStateOnlyPeer"],
)
