"""Upstream transformers' common model tests pointed at the long Transformer's classes that read tokens."""

SPEC = dict(
    name="long_transformer",
    imports=["hf_longseq"],
    config_class="hf_longseq:LongTransformerConfig",
    heads=dict(
        base="hf_longseq:LongTransformerModel",
        causal_lm="hf_longseq:LongTransformerForCausalLM",
        masked_lm="hf_longseq:LongTransformerForMaskedLM",
        sequence_classification="hf_longseq:LongTransformerForSequenceClassification",
        token_classification="hf_longseq:LongTransformerForTokenClassification",
    ),
    config_kwargs=dict(
        vocab_size=99,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=37,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    ),
    inputs=dict(
        input_ids=dict(kind="ids", shape=["batch_size", "seq_length"]),
        attention_mask=dict(kind="mask", shape=["batch_size", "seq_length"]),
    ),
    per_class={
        "LongTransformerForTokenClassification": dict(
            labels=dict(labels=dict(kind="full", value=1, shape=["batch_size", "seq_length"])),
        )
    },
    config_tester_kwargs=dict(hidden_size=37),
)
