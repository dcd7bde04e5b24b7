"""`push_to_hub` of a trainer: the package's card, weights as safetensors, code, and nothing of the machine."""

import pytest
from datasets import Dataset
from huggingface_hub import ModelCard

from hf_longseq import S4Config, SPTConfig, SPTTrainer
from hf_longseq.errors import HfLongSeqError
from hub_server import HubServer

CONFIG = S4Config(hidden_size=8, num_hidden_layers=1, state_size=4, bidirectional=True)
ROWS = Dataset.from_dict({"text": ["good words", "bad words"] * 6})


def test_a_trainer_uploads_its_card_and_no_pickle(online: HubServer, tmp_path):
    quiet = {"report_to": "none", "disable_tqdm": True, "save_strategy": "no"}
    arguments = SPTConfig(str(tmp_path / "out"), max_steps=1, hub_model_id="tester/spt", **quiet)
    trainer = SPTTrainer(CONFIG, arguments, train_dataset=ROWS)
    trainer.train()
    trainer.push_to_hub(license="mit", tags=["mine"])
    files = online.repo("tester/spt").files
    card = ModelCard(files["README.md"].decode())
    assert card.data.license == "mit" and {"mine", "hf-longseq"} <= set(card.data.tags)
    assert 'from_pretrained("tester/spt"' in card.text.replace("'", '"') and str(tmp_path) not in card.text
    assert {"model.safetensors", "config.json", "tokenizer.json", "modeling_s4.py"} <= set(files)
    assert not [name for name in files if name.endswith((".bin", ".pt"))]


def test_a_token_that_a_pickle_would_carry_along_is_refused(tmp_path):
    token = {"push_to_hub": True, "hub_token": "hf_secret", "report_to": "none"}
    with pytest.raises(HfLongSeqError, match="hub_token would be uploaded") as refused:
        SPTTrainer(CONFIG, SPTConfig(str(tmp_path), **token), train_dataset=ROWS)
    assert "hf_secret" not in str(refused.value)
