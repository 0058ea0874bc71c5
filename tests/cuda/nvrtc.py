"""NVIDIA's compiler of CUDA C, by ctypes: it needs neither a GPU nor a driver."""

import ctypes
import ctypes.util
import functools
import importlib.util
import os
from pathlib import Path


@functools.cache
def nvrtc():
    """Return the compiler's library, None where there is none: of an nvidia wheel, a toolkit, or the system."""
    for path in map(str, _libraries()):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None


def _libraries():
    wheels = importlib.util.find_spec("nvidia")
    folders = [
        folder
        for wheel in (wheels.submodule_search_locations if wheels else [])
        for folder in (Path(wheel, "cuda_nvrtc/lib"), *Path(wheel).glob("cu[0-9]*/lib"))
    ]
    folders += [Path(os.environ[name], "lib64") for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    for folder in [*folders, *Path("/usr/local").glob("cuda*/lib64")]:
        yield from sorted(path for path in folder.glob("libnvrtc.so*") if ".alt" not in path.name)
    if found := ctypes.util.find_library("nvrtc"):
        yield found


def architectures():
    """Return those of sm_70 to sm_90 that the library compiles for."""
    number = ctypes.c_int()
    _check(nvrtc().nvrtcGetNumSupportedArchs(ctypes.byref(number)))
    found = (ctypes.c_int * number.value)()
    _check(nvrtc().nvrtcGetSupportedArchs(found))
    return [each for each in found if 70 <= each <= 90]


def compiled(code, options):
    """Return PTX of a source; AssertionError with what the compiler says if it has errors or warnings."""
    program = ctypes.c_void_p()
    _check(nvrtc().nvrtcCreateProgram(ctypes.byref(program), code.encode(), b"kernels.cu", 0, None, None))
    given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = nvrtc().nvrtcCompileProgram(program, len(options), given)
    log = _text(program, nvrtc().nvrtcGetProgramLogSize, nvrtc().nvrtcGetProgramLog)
    lines = [line for line in log.splitlines() if line and "rchitectures prior to" not in line]
    assert not failed, log
    assert not lines, log
    ptx = _text(program, nvrtc().nvrtcGetPTXSize, nvrtc().nvrtcGetPTX)
    _check(nvrtc().nvrtcDestroyProgram(ctypes.byref(program)))
    return ptx


def _text(program, size_of, get):
    size = ctypes.c_size_t()
    _check(size_of(program, ctypes.byref(size)))
    text = ctypes.create_string_buffer(size.value)
    _check(get(program, text))
    return text.value.decode()


def _check(result):
    assert result == 0, f"NVRTC failed with {result}"
