"""Tests run offline: nothing but loopback is reachable, and transformers never asks the Hub."""

import gc
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import socket
import sys

import pytest
import torch

import hf_longseq  # noqa: F401  registers the architectures

os.fsync = lambda descriptor: None  # a toy run syncs 64 files to the disk; no test takes the power away
_connect = socket.socket.connect
_frozen = 0  # modules that were imported at the last freeze


def _connect_on_loopback_only(self, address):
    if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1", "localhost"):
        raise OSError(f"a test tried to reach {address}: tests run without a network")
    return _connect(self, address)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """To search for garbage while everything is imported takes a quarter of the time, and finds none."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.fixture(autouse=True)
def unsearched_modules():
    """Leave what is imported out of the search for garbage, which every training run makes anew."""
    global _frozen
    if len(sys.modules) > _frozen + 100:
        _frozen = len(sys.modules)
        gc.collect()
        gc.freeze()


@pytest.fixture
def undrawn(monkeypatch):
    """Reports and cards without the work of drawing; tests/comparison/test_write.py and tests/hub/test_model_card.py
    draw."""
    from hf_longseq.comparison import write
    from hf_longseq.comparison.figures import Figure
    from hf_longseq.hub import pictures

    headline = {"": [Figure("headline", "Gains.", "<svg></svg>", b"png")]}
    monkeypatch.setattr(write, "report_figures", lambda *parts: headline)
    monkeypatch.setattr(pictures, "draw", lambda *parts: [])


@pytest.fixture(autouse=True)
def offline_and_seeded(monkeypatch):
    """Every test starts from the same seed and cannot leave the machine."""
    monkeypatch.setattr(socket.socket, "connect", _connect_on_loopback_only)
    if torch.cuda.is_available():
        torch.manual_seed(0)
    else:  # that of a device that is not there would be kept for later with the lines that asked for it, every time
        torch.default_generator.manual_seed(0)
