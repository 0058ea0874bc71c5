"""Nested structures: order, packing, paths and differences; containers that users and other libraries register."""

import dataclasses
import sys
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any

import optree
import pytest
import tagloom as tg
from tagloom import nest
from tagloom.base import nest as inside
from tagloom.base.containers import kind_of

Point = namedtuple("Point", "x y")


@dataclasses.dataclass
class State:
    total: Any
    extra: Any = None


class Config(dict):
    pass


class Params:
    """A container with two children, a name of their use in the metadata."""

    def __init__(self, w, b, use="relu"):
        self.w, self.b, self.use = w, b, use

    def __eq__(self, other):
        return (self.w, self.b, self.use) == (other.w, other.b, other.use)

    __hash__ = None

    def __tree_flatten__(self):
        return (self.w, self.b), self.use, ("w", "b")

    @classmethod
    def __tree_unflatten__(cls, metadata, children):
        return cls(*children, use=metadata)


class Bag:
    """A container of any number of children, without names."""

    def __init__(self, *items):
        self.items = items


class Elsewhere:
    """A container that another library registers for all users of optree."""

    def __init__(self, inner):
        self.inner = inner


class ByKey:
    def __init__(self, **items):
        self.items = items


nest.register(Params)
nest.register(Bag, lambda bag: (bag.items, None), lambda _, items: Bag(*items))
optree.register_pytree_node(
    ByKey,
    lambda x: (list(x.items.values()), tuple(x.items), tuple(x.items)),
    lambda keys, values: ByKey(**dict(zip(keys, values, strict=True))),
    path_entry_type=optree.MappingEntry,
    namespace="tagloom",
)
optree.register_pytree_node(
    Elsewhere,
    lambda x: ((x.inner,), None),
    lambda _, children: Elsewhere(*children),
    namespace=optree.registry.__GLOBAL_NAMESPACE,
)

