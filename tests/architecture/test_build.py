"""What builds the kernels is said once for pip, and once for make, which builds without an environment of its own."""

import re
import runpy
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

import pytest
import setuptools

from tests.architecture.layers import ROOT


def test_make_installs_what_the_build_needs():
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    line = re.search(r"^BUILD_REQUIRES := (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert sorted(re.findall("'(.*?)'", line[1])) == sorted(needed)


def test_a_source_distribution_has_what_the_readme_links_to():
    told = (ROOT / "MANIFEST.in").read_text().split()
    for link in re.findall(r"\]\((?!http)([^)#]+)", (ROOT / "README.md").read_text()):
        first = link.partition("/")[0]
        assert first in told or (first.endswith(".md") and "*.md" in told) or first == "LICENSE", link
    assert {"tests", "Makefile", "mkdocs.yml"} <= set(told)


def test_links_lead_to_the_folders_of_the_package(tmp_path, monkeypatch):
    monkeypatch.setattr(setuptools, "setup", lambda **_: None)
    monkeypatch.chdir(tmp_path)
    for folder in ("engine", "kernels", "streams", "swap"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("")
    runpy.run_path(str(ROOT / "setup.py"))  # as in an unpacked source distribution, which has no links
    for root in (ROOT, tmp_path):
        package = root / "src" / "tagloom"
        assert package.resolve() == root / "engine"
        for name in ("kernels", "streams", "swap"):
            assert (package / name).resolve() == root / name
    assert set(setuptools.find_packages("src")) == {"tagloom", "tagloom.kernels", "tagloom.streams", "tagloom.swap"}


def test_a_source_distribution_has_each_file_once_and_no_link(tmp_path):
    command = [sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        members = archive.getmembers()
    assert not any(each.issym() or each.islnk() for each in members)
    names = {each.name.partition("/")[2] for each in members}
    assert {"engine/ir/graph.py", "kernels/core/table.pxd", "kernels/core/table.pyx", "src/pytest_tagloom.py"} <= names
    assert not any(name.startswith(("src/tagloom/", "engine/kernels/")) for name in names)


def test_what_only_the_demo_uses_is_no_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.match(r"[\w.-]+", each)[0] for each in project["dependencies"]}
    assert names == {"numpy", "scipy", "ml_dtypes", "threadpoolctl", "google-crc32c", "optree"}


def test_kernels_of_another_flavour_are_compiled_anew(tmp_path, monkeypatch):
    """However often commands are made that build nothing, as pip does when it asks for metadata."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(setuptools, "setup", lambda **_: None)
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "flavour").write_text("debug")
    monkeypatch.delenv("TAGLOOM_DEBUG", raising=False)
    monkeypatch.delenv("TAGLOOM_ASAN", raising=False)
    command = runpy.run_path(str(ROOT / "setup.py"))["BuildKernels"]

    def made():
        build = command(setuptools.Distribution())
        build.finalize_options()
        return build

    assert made().force
    assert made().force
    made().run()
    assert not made().force


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Return a function that builds one kernel, and whether its source was translated and compiled.

    The commands are stand-ins which write the files. The arguments are those of an isolated build of pip's, which has
    unpacked NumPy and Cython just before: everything of them is newer than what was built.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(setuptools, "setup", lambda **_: None)
    monkeypatch.setenv("TAGLOOM_DEBUG", "0")
    monkeypatch.setenv("TAGLOOM_ASAN", "0")
    script = runpy.run_path(str(ROOT / "setup.py"))
    source, header = tmp_path / "kernels" / "one.pyx", tmp_path / "kernels" / "one.h"
    source.parent.mkdir()
    source.write_text("x = 1")
    header.write_text("int x;")
    done = []

    def cythonize(found, build_dir, **_):
        done.append("translated")
        made = tmp_path / build_dir / "kernels" / "one.c"
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(source.read_text())

    def compile_one(self, ext):
        done.append("compiled")
        path = Path(self.get_ext_fullpath(ext.name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")

    monkeypatch.setattr("Cython.Build.cythonize", cythonize)
    monkeypatch.setattr("setuptools.command.build_ext.build_ext.build_extension", compile_one)

    def build(numpy="typedef int npy;", cython="3"):
        environment = Path(tempfile.mkdtemp(dir=tmp_path)) / "numpy"
        (environment / "include").mkdir(parents=True)
        (environment / "include" / "array.h").write_text(numpy)
        (environment / "__init__.pxd").write_text("")
        monkeypatch.setattr("numpy.__file__", str(environment / "__init__.py"))
        monkeypatch.setattr("numpy.get_include", lambda: str(environment / "include"))
        monkeypatch.setattr("Cython.__version__", cython)
        command = script["BuildKernels"](setuptools.Distribution({"ext_modules": script["extensions"]()}))
        command.finalize_options()
        done.clear()
        command.run()
        return list(done)

    return build, source, header


def test_a_build_with_the_same_contents_makes_nothing_anew(kernel):
    """pip builds in a new environment for each extra that is installed: `.ci/run` compiled everything twice."""
    build, source, _ = kernel
    assert build() == ["translated", "compiled"]
    source.touch()
    assert build() == []


def test_a_build_makes_anew_what_depends_on_what_has_changed(kernel):
    build, source, header = kernel
    build()
    assert build(cython="4") == ["translated"]  # to the same C
    assert build(cython="4", numpy="typedef long npy;") == ["compiled"]
    header.write_text("long x;")
    assert build(cython="4", numpy="typedef long npy;") == ["translated", "compiled"]
    source.write_text("x = 2")
    assert build(cython="4", numpy="typedef long npy;") == ["translated", "compiled"]


def test_wheels_have_no_sources_of_kernels():
    """MANIFEST.in names them for the source distribution."""
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["include-package-data"] is False
