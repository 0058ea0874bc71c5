"""Signatures of operations, written ``x: T, y: T -> z: T``.

A type is a dtype's name, a type variable (the same dtype for all its uses), ``T.real`` (the real type of a variable),
``@attr`` (taken from an attribute) or ``any`` (a dtype per value). ``*T`` takes a list, ``num*T`` declares as many
outputs as attribute `num` holds, ``*@attr`` an output for each dtype in attribute `attr`. Lists of one operation have
the same length.

Before a type, ``host`` marks a value in host memory wherever the operation runs: shapes, bounds and counts,
which determine allocations before anything is computed. All other values lie where the operation runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..base import dtypes
from ..base.dtypes import DType
from ..base.errors import DtypeError, GraphError


@dataclass(frozen=True, slots=True)
class Parameter:
    """An input or output: its name, type expression, whether a list, the attribute of its count, its memory."""

    name: str
    type: str
    many: bool = False
    count: str | None = None
    is_host: bool = False


@dataclass(frozen=True, slots=True)
class Signature:
    """Inputs and outputs of an operation type."""

    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    where: Mapping[str, tuple[DType, ...]]

    def group(self, arguments: Sequence[Any], operation: str) -> list[tuple[Parameter, Any]]:
        """Pair flat Python arguments (lists for variadic parameters) with parameters."""
        if len(arguments) != len(self.inputs):
            raise GraphError(
                f"{operation} takes {len(self.inputs)} inputs",
                got=len(arguments),
                wanted=[p.name for p in self.inputs],
                operation=operation,
                hint="give one argument for each; a variadic one is a list",
            )
        pairs: list[tuple[Parameter, Any]] = []
        for parameter, argument in zip(self.inputs, arguments, strict=True):
            pairs.extend((parameter, a) for a in argument) if parameter.many else pairs.append((parameter, argument))
        return pairs

    def flat(self, count: int) -> list[Parameter]:
        """Return the parameter of each of `count` inputs, with lists expanded."""
        # The count determines the length, since all lists of an operation have the same.
        lists = sum(p.many for p in self.inputs)
        length = (count - len(self.inputs) + lists) // max(lists, 1)
        return [p for p in self.inputs for _ in range(length if p.many else 1)]

    def check(self, pairs: Sequence[tuple[Parameter, DType]], operation: str) -> dict[str, DType]:
        """Bind the type variables to the dtypes of the inputs; DtypeError when they disagree."""
        bound: dict[str, DType] = {}
        for parameter, dtype in pairs:
            want = self.resolve(parameter.type, bound)
            if want is not None and want is not dtype:
                raise DtypeError(
                    f"{operation} was given mixed dtypes for '{parameter.name}'",
                    wanted=want,
                    got=dtype,
                    operation=operation,
                    hint=f"tagloom does not promote; use cast(..., '{want}')",
                )
            if want is None and parameter.type != "any":
                self._refuse_outside_domain(parameter, dtype, operation)
                bound[parameter.type] = dtype
        return bound

    def _refuse_outside_domain(self, parameter: Parameter, dtype: DType, operation: str) -> None:
        """Refuse a dtype outside the domain of a type variable."""
        allowed = self.where.get(parameter.type, dtypes.VALUES)
        if dtype not in allowed:
            raise DtypeError(
                f"{operation} is not defined for this dtype of '{parameter.name}'",
                wanted=" or ".join(d.name for d in allowed),
                got=dtype,
                operation=operation,
                hint="cast the value first",
            )

    def resolve(self, type_: str, bound: dict[str, DType]) -> DType | None:
        """Return the dtype of a type expression, or None while its variable is unbound."""
        if type_ in bound:
            return bound[type_]
        if type_.endswith(".real") and type_[:-5] in bound:
            return bound[type_[:-5]].real
        return _CONCRETE.get(type_)

    def is_variable(self, type_: str) -> bool:
        """True if a type expression is a type variable, bound by the inputs."""
        return type_ != "any" and type_ not in _CONCRETE and not type_.startswith("@") and "." not in type_

    def output_dtypes(self, bound: dict[str, DType], attrs: dict[str, Any]) -> list[DType]:
        """Return the dtype of every output."""
        result: list[DType] = []
        for parameter in self.outputs:
            # ``@dtype`` is the dtype held by the attribute `dtype`.
            if parameter.type.startswith("@"):
                value = attrs[parameter.type[1:]]
                result.extend(map(dtypes.as_dtype, value)) if parameter.many else result.append(dtypes.as_dtype(value))
                continue
            dtype = self.resolve(parameter.type, bound)
            assert dtype is not None, parameter
            result.extend([dtype] * (int(attrs[parameter.count]) if parameter.count else 1))
        return result


_CONCRETE = {d.name: d for d in dtypes.ALL}
# ``name: host count*type``, where `host`, `count` and ``*`` are optional; ``@`` begins the name of an attribute.
_PARAMETER = re.compile(r"^(\w+)\s*:\s*(host\s+)?(?:(\w*)(\*))?(@?\w+(?:\.real)?)$")


def parse_signature(text: str, where: Mapping[str, tuple[DType, ...]] | None = None) -> Signature:
    """Parse ``x: T, y: T -> z: T``."""
    left, _, right = text.partition("->")
    return Signature(_parse_parameters(left), _parse_parameters(right), where or {})


def _parse_parameters(text: str) -> tuple[Parameter, ...]:
    """Return the parameters on a side of a signature's text; ValueError for malformed text."""
    found = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        match = _PARAMETER.match(part)
        if match is None:
            raise ValueError(f"not a parameter: {part!r}")
        name, host, count, star, type_ = match.groups()
        found.append(Parameter(name, type_, bool(star), count or None, host is not None))
    return tuple(found)
