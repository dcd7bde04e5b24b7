"""The collators: what is masked, what is scored, what is padded, and when masks repeat."""

import numpy as np
import pytest
import torch
from datasets import Dataset
from torch.utils.data import DataLoader

from hf_longseq.data.collators import (
    DataCollatorForCausalDenoising,
    DataCollatorForMaskedDenoising,
    DataCollatorWithLongPadding,
    MaskEpochCallback,
    in_direction,
)
from hf_longseq.data.processors import byte_tokenizer
from hf_longseq.data.task import TaskSpec
from hf_longseq.models import S4Config, S4ForSequenceClassification
from hf_longseq.training.sampling import FILLER, FillerCollator

MASK, PAD, VOCAB = 1, 0, 20


def token_rows(lengths=(7, 3, 5), seed=0):
    rng = np.random.default_rng(seed)
    return [{"input_ids": rng.integers(2, VOCAB, n).tolist(), "labels": i % 2} for i, n in enumerate(lengths)]


def value_rows(lengths=(7, 3, 5), channels=2, seed=0):
    rng = np.random.default_rng(seed)
    return [{"input_values": rng.uniform(-1, 1, (n, channels)).tolist(), "labels": 0.5} for n in lengths]


def masked_tokens(**kwargs):
    return DataCollatorForMaskedDenoising(
        **{
            "mask_ratio": 0.5,
            "mask_token_id": MASK,
            "pad_token_id": PAD,
            "vocab_size": VOCAB,
        }
        | kwargs
    )


def masked_values(**kwargs):
    return DataCollatorForMaskedDenoising(**{"mask_ratio": 0.5} | kwargs)


class TestMaskedTokens:
    def test_masked_positions_hold_the_mask_token_and_are_the_only_ones_scored(self):
        rows = token_rows((50, 80))
        batch = masked_tokens()(rows)
        assert {k: (v.shape, v.dtype) for k, v in batch.items()} == {
            k: (torch.Size([2, 80]), torch.int64) for k in ("input_ids", "attention_mask", "labels")
        }
        scored = batch["labels"] != -100
        assert scored.any() and (batch["input_ids"][scored] == MASK).all()
        for row, ids, labels in zip(rows, batch["input_ids"], batch["labels"], strict=True):
            original = torch.tensor(row["input_ids"])
            restored = torch.where(labels != -100, labels, ids)[: len(original)]
            assert torch.equal(restored, original)  # shown where not masked, target where masked

    def test_padding_is_never_masked_nor_scored(self):
        batch = masked_tokens(mask_ratio=0.9, pad_to_multiple_of=16)(token_rows())
        padding = batch["attention_mask"] == 0
        assert batch["input_ids"].shape[1] == 16
        assert (batch["labels"][padding] == -100).all() and (batch["input_ids"][padding] == PAD).all()

    def test_rows_that_are_already_padded_keep_their_attention_mask(self):
        row = {"input_ids": [PAD, PAD, 5, 6], "attention_mask": [0, 0, 1, 1]}
        batch = masked_tokens(mask_ratio=0.99)([row] * 8)
        assert (batch["labels"][:, :2] == -100).all() and (batch["attention_mask"][:, :2] == 0).all()

    @pytest.mark.parametrize("span_length", [1, 5])
    def test_every_position_is_masked_with_the_stated_probability(self, span_length):
        batch = masked_tokens(mask_ratio=0.3, span_length=span_length)(token_rows([100] * 2000))
        share = (batch["labels"] != -100).float().mean(0)
        assert abs(share.mean() - 0.3) < 0.01 and (share - 0.3).abs().max() < 0.06

    def test_spans_are_at_least_as_long_as_asked(self):
        masked = masked_tokens(mask_ratio=0.2, span_length=4)(token_rows([400]))["labels"][0] != -100
        edges = torch.diff(masked.int(), prepend=torch.zeros(1), append=torch.zeros(1))
        runs = (edges == -1).nonzero() - (edges == 1).nonzero()
        assert len(runs) > 5 and (runs[1:-1] >= 4).all()  # a span may be cut at either end of the row

    def test_a_batch_in_which_chance_masks_nothing_has_no_target(self):
        batch = masked_tokens(mask_ratio=1e-9)(token_rows())
        assert (batch["labels"] == -100).all() and (batch["input_ids"] != MASK).all()

    def test_documents_of_a_pair_become_separate_rows(self):
        rows = [
            {"input_ids": [5, 6, 7], "input_ids_2": [8, 9], "labels": 1},
            {"input_ids": [3], "input_ids_2": [4] * 5},
        ]
        batch = masked_tokens(mask_ratio=1e-9)(rows)
        assert batch["input_ids"].tolist() == [
            [5, 6, 7, 0, 0],
            [3, 0, 0, 0, 0],
            [8, 9, 0, 0, 0],
            [4] * 5,
        ]
        assert set(batch) == {"input_ids", "attention_mask", "labels"}

    def test_documents_with_the_same_text_get_different_masks(self):
        row = {"input_ids": [5] * 64, "input_ids_2": [5] * 64}
        labels = masked_tokens(deterministic=True)([row])["labels"]
        assert not torch.equal(labels[0], labels[1])


