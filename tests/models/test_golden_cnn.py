"""The CNN against PyTorch's own convolution in float64: outputs, gradients, steps, receptive field, refusals."""

import pytest
import torch
import torch.nn.functional as F

from golden_files import relative_error
from hf_longseq import CNNConfig, S4Config
from hf_longseq.models.modeling_cnn import CNNMixer, CNNModel
from hf_longseq.models.modeling_s4 import S4Model
from hf_longseq.models.ssm_cache import RecurrentCache

sizes = pytest.mark.parametrize(("kernel_size", "layer_idx"), [(3, 0), (3, 2), (5, 1), (3, 6)])


def make_mixer(kernel_size, layer_idx, bidirectional, dtype=torch.float64):
    config = CNNConfig(hidden_size=6, num_hidden_layers=7, kernel_size=kernel_size, bidirectional=bidirectional)
    mixer = CNNMixer(config, layer_idx)
    mixer.reset_parameters()
    return mixer.to(dtype), config


def reference(mixer, u_BLH):
    """A convolution of torch with its taps from the left to the right, then the gate and the output map."""
    lags, dilation = mixer.lags, mixer.dilation
    before, present, after = mixer.tap_weight[1 : lags + 1].flip(0), mixer.tap_weight[:1], mixer.tap_weight[lags + 1 :]
    weight = torch.cat((before, present, after)).permute(1, 2, 0)
    padded = F.pad(u_BLH.mT, (lags * dilation, len(after) * dilation))
    value, gate = F.conv1d(padded, weight, mixer.tap_bias, dilation=dilation).mT.chunk(2, dim=-1)
    return mixer.output_projection(F.gelu(value) * gate.sigmoid())


@sizes
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 1e-5)])
def test_output_and_gradients_match_the_convolution(kernel_size, layer_idx, bidirectional, dtype, tolerance):
    mixer, _ = make_mixer(kernel_size, layer_idx, bidirectional, dtype)
    wide = make_mixer(kernel_size, layer_idx, bidirectional)[0]
    wide.load_state_dict(mixer.state_dict())
    u = torch.randn(2, 40, 6, dtype=dtype, requires_grad=True)  # shorter than the reach of layer 6
    u_wide, weight = u.detach().double().requires_grad_(), torch.randn(2, 40, 6, dtype=dtype)
    y, expected = mixer(u)[0], reference(wide, u_wide)
    assert relative_error(y, expected) < tolerance
    found = torch.autograd.grad((y * weight).sum(), (u, *mixer.parameters()))
    wanted = torch.autograd.grad((expected * weight).sum(), (u_wide, *wide.parameters()))
    for one, other in zip(found, wanted, strict=True):
        assert relative_error(one, other) < 10 * tolerance


@sizes
@torch.no_grad()
def test_steps_and_pieces_match_the_convolution(kernel_size, layer_idx):
    mixer, config = make_mixer(kernel_size, layer_idx, bidirectional=False)
    u, cache = torch.randn(2, 90, 6, dtype=torch.float64), RecurrentCache(config)
    parts = u.split([1, 1, 40, 2, 45, 1], dim=1)
    pieces = [mixer(part, past_key_values=cache)[0] for part in parts]
    assert relative_error(torch.cat(pieces, 1), reference(mixer, u)) < 1e-13
    assert cache.layers[layer_idx].state.shape == (2, mixer.lags * mixer.dilation, 6)


@torch.no_grad()
def test_a_causal_layer_is_the_forward_half_of_a_bidirectional_one():
    both, _ = make_mixer(3, 1, bidirectional=True)
    causal, _ = make_mixer(3, 1, bidirectional=False)
    state = both.state_dict()
    causal.load_state_dict({**state, "tap_weight": state["tap_weight"][:2]})
    u = torch.randn(2, 30, 6, dtype=torch.float64)
    torch.testing.assert_close(both(u, direction="forward")[0], causal(u)[0])
    backward = both(u.flip(1), direction="backward")[0].flip(1)
    causal.tap_weight[1] = both.tap_weight[2]
    torch.testing.assert_close(backward, causal(u)[0])


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("options", [{}, {"kernel_size": 5}, {"dilation_growth": 3}, {"max_dilation": 2}], ids=str)
def test_the_receptive_field_is_what_the_configuration_says(options, bidirectional):
    config = CNNConfig(hidden_size=8, num_hidden_layers=3, bidirectional=bidirectional, **options)
    model = CNNModel(config).double()
    embedded = torch.randn(1, 81, 8, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(model(inputs_embeds=embedded).last_hidden_state[0, 40, 0], embedded)
    seen = gradient[0].abs().sum(-1).nonzero().flatten()
    assert (40 - int(seen.min()), int(seen.max()) - 40) == config.receptive_field


@pytest.mark.parametrize("bidirectional", [False, True])
def test_it_has_about_as_many_parameters_as_s4_of_64_channels(bidirectional):
    shared = dict(hidden_size=64, num_hidden_layers=4, bidirectional=bidirectional)
    counts = [model.num_parameters() for model in (CNNModel(CNNConfig(**shared)), S4Model(S4Config(**shared)))]
    assert 0.8 < counts[0] / counts[1] < 1.2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kernel_size": 4}, "kernel_size is 4"),
        ({"kernel_size": 1}, "odd number"),
        ({"dilation_growth": 0}, "at least 1"),
        ({"max_dilation": 0}, "max_dilation is 0"),
    ],
)
def test_a_wrong_configuration_is_named(options, words):
    with pytest.raises(Exception, match=words):
        CNNConfig(**options)
