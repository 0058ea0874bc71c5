"""Names of variables in variable scopes, and what is refused, are those of TensorFlow, where that is installed."""

import os

import numpy as np
import tagloom as tg
from tagloom.compat import tf1

from tests.peers.other_side import answers, needs
from tests.peers.scopes import program, run

COUNT = int(os.environ.get("TAGLOOM_CALLS", "400"))


@needs("tensorflow")
def test_names_are_tensorflows():
    random = np.random.default_rng(7)
    programs = [program(random) for _ in range(COUNT)]
    told = []
    for statements, theirs in zip(programs, answers("scopes_side", programs), strict=True):
        with tg.Graph().as_default():
            ours = run(tg, tf1, statements)
        assert ours == theirs, statements
        told += ours
    assert {"refused: exists", "refused: missing", "refused: other", "no scope"} <= {
        t for t in told if isinstance(t, str)
    }
