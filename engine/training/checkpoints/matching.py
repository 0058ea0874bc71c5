"""Matching of saved arrays with variables: names, dtypes, shapes, shards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from ...base.array_like import Array, UnreadArray
from ...base.dtypes import DType, as_dtype
from ...base.errors import CheckpointError, DtypeError, GraphError
from ...base.safetensors import SMALL_FLOATS
from ...base.shapes import Shape
from ...frontend.state.variables import Variable
from ...ir.graph import Graph
from .records import Mismatch
from .saved import Saved, describe_array
from .slices import Assembled, Slice, aliases_of, slices_of, wholes_of

Rename = Mapping[str, str | None] | Callable[[str], str | None] | None
_NAMED = 5  # most names that an error lists


@dataclass
class Matched:
    """The values to restore, and the differences between file and graph.

    Attributes
    ----------
    values : dict of str to UnreadArray
        Value of each variable, by name.
    cast : list of str
        Variables with another saved dtype.
    missing, unused : list of str
        Variables without a saved array; saved names without a variable.
    mismatched : list of Mismatch
        Variables that keep their values, because their saved arrays do not fit.
    """

    values: dict[str, UnreadArray] = field(default_factory=dict)
    cast: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    mismatched: list[Mismatch] = field(default_factory=list)


OnMismatch = Literal["error", "skip"] | Collection[str] | None
Matching = Callable[[Saved], Matched]


class _Mismatching:
    """Policy of mismatches: the variables that may keep their values where a saved array does not fit.

    Parameters
    ----------
    on_mismatch : {'error', 'skip'}, collection of str or None
        As for `match_variables`.
    partial : bool
    """

    def __init__(self, on_mismatch: OnMismatch, partial: bool) -> None:
        if on_mismatch is None:
            on_mismatch = "skip" if partial else "error"
        if isinstance(on_mismatch, str):
            if on_mismatch not in ("error", "skip"):
                raise GraphError(
                    "on_mismatch has an unknown value",
                    wanted="'error', 'skip', or names and prefixes of variables in a list",
                    got=repr(on_mismatch),
                    hint=f"on_mismatch=[{on_mismatch!r}] for a variable of this name, or a prefix that ends in '/'",
                )
            self._names: tuple[str, ...] = ()
            self._all = on_mismatch == "skip"
        else:
            self._names, self._all = tuple(on_mismatch), False

    def may_keep_value(self, name: str) -> bool:
        """Return True if a variable, or one of its slots, may keep its value."""
        scopes = [each.removesuffix("/") for each in self._names]
        return self._all or any(name == each or name.startswith(each + "/") for each in scopes)


class _Unfitting(Exception):
    """A saved array does not fit its variable even by a cast; carries the `error` for the user."""

    def __init__(self, error: CheckpointError) -> None:
        self.error = error


class _Cast(UnreadArray):
    """An unread array that is cast when read."""

    def __init__(self, source: UnreadArray, dtype: np.dtype[Any]) -> None:
        self._source = source
        self.dtype, self.shape = dtype, source.shape

    def copy(self) -> Array:
        with np.errstate(over="ignore"):  # values beyond the range become infinite, without a warning
            return self._source.copy().astype(self.dtype)


@dataclass(frozen=True, slots=True)
class Policy:
    """Choices of a restoration.

    Attributes
    ----------
    only : collection of str, optional
        Names of the variables to restore; all by default.
    rename : mapping or callable, optional
        New names of saved arrays. A key that ends in "/" stands for all names with this prefix. None excludes an
        array.
    partial : bool
        If True, variables may be missing, and arrays unused.
    cast : bool
        If True, dtypes may differ.
    on_mismatch : {'error', 'skip'} or collection of str, optional
        Variables that keep their values, with their slots, if a saved array has another shape, or a dtype that cannot
        be cast: none, all, or the variables of some names and prefixes. By default all if `partial`, else none.
    """

    only: Collection[str] | None = None
    rename: Rename = None
    partial: bool = False
    cast: bool = False
    on_mismatch: OnMismatch = None


def match_variables(graph: Graph, saved: Saved, policy: Policy) -> Matched:
    """Choose a saved array for each variable of a graph.

    Raises
    ------
    CheckpointError
        If the saved arrays do not fit the graph.
    GraphError
        If `on_mismatch` is another string, or `rename` renames an unknown array.
    """
    mismatching, rename = _Mismatching(policy.on_mismatch, policy.partial), policy.rename
    _check_renamed(saved, rename)
    names = {old: new for old in saved.variables if (new := _apply_rename(old, rename)) is not None}
    arrays = _by_new_name(saved, names)
    slices = {names[old]: _renamed_slice(each, rename) for old, each in saved.slices.items() if old in names}
    aliases = {_apply_rename(each, rename) or each: names[old] for old, each in saved.aliases.items() if old in names}
    own, called = slices_of(graph), aliases_of(graph)
    finder = _Finder(arrays, slices, aliases)
    found = Matched()
    for variable in _variables_of(graph, policy.only):
        piece = own.get(variable.name)
        array = finder.find(variable.name, piece, called.get(variable.name))
        try:
            if array is not None:
                found.values[variable.name] = _require_fitting(saved.path, variable, array, policy.cast, found.cast)
            else:
                whole = finder.whole_of_other_size(variable, piece)
                _note_missing(found, variable, whole if mismatching.may_keep_value(variable.name) else None)
        except _Unfitting as unfitting:
            _note_mismatch(found, variable, unfitting.error, mismatching)
    # After all variables, because any of them may be a slot of a mismatched variable.
    _leave_out_slots(graph, found)
    if policy.only is None:
        found.unused = sorted(saved.variables.keys() - {old for old, new in names.items() if new in finder.used})
    if not policy.partial:
        _require_all(saved.path, found)
    return found


def _variables_of(graph: Graph, only: Collection[str] | None) -> list[Variable]:
    """Return the variables of a graph, only of the given names if any."""
    variables = {v.name: v for v in graph.collections.get("variables", ())}
    return [v for name, v in variables.items() if only is None or name in only]


def _note_missing(found: Matched, variable: Variable, whole: str | None) -> None:
    """Record a variable without an array; as a mismatch if its whole was saved with another shape."""
    if whole is None:
        found.missing.append(variable.name)
    else:
        found.mismatched.append(Mismatch(variable.name, f"{variable.dtype}{variable.shape}", whole))


def _note_mismatch(found: Matched, variable: Variable, error: CheckpointError, mismatching: _Mismatching) -> None:
    """Record a variable whose array does not fit; raise the error unless the variable may keep its value."""
    if not mismatching.may_keep_value(variable.name):
        raise error from None
    found.mismatched.append(Mismatch(variable.name, str(error.wanted), str(error.got)))


def _leave_out_slots(graph: Graph, found: Matched) -> None:
    """Drop the optimizer slots of mismatched variables from all lists, whatever their shapes."""
    slots = _slots_of(graph) if found.mismatched else {}
    passed_over = {slot for each in found.mismatched for slot in slots.get(each.variable, ())}
    for name in passed_over:
        found.values.pop(name, None)
    # Slots follow their variable even if they fit: moments of other weights would be wrong for it.
    found.cast = [name for name in found.cast if name not in passed_over]
    found.missing = [name for name in found.missing if name not in passed_over]
    found.mismatched = [
        replace(each, slots=tuple(slots.get(each.variable, ())))
        for each in found.mismatched
        if each.variable not in passed_over
    ]


def _slots_of(graph: Graph) -> dict[str, list[str]]:
    """Return the names of the optimizer slots of each variable.

    A slot is untrained, and its name begins with its variable's. Values shared by all variables, such as Adam's powers
    of beta, are excluded although named after one variable: they have another shape, and the optimizer's other
    variables have no value of this kind.
    """
    variables: dict[str, Variable] = {v.name: v for v in graph.collections.get("variables", ())}
    owners: dict[str, dict[str, Variable]] = {}  # slots, by the rest of their names and by their variables
    users: dict[str, set[str]] = {}  # names of variables, by optimizer
    for name, variable in variables.items():
        # The innermost scope that is also the name of a variable: slots are named inside of their variable's name.
        owner = next((each for each in _scopes_around(name) if each in variables), None)
        if owner is not None and not variable.trainable:
            kind = name.removeprefix(owner)
            owners.setdefault(kind, {})[owner] = variable
            users.setdefault(kind.rpartition("/")[0], set()).add(owner)
    found: dict[str, list[str]] = {}
    for kind, slots in owners.items():
        # A value that an optimizer keeps for each of its variables is a slot of any shape; else the shape decides.
        is_of_each = len(slots) == len(users[kind.rpartition("/")[0]])
        for owner, slot in slots.items():
            if is_of_each or slot.shape == variables[owner].shape:
                found.setdefault(owner, []).append(slot.name)
    return found


def _scopes_around(name: str) -> Iterator[str]:
    """Yield the enclosing scopes of a name, innermost first."""
    while name := name.rpartition("/")[0]:
        yield name


def _apply_rename(name: str, rename: Rename) -> str | None:
    """Return the new name of a saved array, None if excluded; an exact key precedes prefixes."""
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


def _check_renamed(saved: Saved, rename: Rename) -> None:
    """Raise GraphError for a mapping that renames an unknown array; excluding unknown arrays is allowed."""
    if rename is None or callable(rename):
        return
    there = {*saved.variables, *saved.aliases, *(each.of for each in saved.slices.values())}
    for old, new in rename.items():
        is_there = old in there or (old.endswith("/") and any(name.startswith(old) for name in there))
        if new is not None and not is_there:
            raise GraphError(
                "rename= gives a name to an array that was not saved",
                wanted="the name of a saved array, or the beginning of some that ends in '/'",
                got=repr(old),
                hint=f"saved are {', '.join(sorted(there)[:8])}{', ...' if len(there) > 8 else ''}",
            )


def _renamed_slice(each: Slice, rename: Rename) -> Slice:
    return each._replace(of=_apply_rename(each.of, rename) or each.of)


def _by_new_name(saved: Saved, names: Mapping[str, str]) -> dict[str, UnreadArray]:
    """Return the saved arrays by their new names, which must differ."""
    arrays: dict[str, UnreadArray] = {}
    for old, new in names.items():
        if new in arrays:
            raise CheckpointError(
                "two saved arrays get one name", file=saved.path, variable=new, got=old, hint="change rename="
            )
        arrays[new] = saved.variables[old]
    return arrays


class _Finder:
    """Lookup of saved arrays for variables, whole or in other shards.

    Attributes
    ----------
    used : set of str
        Names of the found arrays.
    """

    def __init__(
        self, arrays: Mapping[str, UnreadArray], slices: Mapping[str, Slice], aliases: Mapping[str, str]
    ) -> None:
        self.used: set[str] = set()
        self._arrays = arrays
        self._slices = slices
        self._aliases = aliases  # names of arrays, by their names in a graph without shards
        self._wholes = wholes_of(slices)

    def find(self, name: str, piece: Slice | None, alias: str | None) -> UnreadArray | None:
        """Return the array of a variable or shard, assembled if saved in other shards; None if not saved."""
        others = alias, self._aliases.get(alias or name)
        for each in (name, *filter(None, others)):
            # The slice must be equal too: a shard of this name may have had other rows.
            if each in self._arrays and self._slices.get(each) == piece:
                self.used.add(each)
                return self._arrays[each]
        return self._assemble(name, piece)

    def _assemble(self, name: str, piece: Slice | None) -> UnreadArray | None:
        """Return a slice or whole assembled from saved slices or a saved whole; None if they do not suffice."""
        parts = self._saved_parts(name if piece is None else piece.of)
        sources = [(self._slice(each, piece), self._arrays[each]) for each in parts]
        if len({array.dtype for _, array in sources}) != 1:  # no source, or shards of different checkpoints' dtypes
            return None
        made = Assembled(piece or _all_of(sources[0][0]), sources)
        if not made.is_complete:
            return None
        self.used.update(parts)
        return made

    def whole_of_other_size(self, variable: Variable, piece: Slice | None) -> str | None:
        """Return dtype and shape of the saved whole, if they differ from the shape of the variable's whole."""
        parts = self._saved_parts(variable.name if piece is None else piece.of)
        if not parts:
            return None
        whole = self._slice(parts[0], piece)
        wanted = variable.shape if piece is None else Shape(piece.shape)
        if wanted.includes(Shape(whole.shape)):
            return None  # of the right shape, but saved incompletely
        self.used.update(parts)
        dtype = describe_array(self._arrays[parts[0]]).partition("[")[0]
        return f"{dtype}{Shape(whole.shape)} in {len(parts)} parts"

    def _saved_parts(self, whole: str) -> list[str]:
        return self._wholes.get(whole) or ([whole] if whole in self._arrays else [])

    def _slice(self, name: str, piece: Slice | None) -> Slice:
        """Return the Slice of a saved array; of all rows, if the array is a whole."""
        shape = self._arrays[name].shape
        axis = 0 if piece is None else piece.axis
        found = self._slices.get(name)
        return found or Slice(name, shape, axis, range(shape[axis] if axis < len(shape) else 0))


