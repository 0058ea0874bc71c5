"""Processes in which other libraries compute: of this Python, or of one that TAGLOOM_PEERS names.

So that TensorFlow need not be installed beside tagloom: ``TAGLOOM_PEERS=~/peers/bin/python pytest tests/peers``.
"""

import functools
import importlib.util
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@functools.cache
def python_with(library):
    """Return the path of a Python that has a library, or None."""
    if importlib.util.find_spec(library) is not None:
        return sys.executable
    named = os.environ.get("TAGLOOM_PEERS")
    if not named:
        return None
    check = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({library!r}) is None)"
    return named if subprocess.run([named, "-c", check]).returncode == 0 else None


def needs(library):
    """Return a mark that skips a test where no Python has the library."""
    return pytest.mark.skipif(python_with(library) is None, reason=f"needs {library}, here or in TAGLOOM_PEERS")


def answers(side, questions, library="tensorflow"):
    """Return what the module `tests.peers.SIDE`, in a process of its own, answers to a list of questions.

    Both are pickled. The module needs the library.
    """
    answer = subprocess.run(
        [python_with(library), "-m", f"tests.peers.{side}"],
        input=pickle.dumps(questions),
        capture_output=True,
        cwd=ROOT,
    )
    assert answer.returncode == 0, answer.stderr.decode()[-2000:]
    return pickle.loads(answer.stdout)


class Peer:
    """A process that answers one list of questions after another, so that its library is imported once."""

    def __init__(self, side, library="tensorflow"):
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115  closed by `close`
        command = [python_with(library), "-m", f"tests.peers.{side}"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.errors}
        self.process = subprocess.Popen(command, cwd=ROOT, **pipes)

    def ask(self, questions):
        """Return the answers to a list of questions; an error with the end of what the process wrote, if it ended."""
        try:
            pickle.dump(questions, self.process.stdin)
            self.process.stdin.flush()
            return pickle.load(self.process.stdout)
        except (EOFError, BrokenPipeError) as error:
            self.process.wait()
            self.errors.seek(0)
            raise AssertionError(self.errors.read().decode()[-2000:]) from error

    def close(self):
        """Let the process end."""
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()
