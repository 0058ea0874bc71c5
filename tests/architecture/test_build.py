"""What builds the kernels is said once for pip, and once for make, which builds without an environment of its own."""

import re
import runpy
import tomllib

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
