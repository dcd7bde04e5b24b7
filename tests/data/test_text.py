"""Text, on stand-in parquet files in the format of the Hub's data set."""

import pytest
from datasets import Dataset
from stand_ins import write_imdb

from hf_longseq.data import byte_text
from hf_longseq.data.collators import DataCollatorWithLongPadding
from hf_longseq.data.task import load_task
from hf_longseq.data.task_spec import MissingDataError
from hf_longseq.data.text import is_held_out


@pytest.fixture
def folder(tmp_path):
    return write_imdb(tmp_path)


def load(folder, **options):
    return load_task("text", data_dir=str(folder), cache_dir=str(folder.parent / "cache"), **options)


def test_reviews_are_bytes_with_an_end_mark(folder):
    splits, spec = load(folder)
    row = splits["test"][0]
    assert byte_text.decode(row["input_ids"]) == "test review 0 — bad " and row["input_ids"][-1] == spec.eos_token_id
    batch = DataCollatorWithLongPadding.from_task(spec)([splits["test"][i] for i in range(8)])
    assert batch["labels"].tolist() == [0, 1] * 4 and batch["input_ids"].max() < spec.vocab_size == 260


def test_long_reviews_are_cut_and_still_end(folder):
    splits, spec = load(folder, max_length=100)
    ids = splits["test"][7]["input_ids"]
    assert len(ids) == spec.max_length == 100 and ids[-1] == byte_text.EOS_ID


def test_validation_is_part_of_train_and_shares_no_review_with_it(folder):
    splits, _ = load(folder)
    train, validation = (
        {byte_text.decode(ids) for ids in splits[name][:]["input_ids"]} for name in splits if name != "test"
    )
    assert len(splits["train"]) + len(splits["validation"]) == 60 and len(validation) > 1
    assert not train & validation and all(is_held_out(text) for text in validation)


def test_the_published_split_says_what_it_is(folder):
    splits, spec = load(folder, split="published")
    assert (
        len(splits["train"]) == 60
        and splits["validation"][:]["labels"].tolist() == splits["test"][:]["labels"].tolist()
    )
    assert "not an honest estimate" in spec.note


def test_missing_data_name_the_command(tmp_path):
    with pytest.raises(MissingDataError, match="hf download stanfordnlp/imdb --repo-type dataset"):
        load(tmp_path / "nowhere")


def test_without_a_network_the_command_is_named(tmp_path):
    with pytest.raises(MissingDataError, match="could not be downloaded .*hf download stanfordnlp/imdb"):
        load_task("text", cache_dir=str(tmp_path))


def test_a_damaged_file_is_named(folder):
    file = folder / "plain_text" / "train-00000-of-00001.parquet"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match="train-00000-of-00001.parquet is not a complete parquet file"):
        load(folder)
    assert not list((folder.parent / "cache").rglob("*.arrow"))


def test_other_data_are_refused(folder):
    file = folder / "plain_text" / "test-00000-of-00001.parquet"
    Dataset.from_dict({"sentence": ["a"]}).to_parquet(file)
    with pytest.raises(ValueError, match="but not 'text'"):
        load(folder)


@pytest.mark.parametrize(
    ("options", "message"), [({"max_length": 1}, "max_length is 1"), ({"split": "x"}, "split is 'x'")]
)
def test_impossible_options_are_refused(options, message, folder):
    with pytest.raises(ValueError, match=message):
        load(folder, **options)
