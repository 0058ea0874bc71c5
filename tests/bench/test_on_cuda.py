"""The benches of loops on a GPU, as far as they go without one."""

import sys
from contextlib import AsyncExitStack
from types import SimpleNamespace

import pytest

from bench import matmul_loop, on_cuda
from bench.experiment import BenchError
from tests.bench.cuda_loops_cases import BENCHES
from tests.simcuda.child import run_simulated
from tests.simcuda.library import simulated_cuda


@pytest.fixture
def asked(monkeypatch):
    """What a GPU was asked for, on a machine that has one."""
    asked = []
    monkeypatch.setattr(on_cuda, "require_gpu", lambda *what: asked.append(what))
    return asked


@pytest.mark.parametrize("bench", BENCHES, ids=lambda bench: bench.__name__)
def test_engines_are_on_the_gpu(bench, asked):
    here = bench.EXPERIMENT
    there = here.on("cuda", ["jax"])
    assert asked == [(f"{here.name} --device cuda", ["jax"])]
    assert set(there.engines) == {*here.engines, "launches"} - {"tf"}
    assert there.engines["tagloom"].keywords == {"devices": ["/gpu:0"]}
    assert not there.engines["launches"].keywords["settings"].straight
    for peer in {"torch", "torch_fused"} & {*there.engines}:
        assert there.engines[peer].keywords == {"device": "cuda"}
    assert there.cases == here.cases


def test_jax_has_to_see_the_gpu(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(default_backend=lambda: "cpu"))
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # as it sets
    with pytest.raises(BenchError, match="'jax' is installed without CUDA"):
        on_cuda.jax(matmul_loop.jax, {}, AsyncExitStack())


@pytest.mark.skipif(simulated_cuda() is not None, reason=str(simulated_cuda()))
def test_they_run_on_simulated_cuda():
    assert run_simulated("-p", "tests.cuda.simulated", "tests/bench/cuda_loops_cases.py") == len(BENCHES)
