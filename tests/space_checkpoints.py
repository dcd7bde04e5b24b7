"""Toy checkpoints for the tests of the demo app: every kind of input and of answer."""

import hf_longseq
from hf_longseq.data.processors import byte_tokenizer
from toy_models import make_model

IMAGE = dict(input_type="values", bidirectional=True)
CHECKPOINTS = {
    "text": ("s4", "ForSequenceClassification", dict(vocab_size=260, num_labels=2, bidirectional=True)),
    "pairs": ("lru", "ForSequenceClassification", dict(vocab_size=260, pair_classification=True, bidirectional=True)),
    "several": ("dlr", "ForSequenceClassification", dict(problem_type="multi_label_classification", num_labels=3)),
    "masked": ("s4", "ForMaskedLM", dict(vocab_size=260, bidirectional=True, mask_token_id=0)),
    "causal": ("s5", "ForCausalLM", dict(vocab_size=260)),
    "image": ("s4", "ForSequenceClassification", dict(num_labels=3, **IMAGE)),
    "pixels": ("dlr", "ForPreTraining", dict(num_levels=256, **IMAGE)),
    "image-tokens": ("transformer", "ForMaskedLM", dict(vocab_size=258, mask_token_id=256, bidirectional=True)),
    "series": ("mega", "ForSequenceClassification", dict(num_labels=1, num_channels=2, **IMAGE)),
    "forecast": ("dlr", "ForPreTraining", dict(input_type="values", pretraining_objective="causal")),
    "spans": ("s4", "ForTokenClassification", dict(vocab_size=260, num_labels=2, bidirectional=True)),
    "phases": ("dlr", "ForTokenClassification", dict(num_labels=3, input_type="values", bidirectional=True)),
    "base": ("s4", "Model", dict()),
}


def processor_of(name: str):
    """What is saved with a checkpoint of this name."""
    if name in ("text", "pairs", "masked", "causal", "spans"):
        return byte_tokenizer(max_length=64, add_eos=name != "causal")
    if name in ("image", "pixels", "image-tokens"):
        return hf_longseq.LongSeqImageProcessor(height=8, width=8, return_tokens=name == "image-tokens")
    if name == "forecast":
        return hf_longseq.LongSeqFeatureExtractor(feature_size=1, mean=[2.0], std=[3.0])
    return None


def save_checkpoints(folder) -> None:
    """Write all of them below a folder, by name."""
    for name, (variant, head, options) in CHECKPOINTS.items():
        make_model(variant, head, **options).save_pretrained(folder / name)
        processor = processor_of(name)
        if processor is not None:
            processor.save_pretrained(folder / name)
