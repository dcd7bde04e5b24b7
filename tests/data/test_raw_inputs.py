"""Labels of positions of new files, under tokenizers whose tokens are not the bytes of a text."""

import pytest
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from hf_longseq import S4Config
from hf_longseq.data import byte_text
from hf_longseq.data.processors import base_tokenizer, byte_tokenizer
from hf_longseq.data.raw_inputs import LabelledInputs, RawInputs
from hf_longseq.training.rows import model_rows


def labels_of(folder, tokenizer, text, spans):
    tokenizer.save_pretrained(folder)
    config = S4Config(vocab_size=len(tokenizer), id2label={0: "O", 1: "X"}, label2id={"O": 0, "X": 1})
    rows = [{"text": text, "spans": [{"start": start, "end": end, "label": "X"} for start, end in spans]}]
    inputs = RawInputs(rows, folder, config)
    return LabelledInputs(inputs, config, "single_label_classification", True)[0]["labels"].tolist()


def words(*known):
    ids = {word: number for number, word in enumerate(("[UNK]", "</s>", *known))}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", eos_token="</s>")


@pytest.mark.parametrize(
    "text, span, expected", [("ACGTAC", (4, 6), [0, 0, 0, 0, 1, 1]), ("AC GT", (3, 5), [0, 0, 1, 1])]
)
def test_every_base_has_its_own_label(text, span, expected, tmp_path):
    assert labels_of(tmp_path, base_tokenizer(1024), text, [span]) == expected


def test_a_word_has_the_label_of_its_first_letter_and_the_closing_token_none(tmp_path):
    tokenizer = words("John", "met", "Zo\u00eb")
    assert labels_of(tmp_path, tokenizer, "Zo\u00eb met John", [(0, 3), (8, 12)]) == [1, 0, 1, -100]


def test_a_cut_text_loses_the_labels_behind_the_cut(tmp_path):
    tokenizer = words("John", "met")
    tokenizer.model_max_length = 3
    assert labels_of(tmp_path, tokenizer, "met John met John", [(4, 8), (13, 17)]) == [0, 1, -100]


def test_token_ids_are_cut_where_those_of_training_were(tmp_path, caplog):
    config, rows = S4Config(vocab_size=9), [{"input_ids": [1, 2, 3]}, {"input_ids": [4, 5, 6, 7]}]
    inputs = RawInputs(rows, tmp_path, config, recorded={"max_length": 3})
    assert [inputs[i]["input_ids"].tolist() for i in (0, 1)] == [[1, 2, 3], [4, 5, 6]]
    assert "row 2, has 4 positions: the model was trained on up to 3" in caplog.text
    assert len(RawInputs(rows, tmp_path, config)[1]["input_ids"]) == 4


@pytest.mark.parametrize("text", ["a [MASK] b", "x[PAD]y", "z[EOS]", "[UNK]\u00e9"])
def test_names_of_special_tokens_in_a_text_are_text(text, tmp_path):
    byte_tokenizer(12).save_pretrained(tmp_path)
    inputs = RawInputs([text], tmp_path, S4Config(vocab_size=byte_text.VOCAB_SIZE))
    assert inputs[0]["input_ids"].tolist() == byte_text.encode(text, 12).tolist()
    assert model_rows(Dataset.from_dict({"text": [text]}))[0]["input_ids"] == byte_text.encode(text, 99).tolist()
    assert inputs.encoder.processor("a[MASK]")["input_ids"][1] == byte_text.MASK_ID  # a prompt keeps its mask
