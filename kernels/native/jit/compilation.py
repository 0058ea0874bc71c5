"""Machine code for the steps of runs, by LLVM, an extra: ``pip install tagloom[jit]``."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
import weakref
from collections import deque
from functools import cache as cache_result
from pathlib import Path
from typing import Any, NamedTuple

from ....base.forks import Hold, strand_in_children
from . import cache
from .emit import emit_module
from .listed import Layout, ListedStep

_logger = logging.getLogger("tagloom")
_compiling = Hold(10.0)


class Level(NamedTuple):
    """An optimization level of LLVM.

    Attributes
    ----------
    name : str
    passes : tuple of str
        The useful passes of LLVM: all others find little, and take three quarters of the time.
    code : int
        Level of the code generator; 0 is quick.
    """

    name: str
    passes: tuple[str, ...]
    code: int


QUICK = Level("quickly", ("sroa",), 0)
FULL = Level("fully", ("sroa", "instruction_combine", "simplify_cfg"), 2)


class Compilation:
    """The code for runs with one signature: pending, ready, or impossible.

    The first code is compiled in a fifth of the time, and runs until the optimized code is ready.

    Parameters
    ----------
    name : str
        Name of the loop.
    steps : list of ListedStep
    layout : Layout

    Attributes
    ----------
    address : int
        Address of the code; 0 until ready.
    is_over : bool
        True if no further code will come.
    """

    def __init__(self, name: str, steps: list[ListedStep], layout: Layout) -> None:
        self.address: int = 0
        self.is_over: bool = False
        self._name = name
        self._steps = steps
        self._layout = layout
        self._key: str = ""
        self._text: str | None = None  # text of the module until the last compilation
        self._seconds: float = 0.0  # duration so far
        self._libraries: list[Any] = []  # own the code, which may be running

    def begin(self, at_once: bool) -> None:
        """Compile fully now, or on a thread of the event loop."""
        if at_once:
            self.compile(FULL)
        else:
            loop = asyncio.get_running_loop()
            _lines.setdefault(loop, _Line()).add(self, loop)

    def compile(self, level: Level) -> None:
        """Load the code, or compile it at a level; after a failure, the steps are interpreted as before.

        If a process is forked while a thread of its parent compiles, for longer than a fork waits, LLVM's locks and
        those of its modules stay locked in the child: the child interprets the steps.
        """
        if _compiling.was_broken:
            self.is_over = True
            return
        with _compiling():
            self._load_or_compile(level)

    def _load_or_compile(self, level: Level) -> None:
        """Load the code from the disk cache, or write, compile, link and store it; log a failure."""
        # the logged duration includes earlier levels
        begun = time.perf_counter() - self._seconds
        try:
            if self._text is None:
                self._key = cache.key_of(_text_of([self._steps, self._layout]), _digest_compiler())
                code = cache.load_code(self._key)
                if code is not None:
                    self._link_code(code, begun, "loaded from the disk cache")
                    self.is_over = True
                    return
                self._text = emit_module(self._steps, self._layout)
            code = build_object(self._text, level)
            self._link_code(code, begun, f"compiled by LLVM {level.name}")
            self.is_over = level is FULL
            if self.is_over:
                cache.store_code(self._key, code)
        except Exception:
            _logger.warning("%s cannot be compiled and runs step by step", self._name, exc_info=True)
            self.is_over = True
        if self.is_over:
            self._text = None
        self._seconds = time.perf_counter() - begun

    def _link_code(self, code: bytes, begun: float, how: str) -> None:
        """Link some code, for use by runs from now on."""
        self._libraries.append(_linker.link(code))
        self.address = self._libraries[-1]["run"]
        _logger.debug("%s %s in %.4f s", self._name, how, time.perf_counter() - begun)


class _Line:
    """The compilations of an event loop, in sequence on one of its threads, quick ones first.

    Several threads would only wait for each other: llvmlite and Python take one thread at a time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[Level, deque[weakref.ref[Compilation]]] = {QUICK: deque(), FULL: deque()}
        self._is_busy = False

    def add(self, compilation: Compilation, loop: asyncio.AbstractEventLoop) -> None:
        """Queue a compilation."""
        with self._lock:
            # weak: code for a dropped loop is not worth its compilation
            self._waiting[QUICK].append(weakref.ref(compilation))
            begins, self._is_busy = not self._is_busy, True
        if begins:
            try:
                loop.run_in_executor(None, self._compile_queued)
            except RuntimeError:  # the event loop has shut its executor down and will end soon
                self._is_busy, compilation.is_over = False, True

    def _compile_queued(self) -> None:
        """Compile all queued compilations that are still referenced."""
        while True:
            with self._lock:
                level = QUICK if self._waiting[QUICK] else FULL
                if not self._waiting[level]:
                    self._is_busy = False
                    return
                compilation = self._waiting[level].popleft()()
            if compilation is not None:
                compilation.compile(level)
                if not compilation.is_over:
                    self._waiting[FULL].append(weakref.ref(compilation))
                del compilation  # a compilation without other references is freed now


