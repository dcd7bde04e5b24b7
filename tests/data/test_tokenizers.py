"""Tokenizers in plain files say exactly what the task loaders do."""

import json
import logging
from dataclasses import replace

import pytest
from stand_ins import write_imdb
from transformers import AutoTokenizer

from hf_longseq.data import byte_text
from hf_longseq.data.listops import VOCABULARY, draw_example, task_spec
from hf_longseq.data.processors import byte_tokenizer, cut_length, symbol_tokenizer, task_processor, task_tokenizer
from hf_longseq.data.task import TaskSpec, load_task
from hf_longseq.models import LongTransformerConfig, MegaConfig, S4Config

TEXTS = ["", "plain", " two  blanks ", "tabs\tand\nlines\r\n", "Grüße 日本 👍🏽", "\x00\x7f", "x" * 300]


def reopened(tokenizer, folder):
    tokenizer.save_pretrained(folder)
    assert not list(folder.glob("*.py"))
    return AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("text", TEXTS)
def test_bytes_are_those_of_the_loader_and_come_back(text, tmp_path):
    tokenizer = reopened(byte_tokenizer(16), tmp_path)
    ids = tokenizer(text)["input_ids"]
    assert ids == byte_text.encode(text, 10**6).tolist()
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert tokenizer(text, truncation=True)["input_ids"] == byte_text.encode(text, 16).tolist()


def test_special_tokens_have_the_ids_of_the_task(tmp_path):
    tokenizer = reopened(byte_tokenizer(), tmp_path)
    ids = (tokenizer.mask_token_id, tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.eos_token_id)
    assert ids == (byte_text.MASK_ID, byte_text.PAD_ID, byte_text.UNK_ID, byte_text.EOS_ID)
    assert len(tokenizer) == byte_text.VOCAB_SIZE
    assert tokenizer("a[MASK]b")["input_ids"] == [byte_text.BYTE_ID + 97, 0, byte_text.BYTE_ID + 98, 3]


def test_reviews_encode_as_the_text_task_has_them(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(tmp_path / "cache"))
    splits, spec = load_task("text", data_dir=str(write_imdb(tmp_path)), max_length=64)
    tokenizer = reopened(task_tokenizer(spec), tmp_path / "saved")
    for ids in splits["test"]["input_ids"]:
        text = byte_text.decode(ids)
        if "�" not in text:  # a cut may split a character
            expected = tokenizer(text, truncation=True)["input_ids"]
            assert expected == ids.tolist()


def test_a_batch_is_padded_with_a_mask(tmp_path):
    batch = byte_tokenizer()(["ab", "abcd"], padding=True, return_tensors="pt")
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0, 0], [1] * 5]
    assert batch["input_ids"][0, 3:].tolist() == [byte_text.PAD_ID] * 2
    assert set(batch) == {"input_ids", "attention_mask"}


def test_listops_symbols_are_those_of_the_generator(tmp_path):
    import random

    tokenizer = reopened(task_tokenizer(task_spec()), tmp_path)
    ids, _ = draw_example(random.Random(0), 20, 60, 5, 5)
    text = " ".join(VOCABULARY[i] for i in ids[:-1])
    assert tokenizer(text)["input_ids"] == ids
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert len(tokenizer) == len(VOCABULARY)


def test_listops_reads_the_released_spelling():
    tokenizer = symbol_tokenizer(VOCABULARY)
    released = tokenizer("( ( ( [MAX 2 ) 9 ) ] )")["input_ids"]
    symbols = "[MAX 2 9 X [EOS]".split()
    assert released == tokenizer("[MAX 2 9 X")["input_ids"] == [VOCABULARY.index(symbol) for symbol in symbols]
    assert tokenizer("[MAX 2 [MASK] ] 77")["input_ids"][2:5] == [0, VOCABULARY.index("X"), 2]


def test_prompts_are_not_closed():
    assert byte_tokenizer(add_eos=False)("ab")["input_ids"] == [byte_text.BYTE_ID + 97, byte_text.BYTE_ID + 98]


def test_the_file_is_plain_data(tmp_path):
    byte_tokenizer(100).save_pretrained(tmp_path)
    stated = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert stated["model_max_length"] == 100 and stated["mask_token"] == "[MASK]" and "auto_map" not in stated


def test_a_saved_tokenizer_warns_of_the_positions_that_a_model_has_and_of_nothing_else(tmp_path, caplog):
    spec = replace(task_spec(), vocabulary=(), vocab_size=byte_text.VOCAB_SIZE, max_length=12)
    limited = LongTransformerConfig(vocab_size=byte_text.VOCAB_SIZE, max_position_embeddings=20)
    cases = [(S4Config(), 12, None), (MegaConfig(position_bias="rotary"), 12, None), (limited, 12, 20)]
    for number, (config, cut, positions) in enumerate(cases):
        tokenizer = reopened(task_processor(spec, config=config), tmp_path / str(number))
        assert cut_length(tokenizer) == cut
        caplog.clear()
        with caplog.at_level("WARNING", "transformers"):
            logging.getLogger("transformers").addHandler(caplog.handler)
            ids = tokenizer("x" * 40)["input_ids"]
            logging.getLogger("transformers").removeHandler(caplog.handler)
        assert len(ids) == 41 and ("(41 > 20)" in caplog.text) == (positions == 20)
        assert len(tokenizer("x" * 40, truncation=positions is not None)["input_ids"]) == (positions or 41)


def test_ids_without_text_have_no_tokenizer():
    assert task_tokenizer(TaskSpec("own-data", "tokens", 9, vocab_size=9, pad_token_id=0)) is None
    assert task_tokenizer(TaskSpec("waves", "values", 9, num_channels=1)) is None
