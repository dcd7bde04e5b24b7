"""S4 and DLR as mixers: streams in pieces, padding, precision, and one clear error for each misuse."""

import pytest
import torch
import torch.nn.functional as F
from huggingface_hub.errors import StrictDataclassClassValidationError

from golden_files import relative_error
from hf_longseq.models.configuration_dlr import DLRConfig
from hf_longseq.models.configuration_s4 import S4Config
from hf_longseq.models.modeling_dlr import DLRMixer
from hf_longseq.models.modeling_s4 import S4Mixer
from hf_longseq.models.ssm_cache import RecurrentCache
from hf_longseq.models.ssm_plan import METHODS, forced
from hf_longseq.models.ssm_reference import dense_system
from plain_recurrence import bidirectional_recurrence

KINDS = {
    "dplr": (S4Config, S4Mixer, {"kernel": "dplr"}),
    "shared": (S4Config, S4Mixer, {"kernel": "dplr", "num_ssm": 2}),
    "inv": (S4Config, S4Mixer, {"kernel": "diagonal", "diagonal_init": "inv"}),
    "lin": (S4Config, S4Mixer, {"kernel": "diagonal", "diagonal_init": "lin"}),
    "legs": (S4Config, S4Mixer, {"kernel": "diagonal", "diagonal_init": "legs"}),
    "dlr": (DLRConfig, DLRMixer, {}),
}
kinds = pytest.mark.parametrize("kind", KINDS)
both = pytest.mark.parametrize("kind", ["dplr", "dlr"])


def make_mixer(kind, bidirectional=False):
    config_class, mixer_class, options = KINDS[kind]
    config = config_class(hidden_size=8, state_size=16, num_hidden_layers=1, bidirectional=bidirectional, **options)
    mixer = mixer_class(config, 0)
    mixer.reset_parameters()
    return mixer, config


def reference(mixer, u_BLH):
    """The mixer in float64 position by position, from its own parameters."""
    channels = u_BLH.shape[-1]
    if isinstance(mixer, DLRMixer):
        modes = torch.exp(torch.complex(-mixer.mode_decay_root.square(), mixer.mode_frequency))
        step_HNN = torch.diag_embed(modes).expand(channels, -1, -1)
        drive_HN = torch.ones_like(modes).expand(channels, -1)
        c_DHN = torch.view_as_complex(mixer.mode_weight_W)
    else:
        copies = channels // len(mixer.A_imag)
        w_Hn = torch.complex(-mixer.log_neg_A_real.exp(), mixer.A_imag).repeat(copies, 1)
        b_Hn = torch.view_as_complex(mixer.input_B).repeat(copies, 1)
        low_rank = mixer.low_rank_P
        p_Hn = None if low_rank is None else torch.view_as_complex(low_rank).repeat(copies, 1)
        step_HNN, drive_HN = dense_system(mixer.log_dt, w_Hn, b_Hn, p_Hn)
        c_DHn = torch.view_as_complex(mixer.output_C)
        c_DHN = torch.cat((c_DHn, c_DHn.conj()), -1)
    u_HBL = u_BLH.permute(2, 0, 1)
    y_HBL = bidirectional_recurrence(step_HNN, drive_HN, c_DHN, u_HBL) + mixer.skip_D[:, None, None] * u_HBL
    return F.glu(mixer.output_projection(F.gelu(y_HBL).permute(1, 2, 0)), dim=-1)


@kinds
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_float64_mixer_agrees_with_a_float64_reference(kind, method, bidirectional):
    mixer = make_mixer(kind, bidirectional)[0].double()
    u = torch.randn(2, 150, 8, dtype=torch.float64, requires_grad=True)
    leaves, weight = [u, *mixer.parameters()], torch.randn(2, 150, 8, dtype=torch.float64)
    expected = reference(mixer, u)
    wanted = torch.autograd.grad((expected * weight).sum(), leaves)
    with forced(method):
        y = mixer(u)[0]
        gradients = torch.autograd.grad((y * weight).sum(), leaves)
    assert y.dtype == torch.float64 and relative_error(y, expected) < 1e-12
    for leaf, found, grad in zip(leaves, gradients, wanted, strict=True):
        assert relative_error(found, grad) < 1e-10, leaf.shape


@kinds
@pytest.mark.parametrize("bidirectional", [False, True])
@torch.no_grad()
def test_holes_agree_with_a_float64_reference(kind, bidirectional):
    mixer = make_mixer(kind, bidirectional)[0].double()
    u, mask = torch.randn(2, 90, 8, dtype=torch.float64), (torch.rand(2, 90) < 0.7).long()
    expected = reference(mixer, u * mask[..., None])
    assert relative_error(mixer(u, attention_mask=mask)[0], expected) < 1e-12


