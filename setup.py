"""Compiles the kernels, and packs source distributions; everything else is in pyproject.toml.

The package is at ``src/tagloom``, a link to ``engine``, in which ``kernels``, ``streams`` and ``swap`` are links to the
folders beside it: see docs/design/0056-links.md.

``TAGLOOM_DEBUG=1`` builds the same sources with bounds checks and with the debug counters on, ``TAGLOOM_ASAN=1`` with
AddressSanitizer, whose library has to be loaded before Python is: see ``make asan``.
"""

import hashlib
import multiprocessing
import os
import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

LINKS = {
    "src/tagloom": "../engine",
    "engine/kernels": "../kernels",
    "engine/streams": "../streams",
    "engine/swap": "../swap",
}
DEBUG, ASAN = (os.environ.get(name, "0") not in ("", "0") for name in ("TAGLOOM_DEBUG", "TAGLOOM_ASAN"))
CORES = os.cpu_count() or 1
FLAVOUR = "asan" if ASAN else "debug" if DEBUG else "release"
FLAGS = {
    "asan": ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address"],
    "debug": ["-Og", "-g"],
    "release": ["-O3", "-g0"],  # Python's own flags ask for debug information, five times the size of the code
}[FLAVOUR] + ["-ffp-contract=off"]  # where products are fused with sums, they are so by name
BUILD = Path("build")
STAMP = BUILD / "flavour"
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": DEBUG,
    "cdivision": True,
    "binding": True,
    "embedsignature": True,
}
MACROS = [("TAGLOOM_DEBUG", str(int(DEBUG))), ("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")]


def restore_links():
    """Make the links of the repository where they are missing: a source distribution has none."""
    for link, target in LINKS.items():
        path = Path(link)
        if not path.exists():
            path.unlink(missing_ok=True)
            path.parent.mkdir(exist_ok=True)
            path.symlink_to(target, target_is_directory=True)


def extension(source):
    """Describe the module that `source`, a path below ``kernels/``, becomes."""
    path = Path(source)
    return Extension(
        ".".join(["tagloom", *path.with_suffix("").parts]),
        [str(path)],
        include_dirs=["kernels"],
        define_macros=MACROS,
        extra_compile_args=FLAGS,
        extra_link_args=["-fsanitize=address"] if ASAN else [],
    )


def extensions():
    """Describe all kernels."""
    return [extension(source) for source in sorted(Path("kernels").rglob("*.pyx"))]


def digest(*settings, **folders):
    """Return a digest of settings and of the files that match each pattern below a folder, ``name=(folder, pattern)``.

    Contents decide what is made anew. An isolated build has just unpacked its NumPy and Cython, so all their files are
    newer than what the last build has made, and most often the same.
    """
    found = hashlib.sha256(repr(settings).encode())
    for name, (folder, pattern) in folders.items():
        for path in sorted(Path(folder).rglob(pattern)):
            found.update(repr((name, path.relative_to(folder).as_posix(), path.read_bytes())).encode())
    return found.hexdigest()


def translate(found):
    """Translate kernels to C, with the annotated listings beside it in ``build/cython``, unless that is there."""
    import Cython
    import numpy
    from Cython.Build import cythonize

    made = BUILD / "cython" / FLAVOUR
    stamp = made / "inputs"
    ours = {suffix: ("kernels", f"*.{suffix}") for suffix in ("pyx", "pxd", "h")}
    inputs = digest(Cython.__version__, DIRECTIVES, **ours, numpy=(Path(numpy.__file__).parent, "*.pxd"))
    in_c = {ext.name: made / Path(ext.sources[0]).with_suffix(".c") for ext in found}
    if not (stamp.exists() and stamp.read_text() == inputs and all(path.exists() for path in in_c.values())):
        stamp.unlink(missing_ok=True)
        cythonize(
            found,
            include_path=["src"],
            build_dir=str(made),
            compiler_directives=DIRECTIVES,
            annotate=True,
            quiet=True,
            nthreads=CORES if multiprocessing.get_start_method() == "fork" else 0,  # others would run this file again
        )
        stamp.write_text(inputs)
    for ext in found:
        ext.sources = [str(in_c[ext.name])]
        ext.include_dirs = [numpy.get_include(), *ext.include_dirs]


def last_flavour():
    """Return the flavour of the last build; compiled files do not show it."""
    return STAMP.read_text() if STAMP.exists() else ""


class BuildKernels(build_ext):
    """Translates and compiles on all cores.

    In place, only what has changed since the last time, which an editable install forgets.
    """

    def finalize_options(self):
        super().finalize_options()
        self.parallel = CORES
        self.force = last_flavour() != FLAVOUR or self.force
        if self.inplace or self.editable_mode:
            self.build_lib, self.build_temp = str(BUILD / "in_place"), str(BUILD / "objects")

    def build_extension(self, ext):
        """Compile one of the kernels, unless that was done with the same source, headers and commands."""
        made, stamp = Path(self.get_ext_fullpath(ext.name)), Path(self.build_temp, f"{ext.name}.inputs")
        source = Path(ext.sources[0])
        commands = (sys.version, self.compiler.compiler_so, self.compiler.linker_so, FLAGS, MACROS, self.headers)
        inputs = digest(commands, source=(source.parent, source.name))
        if made.exists() and stamp.exists() and stamp.read_text() == inputs and not self.force:
            return
        for old in (stamp, made):  # without which setuptools makes it, whatever the times are
            old.unlink(missing_ok=True)
        super().build_extension(ext)
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(inputs)

    def run(self):
        if self.extensions:
            import numpy

            translate(self.extensions)  # only now: mere metadata, as `uv lock` wants it, takes no compiler
            self.headers = digest(ours=("kernels", "*.h"), numpy=(numpy.get_include(), "*.h"))
        super().run()
        BUILD.mkdir(exist_ok=True)
        STAMP.write_text(FLAVOUR)  # only now: who asks for metadata makes this command too, and builds nothing


class PackSources(sdist):
    """Packs each file in its own folder and no link, since not every tool unpacks links."""

    def make_release_tree(self, base_dir, files):
        """Copy the files of the distribution to a folder; see `restore_links` for the links."""
        root = Path.cwd().resolve()
        super().make_release_tree(
            base_dir, sorted({Path(file).resolve().relative_to(root).as_posix() for file in files})
        )


restore_links()
setup(
    packages=find_packages("src"),
    package_dir={"": "src"},
    py_modules=["pytest_tagloom"],
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildKernels, "sdist": PackSources},
)