def _all_of(each: Slice) -> Slice:
    return each._replace(rows=range(each.shape[each.axis]))


def _require_fitting(path: str, variable: Variable, array: UnreadArray, cast: bool, noted: list[str]) -> UnreadArray:
    """Return an array that fits a variable; raise CheckpointError if a cast would fit, else _Unfitting."""
    wanted, got = f"{variable.dtype}{variable.shape}", describe_array(array)
    name = variable.name
    if not variable.shape.includes(Shape(array.shape)):
        raise _Unfitting(
            CheckpointError(
                "a saved array does not fit its variable",
                file=path,
                variable=name,
                wanted=wanted,
                got=got,
                hint=f"restore into a graph of the same sizes, or keep this variable as it is: on_mismatch=[{name!r}]",
            )
        )
    try:
        dtype = as_dtype(array.dtype)
    except DtypeError:
        dtype = None
    if dtype is variable.dtype:
        return array
    able = _is_castable(dtype, variable.dtype) if dtype else _is_small_float(array) and variable.dtype.is_floating
    if not able or not cast:
        error = CheckpointError(
            "a saved array has another dtype than its variable",
            file=path,
            variable=name,
            wanted=wanted,
            got=got,
            hint="restore it with cast=True" if able else "make the variable of that dtype, and cast where it is used",
        )
        # A cast that only needs permission is an error even with on_mismatch: silently kept values would surprise.
        raise error if able else _Unfitting(error)
    noted.append(name)
    assert variable.dtype.numpy is not None
    return _Cast(array, variable.dtype.numpy)


def _is_small_float(array: UnreadArray) -> bool:
    """Return True for floats of 8 bits or fewer, which other programs save, and no variable has."""
    return array.dtype in SMALL_FLOATS.values()


def _is_castable(old: DType, new: DType) -> bool:
    """Return True if a cast keeps the values' meaning: between floats, to complex, to larger integers."""
    if old.is_floating and (new.is_floating or new.is_complex):
        return True
    if old.is_complex and new.is_complex:
        return True
    if old.numpy is None or new.numpy is None:
        return False
    return old.is_numeric and new.is_numeric and np.can_cast(old.numpy, new.numpy)


def _require_all(path: str, found: Matched) -> None:
    """Raise CheckpointError if variables are missing in the file, or saved arrays are unused."""
    if found.missing or found.unused:
        raise CheckpointError(
            "a checkpoint does not have exactly the variables of the graph",
            file=path,
            variable=(found.missing or found.unused)[0],
            wanted=f"in the checkpoint too: {_join_names(found.missing)}" if found.missing else None,
            got=f"of no use in the graph: {_join_names(found.unused)}" if found.unused else None,
            hint="restore what there is with partial=True, or map differing names by rename=",
        )


def _join_names(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
