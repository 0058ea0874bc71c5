"""What random programs are made of, and how large they may get."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.property.functions import FUNCTIONS, SMOOTH
from tests.property.programs import BOOL, FLOAT, INT, INTS, VECTOR, Type


@dataclass(frozen=True)
class Limits:
    """Bounds on a program: nesting, trips of one loop, loop variables, statement instances in all."""

    depth: int = 4
    trips: int = 6
    variables: int = 3
    instances: int = 200


USUAL = Limits()
SHORT = Limits(trips=3, instances=60)


@dataclass(frozen=True)
class Kind:
    """What a program is made of.

    Attributes
    ----------
    fresh : int
        The percentage of block results that are computed there.
    state : tuple of Type, optional
        The types of variables.
    stateful : int, optional
        The percentage of programs that have some.
    """

    functions: tuple[str, ...]
    mixes: tuple[str, ...]
    types: tuple[Type, ...]
    elements: tuple[Type, ...]
    fresh: int
    values: dict[Type, st.SearchStrategy[Any]]
    state: tuple[Type, ...] = ()
    stateful: int = 0


def _vector(elements: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(elements, min_size=3, max_size=3).map(tuple)


_INTEGERS = st.one_of(st.integers(-4, 8), st.integers(-4, 8), st.sampled_from([2**31 - 1, -(2**31), 123456789]))
_FLOATS = st.one_of(st.integers(-16, 16).map(lambda k: k / 4), st.floats(-1e3, 1e3))
_UNITS = st.integers(0, 1998).map(lambda k: ((k * 787 + 1300) % 1999 - 999) * 0.00099731 + 0.00011)

MIXED = Kind(
    tuple(FUNCTIONS),
    ("sub", "add", "min"),
    (INT, FLOAT, BOOL, VECTOR, INTS),
    (FLOAT, INT, VECTOR),
    50,
    {BOOL: st.booleans(), INT: _INTEGERS, FLOAT: _FLOATS, VECTOR: _vector(_FLOATS), INTS: _vector(_INTEGERS)},
    (VECTOR, VECTOR, VECTOR, INT, FLOAT),
    25,
)
REAL = Kind(
    tuple(SMOOTH),
    ("mul", "gap", "mean", "safe_div"),
    (FLOAT, VECTOR),
    (FLOAT, VECTOR),
    85,
    {BOOL: st.booleans(), INT: st.integers(0, 4), FLOAT: _UNITS, VECTOR: _vector(_UNITS)},
)
