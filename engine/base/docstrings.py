"""Docstrings of functions that are alike: each says what is its own, and its family adds what all have in common."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_SECTIONS = ("Parameters", "Returns", "Raises", "Examples")


@dataclass(frozen=True)
class Family:
    """What the docstrings of a family of functions have in common, in NumPy's style.

    Attributes
    ----------
    parameters : mapping of str to str
        By names, as "x" or "x, y", what stands behind the colon: a type, and in lines of their own what it means.
        Functions that do not have them are left as they are; of names that come in several, the first holds.
    returns : str
        The section; empty where there is none, of classes.
    raises : mapping of str to str
        When each error is raised.
    """

    parameters: Mapping[str, str]
    returns: str
    raises: Mapping[str, str]

    def complete(self, function: F) -> F:
        """Add to a docstring the parameters, the result and the errors that it says nothing of.

        Parameters
        ----------
        function : callable
            A function or a class. Its docstring may have any of the sections; parameters come to stand in the order of
            the signature.

        Returns
        -------
        callable
            The same function.
        """
        summary, found = _sections(inspect.cleandoc(function.__doc__ or ""))
        names = list(inspect.signature(function).parameters)
        parameters = self._parameters(_entries(found.get("Parameters", "")), names)
        raises = {error: f"{error}\n    {when}" for error, when in self.raises.items()}
        found["Parameters"] = "\n".join(parameters)
        if self.returns:
            found.setdefault("Returns", self.returns)
        found["Raises"] = "\n".join((raises | _entries(found.get("Raises", ""))).values())
        sections = [f"{name}\n{'-' * len(name)}\n{found[name]}" for name in _SECTIONS if found.get(name)]
        function.__doc__ = "\n\n".join([summary, *sections]) + "\n"
        return function

    def _parameters(self, own: dict[str, str], names: list[str]) -> list[str]:
        left = {*names} - {name for header in own for name in _names(header)}
        for header, text in self.parameters.items():
            if left >= {*_names(header)}:
                own[header] = f"{header} : {text}"
                left -= {*_names(header)}
        return [own[header] for header in sorted(own, key=lambda header: names.index(_names(header)[0]))]


def _sections(text: str) -> tuple[str, dict[str, str]]:
    """Return what stands before the sections of a docstring, and these by their names."""
    summary, *parts = re.split(rf"^({'|'.join(_SECTIONS)})\n-+\n", text, flags=re.M)
    return summary.strip(), {name: body.strip("\n") for name, body in zip(parts[::2], parts[1::2], strict=True)}


def _entries(section: str) -> dict[str, str]:
    """Return the entries of a section by what stands before the colon, each with the lines that are set in."""
    found = re.findall(r"^\S.*(?:\n(?:[ ]+.*)?)*", section, re.M)
    return {entry.partition("\n")[0].partition(" : ")[0]: entry.rstrip() for entry in found}


def _names(header: str) -> list[str]:
    return [name.strip() for name in header.split(",")]
