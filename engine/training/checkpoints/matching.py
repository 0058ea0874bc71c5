"""Which saved array is for which variable: names, dtypes, shapes, shards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...base.array_like import Array, UnreadArray
from ...base.dtypes import DType, as_dtype
from ...base.errors import CheckpointError, DtypeError
from ...base.safetensors import SMALL_FLOATS
from ...base.shapes import Shape
from ...frontend.variables import Variable
from ...ir.graph import Graph
from .saved import Saved, described
from .slices import Assembled, Slice, aliases_of, slices_of, wholes_of

Rename = Mapping[str, str | None] | Callable[[str], str | None] | None
_NAMED = 5  # of the names that an error lists


@dataclass
class Matched:
    """What is to be restored.

    Attributes
    ----------
    values : dict of str to UnreadArray
        For each variable.
    cast : list of str
        Of which variables the saved dtype is another one.
    missing, unused : list of str
        Variables that nothing was saved for; names of what no variable takes.
    """

    values: dict[str, UnreadArray] = field(default_factory=dict)
    cast: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)


class _Cast(UnreadArray):
    """An array, read into another dtype."""

    def __init__(self, source: UnreadArray, dtype: np.dtype[Any]) -> None:
        self._source = source
        self.dtype, self.shape = dtype, source.shape

    def copy(self) -> Array:
        with np.errstate(over="ignore"):
            return self._source.copy().astype(self.dtype)


def match(
    graph: Graph,
    saved: Saved,
    only: Collection[str] | None = None,
    rename: Rename = None,
    partial: bool = False,
    cast: bool = False,
) -> Matched:
    """Choose a saved array for each variable of a graph.

    Parameters
    ----------
    graph : Graph
    saved : Saved
    only : collection of str, optional
        Names of the variables to restore; all by default.
    rename : mapping or callable, optional
        What a saved name is called in the graph. A key that ends in "/" stands for all names that begin so. None
        leaves an array out.
    partial : bool
        Whether variables may be missing, or arrays be of no use.
    cast : bool
        Whether dtypes may differ.

    Raises
    ------
    CheckpointError
        If what is there does not fit.
    """
    names = {old: new for old in saved.variables if (new := _renamed(old, rename)) is not None}
    arrays = _by_new_name(saved, names)
    slices = {names[old]: _renamed_slice(each, rename) for old, each in saved.slices.items() if old in names}
    aliases = {_renamed(each, rename) or each: names[old] for old, each in saved.aliases.items() if old in names}
    own, called = slices_of(graph), aliases_of(graph)
    finder = _Finder(arrays, slices, aliases)
    found = Matched()
    for variable in {v.name: v for v in graph.collections.get("variables", ())}.values():
        if only is not None and variable.name not in only:
            continue
        array = finder.find(variable.name, own.get(variable.name), called.get(variable.name))
        if array is None:
            found.missing.append(variable.name)
        else:
            found.values[variable.name] = _fitting(saved.path, variable, array, cast, found.cast)
    if only is None:
        found.unused = sorted(saved.variables.keys() - {old for old, new in names.items() if new in finder.used})
    if not partial:
        _require_all(saved.path, found)
    return found


def _renamed(name: str, rename: Rename) -> str | None:
    if rename is None:
        return name
    if callable(rename):
        return rename(name)
    if name in rename:
        return rename[name]
    for old, new in rename.items():
        if old.endswith("/") and name.startswith(old):
            return None if new is None else new + name.removeprefix(old)
    return name


def _renamed_slice(each: Slice, rename: Rename) -> Slice:
    return each._replace(of=_renamed(each.of, rename) or each.of)


def _by_new_name(saved: Saved, names: Mapping[str, str]) -> dict[str, UnreadArray]:
    arrays: dict[str, UnreadArray] = {}
    for old, new in names.items():
        if new in arrays:
            raise CheckpointError(
                "two saved arrays get one name", file=saved.path, variable=new, got=old, hint="change rename="
            )
        arrays[new] = saved.variables[old]
    return arrays


class _Finder:
    """Finds saved arrays for variables.

    Attributes
    ----------
    used : set of str
        Names of what was found.
    """

    def __init__(
        self, arrays: Mapping[str, UnreadArray], slices: Mapping[str, Slice], aliases: Mapping[str, str]
    ) -> None:
        self.used: set[str] = set()
        self._arrays = arrays
        self._slices = slices
        self._aliases = aliases  # names of arrays by what they would be called if variables were whole
        self._wholes = wholes_of(slices)

    def find(self, name: str, piece: Slice | None, alias: str | None) -> UnreadArray | None:
        """Return the array for a variable, which is perhaps a slice, made of others if it was saved in other slices."""
        others = alias, self._aliases.get(alias or name)
        for each in (name, *filter(None, others)):
            if each in self._arrays and self._slices.get(each) == piece:
                self.used.add(each)
                return self._arrays[each]
        return self._assembled(name, piece)

    def _assembled(self, name: str, piece: Slice | None) -> UnreadArray | None:
        """Return a slice, or a whole, made of the slices that there are, or the whole; None if they are not enough."""
        parts = self._parts(name if piece is None else piece.of)
        sources = [(self._slice(each, piece), self._arrays[each]) for each in parts]
        if len({array.dtype for _, array in sources}) != 1:
            return None
        made = Assembled(piece or _all_of(sources[0][0]), sources)
        if not made.is_complete:
            return None
        self.used.update(parts)
        return made

    def _parts(self, whole: str) -> list[str]:
        return self._wholes.get(whole) or ([whole] if whole in self._arrays else [])

    def _slice(self, name: str, piece: Slice | None) -> Slice:
        """Return what a saved array is of the whole; all of it, if it is no slice."""
        shape = self._arrays[name].shape
        axis = 0 if piece is None else piece.axis
        found = self._slices.get(name)
        return found or Slice(name, shape, axis, range(shape[axis] if axis < len(shape) else 0))


def _all_of(each: Slice) -> Slice:
    return each._replace(rows=range(each.shape[each.axis]))


def _fitting(path: str, variable: Variable, array: UnreadArray, cast: bool, noted: list[str]) -> UnreadArray:
    """Return an array that fits a variable; CheckpointError if there is none."""
    wanted, got = f"{variable.dtype}{variable.shape}", described(array)
    name = variable.name
    if not variable.shape.includes(Shape(array.shape)):
        raise CheckpointError(
            "a saved array does not fit its variable",
            file=path,
            variable=name,
            wanted=wanted,
            got=got,
            hint="restore into a graph of the same sizes, or leave this variable out: rename={...: None}, partial=True",
        )
    try:
        dtype = as_dtype(array.dtype)
    except DtypeError:
        dtype = None
    if dtype is variable.dtype:
        return array
    able = _is_castable(dtype, variable.dtype) if dtype else _is_small_float(array) and variable.dtype.is_floating
    if not able or not cast:
        raise CheckpointError(
            "a saved array has another dtype than its variable",
            file=path,
            variable=name,
            wanted=wanted,
            got=got,
            hint="restore it with cast=True" if able else "make the variable of that dtype, and cast where it is used",
        )
    noted.append(name)
    assert variable.dtype.numpy is not None
    return _Cast(array, variable.dtype.numpy)


def _is_small_float(array: UnreadArray) -> bool:
    """Return True for floats of 8 bits, which other programs save, and no variable has."""
    return array.dtype in SMALL_FLOATS.values()


def _is_castable(old: DType, new: DType) -> bool:
    """Say whether values keep their meaning: between floats of any size, to complex numbers, to larger integers."""
    if old.is_floating and (new.is_floating or new.is_complex):
        return True
    if old.is_complex and new.is_complex:
        return True
    exact = old.numpy is not None and new.numpy is not None and old.is_numeric and new.is_numeric
    return exact and np.can_cast(old.numpy, new.numpy)  # type: ignore[arg-type]


def _require_all(path: str, found: Matched) -> None:
    if found.missing or found.unused:
        raise CheckpointError(
            "a checkpoint does not have exactly the variables of the graph",
            file=path,
            variable=(found.missing or found.unused)[0],
            wanted=f"in the checkpoint too: {_listed(found.missing)}" if found.missing else None,
            got=f"of no use in the graph: {_listed(found.unused)}" if found.unused else None,
            hint="restore what there is with partial=True, or say by rename= what is called otherwise",
        )


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
