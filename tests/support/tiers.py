"""The two tiers of the suite: the default one, and the thorough one that ``pytest --thorough`` runs.

The default tier runs every test function. The cases of a family repeat the same check with other programs or numbers:
it runs every eighth of them, at least one, or every n-th if the family is marked ``@pytest.mark.sampled(every=n)``. It
draws one in 24 of the random programs, and checks graphs after each pass in every eighth test.
CONTRIBUTING.md says what each tier proves.
"""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

FRACTION = 24  # of the random programs the default tier draws one in so many
CHECKED = 8  # of the tests one in so many checks the graph after each pass
EVERY = 8  # of the cases of a family the default tier runs one in so many, unless a mark says otherwise
WHOLE = "tests/architecture/"  # whose cases are as many rules
LONG = ("tests/property/", "tests/bench/", "tests/examples/")
_THOROUGH, _CHECK = "TAGLOOM_THOROUGH", "TAGLOOM_CHECK_PASSES"


def is_thorough() -> bool:
    """Return True in the thorough tier, also while modules of tests are imported and in processes that tests start."""
    return os.environ.get(_THOROUGH) == "1"


def choose_tier(config: pytest.Config) -> None:
    """Note the tier for all modules that are imported from now on."""
    if config.option.thorough:
        os.environ[_THOROUGH] = "1"
        os.environ.setdefault(_CHECK, "1")  # before tagloom is imported: settings that modules keep check passes too


def deselect_repetitions(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Remove all but every n-th case of sampled families, unless cases were asked for by name."""
    asked_for = config.option.keyword or any("::" in argument for argument in config.args)
    if is_thorough() or (asked_for and not config.option.sampled):
        return
    kept, left, seen = [], [], Counter[str]()
    sizes = Counter(_family(item) for item in items)
    for item in items:
        family = _family(item)
        every = _every(item, sizes[family])
        first = zlib.crc32(family.encode()) % every  # families begin with different cases, such as executors
        (kept if seen[family] % every == first else left).append(item)
        seen[family] += 1
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def _every(item: pytest.Item, size: int) -> int:
    """Return how many cases of its family an item stands for in the default tier."""
    mark = item.get_closest_marker("sampled")
    if mark is None and item.nodeid.startswith(WHOLE):
        return 1
    return min(mark.kwargs["every"] if mark else EVERY, size)


def deselect_all_but_one_in(every: int, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep every n-th of the tests that are left, for processes that run tests of others in another way."""
    if every > 1:
        config.hook.pytest_deselected(items=[item for i, item in enumerate(items) if i % every])
        items[:] = items[::every]


def _family(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def choose(thorough: int, default: int) -> int:
    """Return how often a test repeats itself in this tier."""
    return thorough if is_thorough() else default


def order_long_ones_first(items: list[pytest.Item]) -> None:
    """Begin with folders of long tests, so that no worker begins one when the others have ended."""
    items.sort(key=lambda item: not _is_long(item))  # stable


def _is_long(item: pytest.Item) -> bool:
    return item.nodeid.startswith(LONG)


@contextmanager
def checked_passes(nodeid: str) -> Iterator[None]:
    """Check graphs after each pass inside the block in the thorough tier, and for every eighth test in the default one.

    A value of TAGLOOM_CHECK_PASSES in the environment decides for all tests.
    """
    if _CHECK in os.environ or not (is_thorough() or zlib.crc32(nodeid.encode()) % CHECKED == 0):
        yield
        return
    os.environ[_CHECK] = "1"
    try:
        yield
    finally:
        os.environ.pop(_CHECK, None)
