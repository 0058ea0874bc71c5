"""Completion of docstrings: a family of similar functions adds the sections shared by its functions."""

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
    returns: str
    raises: Mapping[str, str]

    def complete(self, function: F) -> F:
        """Add the parameters, the result and the errors missing from a docstring.

        Parameters
        ----------
        function : callable
            A function or a class. Its docstring may have any of the sections; parameters are sorted in the order of
            the signature.

        Returns
        -------
        callable
            The same function.
        """
        summary, found = _split_sections(inspect.cleandoc(function.__doc__ or ""))
        names = list(inspect.signature(function).parameters)
        parameters = self._complete_parameters(_split_entries(found.get("Parameters", "")), names)
        raises = {error: f"{error}\n    {when}" for error, when in self.raises.items()}
        found["Parameters"] = "\n".join(parameters)
        if self.returns:
            found.setdefault("Returns", self.returns)
        # The function's own entries replace those of the family.
        found["Raises"] = "\n".join((raises | _split_entries(found.get("Raises", ""))).values())
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


def _split_sections(text: str) -> tuple[str, dict[str, str]]:
    """Return the text before the sections of a docstring, and the sections by name."""
    summary, *parts = re.split(rf"^({'|'.join(_SECTIONS)})\n-+\n", text, flags=re.M)
    return summary.strip(), {name: body.strip("\n") for name, body in zip(parts[::2], parts[1::2], strict=True)}


def _split_entries(section: str) -> dict[str, str]:
    """Return the entries of a section by the text before the colon, each with its indented lines."""
    found = re.findall(r"^\S.*(?:\n(?:[ ]+.*)?)*", section, re.M)
    return {entry.partition("\n")[0].partition(" : ")[0]: entry.rstrip() for entry in found}


def _split_names(header: str) -> list[str]:
    return [name.strip() for name in header.split(",")]
