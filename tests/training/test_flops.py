import copy

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.utils import ModelOutput

from hf_longseq.training.flops import training_flops

CPU = torch.device("cpu")


class Toy(PreTrainedModel):
    """A linear layer, batch norm and dropout: what counting must not disturb."""

    config_class = PreTrainedConfig

    def __init__(self, config):
        super().__init__(config)
        self.layer, self.norm, self.dropout = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5)

    def forward(self, inputs):
        return ModelOutput(loss=self.dropout(self.norm(self.layer(inputs))).sum())


def collate(rows):
    return {"inputs": torch.stack(rows)}


def test_matrix_products_are_counted_forward_and_backward_per_example():
    rows = [torch.randn(4) for _ in range(8)]
    # forward 2 x 4 x 6; backward the same for the weights, none for inputs that need no gradient
    assert training_flops(Toy(PreTrainedConfig()), collate, rows, CPU) == 2 * (2 * 4 * 6)


def test_attention_on_a_processor_is_counted():
    class Attention(Toy):
        def forward(self, inputs):
            query = self.layer(inputs)[:, None]
            return ModelOutput(loss=nn.functional.scaled_dot_product_attention(query, query, query).sum())

    rows = [torch.randn(16, 4) for _ in range(2)]
    linear = 2 * (2 * 16 * 4 * 6)
    assert training_flops(Attention(PreTrainedConfig()), collate, rows, CPU) == linear + 7 * (2 * 16 * 16 * 6)


def test_fourier_transforms_are_counted():
    class Fourier(Toy):
        def forward(self, inputs):
            return ModelOutput(loss=torch.fft.fft(self.layer(inputs).to(torch.complex64)).abs().sum())

    rows = [torch.randn(16, 4)]
    assert training_flops(Fourier(PreTrainedConfig()), collate, rows, CPU) > 2 * (2 * 16 * 4 * 6)


def test_counting_leaves_no_trace():
    model, rows = Toy(PreTrainedConfig()), [torch.randn(4) for _ in range(8)]
    state, generator = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    training_flops(model, collate, rows, CPU)
    assert torch.equal(torch.get_rng_state(), generator)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_model_that_cannot_be_counted_gives_none():
    class Broken(Toy):
        def forward(self, inputs):
            raise RuntimeError("no such thing")

    assert training_flops(Broken(PreTrainedConfig()), collate, [torch.randn(4)], CPU) is None
