"""Upstream transformers' common model tests pointed at the LRU classes that read tokens."""

SPEC = dict(
    name="lru",
    imports=["hf_longseq"],
    config_class="hf_longseq:LRUConfig",
    heads=dict(
        base="hf_longseq:LRUModel",
        causal_lm="hf_longseq:LRUForCausalLM",
        masked_lm="hf_longseq:LRUForMaskedLM",
        sequence_classification="hf_longseq:LRUForSequenceClassification",
        token_classification="hf_longseq:LRUForTokenClassification",
    ),
    config_kwargs=dict(
        vocab_size=99,
        hidden_size=32,
        num_hidden_layers=2,
        state_size=8,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    ),
    inputs=dict(input_ids=dict(kind="ids", shape=["batch_size", "seq_length"])),
    per_class={
        "LRUForTokenClassification": dict(
            labels=dict(labels=dict(kind="full", value=1, shape=["batch_size", "seq_length"])),
        )
    },
    common_properties=["hidden_size", "num_hidden_layers"],
    config_tester_kwargs=dict(hidden_size=37),
    attributes=dict(has_attentions=False, peer_state_shape=["state_size", 2]),
    mixins=["peer_mixins:RecurrentStateOnlyPeer"],
)
