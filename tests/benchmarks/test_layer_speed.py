"""The benchmark compares layers that compute the same thing, and fills a row for each."""

import pytest
import torch

from golden_files import relative_error
from hf_longseq.models.ssm_reference import dense_system
from layer_speed import PlainDLR, PlainS4, benchmark_ops, build_layers


def true_readout_to_tilde(mixer, length):
    """The original design stores C (I - dA^L)."""
    w = torch.complex(-mixer.log_neg_A_real.exp(), mixer.A_imag)
    b, p, c = (torch.view_as_complex(x) for x in (mixer.input_B, mixer.low_rank_P, mixer.output_C))
    step_HNN, _ = dense_system(mixer.log_dt, w, b, p)
    full = torch.cat((c, c.conj()), -1)
    tilde = full - (full[..., None, :] @ torch.linalg.matrix_power(step_HNN, length))[..., 0, :]
    return torch.view_as_real(tilde[..., : c.shape[-1]].resolve_conj().contiguous())


@torch.no_grad()
def test_cauchy_path_computes_what_the_scan_computes():
    mixer = build_layers(("s4",), hidden_size=4, s4_state=8)["s4"].double()
    u = torch.randn(2, 60, 4, dtype=torch.float64)
    plain = PlainS4(mixer)
    y = mixer(u)[0]
    mixer.output_C.copy_(true_readout_to_tilde(mixer, 60))
    assert relative_error(plain(u), y) < 1e-5


@torch.no_grad()
def test_einsum_path_computes_what_the_kernel_computes():
    mixer = build_layers(("dlr",), hidden_size=4, dlr_state=8)["dlr"]
    u = torch.randn(2, 60, 4)
    assert relative_error(PlainDLR(mixer)(u), mixer(u)[0]) < 1e-5


def test_rows():
    rows = benchmark_ops(lengths=(16, 32), names=("s4", "dlr"), hidden_size=4, s4_state=4, dlr_state=8, repeats=1)
    assert [(row["op"], row["length"]) for row in rows] == [("s4", 16), ("dlr", 16), ("s4", 32), ("dlr", 32)]
    assert all(row["seconds"] > 0 and row["skipped"] == "" for row in rows)


def test_layers_that_would_not_fit_are_skipped_with_the_reason():
    options = {"hidden_size": 4, "s4_state": 4, "dlr_state": 8, "repeats": 1, "memory_limit": 1}
    (row,) = benchmark_ops(lengths=(16,), names=("s4_cauchy_fft",), **options)
    assert row["seconds"] is None and "GiB" in row["skipped"]


@pytest.mark.parametrize("name", ["lru", "s5", "mega", "attention_sdpa", "mamba2"])
def test_other_layers_run(name):
    (row,) = benchmark_ops(lengths=(64,), names=(name,), hidden_size=32, s4_state=4, dlr_state=8, repeats=1)
    assert row["seconds"] > 0
