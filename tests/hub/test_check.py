"""The check opens a folder under every head that its model can have, and under no other."""

import pytest
import transformers

from hf_longseq.hub.check import _fits
from toy_models import make_model

CHECKPOINTS = {
    "masked": ("ForMaskedLM", {"bidirectional": True}),
    "causal": ("ForCausalLM", {}),
    "values": ("ForPreTraining", {"input_type": "values", "num_channels": 2, "bidirectional": True}),
    "pairs": ("ForSequenceClassification", {"pair_classification": True, "bidirectional": True}),
}


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_the_heads_that_are_opened_are_those_that_the_model_can_have(kind):
    head, options = CHECKPOINTS[kind]
    model = make_model("s4", head, **options)
    for auto in model.auto_map:
        if _fits(auto, model.config):
            getattr(transformers, auto).from_config(model.config)
    assert _fits("AutoModelForTokenClassification", model.config) == (kind != "pairs")
