"""Docstrings of a family say what is a function's own, and what all have in common, in the order of the signature."""

import ast
import inspect
import pydoc
import re

import pytest
import tagloom as tg
from tagloom import losses, metrics, training
from tagloom.base.docstrings import Family, name_function, show_calls

from tests.architecture.counts import python_sources
from tests.architecture.layers import ROOT

FAMILY = Family(
    {"x, y": "Tensor\n    Common.", "name": "str, optional"}, "Tensor\n    A result.", {"GraphError": "If."}
)


def test_what_is_not_said_is_added():
    def f(a, x, y, name=None):
        """Do something.

        Parameters
        ----------
        a : {'u', 'v'}
            Its own, in
            two lines.

        Raises
        ------
        ShapeError
            Never.

        Examples
        --------
        >>> 1
        1
        """

    assert FAMILY.complete(f) is f
    assert (
        f.__doc__
        == """Do something.

Parameters
----------
a : {'u', 'v'}
    Its own, in
    two lines.
x, y : Tensor
    Common.
name : str, optional

Returns
-------
Tensor
    A result.

Raises
------
GraphError
    If.
ShapeError
    Never.

Examples
--------
>>> 1
1
"""
    )


def test_what_is_said_stays_and_what_is_not_there_is_left_out():
    def f(x):
        """Do something.

        Returns
        -------
        bool

        Raises
        ------
        GraphError
            If not.
        """

    text = FAMILY.complete(f).__doc__
    assert "Common" not in text
    assert "A result" not in text
    assert "bool" in text
    assert text.count("GraphError") == 1
    assert "If not." in text


def test_each_parameter_of_losses_metrics_and_schedules_is_described():
    for module in (losses, metrics, training):
        for name in module.__all__:
            function = getattr(module, name)
            if not inspect.isfunction(function):
                continue
            headers = [line.partition(" : ")[0] for line in inspect.getdoc(function).splitlines() if " : " in line]
            said = {parameter.strip() for header in headers for parameter in header.split(",")}
            assert set(inspect.signature(function).parameters) <= said, name


def test_a_made_function_is_named_and_completed():
    def public(y, *rest, x=1, name=None):
        return y

    examples = show_calls("half", {"np.ones(2)": "array([0.5, 0.5])"})
    done = FAMILY.complete(name_function(public, "half", "Half of it."), examples)
    assert (done, done.__name__, done.__qualname__) == (public, "half", "half")
    text = inspect.getdoc(public)
    assert text.startswith("Half of it.\n\nParameters\n----------\nx, y : Tensor\n    Common.\nname : str")
    assert text.endswith(
        "Examples\n--------\n>>> import numpy as np, tagloom as tg\n"
        ">>> tg.function(lambda: tg.half(np.ones(2))).sync()\narray([0.5, 0.5])"
    )


def test_entries_are_in_the_order_of_the_signature():
    class Kind:
        """A class.

        Parameters
        ----------
        name : str
        *rest : int
        """

        def __init__(self, y, x, *rest, name=None):
            pass

    FAMILY.complete(Kind)
    headers = [line.partition(" : ")[0] for line in inspect.getdoc(Kind).splitlines() if " : " in line]
    assert headers == ["x, y", "*rest", "name"]


def test_one_module_writes_docstrings():
    """So that there is one way to complete them, and one place that decides how."""
    writers = set()
    for path, tree in python_sources():
        for node in ast.walk(tree):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if any(isinstance(each, ast.Attribute) and each.attr == "__doc__" for each in targets):
                writers.add(str(path.relative_to(ROOT)))
    assert writers == {"engine/base/docstrings.py"}


@pytest.mark.parametrize("name", ["add", "exp", "reduce_sum", "conv2d", "max_pool", "fft", "scatter_add", "FIFOQueue"])
def test_help_shows_a_whole_docstring(name):
    text = pydoc.plain(pydoc.render_doc(getattr(tg, name)))
    for section in ("Parameters", "Raises", "Examples"):
        assert f"    {section}\n" in text or f" |  {section}\n" in text
    assert not re.search(r"\{\w+\}$", text, re.M)