_lines: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = weakref.WeakKeyDictionary()


def _text_of(what: object) -> str:
    """Return tuples of numbers, names and dtypes as text: two and a half times as fast as `repr`."""
    return json.dumps(what, check_circular=False, default=_names_of)


@cache_result
def _names_of(dtype: Any) -> tuple[str, str]:
    """Return the names that identify a dtype, cached because NumPy computes them each time."""
    return dtype.str, dtype.name


def build_object(text: str, level: Level = FULL) -> bytes:
    """Return an object file for a module of LLVM's intermediate representation."""
    llvm = _load_llvm()
    module = llvm.parse_assembly(text)
    module.verify()
    machine = _code_generator(level.code)
    passes = llvm.create_new_function_pass_manager()
    for name in level.passes:
        getattr(passes, f"add_{name}_pass")()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    code: bytes = machine.emit_object(module)
    return code


class _Linker:
    """Linker of object files into memory, shared because its start takes longer than linking a code.

    A linker keeps the names of all linked codes, 10 KB each, and is therefore replaced after `MOST` codes.
    """

    MOST = 64

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jit: Any = None
        self._linked: int = 0

    def link(self, code: bytes) -> Any:
        """Return a library with the code of an object file; its function ``run`` lives as long as the library."""
        llvm = _load_llvm()
        library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol("run")
        with self._lock:
            if self._jit is None or self._linked == self.MOST:
                self._jit, self._linked = llvm.create_lljit_compiler(_code_generator(FULL.code)), 0
            self._linked += 1
            return library.link(self._jit, str(self._linked))

    def strand(self, _: int) -> None:
        """Replace the lock in a child process, where no thread of the parent will release it."""
        self._lock = threading.Lock()


_linker = _Linker()
strand_in_children(_linker)


@cache_result
def _load_llvm() -> Any:
    """Return LLVM, loaded at the first use in a process because that takes a moment."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@cache_result
def _describe_host() -> tuple[str, str, str]:
    """Return the triple, the name and the features of this processor."""
    llvm = _load_llvm()
    return llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@cache_result
def _digest_compiler() -> str:
    """Return a digest of all that code depends on except its steps: our sources, LLVM's version, the processor."""
    import llvmlite

    here = Path(__file__).parent
    sources = "".join(path.read_text() for path in [*sorted(here.glob("*.py")), here.parents[1] / "steps.py"])
    version = ".".join(map(str, _load_llvm().llvm_version_info))
    return cache.key_of(sources, llvmlite.__version__, version, *_describe_host())


@cache_result
def _code_generator(level: int) -> Any:
    """Return LLVM's code generator for this processor; llvmlite's lock admits one thread at a time."""
    triple, cpu, features = _describe_host()
    return (
        _load_llvm().Target.from_triple(triple).create_target_machine(cpu=cpu, features=features, opt=level, jit=True)
    )