STRUCTURES = {
    "leaf": (7, [7], [""]),
    "none": (None, [None], [""]),
    "string": ("ab", ["ab"], [""]),
    "list": ([1, [2, 3]], [1, 2, 3], ["[0]", "[1][0]", "[1][1]"]),
    "dict": ({"b": 1, "a": 2}, [1, 2], ["['b']", "['a']"]),
    "mixed keys": ({"b": 1, 0: 2}, [1, 2], ["['b']", "[0]"]),
    "ordered": (OrderedDict(b=1, a=2), [1, 2], ["['b']", "['a']"]),
    "default": (defaultdict(list, b=1, a=2), [1, 2], ["['b']", "['a']"]),
    "own dict": (Config(b=1), [1], ["['b']"]),
    "named": (Point(1, (2,)), [1, 2], [".x", ".y[0]"]),
    "deque": (deque([1, 2], maxlen=3), [1, 2], ["[0]", "[1]"]),
    "dataclass": (State(1), [1], [".total"]),
    "whole dataclass": (State(1, {"k": 2}), [1, 2], [".total", ".extra['k']"]),
    "registered": ([Params(1, (2, 3))], [1, 2, 3], ["[0].w", "[0].b[0]", "[0].b[1]"]),
    "by key": (ByKey(left=1, right=2), [1, 2], ["['left']", "['right']"]),
    "numbered": (Bag(1, Elsewhere(2)), [1, 2], ["[0]", "[1][0]"]),
    "empty": ([(), {}, None], [None], ["[2]"]),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_are_flattened_named_and_packed(name):
    structure, leaves, paths = STRUCTURES[name]
    assert nest.flatten(structure) == leaves
    assert list(nest.walk(structure)) == list(zip(paths, leaves, strict=True))
    for other in (
        nest.pack_as(structure, [[leaf] for leaf in leaves]),
        inside.make_packer(structure)([[leaf] for leaf in leaves]),
        nest.map_structure(lambda leaf: [leaf], structure),
    ):
        assert type(other) is type(structure) or not paths[0]
        assert nest.flatten(other) == leaves  # one level deeper
        assert inside.flatten_up_to(structure, other) == [[leaf] for leaf in leaves]
        assert inside.difference(structure, nest.map_structure(lambda leaf: leaf, structure)) is None


def test_containers_keep_what_they_are():
    assert nest.map_structure(str, deque([1], maxlen=3)).maxlen == 3
    assert nest.map_structure(str, defaultdict(list, a=1))["new"] == []
    assert nest.map_structure(str, Params(1, 2, "tanh")) == Params("1", "2", "tanh")


def test_a_packer_keeps_the_keys_of_its_time():
    given = {"a": [1, 2]}
    pack = inside.make_packer(given)
    given["b"] = 3
    assert pack([5, 6]) == {"a": [5, 6]}


def test_numbers_of_leaves_must_fit():
    with pytest.raises(ValueError, match="more leaves"):
        nest.pack_as([0], [1, 2])
    with pytest.raises(ValueError, match="fewer leaves"):
        nest.pack_as([0, 0], [1])


@pytest.mark.parametrize(
    ("left", "right", "text"),
    [
        (Params(1, 2), Params(1, 2, "tanh"), "the result has metadata 'relu' on one side and 'tanh' on the other"),
        ([Params(1, 2)], [(1, 2)], "[0] is a Params on one side and a tuple on the other"),
        ([Params(1, [2])], [Params(1, 2)], "[0].b is a list on one side and a single value on the other"),
        (Bag(1), Bag(1, 2), "the result has 1 elements on one side and 2 on the other"),
        (ByKey(a=1), ByKey(b=1), "the result has metadata ('a',) on one side and ('b',) on the other"),
        ({"a": 1}, {"b": 1}, "the result has keys ['a'] on one side and ['b'] on the other"),
        (State(1), State(1, 2), "the result has 1 elements on one side and 2 on the other"),
        (deque([1]), [1], "the result is a deque on one side and a list on the other"),
    ],
)
def test_differences_name_the_place(left, right, text):
    assert inside.difference(left, right) == text
    with pytest.raises(ValueError) as error:
        inside.flatten_up_to(left, right)
    assert str(error.value) == text
    with pytest.raises(tg.GraphError) as error:
        nest.map_structure(lambda a, b: a, left, right)
    assert text in str(error.value)


def test_several_structures_are_mapped_together():
    found = nest.map_structure(lambda a, b: a - b, Params(5, {"x": 7, "y": 9}), Params(1, {"y": 2, "x": 3}))
    assert found == Params(4, {"x": 4, "y": 7})


def test_optree_goes_into_what_is_registered_here():
    assert optree.tree_leaves([Params(1, 2), 3], namespace="tagloom") == [1, 2, 3]
    assert optree.tree_accessors(Params(1, 2), namespace="tagloom") is not None


def test_a_registration_comes_before_the_rules_for_the_class():
    @dataclasses.dataclass
    class Scaled:
        value: Any
        unit: str

    assert nest.flatten(Scaled(1, "m")) == [1, "m"]
    nest.register(Scaled, lambda x: ((x.value,), x.unit), lambda unit, children: Scaled(*children, unit))
    assert nest.flatten(Scaled(1, "m")) == [1]
    assert nest.map_structure(str, Scaled(1, "m")) == Scaled("1", "m")
    optree.unregister_pytree_node(Scaled, namespace="tagloom")
    assert nest.flatten(Scaled(1, "m")) == [1, "m"]


def test_a_decorator_registers_a_class_with_methods():
    @nest.register
    class Box:
        def __init__(self, inner):
            self.inner = inner

        def __tree_flatten__(self):
            return (self.inner,), None

        @classmethod
        def __tree_unflatten__(cls, _, children):
            return cls(*children)

    assert nest.flatten([Box(1), 2]) == [1, 2]


@pytest.mark.parametrize("cls", [list, dict, int, str, tuple, type(None), deque, tg.Tensor, tg.SparseTensor, 3, Params])
def test_what_cannot_be_registered_is_refused(cls):
    with pytest.raises(tg.GraphError, match="registered"):
        nest.register(cls, lambda x: ((), None), lambda _, children: None)


@pytest.mark.parametrize("functions", [(), (lambda x: ((), None),)])
def test_a_class_without_functions_is_refused(functions):
    class Lonely:
        pass

    with pytest.raises(tg.GraphError, match="Lonely cannot be registered"):
        nest.register(Lonely, *functions)


@pytest.mark.parametrize(("result", "got"), [(3, "3"), (((1,), None, ("a", "b")), "1 children and 2 entries")])
def test_a_wrong_flatten_function_is_named(result, got):
    class Wrong:
        pass

    nest.register(Wrong, lambda x: result, lambda _, children: Wrong())
    with pytest.raises(tg.GraphError, match="flatten function of the registered class Wrong") as error:
        nest.flatten([Wrong()])
    assert error.value.got == got


def test_classes_of_users_are_not_kept_alive():
    class Passing(tuple):
        pass

    assert nest.flatten(Passing([1])) == [1]
    before = len(sys.modules["tagloom.base.containers"]._KINDS)
    kind_of(Passing)
    assert len(sys.modules["tagloom.base.containers"]._KINDS) == before


def test_public_names_say_where_others_are():
    with pytest.raises(AttributeError, match=r"nest\.pack_as"):
        _ = nest.pack_sequence_as
