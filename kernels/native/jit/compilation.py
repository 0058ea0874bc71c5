"""Machine code for the steps of runs, by LLVM, which is an extra: ``pip install tagflow[jit]``."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from functools import cache as cache_result
from typing import Any

from . import cache
from .emit import emit
from .listed import Layout, ListedStep

_logger = logging.getLogger("tagflow")


class Compilation:
    """The code for runs with one signature: not there yet, there, or never.

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
    has_failed : bool
        Whether there will be none.
    """

    def __init__(self, name: str, steps: list[ListedStep], layout: Layout) -> None:
        self.address = 0
        self.has_failed = False
        self._name = name
        self._steps = steps
        self._layout = layout
        self._engine: Any = None  # owns the code

    def begin(self, at_once: bool) -> None:
        """Compile, now or on a thread of the event loop's."""
        if at_once:
            self.compile()
            return
        loop = asyncio.get_running_loop()
        with contextlib.suppress(RuntimeError):  # the event loop has let go of its threads: there is little left to run
            loop.run_in_executor(None, self.compile)

    def compile(self) -> None:
        """Compile; if that fails, the steps are walked over as before."""
        begun = time.perf_counter()
        try:
            text = emit(self._steps, self._layout)
            key = cache.key_of(text, *_processor())
            code = cache.load(key)
            how = "compiled by LLVM" if code is None else "loaded from the disk cache"
            if code is None:
                code = build(text)
                cache.store(key, code)
            self._engine = load(code)
            self.address = self._engine.get_function_address("run")
        except Exception:
            self.has_failed = True
            _logger.warning("%s can not be compiled and runs step by step", self._name, exc_info=True)
            return
        _logger.debug("%s %s in %.4f s", self._name, how, time.perf_counter() - begun)


def build(text: str) -> bytes:
    """Return an object file for a module of LLVM's intermediate representation."""
    llvm = _llvm()
    module = llvm.parse_assembly(text)
    module.verify()
    machine = _machine()
    passes = llvm.create_new_function_pass_manager()  # those that matter here, in a quarter of the time of level 1
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    passes.run(module.get_function("run"), builder)
    code: bytes = machine.emit_object(module)
    return code


def load(code: bytes) -> Any:
    """Return an engine with the code of an object file, which lives as long as the engine."""
    llvm = _llvm()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
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
def _processor() -> tuple[str, ...]:
    """Return all that code depends on but its text."""
    import llvmlite

    llvm = _llvm()
    version = ".".join(map(str, llvm.llvm_version_info))
    features = llvm.get_host_cpu_features().flatten()
    return llvmlite.__version__, version, llvm.get_process_triple(), llvm.get_host_cpu_name(), features


def _machine() -> Any:
    """Return what compiles for this processor."""
    llvm = _llvm()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2, jit=True
    )
