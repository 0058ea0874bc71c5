"""Runs tests on simulated CUDA in a process of their own, so that this one never loads it."""

import functools
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from tests.simcuda.library import build

ROOT = Path(__file__).parents[2]


@functools.cache
def _built():
    folder = tempfile.TemporaryDirectory(prefix="simcuda")
    build(Path(folder.name))
    return folder  # which is removed when this process ends


def run_python(*arguments):
    """Run Python where the stand-in can be loaded from ``$TAGFLOW_SIMCUDA``; return the finished process."""
    environment = os.environ | {"TAGFLOW_SIMCUDA": _built().name}
    return subprocess.run(
        [sys.executable, *map(str, arguments)], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=240
    )


def run_tests(*arguments):
    """Run pytest on simulated CUDA; return how many tests passed. Fails if one did not, was skipped, or none ran."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        options = ["-p", "tests.simcuda.plugin", "-p", "no:cacheprovider", "-q", f"--junitxml={report}"]
        done = run_python("-m", "pytest", *options, *arguments)
        assert report.exists(), done.stdout + done.stderr
        suite = ElementTree.parse(report).getroot().find("testsuite").attrib
    bad = sum(int(suite[name]) for name in ("errors", "failures", "skipped"))
    tests = int(suite["tests"])
    assert (done.returncode, bad, tests > 0) == (0, 0, True), done.stdout + done.stderr
    return tests
