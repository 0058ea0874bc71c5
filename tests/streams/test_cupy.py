"""CuPy where it is not installed, or not wanted."""

import sys

import pytest
from tagflow.streams import CudaUnavailable
from tagflow.streams.cuda.arrays import load_cupy


def test_without_it_a_device_copies(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert load_cupy(None) is None


def test_who_asks_for_it_is_told_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(CudaUnavailable, match=r"pip install 'tagflow\[cuda\]'"):
        load_cupy(True)


def test_it_is_left_out_on_demand(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", object())
    assert load_cupy(False) is None
    assert load_cupy(None) is sys.modules["cupy"]