class TestMaskedValues:
    def test_masked_steps_are_zero_and_flagged_in_every_channel(self):
        rows = value_rows((40, 60))
        batch = masked_values()(rows)
        assert batch["input_values"].shape == batch["labels"].shape == (2, 60, 2)
        assert batch["input_values"].dtype == batch["labels"].dtype == torch.float32
        assert batch["bool_masked_pos"].shape == (2, 60) and batch["bool_masked_pos"].dtype == torch.bool
        masked = batch["bool_masked_pos"]
        assert (batch["input_values"][masked] == 0).all() and (batch["labels"][~masked] == -100).all()
        first = torch.tensor(rows[0]["input_values"], dtype=torch.float32)
        assert torch.equal(batch["labels"][0][masked[0]], first[masked[0][:40]])
        assert not (masked & (batch["attention_mask"] == 0)).any()

    def test_one_channel_may_be_a_flat_list(self):
        assert masked_values()([{"input_values": [0.1, 0.2, 0.3]}])["input_values"].shape == (1, 3, 1)

    def test_levels_divide_the_range_evenly_and_outside_values_take_the_nearest(self):
        collator = DataCollatorForCausalDenoising(num_levels=256, value_range=(-1.0, 1.0))
        labels = collator([{"input_values": [0.0, -1.0, 1.0, 0.0, 3.0, -3.0]}])["labels"]
        assert labels.dtype == torch.int64
        assert labels[0, :, 0].tolist() == [-100, 0, 255, 128, 255, 0]

    def test_stored_grey_levels_become_values_and_come_back_as_levels(self):
        rows = [{"input_values": np.arange(256, dtype=np.uint8)}]
        collator = DataCollatorForCausalDenoising(num_levels=256, value_range=(-1.0, 1.0))
        batch = collator(rows)
        assert batch["input_values"].min() == -1 and batch["input_values"].max() == 1
        assert batch["labels"][0, 1:, 0].tolist() == list(range(1, 256))

    def test_a_true_value_of_minus_100_is_still_scored(self):
        batch = masked_values(mask_ratio=0.999)([{"input_values": [-100.0] * 20}])
        scored = batch["labels"] != -100
        assert torch.equal(scored[..., 0], batch["bool_masked_pos"])
        assert torch.allclose(batch["labels"][scored], torch.tensor(-100.0))


