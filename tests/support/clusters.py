"""Clusters of any size, for tests of what they mean: in small programs few would be worth making."""

from contextlib import contextmanager
from unittest.mock import patch

from tagloom.compile.native import cluster


@contextmanager
def of_any_size():
    """Make a cluster of whatever belongs together, one operation too, while compiling here."""
    with patch.object(cluster, "FEWEST", 1), patch.object(cluster, "MOST_MOVED", 1000.0):
        yield
