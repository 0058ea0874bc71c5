"""Packages that import public modules of tagloom alone, and what tests need to install and remove them."""

import pytest
from tagloom.ir.definition import _REGISTRY


@pytest.fixture
def forget():
    """Remove the operation types that a test defines: definitions hold for the process, as other tests would see."""
    before = set(_REGISTRY)
    yield
    for type in set(_REGISTRY) - before:
        if "." in type:
            del _REGISTRY[type]
