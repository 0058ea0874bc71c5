"""CUDA C compiled as C++ for this machine: what the sources of kernels compute, where there is no GPU."""

import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from tests.strict_array_library.library import Array, Library

SHIM = Path(__file__).with_name("host.h")
OPTIONS = ("-x", "c++", "-std=c++17", "-O0", "-ffp-contract=off", "-fno-gnu-unique", "-fvisibility=hidden")
STARTER = """
EXPORTED int host_{0}(const unsigned* shape, bool backward, void** arguments, const size_t* sizes, size_t number)
{{
    return launch({0}, shape, backward, arguments, sizes, number);
}}
"""
FAILURES = {1: "threads do not meet at __syncthreads()", 2: "the arguments are not those of the kernel"}


def compiler():
    """Return the C++ compiler of this machine, None if there is none; what needs one skips then."""
    return shutil.which(os.environ.get("CXX", "c++").split()[0])


@functools.cache
def folder():
    """Return where this process keeps what it compiles; it is gone with the process."""
    return tempfile.TemporaryDirectory(prefix="tagloom-host-")


@functools.cache
def library(code, options):
    """Return CUDA C as a library of this process, each of its kernels behind ``host_`` and its name."""
    kernels = re.findall(r"^KERNEL (\w+)\(", code, re.M)
    text = "\n".join([SHIM.read_text(), code, *map(STARTER.format, kernels)])
    defined = [option for option in options if option.startswith("-D")]
    path = Path(folder().name, hashlib.sha256(repr((text, options)).encode()).hexdigest()[:24] + ".so")
    command = [compiler(), *OPTIONS, *defined, "-shared", "-fPIC", "-o", str(path), "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode == 0, f"{code}\n{done.stderr}"
    return ctypes.CDLL(str(path))


class RawModule:
    """What CuPy's class of that name is, for arrays of the strict library.

    Attributes
    ----------
    launched : list of str
        Names of the kernels that ran, of all modules.
    backward : bool
        Whether the threads take their turns, and the blocks theirs, from the last to the first.
    """

    launched: list = []
    backward = False

    def __init__(self, *, code, options=()):
        assert all(isinstance(option, str) for option in options)
        self.code, self.options = code, tuple(options)

    def get_function(self, name):
        return functools.partial(self._launch, getattr(library(self.code, self.options), f"host_{name}"), name)

    def _launch(self, start, name, grid, block, args):
        assert len(grid) <= len(block) <= 3
        assert min(*grid, *block) > 0
        memory = [_memory(each) for each in args]
        arguments = (ctypes.c_void_p * len(memory))(*(each.ctypes.data for each in memory))
        sizes = (ctypes.c_size_t * len(memory))(*(each.nbytes for each in memory))
        shape = (ctypes.c_uint * 3)(*grid, *block, *[1] * (2 - len(block)))
        failure = start(shape, ctypes.c_bool(self.backward), arguments, sizes, ctypes.c_size_t(len(memory)))
        assert not failure, FAILURES[failure]
        self.launched.append(name)


def _memory(argument):
    """Return what a kernel is given: a number, or the address of an array."""
    if isinstance(argument, Array):
        inside = argument._inside
        assert inside.flags.c_contiguous, "a kernel knows no strides"
        return np.array(inside.ctypes.data, np.uintp)
    assert isinstance(argument, np.generic), type(argument)
    return np.array(argument)


class CompilingLibrary(Library):
    """The strict library, with a compiler."""

    RawModule = RawModule


xp = CompilingLibrary()