class TestCausal:
    def test_tokens_are_their_own_targets_except_padding(self):
        batch = DataCollatorForCausalDenoising(vocab_size=VOCAB)(token_rows((4, 2)))
        assert torch.equal(batch["labels"][0], batch["input_ids"][0])
        assert batch["labels"][1].tolist() == batch["input_ids"][1, :2].tolist() + [
            -100,
            -100,
        ]

    @pytest.mark.parametrize("make", [token_rows, value_rows])
    def test_a_step_after_padding_is_not_scored(self, make):
        row = make((6,))[0] | {"attention_mask": [0, 0, 1, 1, 0, 1]}
        labels = DataCollatorForCausalDenoising()([row])["labels"]
        assert (labels.reshape(6, -1)[:, 0] != -100).tolist() == [False, False, False, True, False, False]

    def test_values_never_score_the_first_step(self):
        batch = DataCollatorForCausalDenoising()(value_rows((4, 2)))
        assert (batch["labels"][:, 0] == -100).all() and (batch["labels"][1, 2:] == -100).all()
        assert torch.equal(batch["labels"][0, 1:], batch["input_values"][0, 1:]) and "bool_masked_pos" not in batch

    @pytest.mark.parametrize("make", [token_rows, value_rows])
    def test_both_directions_have_the_next_and_the_previous_step_where_both_are_real(self, make):
        rows = [make((6,))[0] | {"attention_mask": [0, 1, 1, 1, 0, 1]}, make((4,))[0] | {"attention_mask": [1] * 4}]
        batch = DataCollatorForCausalDenoising(both_directions=True)(rows)
        inputs = batch["input_ids" if "input_ids" in batch else "input_values"]
        for direction, shift in (("forward", 1), ("backward", -1)):
            one = in_direction(batch, direction)
            assert one["direction"] == direction and "labels_backward" not in one
            scored = (one["labels"] != -100).reshape(2, 6, -1).all(-1)
            for row, at in scored.nonzero().tolist():
                assert torch.equal(one["labels"][row, at], inputs[row, at + shift])
            first = [[1, 2], [0, 1, 2]] if direction == "forward" else [[2, 3], [1, 2, 3]]
            assert [row.nonzero().flatten().tolist() for row in scored] == first

    def test_a_batch_of_one_objective_has_no_direction(self):
        batch = DataCollatorForCausalDenoising(vocab_size=VOCAB)(token_rows((4, 2)))
        assert in_direction(batch, "backward") is batch


class TestWhenMasksRepeat:
    rows = token_rows([60] * 8)

    def test_evaluation_masks_depend_on_seed_and_example_only(self):
        collator = masked_tokens(deterministic=True)
        together = collator(self.rows)["labels"]
        one_by_one = torch.cat([collator([row])["labels"] for row in reversed(self.rows)]).flip(0)
        assert torch.equal(together, one_by_one)
        assert not torch.equal(together, masked_tokens(deterministic=True, seed=1)(self.rows)["labels"])

    def test_padding_does_not_change_a_mask(self):
        collator = masked_tokens(deterministic=True)
        alone, padded = (
            collator(self.rows[:1]),
            collator([self.rows[0], *token_rows([90])]),
        )
        assert torch.equal(padded["labels"][0, :60], alone["labels"][0])

    def test_masks_are_fresh_at_each_call_by_default(self):
        collator = masked_tokens()
        assert not torch.equal(collator(self.rows)["labels"], collator(self.rows)["labels"])

    def test_masks_follow_torch_seed_by_default(self):
        collator, labels = masked_tokens(), []
        for _ in range(2):
            torch.manual_seed(3)
            labels.append(collator(self.rows)["labels"])
        assert torch.equal(*labels)

    @staticmethod
    def epoch_of_labels(collator, num_workers, epoch):
        collator.set_epoch(epoch)
        loader = DataLoader(
            TestWhenMasksRepeat.rows,
            batch_size=3,
            num_workers=num_workers,
            collate_fn=collator,
        )
        return torch.cat([batch["labels"] for batch in loader])

    def test_masks_of_an_epoch_are_the_same_for_any_number_of_workers(self):
        collator = masked_tokens()
        epochs = {n: [self.epoch_of_labels(collator, n, epoch) for epoch in (0, 1)] for n in (0, 1, 2)}
        assert torch.equal(epochs[0][0], epochs[1][0]) and torch.equal(epochs[0][0], epochs[2][0])
        assert torch.equal(epochs[0][1], epochs[2][1]) and not torch.equal(epochs[0][0], epochs[0][1])

    def test_workers_that_outlive_an_epoch_learn_the_new_one(self):
        collator = masked_tokens()
        loader = DataLoader(
            self.rows,
            batch_size=8,
            num_workers=1,
            collate_fn=collator,
            persistent_workers=True,
        )
        seen = []
        for epoch in (0, 1):
            collator.set_epoch(epoch)
            seen += [batch["labels"] for batch in loader]
        assert torch.equal(seen[1], self.epoch_of_labels(masked_tokens(), 0, 1)) and not torch.equal(*seen)


