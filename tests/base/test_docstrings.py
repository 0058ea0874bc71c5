"""Docstrings of a family say what is a function's own, and what all have in common, in the order of the signature."""

import inspect

from tagloom import losses, metrics, training
from tagloom.base.docstrings import Family

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
