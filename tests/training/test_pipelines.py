"""A finished run answers to raw text, pictures and sounds through transformers' own pipelines."""

import json

import numpy as np
import pytest
import torch
from datasets import Dataset, DatasetDict
from PIL import Image
from transformers import pipeline

from fresh_process import answer, run_fresh
from hf_longseq import finetune, predict, pretrain
from hf_longseq.data import byte_text
from hf_longseq.data.listops import VOCABULARY, task_spec
from hf_longseq.data.processors import cut_length
from hf_longseq.data.task import TASKS, TaskEntry, TaskSpec, load_task
from hf_longseq.training.run import load_data

SIZES = {"train": 24, "validation": 8, "test": 8}


def _splits(make_row):
    rows = {name: [make_row(np.random.default_rng([i, size])) for i in range(size)] for name, size in SIZES.items()}
    return DatasetDict({name: Dataset.from_list(some) for name, some in rows.items()})


def moods():
    """Text as bytes, two classes."""

    def row(generator):
        label = int(generator.integers(2))
        return {"input_ids": byte_text.encode(f"it is {'good' if label else 'bad'}", 32).tolist(), "labels": label}

    ids = {"pad_token_id": byte_text.PAD_ID, "mask_token_id": byte_text.MASK_ID, "eos_token_id": byte_text.EOS_ID}
    spec = TaskSpec(
        "moods", "tokens", 32, vocab_size=byte_text.VOCAB_SIZE, labels=("bad", "good"), mask_ratio=0.3, **ids
    )
    return _splits(row), spec


def spots():
    """Pictures of 4 x 4 pixels, dark or bright; stored as grey levels."""

    def row(generator):
        label = int(generator.integers(2))
        levels = generator.integers(0, 128, 16) + 120 * label
        return {"input_values": levels.astype(np.uint8).tolist(), "labels": label}

    spec = TaskSpec(
        "spots", "values", 16, num_channels=1, labels=("dark", "bright"), value_range=(-1, 1), image_shape=(4, 4)
    )
    return _splits(row), spec


def vowels():
    """Text as bytes, in which the vowels are spans."""

    def row(generator):
        text = "".join(generator.choice(list("abcdeé"), 12))
        ids = byte_text.encode(text, 32)
        labels = [letter in "aeé" for letter in text for _ in letter.encode()]
        return {"input_ids": ids.tolist(), "labels": [*map(int, labels), -100]}

    ids = {"pad_token_id": byte_text.PAD_ID, "mask_token_id": byte_text.MASK_ID, "eos_token_id": byte_text.EOS_ID}
    names = {"labels": ("O", "vowel"), "per_position": True, "metric": "token_f1"}
    return _splits(row), TaskSpec(
        "vowels", "tokens", 32, vocab_size=byte_text.VOCAB_SIZE, mask_ratio=0.3, **names, **ids
    )


@pytest.fixture(autouse=True)
def raw_tasks(monkeypatch):
    for name in ("moods", "spots", "vowels"):
        monkeypatch.setitem(TASKS, name, TaskEntry(f"test_pipelines:{name}", "toy", "generated", "24 rows"))


def test_text_classification(tiny, tmp_path):
    run = finetune(tiny("moods"), tmp_path / "run").output_dir
    classify = pipeline("text-classification", model=str(run), device="cpu")
    text = "it is good"
    result = classify(text)[0]
    row = tmp_path / "row.jsonl"
    row.write_text(json.dumps({"input_ids": byte_text.encode(text, 32).tolist()}))
    expected = predict(run, source=row)[0]
    assert result["label"] == expected["prediction"] and abs(result["score"] - expected["score"]) < 1e-3
    batched = classify([text, "it is bad, and much longer"], batch_size=2)
    assert abs(batched[0]["score"] - result["score"]) < 1e-4


def test_token_classification_gives_the_spans_of_predict(tiny, tmp_path):
    recipe = tiny("vowels", scratch={"max_steps": 40, "eval_steps": 40, "learning_rate": 0.02})
    run = finetune(recipe, tmp_path / "run").output_dir
    label = pipeline("token-classification", model=str(run), device="cpu", aggregation_strategy="simple")
    for row, expected in zip(load_data(recipe.data).test, predict(run), strict=True):
        found = label(byte_text.decode(row["input_ids"]))
        assert found or not expected["spans"]
        keys = [(one["start"], one["end"], one["entity_group"]) for one in found]
        assert keys == [(span["start"], span["end"], span["label"]) for span in expected["spans"]]
        scores = [one["score"] for one in found]
        np.testing.assert_allclose(scores, [span["score"] for span in expected["spans"]], atol=1e-3)
    assert sum(len(answer["spans"]) for answer in predict(run)) > 0