class TestFineTuning:
    def test_pads_and_keeps_labels(self):
        batch = DataCollatorWithLongPadding(vocab_size=VOCAB, num_labels=2)(token_rows())
        assert batch["input_ids"].shape == batch["attention_mask"].shape == (3, 7)
        assert batch["labels"].tolist() == [0, 1, 0] and batch["labels"].dtype == torch.int64

    def test_pairs_stay_side_by_side(self):
        batch = DataCollatorWithLongPadding()([{"input_ids": [5, 6, 7], "input_ids_2": [8, 9], "labels": 1}])
        assert batch["input_ids_2"].tolist() == [[8, 9]] and batch["attention_mask_2"].tolist() == [[1, 1]]

    def test_regression_targets_are_float32(self):
        batch = DataCollatorWithLongPadding(problem_type="regression")(value_rows())
        assert batch["labels"].dtype == torch.float32 and batch["labels"].shape == (3,)
        many = [{"input_values": [0.0], "labels": [1, 0, 1]}]
        assert DataCollatorWithLongPadding(problem_type="multi_label_classification")(many)["labels"].shape == (1, 3)

    def test_rows_without_labels_are_for_prediction(self):
        assert "labels" not in DataCollatorWithLongPadding()([{"input_ids": [3, 4]}])

    def test_from_task_takes_what_the_task_says(self):
        spec = TaskSpec(
            "t",
            "tokens",
            8,
            vocab_size=VOCAB,
            pad_token_id=PAD,
            mask_token_id=MASK,
            mask_ratio=0.3,
        )
        collator = DataCollatorForMaskedDenoising.from_task(spec, seed=5)
        assert (
            collator.mask_ratio,
            collator.mask_token_id,
            collator.vocab_size,
            collator.seed,
        ) == (
            0.3,
            MASK,
            VOCAB,
            5,
        )
        values = TaskSpec(
            "v",
            "values",
            8,
            num_channels=1,
            num_levels=4,
            value_range=(0.0, 1.0),
            labels=("a", "b"),
        )
        assert DataCollatorForCausalDenoising.from_task(values).num_levels == 4
        assert DataCollatorWithLongPadding.from_task(values).num_labels == 2


def test_a_true_target_of_minus_100_is_still_scored():
    collate = DataCollatorWithLongPadding(problem_type="regression")
    config = S4Config(hidden_size=4, num_hidden_layers=1, state_size=4, num_labels=1, problem_type="regression")
    model = S4ForSequenceClassification(config)
    assert model(**collate([{"input_ids": [3, 4], "labels": -100.0}])).loss > 0
    assert model(**collate([{"input_ids": [3, 4], "labels": [-100.0]}])).loss > 0
    filled = FillerCollator(collate)(
        [{"input_ids": [3], "labels": -100.0}, {"input_ids": [3], "labels": 2.0, FILLER: True}]
    )
    assert (filled["labels"] == -100).tolist() == [False, True]


@pytest.mark.parametrize("problem_type", ["multi_label_classification", "regression"])
def test_one_of_several_labels_may_be_unknown(problem_type):
    collate = DataCollatorWithLongPadding(problem_type=problem_type)
    assert collate([{"input_ids": [3], "labels": [1.0, -100.0]}])["labels"].tolist() == [[1.0, -100.0]]


