"""Machine code for the steps of runs, by LLVM."""

from __future__ import annotations

import asyncio
import logging
from functools import cache
from typing import Any

from .emit import Layout, ListedStep, emit

_logger = logging.getLogger("tagflow")


class Compilation:
    """The code for runs with one signature: not there yet, there, or never.

    Attributes
    ----------
    address : int
        Of the code; 0 until it is there.
    """

    def __init__(self, name: str, steps: list[ListedStep], layout: Layout) -> None:
        self.address = 0
        self._name = name
        self._steps = steps
        self._layout = layout
        self._engine: Any = None  # owns the code

    def begin(self, at_once: bool) -> None:
        """Compile, now or on another thread."""
        if at_once:
            self.compile()
            return
        asyncio.get_running_loop().run_in_executor(None, self.compile)

    def compile(self) -> None:
        """Compile; if that fails, the steps are walked over as before."""
        try:
            text = emit(self._steps, self._layout)
            self._engine = load(build(text))
            self.address = self._engine.get_function_address("run")
        except Exception:
            _logger.warning("%s is not compiled; it runs step by step", self._name, exc_info=True)


@cache
def _llvm() -> Any:
    """Return LLVM, which is large, and a description of this processor."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def _machine() -> Any:
    llvm = _llvm()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2, jit=True
    )


def build(text: str) -> bytes:
    """Return an object file for a module."""
    llvm = _llvm()
    module = llvm.parse_assembly(text)
    module.verify()
    machine = _machine()
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    return machine.emit_object(module)  # type: ignore[no-any-return]


def load(code: bytes) -> Any:
    """Return an engine with the code of an object file."""
    llvm = _llvm()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine
