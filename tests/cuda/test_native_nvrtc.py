"""NVRTC takes the kernels of loops that sessions run, without a warning; what they compute is shown on this machine."""

import sys

import pytest
import tagloom as tg

from tests.cuda.device import CompilingDevice
from tests.cuda.host import RawModule, compiler
from tests.cuda.loops import PROGRAMS
from tests.cuda.nvrtc import architectures, compiled, nvrtc
from tests.strict_array_library.library import Special
from tests.support.settings import ON

pytestmark = [
    pytest.mark.skipif(nvrtc() is None, reason="nvrtc() found no libnvrtc"),
    pytest.mark.skipif(compiler() is None, reason="compiler() found no C++ compiler"),
]


@pytest.fixture
def sources(monkeypatch):
    """Return what is compiled from now on: (text, options)."""
    found = []
    init = RawModule.__init__

    def noting(self, *, code, options=()):
        found.append((code, options))
        init(self, code=code, options=options)

    monkeypatch.setitem(sys.modules, "cupyx.scipy.special", Special())
    monkeypatch.setattr(RawModule, "__init__", noting)
    return found


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
async def test_loops(program, sources):
    with tg.Graph().as_default() as graph:
        fetches, feeds = program()
    async with CompilingDevice() as device, tg.Session(graph, devices=[device], settings=ON) as session:
        await session.run(list(fetches), feeds)
    found = [(code, options) for code, options in sources if "KERNEL native(" in code]
    for code, options in found:
        for architecture in (architectures()[0], architectures()[-1]):
            ptx = compiled(code, [f"--gpu-architecture=compute_{architecture}", "--std=c++17", *options])
            assert ".entry native(" in ptx
