"""The bench on a GPU, as far as it goes without one: what it runs, and what it says is missing."""

import subprocess
from types import SimpleNamespace

import pytest
from tagloom import streams
from tagloom.streams.cuda import arrays

from bench import __main__ as command_line
from bench import gpu, lstm_memory, lstm_memory_cuda, on_cuda
from bench.experiment import BenchError
from tests.simcuda.child import run_simulated
from tests.simcuda.library import simulated_cuda


@pytest.fixture
def machine(monkeypatch):
    """A machine that has a GPU, CuPy and PyTorch, as far as anybody asks."""
    machine = SimpleNamespace(gpus=["a GPU"], torch_sees=True)
    monkeypatch.setattr(arrays, "load_cupy", lambda wanted: None)
    monkeypatch.setattr(streams, "cuda_devices", lambda: machine.gpus)
    monkeypatch.setattr(on_cuda, "torch_has_cuda", lambda: machine.torch_sees)
    return machine


def test_it_is_another_experiment_there(machine):
    experiment = lstm_memory.EXPERIMENT.on("cuda", ["torch"])
    assert experiment.chosen([]) == ["tagloom", "unlimited"]
    longest = max(case["length"] for case in experiment.cases)
    assert longest == 4 * experiment.cases[0]["length"] == 4 * lstm_memory_cuda.FITS
    assert [case["length"] for case in experiment.quick().cases] == [50, 50, 100, 200, 200]
    assert {*experiment.engines} - {*experiment.unable(experiment.cases[0])} == {"tagloom", "unlimited", "torch"}


def test_what_peers_do_in_two_ways_comes_with_them(machine, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    experiment = lstm_memory.EXPERIMENT.on("cuda", ["torch"])
    assert experiment.chosen(["torch"]) == ["tagloom", "unlimited", "torch", "torch-eager"]


def test_what_is_missing_is_said(machine, monkeypatch):
    machine.torch_sees = False
    with pytest.raises(BenchError, match="'torch' is installed without CUDA"):
        lstm_memory.EXPERIMENT.on("cuda", ["torch"])
    machine.gpus = []
    with pytest.raises(BenchError, match="pycuda finds none"):
        lstm_memory.EXPERIMENT.on("cuda", [])

    def lack():
        raise streams.CudaUnavailable("pycuda can not be imported", hint="install it")

    monkeypatch.setattr(streams, "cuda_devices", lack)
    with pytest.raises(BenchError, match="needs a GPU: pycuda can not be imported"):
        lstm_memory.EXPERIMENT.on("cuda", [])


@pytest.mark.parametrize(
    ("name", "device", "what"),
    [
        ("null_ops", "cuda", "there is: none but the CPU"),
        ("lstm_memory", "tpu", "there is: cuda"),
    ],
)
def test_other_devices_are_refused(name, device, what, capsys):
    assert command_line.main([name, "--device", device]) == 1
    assert what in capsys.readouterr().err


def test_a_slice_runs_it_when_there_is_time(tmp_path, monkeypatch):
    commands = []

    def run(command, timeout, **_):
        commands.append((command[2:], timeout))
        return SimpleNamespace(returncode=0, stdout='{"a": 1}\n', stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    monkeypatch.setattr(gpu, "RESULTS", tmp_path)
    subject = {"commit": "abc", "device": "some GPU"}
    (bench,) = gpu.BENCHES
    assert gpu.run_one(bench, 200.0, subject) == "timeout"
    assert (commands, list(tmp_path.iterdir())) == ([], [])
    assert gpu.run_one(bench, 480.0, subject) == "passed"
    wanted = ["bench", "lstm_memory", "--device", "cuda", "--peer", "torch", "--json", "--seconds=360"]
    assert commands == [(wanted, 480.0)]
    (record,) = tmp_path.iterdir()
    assert record.name == "bench-lstm_memory-device-cuda-some-GPU.jsonl"
    assert record.read_text() == '{"commit": "abc", "device": "some GPU"}\n{"a": 1}\n'


@pytest.mark.skipif(simulated_cuda() is not None, reason=str(simulated_cuda()))
def test_it_trains_on_simulated_cuda():
    assert run_simulated("-p", "tests.simcuda.cupy", "tests/bench/cuda_cases.py") == 4