def test_rows_without_labels_make_a_batch_without():
    assert "labels" not in DataCollatorWithLongPadding()([{"input_ids": [3], "labels": None}, {"input_ids": [3]}])


BAD = [
    (lambda: masked_tokens(mask_ratio=0.0), None, "mask_ratio is 0.0"),
    (lambda: masked_tokens(mask_ratio=1.0), None, "mask_ratio is 1.0"),
    (lambda: masked_tokens(span_length=0), None, "span_length is 0"),
    (lambda: masked_tokens(mask_token_id=VOCAB), None, "mask_token_id is 20"),
    (
        lambda: masked_tokens(mask_token_id=None),
        [{"input_ids": [3]}],
        "mask_token_id is None",
    ),
    (lambda: DataCollatorForCausalDenoising(num_levels=256), None, "value_range=None"),
    (
        masked_tokens,
        [{"input_ids": [3, 25]}],
        "token id 25 at step 1, outside the vocabulary of 20",
    ),
    (masked_tokens, [{"input_ids": [3, -1]}], "token id -1"),
    (masked_tokens, [{"input_ids": []}], "is empty"),
    (masked_tokens, [{"input_ids": [0.5]}], "list of integers"),
    (masked_tokens, [{"text": "abc"}], "needs 'input_ids' or 'input_values'"),
    (
        masked_tokens,
        [{"input_ids": [3]}, {"labels": 0}],
        "example 1 in the batch is missing",
    ),
    (
        masked_tokens,
        [{"input_ids": [3, 4], "attention_mask": [1]}],
        "attention_mask of example 0",
    ),
    (
        masked_values,
        [{"input_values": [1.0, float("nan")]}],
        "holds nan at step 1, channel 0",
    ),
    (
        lambda: masked_values(num_channels=2),
        [{"input_values": [1.0]}],
        "has 1 channels, but num_channels=2",
    ),
    (masked_values, [{"input_values": [3, 4]}], "value_range is None"),
    (
        lambda: masked_values(value_range=(0.0, 1.0)),
        [{"input_values": [300]}],
        "grey levels are 0..255",
    ),
    (
        masked_values,
        [{"input_values": [[0.5]]}, {"input_values": [[0.5, 0.5]]}],
        r"\[1, 2\] channels",
    ),
    (
        lambda: DataCollatorWithLongPadding(num_labels=2),
        [{"input_ids": [3], "labels": 2}],
        r"outside the classes 0..1",
    ),
    (
        lambda: DataCollatorWithLongPadding(problem_type="single_label_classification"),
        [{"input_ids": [3], "labels": 0.5}],
        "one integer class per row",
    ),
    (
        lambda: DataCollatorWithLongPadding(problem_type="regression"),
        [{"input_ids": [3], "labels": float("nan")}],
        "labels of example 0 .* hold nan",
    ),
    (
        lambda: DataCollatorWithLongPadding(per_position=True),
        [{"input_ids": [3, 4], "labels": [0.5, float("inf")]}],
        "labels of example 0 .* hold inf: give NaN",
    ),
    (
        DataCollatorWithLongPadding,
        [{"input_ids": [3], "labels": [0.5, 1.5]}, {"input_ids": [3], "labels": [0.5]}],
        r"example 1 .* shape \(1,\), those of the first \(2,\)",
    ),
    (
        DataCollatorWithLongPadding,
        [{"input_ids": [3], "labels": 1}, {"input_ids": [3], "labels": None}],
        "labels of example 1 in the batch are missing",
    ),
    (
        DataCollatorWithLongPadding,
        [{"input_ids": [3], "labels": None}, {"input_ids": [3], "labels": 0}],
        "labels of example 0 in the batch are missing",
    ),
]


@pytest.mark.parametrize(("make", "rows", "message"), BAD, ids=[case[2] for case in BAD])
def test_bad_input_is_one_clear_sentence(make, rows, message):
    with pytest.raises(ValueError, match=message) as error:
        make()(rows)
    assert "\n" not in str(error.value) and str(error.value).endswith(".")


