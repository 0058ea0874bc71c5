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


def simulated():
    """Return the environment in which the stand-in can be loaded, from ``$TAGLOOM_SIMCUDA``."""
    return {"TAGLOOM_SIMCUDA": _built().name}


def run_python(environment, *arguments):
    """Run Python with more in the environment; return the finished process."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=os.environ | environment, cwd=ROOT, capture_output=True, text=True, timeout=600)


def run_tests(environment, *arguments):
    """Run pytest in a process of its own; return how many passed. Fails if one did not, was skipped, or none ran."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        options = ["-p", "no:cacheprovider", "-q", "--sampled", f"--junitxml={report}"]
        done = run_python(environment, "-m", "pytest", *options, *arguments)
        assert report.exists(), done.stdout + done.stderr
        suite = ElementTree.parse(report).getroot().find("testsuite").attrib
    bad = sum(int(suite[name]) for name in ("errors", "failures", "skipped"))
    tests = int(suite["tests"])
    assert (done.returncode, bad, tests > 0) == (0, 0, True), done.stdout + done.stderr
    return tests


def run_simulated(*arguments):
    """Run tests on simulated CUDA, as `run_tests` does."""
    return run_tests(simulated(), "-p", "tests.simcuda.plugin", *arguments)
