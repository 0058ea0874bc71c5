"""Files of the engine can not compare tensors unnoticed: all tests run under `no_comparisons`."""

import pytest
import tagloom as tg

from tests.support.identity import ENGINE

COMPARE = ["x == y", "x != 1", "x in [y]", "[x, y].index(y)", "(1, x) == (1, y)", "[y, x].count(x)", "ref(x) == ref(x)"]


@pytest.mark.parametrize("code", COMPARE)
def test_a_comparison_in_the_engine_is_found(graph, code):
    names = {"x": tg.constant(1.0), "y": tg.constant(2.0), "ref": __import__("weakref").ref}
    with pytest.raises(AssertionError, match="compares"):
        eval(compile(code, ENGINE + "ir/some.py", "eval"), names)


def test_a_look_for_none_is_none(graph):
    code = compile("None in [x]", ENGINE + "ir/some.py", "eval")
    assert not eval(code, {"x": tg.constant(1.0)})
