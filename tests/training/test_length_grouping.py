"""Batches of similar length: less padding, every example once, the same order whatever the processes and resumes."""

import numpy as np
import pytest
import torch
from datasets import Array2D, Dataset, Features
from run_cases import run_case

import toy_tasks
from hf_longseq import Recipe, finetune
from hf_longseq.training.sampling import LengthGroupedOrder, sequence_lengths

LENGTHS = np.random.default_rng(0).integers(10, 200, 1003).tolist()


def padded_share(order, batch_size=16):
    """Share of the positions of all batches that are padding."""
    batches = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    total = sum(len(batch) * max(LENGTHS[i] for i in batch) for batch in batches)
    return 1 - sum(LENGTHS) / total


def order_of(epoch, seed=0):
    return list(LengthGroupedOrder(LENGTHS, 16, seed, lambda: epoch))


def test_an_epoch_has_every_example_once_and_little_padding():
    order = order_of(0)
    assert sorted(order) == list(range(1003))
    at_random = np.random.default_rng(1).permutation(1003).tolist()
    assert padded_share(order) < 0.1 < 0.4 < padded_share(at_random)
    # the longest batch first, to run out of memory at once if at all
    assert max(LENGTHS) in [LENGTHS[i] for i in order[:16]]


def test_the_order_depends_on_seed_and_epoch_alone():
    torch.rand(7)
    assert order_of(3) == order_of(3) and order_of(3) != order_of(4) and order_of(3) != order_of(3, seed=1)
    means = [np.mean([LENGTHS[i] for i in order_of(0)[k : k + 16]]) for k in range(0, 1003, 16)]
    assert abs(np.corrcoef(means[1:-1], np.arange(len(means) - 2))[0, 1]) < 0.5  # no curriculum by length


def test_lengths_are_read_from_tokens_series_channels_and_pairs():
    tokens = Dataset.from_dict({"input_ids": [[1], [1, 2, 3]], "input_ids_2": [[1, 2], [1]], "labels": [0, 1]})
    assert sequence_lengths(tokens.with_format("numpy")) == [2, 3]
    assert sequence_lengths(tokens.select([1, 0, 1])) == [3, 2, 3]
    features = Features({"input_values": Array2D((None, 2), "float32")})
    channels = Dataset.from_dict({"input_values": [np.zeros((4, 2)), np.zeros((7, 2))]}, features=features)
    assert sequence_lengths(channels.with_format("numpy")) == [4, 7]
    assert sequence_lengths(toy_tasks.waves(5)[0]["train"])[:2] == [
        len(row) for row in toy_tasks.waves(5)[0]["train"][:2]["input_values"]
    ]


def weights_of(folder):
    return (folder / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_a_run_groups_and_is_repeatable_with_workers_and_accumulation(tiny, tmp_path):
    grouped = {"train_sampling_strategy": "group_by_length", "max_steps": 3, "eval_steps": 3, "global_batch_size": 8}
    changes = {
        "first": {}, "workers": {"dataloader_num_workers": 1}, "micro": {"per_device_train_batch_size": 4},
        "random": {"train_sampling_strategy": "random"},
    }  # fmt: skip
    runs = {name: finetune(tiny("tags", scratch=grouped | more), tmp_path / name) for name, more in changes.items()}
    weights = {name: weights_of(run.output_dir) for name, run in runs.items()}
    assert weights["first"] == weights["workers"] != weights["random"]
    losses = {name: run.metrics["validation"]["loss"] for name, run in runs.items()}
    assert losses["micro"] == pytest.approx(losses["first"], rel=1e-4)


def test_a_run_that_was_stopped_goes_on_in_the_same_order(tmp_path):
    grouped = {"train_sampling_strategy": "group_by_length", "max_steps": 6, "global_batch_size": 8, "eval_steps": 2}
    sections = {"pretrain": grouped}
    case = {"phase": "pretrain", "task": "tags", "arch": "s4", "sections": sections}
    run_case(case | {"output_dir": str(tmp_path / "whole")})
    run_case(case | {"output_dir": str(tmp_path / "stopped"), "stop_at": 5})
    run_case(case | {"output_dir": str(tmp_path / "stopped")})
    assert weights_of(tmp_path / "stopped") == weights_of(tmp_path / "whole")


def test_the_recipe_says_it():
    recipe = Recipe.load({"data": {"task": "listops"}, "finetune": {"train_sampling_strategy": "group_by_length"}})
    assert (recipe.pretrain.train_sampling_strategy, recipe.finetune.train_sampling_strategy) == (
        "random",
        "group_by_length",
    )
    assert recipe.scratch.train_sampling_strategy == "group_by_length"
