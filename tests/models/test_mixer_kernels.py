"""`kernel` of every mixer is what its recurrence or convolution answers to an impulse."""

import pytest
import torch

from golden_files import relative_error
from hf_longseq.models.ssm_mimo import mimo_scan
from toy_models import make_config

LENGTH = 40
ANSWERS = {
    "s4": lambda mixer, u_BLH: mixer.mix(u_BLH.permute(2, 0, 1), None).permute(1, 2, 0),
    "dlr": lambda mixer, u_BLH: mixer.mix(u_BLH.permute(2, 0, 1), None).permute(1, 2, 0),
    "lru": lambda mixer, u_BLH: mimo_scan(u_BLH, mixer.discrete_system()).permute(1, 2, 0),
    "s5": lambda mixer, u_BLH: mimo_scan(u_BLH, mixer.discrete_system()).permute(1, 2, 0),
    "mega": lambda mixer, u_BLH: mixer.ema._convolve(u_BLH.permute(2, 0, 1)).permute(1, 2, 0),
}
variants = pytest.mark.parametrize(
    ("variant", "options"),
    [
        ("s4", {}),
        ("s4-diagonal-shared", {}),
        ("dlr", {}),
        ("lru", {}),
        ("s5", {}),
        ("s5-bilinear-full-glu", {"conjugate_symmetry": False}),
        ("mega", {}),
        ("mega", {"ema_truncation": 7}),
    ],
)


def make_mixer(variant, options, bidirectional):
    config = make_config(variant, bidirectional=bidirectional, **options)
    mixer = config_mixer(config)(config, 0)
    mixer.reset_parameters()
    if hasattr(mixer, "skip_D"):
        mixer.skip_D.data.zero_()
    return mixer


def config_mixer(config):
    from hf_longseq.models import ARCHITECTURES

    return next(model.mixer_class for kind, model in ARCHITECTURES.values() if kind is type(config))


def responses(mixer, variant, at):
    """(output position, input channel, output channel) to impulses at one position, a channel at a time."""
    u = torch.zeros(16, LENGTH, 16)
    u[torch.arange(16), at, torch.arange(16)] = 1.0
    return ANSWERS[variant.split("-")[0]](mixer, u).transpose(0, 1)


@variants
@pytest.mark.parametrize("bidirectional", [False, True])
@torch.no_grad()
def test_kernel_answers_an_impulse(variant, options, bidirectional):
    if "ema_truncation" in options and not bidirectional:
        pytest.skip("causal models do not truncate")
    mixer = make_mixer(variant, options, bidirectional)
    kernel = mixer.kernel(LENGTH)
    assert kernel.shape == (1 + bidirectional, 16, LENGTH) and kernel.dtype == torch.float32
    at = LENGTH // 2
    answer = responses(mixer, variant, at).diagonal(dim1=1, dim2=2)  # (position, channel)
    expected = torch.zeros(LENGTH, 16)
    expected[at:] += kernel[0].T[: LENGTH - at]
    if bidirectional:
        expected[: at + 1] += kernel[1].T[: at + 1].flip(0)
    assert relative_error(answer, expected) < 1e-5