def test_a_tokenizer_says_which_ids_mask_and_pad():
    """As `DataCollatorForLanguageModeling(tokenizer, mlm_probability=...)` is called."""
    tokenizer = byte_tokenizer()
    collator = DataCollatorForMaskedDenoising(tokenizer, mlm_probability=0.5)
    assert (collator.mask_ratio, collator.mask_token_id, collator.pad_token_id) == (0.5, 0, 1)
    batch = collator([{"input_ids": tokenizer("long sequences")["input_ids"]}, {"input_ids": [100]}])
    assert (batch["input_ids"][0] == 0).any() and batch["input_ids"][1].tolist()[1:] == [1] * 14
    assert DataCollatorForMaskedDenoising(tokenizer=tokenizer, mask_token_id=3, pad_token_id=2).mask_token_id == 3
    with pytest.raises(ValueError, match="DataCollatorForMaskedDenoising got 0 in the place of a tokenizer"):
        DataCollatorForMaskedDenoising(0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["masked", "causal"])
def test_the_stock_trainer_trains_a_transformers_language_model(kind, tmp_path):
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        GPT2Config,
        GPT2LMHeadModel,
        Trainer,
        TrainingArguments,
    )

    rows = Dataset.from_list([{"input_ids": ([2, 3, 4, 5] * 8)[: 16 + i % 5], "labels": 0} for i in range(64)])
    tiny = {
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    if kind == "masked":
        collator = masked_tokens()
        config = BertConfig(**tiny, intermediate_size=32, max_position_embeddings=32, pad_token_id=PAD)
        model = BertForMaskedLM(config)
    else:
        collator = DataCollatorForCausalDenoising(vocab_size=VOCAB)
        model = GPT2LMHeadModel(GPT2Config(**tiny, n_positions=32, bos_token_id=PAD, eos_token_id=PAD))
    arguments = TrainingArguments(
        str(tmp_path),
        max_steps=60,
        per_device_train_batch_size=16,
        learning_rate=1e-2,
        logging_steps=20,
        seed=0,
    )
    callbacks = [MaskEpochCallback(collator)] if kind == "masked" else []
    trainer = Trainer(
        model,
        arguments,
        data_collator=collator,
        train_dataset=rows,
        callbacks=callbacks,
    )
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < 0.7 * losses[0]
    if kind == "masked":
        assert collator._epoch.item() == 14  # 4 batches an epoch, 60 steps


@pytest.mark.slow
@pytest.mark.parametrize("stream, step", [(False, 6), (True, 3)], ids=["in the second epoch", "of a stream"])
def test_masks_after_a_resume_are_those_of_the_uninterrupted_run(stream, step, tmp_path):
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        Trainer,
        TrainingArguments,
        set_seed,
    )

    rows = Dataset.from_list([{"input_ids": [2 + (i * j) % 17 for j in range(1, 13)]} for i in range(32)])

    def train(folder, resume=None, stop=8):
        set_seed(0)
        collator = masked_tokens()
        tiny = {
            "hidden_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 16,
        }
        model = BertForMaskedLM(BertConfig(vocab_size=VOCAB, max_position_embeddings=16, **tiny))
        arguments = TrainingArguments(
            str(folder),
            max_steps=8,
            per_device_train_batch_size=8,
            save_steps=stop,
            logging_steps=1,
            seed=0,
        )
        read = rows.to_iterable_dataset() if stream else rows
        trainer = Trainer(model, arguments, data_collator=collator, train_dataset=read)
        trainer.add_callback(MaskEpochCallback(collator))
        trainer.train(resume_from_checkpoint=resume)
        return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]

    whole = train(tmp_path / "a", stop=3)
    resumed = train(tmp_path / "b", resume=str(tmp_path / "a" / f"checkpoint-{step}"))
    assert resumed == whole
