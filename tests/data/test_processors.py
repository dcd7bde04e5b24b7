"""Raw pictures and series become what the collators make of the stored data."""

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoFeatureExtractor, AutoImageProcessor

import hf_longseq  # noqa: F401  registers the classes
from fresh_process import answer, run_fresh
from hf_longseq.data import cifar, smnist
from hf_longseq.data.collators import DataCollatorWithLongPadding
from hf_longseq.data.pixels import pixel_form
from hf_longseq.data.processors import task_processor
from hf_longseq.data.task import TaskSpec, load_task
from hf_longseq.models import LongSeqFeatureExtractor, LongSeqImageProcessor
from hf_longseq.models.feature_extraction_longseq import resample

PIXELS = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)


def reopened(processor, folder, auto_class):
    processor.save_pretrained(folder)
    again = auto_class.from_pretrained(folder)
    assert type(again) is type(processor) and again.to_dict() == processor.to_dict()
    return again


@pytest.mark.parametrize("grey", [True, False])
def test_a_picture_becomes_what_the_collator_makes_of_its_pixels(grey, tmp_path):
    spec = cifar.task_spec(grey)
    processor = reopened(task_processor(spec), tmp_path, AutoImageProcessor)
    image = Image.fromarray(PIXELS)
    stored = np.asarray(image.convert("L") if grey else image).reshape(1024, *([] if grey else [3]))
    expected = DataCollatorWithLongPadding.from_task(spec)([{"input_values": stored}])["input_values"]
    for form in (image, PIXELS, PIXELS.transpose(2, 0, 1), torch.from_numpy(PIXELS), PIXELS / 255.0):
        torch.testing.assert_close(processor(form, return_tensors="pt")["input_values"], expected)
    assert processor([image, image], return_tensors="np")["input_values"].shape == (2, 1024, 1 if grey else 3)


def test_a_picture_becomes_tokens_for_a_model_of_tokens(tmp_path):
    processor = reopened(task_processor(pixel_form(cifar.task_spec(True), True, None)), tmp_path, AutoImageProcessor)
    ids = processor(PIXELS[..., 0], return_tensors="pt")["input_ids"]
    assert ids.dtype == torch.int64 and ids[0].tolist() == PIXELS[..., 0].ravel().tolist()


def test_digits_of_28_pixels_fit_models_of_14_and_32():
    digit = PIXELS[:28, :28, 0]
    small = task_processor(smnist.task_spec(14))(digit, return_tensors="pt")["input_values"][0, :, 0]
    means = digit.reshape(14, 2, 14, 2).mean((1, 3)).ravel() / 127.5 - 1
    assert np.abs(small.numpy() - means).max() < 1.01 / 127.5  # rounded to levels
    framed = task_processor(smnist.task_spec(32))(digit, return_tensors="pt")["input_values"].view(32, 32)
    assert (framed[0] == -1).all()
    assert torch.allclose(framed[2:30, 2:30], torch.from_numpy(digit / 127.5 - 1).float(), atol=1e-6)


@pytest.mark.parametrize("shape", [(6, 1), (1, 6), (6, 1, 1), (1, 6, 1)])
def test_a_picture_may_be_one_pixel_wide_or_high(shape):
    levels = np.arange(6, dtype=np.uint8).reshape(shape) * 51
    made = LongSeqImageProcessor(height=shape[0], width=shape[1])(levels, return_tensors="pt")["input_values"]
    torch.testing.assert_close(made, torch.linspace(-1, 1, 6).view(1, 6, 1))


def test_a_mask_is_black_and_white():
    processor, mask = LongSeqImageProcessor(height=2, width=2), np.array([[True, False], [False, True]])
    for picture in (mask, torch.from_numpy(mask), Image.fromarray(mask)):
        assert processor(picture)["input_values"] == [[[1.0], [-1.0], [-1.0], [1.0]]]


def test_wrong_pictures_are_refused():
    processor = LongSeqImageProcessor()
    with pytest.raises(ValueError, match="outside 0..1"):
        processor(np.full((4, 4), 3.0), return_tensors="pt")
    for levels in (np.full((4, 4), 300), np.full((4, 4), 1000, np.uint16), np.full((4, 4), -1)):
        with pytest.raises(ValueError, match="integers holds values outside 0..255"):
            processor(levels, return_tensors="pt")
    with pytest.raises(ValueError, match=r"shape \(0, 5\)"):
        processor(np.zeros((0, 5), np.uint8), return_tensors="pt")
    with pytest.raises(ValueError, match="floats holds values outside 0..1"):
        processor(np.full((4, 4), np.nan), return_tensors="pt")
    with pytest.raises(ValueError, match="more than 8 bits a pixel"):
        processor(Image.fromarray(np.full((4, 4), 1000, np.uint16)), return_tensors="pt")
    with pytest.raises(ValueError, match="num_channels is 2"):
        LongSeqImageProcessor(num_channels=2)
    with pytest.raises(ValueError, match="fit is 'cubic'"):
        LongSeqImageProcessor(fit="cubic")


