"""Machine code for the steps of runs, by LLVM, which is an extra: ``pip install tagflow[jit]``."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from functools import cache as cache_result
from pathlib import Path
from typing import Any, NamedTuple

from . import cache
from .emit import emit
from .listed import Layout, ListedStep

_logger = logging.getLogger("tagflow")


class Level(NamedTuple):
    """How much LLVM does.

    Attributes
    ----------
    name : str
    passes : tuple of str
        Of its passes those that matter here: the others would find little, and take three quarters of the time.
    code : int
        Of what selects instructions: 0 is quick.
    """

    name: str
    passes: tuple[str, ...]
    code: int


QUICK = Level("quickly", ("sroa",), 0)
FULL = Level("fully", ("sroa", "instruction_combine", "simplify_cfg"), 2)


class Compilation:
    """The code for runs with one signature: not there yet, there, or never.

    The first code is made in a fifth of the time, and runs until the other is there.

    Parameters
    ----------
    name : str
        Of the loop.
    steps : list of ListedStep
    layout : Layout

    Attributes
    ----------
    address : int
        Of the code; 0 until it is there.
    is_over : bool
        Whether there will be no other.
    """

    def __init__(self, name: str, steps: list[ListedStep], layout: Layout) -> None:
        self.address: int = 0
        self.is_over: bool = False
        self._name = name
        self._steps = steps
        self._layout = layout
        self._engines: list[Any] = []  # own the code, which may run

    def begin(self, at_once: bool) -> None:
        """Compile, now and fully, or on a thread of the event loop's."""
        if at_once:
            self.compile([FULL])
            return
        loop = asyncio.get_running_loop()
        with contextlib.suppress(RuntimeError):  # the event loop has let go of its threads: there is little left to run
            loop.run_in_executor(None, self.compile, [QUICK, FULL])

    def compile(self, levels: Sequence[Level]) -> None:
        """Compile; if that fails, the steps are walked over as before."""
        begun = time.perf_counter()
        try:
            key = cache.key_of(repr(self._steps), repr(self._layout), *_compiler())
            code = cache.load(key)
            if code is not None:
                self._take(code, begun, "loaded from the disk cache")
                return
            text = emit(self._steps, self._layout)
            for level in levels:
                code = build(text, level)
                self._take(code, begun, f"compiled by LLVM {level.name}")
            if code is not None:
                cache.store(key, code)
        except Exception:
            _logger.warning("%s can not be compiled and runs step by step", self._name, exc_info=True)
        finally:
            self.is_over = True

    def _take(self, code: bytes, begun: float, how: str) -> None:
        """Have runs use some code from now on."""
        self._engines.append(load(code))
        self.address = self._engines[-1].get_function_address("run")
        _logger.debug("%s %s in %.4f s", self._name, how, time.perf_counter() - begun)


def build(text: str, level: Level = FULL) -> bytes:
    """Return an object file for a module of LLVM's intermediate representation."""
    llvm = _llvm()
    module = llvm.parse_assembly(text)
    module.verify()
    machine = _machine(level.code)
    passes = llvm.create_new_function_pass_manager()
    for name in level.passes:
        getattr(passes, f"add_{name}_pass")()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    passes.run(module.get_function("run"), builder)
    code: bytes = machine.emit_object(module)
    return code


def load(code: bytes) -> Any:
    """Return an engine with the code of an object file, which lives as long as the engine."""
    llvm = _llvm()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine(FULL.code))
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


@cache_result
def _llvm() -> Any:
    """Return LLVM, which takes a moment to be loaded: once a process, when a loop wants it."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@cache_result
def _compiler() -> tuple[str, ...]:
    """Return all that code depends on but the steps: what writes and what compiles it, and the processor."""
    import llvmlite

    here = Path(__file__).parent
    sources = "".join(path.read_text() for path in [*sorted(here.glob("*.py")), here.parents[1] / "steps.py"])

    llvm = _llvm()
    version = ".".join(map(str, llvm.llvm_version_info))
    features = llvm.get_host_cpu_features().flatten()
    return sources, llvmlite.__version__, version, llvm.get_process_triple(), llvm.get_host_cpu_name(), features


def _machine(level: int) -> Any:
    """Return what selects instructions for this processor."""
    llvm = _llvm()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=level, jit=True
    )