@kinds
@torch.no_grad()
def test_float64_steps_agree_with_a_float64_reference(kind):
    mixer, config = make_mixer(kind)
    mixer, cache = mixer.double(), RecurrentCache(config)
    u = torch.randn(2, 40, 8, dtype=torch.float64)
    pieces = [mixer(piece, past_key_values=cache)[0] for piece in (u[:, :20], *u[:, 20:].split(1, dim=1))]
    assert relative_error(torch.cat(pieces, 1), reference(mixer, u)) < 1e-12


@kinds
@torch.no_grad()
def test_stream_in_uneven_pieces_is_the_whole(kind):
    mixer, config = make_mixer(kind)
    u, cache, pieces, start = torch.randn(2, 400, 8), RecurrentCache(config), [], 0
    for size in (1, 1, 64, 7, 1, 130, 65, 131):
        pieces.append(mixer(u[:, start : start + size], past_key_values=cache)[0])
        start += size
    assert start == 400 and cache.get_seq_length() == 400
    assert relative_error(torch.cat(pieces, 1), mixer(u)[0]) < 2e-5


@kinds
@pytest.mark.parametrize("bidirectional", [False, True])
def test_masked_inputs_change_nothing(kind, bidirectional):
    mixer, _ = make_mixer(kind, bidirectional)
    u, mask = torch.randn(2, 90, 8), torch.ones(2, 90, dtype=torch.long)
    mask[0, 70:] = mask[1, :20] = 0
    rubbish = torch.where(mask[..., None] == 1, u, torch.full_like(u, 1e3))
    y, other = mixer(u, attention_mask=mask)[0], mixer(rubbish, attention_mask=mask)[0]
    assert torch.equal(y[mask == 1], other[mask == 1])
    alone = mixer(u[:1, :70])[0]
    assert relative_error(y[:1, :70], alone) < 1e-5


@both
def test_parameters_stay_float32_in_a_bfloat16_model(kind):
    torch.set_default_dtype(torch.bfloat16)
    try:
        mixer, _ = make_mixer(kind)
    finally:
        torch.set_default_dtype(torch.float32)
    assert {p.dtype for n, p in mixer.named_parameters() if "projection" not in n} == {torch.float32}
    y, _ = mixer(torch.randn(2, 33, 8, dtype=torch.bfloat16))
    assert y.dtype == torch.bfloat16 and y.isfinite().all()


@both
def test_gradients_of_gradients_are_an_error_and_never_wrong(kind):
    mixer, _ = make_mixer(kind)
    u_BLH = torch.randn(1, 64, 8, requires_grad=True)
    (slope_BLH,) = torch.autograd.grad(mixer(u_BLH)[0].square().sum(), u_BLH, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope_BLH.sum().backward()


@both
def test_reset_parameters_forgets_what_was_there(kind):
    mixer, _ = make_mixer(kind)
    for parameter in mixer.parameters():
        parameter.data.fill_(float("nan"))
    mixer.reset_parameters()
    assert all(p.isfinite().all() for n, p in mixer.named_parameters() if "projection" not in n)


@both
def test_names_of_state_space_parameters_exist(kind):
    mixer, _ = make_mixer(kind)
    names = {name for name, _ in mixer.named_parameters()}
    assert mixer.ssm_parameter_names - {"low_rank_P"} <= names


@both
def test_non_finite_parameters_are_an_error(kind):
    mixer, config = make_mixer(kind)
    cache = RecurrentCache(config)
    mixer(torch.randn(1, 4, 8), past_key_values=cache)
    for name in mixer.ssm_parameter_names:
        first = getattr(mixer, name).data.view(-1)[:1]
        for wrong in ("nan", "inf"):
            kept = first.clone()
            first.fill_(float(wrong))
            for positions, memory in ((4, None), (1, cache)):
                with pytest.raises(ValueError, match="NaN or infinite"):
                    mixer(torch.randn(1, positions, 8), past_key_values=memory)
            first.copy_(kept)


@both
def test_cache_in_a_bidirectional_layer_is_an_error(kind):
    mixer, config = make_mixer(kind, bidirectional=True)
    with pytest.raises(ValueError, match="bidirectional=False"):
        mixer(torch.randn(1, 4, 8), past_key_values=RecurrentCache(config))


@pytest.mark.parametrize(
    ("config_class", "options", "message"),
    [
        (S4Config, {"state_size": 7}, "state_size is 7"),
        (S4Config, {"dt_min": 0.2}, "dt_min=0.2"),
        (S4Config, {"num_ssm": 3}, "num_ssm is 3"),
        (S4Config, {"kernel": "dense"}, "kernel is 'dense'"),
        (S4Config, {"diagonal_init": "fourier"}, "diagonal_init is 'fourier'"),
        (DLRConfig, {"state_size": 0}, "state_size is 0"),
        (DLRConfig, {"dt_max": -1.0}, "dt_max=-1.0"),
    ],
)
def test_impossible_configurations_are_errors(config_class, options, message):
    with pytest.raises(StrictDataclassClassValidationError, match=message):
        config_class(hidden_size=8, **options)
