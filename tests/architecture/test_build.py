"""What builds the kernels is said once for pip, and once for make, which builds without an environment of its own."""

import re
import tomllib

from tests.architecture.layers import ROOT


def test_make_installs_what_the_build_needs():
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    line = re.search(r"^BUILD_REQUIRES := (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert sorted(re.findall("'(.*?)'", line[1])) == sorted(needed)