def test_fill_mask(tiny, tmp_path):
    run = pretrain(tiny("moods"), tmp_path / "run").output_dir
    guesses = pipeline("fill-mask", model=str(run), device="cpu")("it is g[MASK]od", top_k=3)
    assert len(guesses) == 3 and all(guess["sequence"].startswith("it is g") for guess in guesses)


def test_text_generation_continues_the_prompt(tiny, tmp_path):
    run = pretrain(tiny("moods", pretrain={"objective": "causal"}), tmp_path / "run").output_dir
    write = pipeline("text-generation", model=str(run), device="cpu")
    made = write("it is ", max_new_tokens=4, do_sample=False)[0]["generated_text"]
    assert made.startswith("it is ")
    ids = write.tokenizer("it is ")["input_ids"]
    assert ids == byte_text.encode("it is ", 32).tolist()[:-1]


def test_listops_in_its_released_spelling(tiny, tmp_path):
    data = {"task": "listops", "train_examples": 64, "eval_examples": 32, "min_length": 4, "max_length": 24}
    recipe = tiny("listops", data=data)
    run = finetune(recipe, tmp_path / "run").output_dir
    classify = pipeline("text-classification", model=str(run), device="cpu")
    assert cut_length(classify.tokenizer) == 24 and len(classify.tokenizer) == len(VOCABULARY)
    spellings = ["( ( ( [MAX 2 ) 9 ) ] )", "[MAX 2 9 X"]
    first, second = classify(spellings)
    assert first == second and first["label"] in task_spec().labels


@pytest.mark.parametrize("arch", ["s4", "transformer"])
def test_image_classification(tiny, tmp_path, arch):
    run = finetune(tiny("spots", arch=arch), tmp_path / "run").output_dir
    classify = pipeline("image-classification", model=str(run), device="cpu")
    levels = np.arange(16, dtype=np.uint8) * 10
    Image.fromarray(levels.reshape(4, 4)).save(tmp_path / "row.png")
    result = classify(str(tmp_path / "row.png"))[0]
    expected = predict(run, source=tmp_path / "row.png")[0]
    assert result["label"] == expected["prediction"] and abs(result["score"] - expected["score"]) < 1e-3


def test_audio_classification(tiny, tmp_path):
    run = finetune(tiny("spoken-tones"), tmp_path / "run").output_dir
    classify = pipeline("audio-classification", model=str(run), device="cpu")
    splits, _ = load_task("spoken-tones")
    samples = (np.asarray(splits["test"][0]["input_values"], dtype=np.float32) - 128) / 128
    result = classify(samples)
    assert {answer["label"] for answer in result} == {"first", "second", "third", "fourth"}
    assert abs(sum(answer["score"] for answer in result) - 1) < 1e-5
    with torch.no_grad():
        inputs = classify.feature_extractor(samples, sampling_rate=1000, return_tensors="pt")
        expected = classify.model(**inputs).logits.softmax(-1)[0].max()
    assert abs(result[0]["score"] - float(expected)) < 1e-5


WITHOUT_PACKAGE = """
import numpy as np
from PIL import Image
from transformers import AutoTokenizer, pipeline
classify = pipeline("image-classification", model="HOME/spots", trust_remote_code=True, device="cpu")
assert classify(Image.fromarray(np.zeros((4, 4), np.uint8)))[0]["label"] in ("dark", "bright")
classify = pipeline("audio-classification", model="HOME/spoken-tones", trust_remote_code=True, device="cpu")
assert len(classify(np.sin(np.arange(400.0)).astype("float32"))) == 4
assert AutoTokenizer.from_pretrained("HOME/moods")("hi")["input_ids"][-1] == 3
classify = pipeline("text-classification", model="HOME/moods", trust_remote_code=True, device="cpu")
assert classify("it is good")[0]["label"] in ("bad", "good")
print("answered")
"""


@pytest.mark.slow
def test_pipelines_work_without_the_package(tiny, tmp_path):
    for task in ("spots", "spoken-tones", "moods"):
        finetune(tiny(task), tmp_path / task)
    code = WITHOUT_PACKAGE.replace("HOME", str(tmp_path))
    assert "answered" in answer(run_fresh(code, tmp_path, hide_package=True))
