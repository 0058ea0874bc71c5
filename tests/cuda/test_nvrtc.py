"""NVRTC takes the sources of all kernels, for every dtype and GPU; nothing runs."""

import re
from itertools import product

import numpy as np
import pytest
from tagloom.kernels.cuda.launching import compiler_options, over_rows, read_source

from tests.cuda.cases import PROGRAMS, REALS, cases
from tests.cuda.nvrtc import architectures, compiled, nvrtc
from tests.cuda.steps import any_steps, every_step
from tests.strict_array_library.library import Library

pytestmark = pytest.mark.skipif(nvrtc() is None, reason="nvrtc() found no libnvrtc")
SIZES = {"unsigned": 1000, "size_t": 1 << 31}  # of the largest array, by the type that counts its elements


class Compiled:
    """What CuPy's RawModule is, as far as PTX."""

    architecture = 80

    def __init__(self, *, code, options=()):
        self.ptx = compiled(code, [f"--gpu-architecture=compute_{self.architecture}", "--std=c++17", *options])

    def get_function(self, name):
        assert f".entry {name}(" in self.ptx
        return lambda *_: None


class CompilingLibrary(Library):
    RawModule = Compiled


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", REALS)
def test_operations_on_rows(dtype, size):
    code = read_source("prelude.cu") + read_source("rows.cu")
    for architecture, width in product(architectures(), (8, 8000)):
        Compiled.architecture = architecture
        module = Compiled(code=code, options=compiler_options(np.dtype(dtype), SIZES[size], over_rows(10, width)))
        for name in re.findall(r"^KERNEL (\w+)\(", code, re.M):
            module.get_function(name)


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_fused_operations(program, dtype, monkeypatch):
    xp = CompilingLibrary()
    for architecture in architectures()[::3]:
        monkeypatch.setattr(Compiled, "architecture", architecture)
        for case in cases(program, dtype, 3, 40):
            case.run(xp)


@pytest.mark.parametrize("dtype", REALS)
def test_every_step_and_any(dtype):
    xp = CompilingLibrary()
    for case in (every_step(dtype), any_steps(np.random.default_rng(0), dtype)):
        case.run(xp)
