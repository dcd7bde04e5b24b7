"""Upstream transformers' common model tests pointed at the Mega classes that read real values."""

SPEC = dict(
    name="mega_values",
    imports=["hf_longseq"],
    config_class="hf_longseq:MegaConfig",
    heads=dict(other=["hf_longseq:MegaForPreTraining"], base=["hf_longseq:MegaModel"]),
    config_kwargs=dict(
        input_type="values",
        num_channels=2,
        hidden_size=32,
        num_hidden_layers=2,
        value_size=48,
        shared_representation_size=8,
        state_size=4,
    ),
    inputs=dict(input_values=dict(kind="floats", shape=["batch_size", "seq_length", 2])),
    per_class={
        "MegaForPreTraining": dict(
            labels=dict(
                labels=dict(kind="full", value=0.5, dtype="float32", shape=["batch_size", "seq_length", 2]),
            ),
        )
    },
    common_properties=["hidden_size", "num_hidden_layers"],
    config_tester_kwargs=dict(hidden_size=37),
    has_text_modality=False,
    tester=dict(num_masks=3, seq_length=8),
    attributes=dict(has_attentions=False),
    mixins=["peer_mixins:NoTokenEmbeddingPeer"],
    gaps_skip={
        "test_padding_does_not_change_real_positions": "pads token ids only; tests/models/test_common.py pads values"
    },
)
