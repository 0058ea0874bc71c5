"""Names of variables in variable scopes, and what is refused, are those of TensorFlow, where that is installed."""

import importlib.util
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tagloom as tg

from tests.peers.scopes import program, run

ROOT = Path(__file__).parents[2]
COUNT = int(os.environ.get("TAGLOOM_CALLS", "400"))


@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="needs tensorflow")
def test_names_are_tensorflows():
    random = np.random.default_rng(7)
    programs = [program(random) for _ in range(COUNT)]
    answer = subprocess.run(
        [sys.executable, "-m", "tests.peers.scopes_side"], input=pickle.dumps(programs), capture_output=True, cwd=ROOT
    )
    assert answer.returncode == 0, answer.stderr.decode()[-2000:]
    told = []
    for statements, theirs in zip(programs, pickle.loads(answer.stdout), strict=True):
        with tg.Graph().as_default():
            ours = run(tg, tg.nn, statements)
        assert ours == theirs, statements
        told += ours
    assert {"refused: exists", "refused: missing", "refused: other", "no scope"} <= {
        t for t in told if isinstance(t, str)
    }