def test_recordings_are_scaled_as_the_embedded_ones(tmp_path):
    splits, spec = load_task("spoken-tones")
    extractor = reopened(task_processor(spec), tmp_path, AutoFeatureExtractor)
    rows = [splits["test"][i] for i in range(4)]
    expected = DataCollatorWithLongPadding.from_task(spec)(rows)
    # any gain and offset of the recording comes to the same
    raw = [0.01 * (np.asarray(row["input_values"], dtype=np.float64) - 128) + 0.2 for row in rows]
    made = extractor(raw, sampling_rate=1000, return_tensors="pt")
    assert torch.equal(made["attention_mask"].long(), expected["attention_mask"])
    assert (made["input_values"] - expected["input_values"][..., 0]).abs().max() < 0.15
    alone = extractor(raw[0], sampling_rate=1000, return_tensors="pt")["input_values"]
    torch.testing.assert_close(alone[0], made["input_values"][0, : alone.shape[1]])


def test_channels_are_standardised_with_the_numbers_of_training(tmp_path):
    spec = TaskSpec("own-data", "values", 5, num_channels=2, normalization=((1.0, 2.0), (2.0, 4.0)))
    extractor = reopened(task_processor(spec), tmp_path, AutoFeatureExtractor)
    made = extractor([np.ones((3, 2)), np.ones((9, 2))], return_tensors="pt")
    assert made["input_values"].shape == (2, 5, 2) and made["attention_mask"].sum(1).tolist() == [3, 5]
    assert made["input_values"][0, :3].tolist() == [[0.0, -0.25]] * 3 and (made["input_values"][0, 3:] == 0).all()
    one = extractor([[1.0, 2.0]] * 4, return_tensors="np")["input_values"]
    assert one.shape == (1, 4, 2) and one.dtype == np.float32
    padded = extractor([np.ones((3, 2)), np.ones((4, 2))], pad_to_multiple_of=8)
    assert padded["input_values"].shape == (2, 8, 2) and padded["attention_mask"].sum(1).tolist() == [3, 4]


@pytest.mark.parametrize("rates", [(44_100, 16_000), (8_000, 16_000), (16_000, 1_000)])
def test_resampling_is_that_of_scipy(rates):
    from scipy.signal import resample_poly

    values = np.random.default_rng(0).normal(size=(701, 2))
    divisor = np.gcd(*rates)
    expected = resample_poly(values, rates[1] // divisor, rates[0] // divisor, axis=0)
    made = resample(torch.from_numpy(values), *rates).numpy()
    assert made.shape == expected.shape and np.abs(made - expected).max() < 1e-9


def test_resampling_takes_memory_for_the_samples_and_not_for_every_step_between_two_rates():
    one_second = torch.zeros(44_100, 1, dtype=torch.float64)
    with torch.profiler.profile(profile_memory=True) as profile:
        resample(one_second, 44_100, 16_000)
    assert max(event.cpu_memory_usage for event in profile.events()) < 64 * 2**20


def test_rates_are_whole_numbers():
    extractor = LongSeqFeatureExtractor(sampling_rate=16_000)
    made = extractor(np.ones(441), sampling_rate=44_100.0, return_tensors="np")
    assert made["input_values"].shape == (1, 160)
    for rate in (0, -8000, 44_100.5):
        with pytest.raises(ValueError, match=f"sampling_rate is {rate}"):
            extractor(np.ones(441), sampling_rate=rate)


@pytest.mark.parametrize(
    ("raw", "message"),
    [([], "length 0"), ([1.0, float("nan")], "NaN"), (np.ones((2, 4, 3)), "channel")],
)
def test_wrong_series_are_refused(raw, message):
    with pytest.raises(ValueError, match=message):
        LongSeqFeatureExtractor()(raw, return_tensors="pt")


WITHOUT_PILLOW = """
class NoPillow:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "PIL":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, NoPillow())
import hf_longseq
from transformers import AutoConfig
assert AutoConfig.for_model("longseq_s4")
try:
    hf_longseq.LongSeqImageProcessor()([[1]])
except ImportError as error:
    print(error)
"""


@pytest.mark.slow
def test_the_package_works_without_pillow(tmp_path):
    assert "pip install pillow" in answer(run_fresh("import sys\n" + WITHOUT_PILLOW, tmp_path))


@pytest.mark.parametrize(
    "raw",
    [
        [[1, 2, 3], [4, 5, 6]],
        [[1, 2, 3], [4, 5]],
        np.arange(6).reshape(2, 3),
        torch.arange(6.0).reshape(2, 3),
        [np.arange(3), [1.0, 2.0, 3.0]],
        [[[1], [2], [3]], [[4], [5], [6]]],
    ],
)
def test_of_one_channel_lists_of_lists_and_arrays_are_batches(raw):
    features = LongSeqFeatureExtractor()(raw, return_tensors="pt")
    assert features["input_values"].shape == features["attention_mask"].shape == (2, 3)
    assert features["attention_mask"][1].sum() == len(raw[1])


@pytest.mark.parametrize("raw", [[1, 2, 3], np.arange(3), np.zeros((3, 1)), [[1], [2], [3]], [[1, 2, 3]]])
def test_of_one_channel_these_are_one_series(raw):
    assert LongSeqFeatureExtractor()(raw)["input_values"].shape == (1, 3)


def test_datasets_map_gives_what_the_extractor_takes():
    from datasets import Dataset

    rows = Dataset.from_dict({"x": [[1.0, 2.0, 3.0], [4.0, 5.0]]})
    extractor = LongSeqFeatureExtractor(mean=[1.0], std=[2.0])
    mapped = rows.map(lambda batch: extractor(batch["x"], padding=False, return_tensors=None), batched=True)
    assert mapped["input_values"][:] == [[0.0, 0.5, 1.0], [1.5, 2.0]]
