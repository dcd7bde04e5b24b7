"""Which examples each of several processes gets: every one once per epoch, in the order of one process."""

import pytest
import torch
from accelerate.data_loader import BatchSamplerShard, SeedableRandomSampler
from torch.utils.data import BatchSampler

from hf_longseq.training.sampling import FilledDataset, FilledSampler, FillerCollator


def share(examples, processes, micro, epoch):
    """Batches of indices of each process."""
    dataset = FilledDataset([{"id": number} for number in range(examples)], micro * processes)
    sampler = FilledSampler(dataset, seed=3, epoch=lambda: epoch)
    batches = BatchSampler(sampler, micro, drop_last=False)
    return [list(BatchSamplerShard(batches, processes, index)) for index in range(processes)], dataset


@pytest.mark.parametrize("examples", [1, 5, 12, 37])
@pytest.mark.parametrize("processes, micro", [(2, 2), (3, 1), (4, 4)])
def test_an_epoch_shows_every_example_once(examples, processes, micro):
    shares, dataset = share(examples, processes, micro, epoch=1)
    assert len({len(batches) for batches in shares}) == 1  # or a process would wait for ever
    assert {len(batch) for batches in shares for batch in batches} == {micro}
    dealt = [index for batches in zip(*shares, strict=True) for batch in batches for index in batch]
    real = [index for index in dealt if index < examples]
    alone = SeedableRandomSampler(range(examples), data_seed=3)
    alone.set_epoch(1)
    assert real == list(alone)
    assert all("_filler" in dataset[index] for index in dealt if index >= examples)
    assert share(examples, processes, micro, epoch=0)[0] != shares or examples < 5


def test_rows_that_fill_have_no_label_that_counts():
    def pairs(rows):  # both documents of a row become rows, as in denoising
        ids = torch.tensor([row["id"] for row in rows])
        assert all(set(row) == {"id"} for row in rows)
        return {"labels": torch.cat([ids, 10 + ids])}

    dataset = FilledDataset([{"id": number} for number in range(3)], 4)
    rows = [dataset[2], dataset[3]]
    assert FillerCollator(pairs)(rows)["labels"].tolist() == [2, -100, 12, -100]
    both = FillerCollator(lambda rows: pairs(rows) | {"labels_backward": pairs(rows)["labels"]})(rows)
    assert both["labels_backward"].tolist() == both["labels"].tolist()
    assert FillerCollator(pairs)([dataset[0], dataset[1]])["labels"].tolist() == [0, 1, 10, 11]
