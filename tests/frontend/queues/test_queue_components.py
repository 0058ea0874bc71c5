"""Components of the elements of queues and staging areas: their names."""

import pytest
import tagloom as tg
from tagloom.compat import tf1

MAKERS = {
    "FIFOQueue": lambda dtypes, names: tg.FIFOQueue(3, dtypes, names=names),
    "StagingArea": lambda dtypes, names: tf1.StagingArea(dtypes, names=names),
    "MapStagingArea": lambda dtypes, names: tf1.MapStagingArea(dtypes, names=names),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("names", [["a", "a", "b"], ["a", "a"], ["a"], ["a", "b", "c"], []])
def test_names_are_refused_unless_each_component_has_one_of_its_own(make, names):
    with tg.Graph().as_default(), pytest.raises(tg.GraphError, match="name of its own") as caught:
        make(["int32", "int32"], names)
    error = caught.value
    assert (error.wanted, error.got) == ("2 names", names)
    assert error.hint


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_name_may_be_given_without_a_list_around_it(make):
    with tg.Graph().as_default():
        assert make("int32", "count").names == ("count",)


OF_OTHER_SHAPES = {
    "enqueue": lambda x: tg.FIFOQueue(3, "float32", shapes=[[3]]).enqueue(x),
    "put": lambda x: tf1.StagingArea("float32", [[3]]).put(x),
    "put of a map": lambda x: tf1.MapStagingArea("float32", [[3]]).put(1, x),
    "insert_many": lambda x: tf1.Barrier("float32", [[3]]).insert_many(0, ["a"], x[None]),
}


@pytest.mark.parametrize("case", OF_OTHER_SHAPES)
def test_the_shape_of_the_queue_is_the_wanted_shape_of_a_component(case):
    many = [1] if case == "insert_many" else []
    with tg.Graph().as_default(), pytest.raises(tg.ShapeError, match="contradict") as caught:
        OF_OTHER_SHAPES[case](tg.placeholder("float32", [2]))
    assert (list(caught.value.wanted), list(caught.value.got)) == ([*many, 3], [*many, 2])
