"""Completion of docstrings: the one place where a function gets text that its source does not have.

Similar functions share parameters, results and errors as a `Family`, which adds to a docstring the sections and entries
that the function leaves out. Functions made by other functions get name and summary by `name_function` first.
Everything happens at import, so `help`, the site, and editors with a running interpreter show whole docstrings.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_SECTIONS = ("Parameters", "Returns", "Raises", "Examples")
_HEADING = re.compile(rf"^({'|'.join(_SECTIONS)})\n-+\n", re.M)
_ENTRY = re.compile(r"^\S.*(?:\n(?:[ ]+.*)?)*", re.M)


@dataclass(frozen=True)
class Family:
    """Shared sections of the docstrings of a family of functions, in NumPy's style.

    Attributes
    ----------
    parameters : mapping of str to str
        By name, such as "x" or "x, y", the text after the colon: a type, and on further lines a description.
        Functions without such a parameter stay unchanged; if several entries contain a name, the first applies.
    returns : str
        The section; empty for classes.
    raises : mapping of str to str
        The condition of each error.
    """

    parameters: Mapping[str, str]
    returns: str = ""
    raises: Mapping[str, str] = field(default_factory=dict)

    def complete(self, function: F, examples: str = "") -> F:
        """Add the parameters, the result, the errors and the examples missing from a docstring.

        Parameters
        ----------
        function : callable
            A function or a class. Its docstring may have any of the sections; parameters are sorted in the order of
            the signature.
        examples : str
            The section of examples, without its heading.

        Returns
        -------
        callable
            The same function.
        """
        summary, found = _split_sections(inspect.cleandoc(function.__doc__ or ""))
        names = _parameter_names(function)
        parameters = self._complete_parameters(_split_entries(found.get("Parameters", "")), names)
        raises = {error: f"{error}\n    {when}" for error, when in self.raises.items()}
        found["Parameters"] = "\n".join(parameters)
        if self.returns:
            found.setdefault("Returns", self.returns)
        # The function's own entries replace those of the family.
        found["Raises"] = "\n".join((raises | _split_entries(found.get("Raises", ""))).values())
        found.setdefault("Examples", examples)
        sections = [f"{name}\n{'-' * len(name)}\n{found[name]}" for name in _SECTIONS if found.get(name)]
        function.__doc__ = "\n\n".join([summary, *sections]) + "\n"
        return function

    def _complete_parameters(self, own: dict[str, str], names: list[str]) -> list[str]:
        left = {*names} - {name for header in own for name in _split_names(header)}
        for header, text in self.parameters.items():
            # An entry for several parameters applies only if the function has all of them, and describes none.
            if left >= {*_split_names(header)}:
                own[header] = f"{header} : {text}"
                left -= {*_split_names(header)}
        return [own[header] for header in sorted(own, key=lambda header: names.index(_split_names(header)[0]))]


def name_function(function: F, name: str, summary: str) -> F:
    """Give a function made by another function its name and the first paragraph of its docstring."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = summary
    return function


def show_calls(function: str, examples: Mapping[str, str]) -> str:
    """Return the examples of a public function.

    Parameters
    ----------
    function : str
        Name of the function.
    examples : mapping of str to str
        Arguments, as a call is written, and Python's output of the result.
    """
    imports = "numpy as np, tagloom as tg" if any("np." in arguments for arguments in examples) else "tagloom as tg"
    lines = [f">>> import {imports}"]
    for arguments, shown in examples.items():
        lines += [f">>> tg.function(lambda: tg.{function}({arguments})).sync()", shown]
    return "\n".join(lines)


def documented_by(source: Callable[..., Any]) -> Callable[[F], F]:
    """Return a decorator: a method that only hands its call to `source`, a method of a part, gets its docstring.

    Users read the documentation of the whole at its class; the text stands beside the code that it describes.
    """

    def document(method: F) -> F:
        method.__doc__ = source.__doc__
        return method

    return document


def _parameter_names(function: Any) -> list[str]:
    """Return the names of the parameters, without the object, in the order of the signature."""
    is_class = isinstance(function, type)
    called = inspect.unwrap(function.__init__ if is_class else function)
    code = called.__code__
    # Read from the code: `inspect.signature` costs ten times as much, for each public function at import.
    ends = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    names = list(code.co_varnames[: ends[1]])
    if code.co_flags & inspect.CO_VARARGS:
        names.insert(ends[0], code.co_varnames[ends[1]])
    return names[1:] if is_class else names


def _split_sections(text: str) -> tuple[str, dict[str, str]]:
    """Return the text before the sections of a docstring, and the sections by name."""
    summary, *parts = _HEADING.split(text)
    return summary.strip(), {name: body.strip("\n") for name, body in zip(parts[::2], parts[1::2], strict=True)}


def _split_entries(section: str) -> dict[str, str]:
    """Return the entries of a section by the text before the colon, each with its indented lines."""
    return {entry.partition("\n")[0].partition(" : ")[0]: entry.rstrip() for entry in _ENTRY.findall(section)}


def _split_names(header: str) -> list[str]:
    return [name.strip(" *") for name in header.split(",")]
