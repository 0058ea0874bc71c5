"""Constructors made from the fields of a class."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import InitVar
from typing import Any

import pytest
import tagloom as tg
from tagloom import nest
from tagloom.ir.fields import takes_fields


class Base:
    def __init__(self, name: str) -> None:
        self.name = name.upper()


@takes_fields
class Point(Base):
    x: int
    y: Any = 2
    name: InitVar[str | None] = None

    def __post_init__(self, name: str | None) -> None:
        super().__init__(name or "point")
        self.sum = self.x + self.y


def test_parameters_are_the_fields_in_order():
    assert str(inspect.signature(Point)) == "(x: 'int', y: 'Any' = 2, name: 'str | None' = None) -> None"


def test_arguments_become_attributes_by_position_and_by_name():
    p, q = Point(1), Point(y=5, x=4, name="q")
    assert (p.x, p.y, p.name, p.sum) == (1, 2, "POINT", 3)
    assert (q.x, q.y, q.name, q.sum) == (4, 5, "Q", 9)


def test_objects_are_equal_to_themselves_alone():
    p = Point(1)
    assert p == p
    assert p != Point(1)
    assert hash(p) == object.__hash__(p)
    assert repr(p).startswith("<")
    assert not hasattr(Point, "__match_args__")


def test_objects_are_leaves_of_structures():
    p = Point(1)
    assert nest.flatten([p, {"a": p}]) == [p, p]


def test_copies_and_pickles_keep_the_attributes():
    p = Point(1, name="p")
    for other in (copy.copy(p), copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
        assert vars(other) == vars(p)


def test_a_wrong_argument_is_explained_with_the_signature():
    with pytest.raises(TypeError, match=r"Point.__init__\(\) missing 1 required positional argument: 'x'"):
        Point()
    with (
        pytest.raises(tg.GraphError, match="GroupNorm cannot use what it was given") as caught,
        tg.Graph().as_default(),
    ):
        tg.nn.GroupNorm(groups="two", input_size=4)
    assert "GroupNorm(groups=32, axis=-1, epsilon=1e-05" in str(caught.value)


@pytest.mark.parametrize("kind", [tg.nn.Dense, tg.nn.LayerNorm, tg.nn.LSTMCell, tg.nn.MultiHeadAttention])
def test_layers_are_leaves_and_keep_their_constructor(kind):
    with tg.Graph().as_default():
        layer = kind(2, name="own")
    assert nest.flatten(layer) == [layer]
    assert layer.name == "own"
    assert kind.__init__.__qualname__ == f"{kind.__name__}.__init__"
    assert not any("InitVar" in str(p) for p in inspect.signature(kind).parameters.values())


def test_a_subclass_of_a_layer_has_a_constructor_of_its_own():
    class Twice(tg.nn.Dense):
        def __init__(self, units):
            super().__init__(2 * units, "relu", name="twice")

    with tg.Graph().as_default():
        layer = Twice(3)
        assert layer(tg.ones([1, 4])).shape == [1, 6]
    assert [v.name for v in layer.parameters()] == ["twice/kernel", "twice/bias"]
