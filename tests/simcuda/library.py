"""Builds the stand-in for the CUDA driver and loads it into this process, where pycuda then takes it for the real one.

pycuda's extension module is loaded with all its symbols bound at once, so every one that it imports must be there. The
list is read from the module; what `simcuda.c` does not define is generated and answers that it is not supported. The
loader knows libraries by their names (sonames): once one called ``libcuda.so.1`` is loaded, no other is looked for.
"""

import ctypes
import functools
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("simcuda.c")
COUNTS = ("contexts", "allocations", "bytes", "streams", "events", "pinned", "pushed")  # in the order of `enum count`
SOURCES = (".c", ".map")
UNSUPPORTED = "int {}(void) {{ return 801; }}"


@functools.cache
def simulated_cuda():
    """Return why CUDA can not be simulated on this machine; None if it can. What needs it skips with that reason."""
    if driver_module() is None:
        return "simulated_cuda(): pycuda is not installed"
    if cuda_headers() is None:
        return "simulated_cuda(): no cuda.h in $CUDA_HOME, beside nvcc, in /usr/local/cuda* or in an nvidia wheel"
    missing = [tool for tool in (compiler(), "nm") if shutil.which(tool) is None]
    return f"simulated_cuda(): no {missing[0]}" if missing else None


def driver_module():
    """Return the path of pycuda's extension module without importing it; None if there is none."""
    found = importlib.util.find_spec("pycuda")
    folders = found.submodule_search_locations if found else []
    return next((path for folder in folders for path in Path(folder).glob("_driver*.so")), None)


def cuda_headers():
    """Return the folder that has ``cuda.h``; None if there is none."""
    return next((folder for folder in _include_folders() if (folder / "cuda.h").is_file()), None)


def _include_folders():
    for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"):
        if name in os.environ:
            yield Path(os.environ[name], "include")
    if nvcc := shutil.which("nvcc"):
        yield Path(nvcc).resolve().parents[1] / "include"
    yield from sorted(Path("/usr/local").glob("cuda*/include"), reverse=True)
    if wheels := importlib.util.find_spec("nvidia"):
        for folder in wheels.submodule_search_locations:
            yield from sorted(Path(folder).glob("*/include"))


def compiler():
    return os.environ.get("CC", "cc").split()[0]


def imported():
    """Return the names that pycuda imports of CUDA's libraries; the version of a name is behind an ``@``."""
    return {name for name in _names(driver_module(), "--undefined-only") if name.startswith(("cu", "curand"))}


def exported(library):
    """Return the names that a library defines."""
    return {name.partition("@")[0] for name in _names(library, "--defined-only")}


def _names(library, which):
    listing = subprocess.run(["nm", "-D", which, library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in listing.splitlines()}


def build(folder):
    """Compile what pycuda needs into a folder: a library for the driver, and one for each that it names besides."""
    driver = folder / "libcuda.so.1"
    _compile(driver, [SOURCE])
    versioned = {}
    for name, _, version in (name.partition("@") for name in imported()):
        versioned.setdefault(version, set()).add(name)
    rest = versioned.pop("", set()) - exported(driver)
    _compile(driver, [SOURCE, _unsupported(folder, "rest", rest)])
    for version, names in versioned.items():  # of curand, whose names carry the name of its library
        script = folder / f"{version}.map"
        script.write_text(f"{version} {{ *; }};\n")
        source = _unsupported(folder, version, names)
        _compile(folder / version, [source], f"-Wl,--version-script={script}")


def _unsupported(folder, name, functions):
    path = folder / f"{name}.unsupported.c"
    path.write_text("\n".join(map(UNSUPPORTED.format, sorted(functions))) + "\n")
    return path


def _compile(library, sources, *options):
    command = [*os.environ.get("CC", "cc").split(), "-shared", "-fPIC", "-O1", "-g", f"-I{cuda_headers()}"]
    command += [*map(str, sources), "-o", str(library), f"-Wl,-soname,{library.name}", *options, "-pthread"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


class Simulated:
    """The stand-in, loaded into this process, and what tests tell it; do this before pycuda is imported.

    Parameters
    ----------
    folder : Path
        What `build` has filled.
    """

    def __init__(self, folder):
        libraries = [
            ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL) for path in folder.iterdir() if path.suffix not in SOURCES
        ]
        self.driver = next(library for library in libraries if hasattr(library, "simcuda_live"))
        for name, argument in (("set_limit", ctypes.c_size_t), ("set_delay", ctypes.c_uint)):
            self._control(name, argument)
        for name in ("fail_allocation", "fail_copy", "fail_run"):
            self._control(name, ctypes.c_long)
        self.gate = self._control("gate", ctypes.c_void_p, result=ctypes.c_ulong)
        self.open = self._control("open", ctypes.c_ulong)
        self.adopt = self._control("adopt", ctypes.c_void_p, ctypes.c_size_t, result=ctypes.c_size_t)
        self.disown = self._control("disown", ctypes.c_size_t)
        self.reset = self._control("reset")
        self._control("live", ctypes.c_int, result=ctypes.c_long)

    def _control(self, name, *arguments, result=None):
        function = getattr(self.driver, f"simcuda_{name}")
        function.argtypes, function.restype = arguments, result
        setattr(self, name, function)
        return function

    def counts(self):
        """Return how many there are of what must be given back."""
        return {name: self.live(i) for i, name in enumerate(COUNTS)}
