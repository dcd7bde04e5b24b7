"""Low-rank adaptation with peft: a checkpoint is fine-tuned through small matrices (docs/with_transformers.md)."""

import pytest
import torch
from transformers import AutoModelForSequenceClassification, TrainingArguments, default_data_collator

from hf_longseq.training.trainer import LongSeqTrainer
from toy_models import make_model

peft = pytest.importorskip("peft")

# the dense layers around each mixer
TARGETS = {
    "s4": ["output_projection"],
    "dlr": ["output_projection"],
    "lru": ["output_projection"],
    "cnn": ["output_projection"],
    "transformer": ["q_proj", "v_proj"],
}


def rows(count=16):
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 30, (count, 12), generator=generator)
    return [
        {"input_ids": row, "attention_mask": torch.ones_like(row), "labels": index % 2}
        for index, row in enumerate(ids)
    ]


@pytest.mark.parametrize("arch", TARGETS)
def test_a_checkpoint_is_fine_tuned_through_small_matrices(arch, tmp_path):
    make_model(arch, "ForMaskedLM", bidirectional=True).save_pretrained(tmp_path / "pretrained")
    base = AutoModelForSequenceClassification.from_pretrained(tmp_path / "pretrained")
    trunk = {name: tensor.clone() for name, tensor in base.model.state_dict().items()}
    settings = peft.LoraConfig(r=4, target_modules=TARGETS[arch], modules_to_save=["classifier"])
    model = peft.get_peft_model(base, settings)
    assert 0 < model.get_nb_trainable_parameters()[0] < 0.5 * sum(tensor.numel() for tensor in trunk.values())

    options = dict(
        max_steps=3, per_device_train_batch_size=8, learning_rate=0.05, report_to="none", save_strategy="no"
    )
    arguments = TrainingArguments(str(tmp_path / "run"), use_cpu=True, disable_tqdm=True, **options)
    LongSeqTrainer(model, arguments, default_data_collator, rows()).train()
    after = {name.replace(".base_layer", ""): tensor for name, tensor in base.model.state_dict().items()}
    assert all(torch.equal(after[name], tensor) for name, tensor in trunk.items())
    learned = [tensor for name, tensor in after.items() if "lora_B" in name]
    assert len(learned) == 2 * len(TARGETS[arch]) and all(tensor.any() for tensor in learned)

    model.save_pretrained(tmp_path / "lora")
    fresh = AutoModelForSequenceClassification.from_pretrained(tmp_path / "pretrained")
    again = peft.PeftModel.from_pretrained(fresh, tmp_path / "lora").eval()
    inputs = {"input_ids": torch.stack([row["input_ids"] for row in rows(4)])}
    with torch.no_grad():
        expected = model.eval()(**inputs).logits
        torch.testing.assert_close(again(**inputs).logits, expected)
        merged = again.merge_and_unload()  # one of our models again, without peft
        torch.testing.assert_close(merged(**inputs).logits, expected, atol=1e-5, rtol=1e-4)
    merged.save_pretrained(tmp_path / "merged")
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path / "merged").eval()
    torch.testing.assert_close(plain(**inputs).logits, expected, atol=1e-5, rtol=1e-4)
