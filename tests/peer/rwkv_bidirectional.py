"""Upstream transformers' common model tests pointed at the wrapper that reads both ways, around RWKV.

Transformers' RWKV ignores attention_mask, so the padding checks show the wrapper at work.
"""

SPEC = dict(
    name="rwkv_bidirectional",
    imports=["hf_longseq"],
    config_class="hf_longseq.models:AdapterConfig",
    heads=dict(
        base="hf_longseq.models:AdapterModel",
        masked_lm="hf_longseq.models:AdapterForMaskedLM",
        sequence_classification="hf_longseq.models:AdapterForSequenceClassification",
    ),
    config_kwargs=dict(
        input_type="tokens",
        bidirectional="shared",
        backbone_config=dict(
            model_type="rwkv",
            vocab_size=99,
            hidden_size=32,
            num_hidden_layers=2,
            attention_hidden_size=32,
            intermediate_size=37,
            context_length=64,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        ),
    ),
    inputs=dict(input_ids=dict(kind="ids", shape=["batch_size", "seq_length"])),
    tester=dict(vocab_size=99, hidden_size=32, num_hidden_layers=2),
    attributes=dict(has_attentions=False),
    skip={"test_config": "upstream's check begins with a configuration without a trunk, which is refused"},
)
