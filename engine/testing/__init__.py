"""Helpers for the tests of programs: numerical checks of gradients, and equal results under other settings.

The pytest plugin with a graph and sessions as fixtures is `plugin.py`; see docs/testing.md.
"""

from .differences import numerical_gradients
from .gradients import check_gradients
from .same import assert_same_under

__all__ = ["assert_same_under", "check_gradients", "numerical_gradients"]


def __dir__() -> list[str]:
    """Return the public names, without the submodules."""
    return sorted(__all__)
