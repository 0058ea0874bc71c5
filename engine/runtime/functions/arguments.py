"""Arguments of traced functions: the tensors among them, and the keys by which calls share a trace."""

from __future__ import annotations

import array
import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...base import nest
from ...base.array_like import as_array
from ...base.containers import Registered, kind_of
from ...base.dtypes import as_dtype
from ...base.errors import DtypeError, GraphError, TagloomError
from ...base.shapes import Shape
from ...ir.apply import as_symbolic
from ...ir.tensor import Tensor
from ...ops.control.placeholders import placeholder

_BUFFERS = (memoryview, array.array)  # of Python's own, which NumPy reads
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.]+")


@dataclass(frozen=True)
class TensorSpec:
    """Shape and dtype of an argument, for the `input_signature` of a function.

    Parameters
    ----------
    shape : sequence of int or None
        None for dimensions that change from call to call; None alone for any shape.
    dtype : dtype-like, optional

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.TensorSpec([None, 3])
    float32[?,3]
    """

    shape: Any
    dtype: Any = "float32"
    _is_leaf = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", Shape(self.shape))
        object.__setattr__(self, "dtype", as_dtype(self.dtype))

    def __repr__(self) -> str:
        return f"{self.dtype}{self.shape}"


@dataclass
class Arguments:
    """The arguments of one call.

    Attributes
    ----------
    values : dict of str to object
        By parameter, in their order.
    key : tuple
        Equal for calls served by the same trace.
    leaves : list of array-like
        The tensors among the arguments, in order.
    symbolic : bool
        True if an argument belongs to a graph.
    constants : set of str
        Parameters whose values are constants of the trace: static arguments, and defaults of omitted parameters.
    """

    values: dict[str, Any]
    constants: set[str]
    key: tuple[Any, ...] = ()
    leaves: list[Any] = field(default_factory=list)
    symbolic: bool = False


class Parameters:
    """Parameters of a function, divided into tensors and constants.

    Parameters
    ----------
    function : callable
    input_signature : sequence of structures of TensorSpec, or None
        Specs of the first parameters.
    static_argnames : str or sequence of str
        Parameters whose values are constants of a trace.
    """

    def __init__(
        self, function: Callable[..., Any], input_signature: Sequence[Any] | None, static_argnames: str | Sequence[str]
    ) -> None:
        self._name = getattr(function, "__qualname__", repr(function)).rpartition("<locals>.")[2]
        self._signature = inspect.signature(function)
        names = list(self._signature.parameters)
        self._static = {static_argnames} if isinstance(static_argnames, str) else set(static_argnames)
        if unknown := self._static - set(names):
            raise GraphError(
                f"{self._name} has no parameter of this name",
                wanted=", ".join(names),
                got=", ".join(sorted(unknown)),
                hint="static_argnames names parameters of the function",
            )
        specs = [] if input_signature is None else list(input_signature)
        if len(specs) > len(names) or not all(isinstance(s, TensorSpec) for s in nest.flatten(specs)):
            raise GraphError(
                f"input_signature does not fit {self._name}",
                wanted=f"a TensorSpec, or a structure of them, for each of the first of {', '.join(names) or 'none'}",
                got=input_signature,
                hint="input_signature=[tagloom.TensorSpec([None, 3], 'float32')]",
            )
        self._specs: dict[str, Any] = dict(zip(names, specs))

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
        """Return the arguments of a call; TypeError, as in Python, if they do not fit the parameters."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise self._misfit_error(error, args, kwargs) from None
        given = set(bound.arguments)
        bound.apply_defaults()
        arguments = Arguments(bound.arguments, self._static | (bound.arguments.keys() - given))
        arguments.key = tuple(
            self._collect_argument(name, value, arguments) if name in given else _default_key(value)
            for name, value in bound.arguments.items()
        )
        return arguments

    def _misfit_error(self, error: TypeError, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TypeError:
        """Return an error with the function's signature and the types of the arguments passed."""
        given = [*(type(value).__name__ for value in args), *(f"{k}={type(v).__name__}" for k, v in kwargs.items())]
        wanted = f"{self._name}{self._signature.replace(return_annotation=inspect.Signature.empty)}"
        return TypeError(f"{self._name}: {error}\n  wanted: {wanted}\n  got: {self._name}({', '.join(given)})")

    def call(self, function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
        """Call a function with values for its parameters."""
        bound = inspect.BoundArguments(self._signature, dict(values))
        return function(*bound.args, **bound.kwargs)

    def placeholders(self, arguments: Arguments) -> tuple[dict[str, Any], list[Tensor]]:
        """Make a placeholder for each tensor leaf; return the arguments with placeholders inserted, and these."""
        made: list[Tensor] = []

        def stand_in(path: str, leaf: Any) -> Any:
            spec = _spec_of(leaf)
            if spec is None:
                return leaf
            made.append(placeholder(spec.dtype, spec.shape, name=_NOT_IN_NAMES.sub("_", path).strip("_")))
            return made[-1]

        values = {}
        for name, value in arguments.values.items():
            if name in arguments.constants:
                values[name] = value
            else:
                like = self._specs.get(name, value)
                leaves = [stand_in(name + path, leaf) for path, leaf in nest.walk(like)]
                values[name] = nest.pack_as(like, leaves)
        return values, made

    def describe(self, arguments: Arguments) -> dict[str, str]:
        """Return text for each argument: dtype and shape of tensors, the values of others."""
        found = {}
        for name, value in arguments.values.items():
            constant = name in arguments.constants
            for path, leaf in [("", value)] if constant else nest.walk(self._specs.get(name, value)):
                spec = None if constant else _spec_of(leaf)
                found[name + path] = repr(leaf if spec is None else spec)
        return found

    def _collect_argument(self, name: str, value: Any, arguments: Arguments) -> Any:
        if name in arguments.constants:
            return self._constant_key(name, value)
        if name in self._specs:
            arguments.leaves += self._leaves_in_spec_order(name, self._specs[name], value)
            arguments.symbolic = arguments.symbolic or as_symbolic(value)
            return None  # a single trace serves all values of the spec; the step's feeds check dtypes and shapes
        return self._key_of(name, value, arguments)

    def _key_of(self, name: str, value: Any, arguments: Arguments) -> Any:
        """Return the part of the key for a value without a spec, and collect its tensor leaves in `arguments`."""
        if type(value) is np.ndarray:  # the most frequent case, tested first
            arguments.leaves.append(value)
            return value.dtype, value.shape
        kind = kind_of(type(value))
        if kind is not None:
            parts = tuple([self._key_of(name, part, arguments) for part in kind.children(value)])
            metadata = kind.metadata(value)
            if isinstance(kind, Registered):  # a user's class may return unhashable metadata
                metadata = self._constant_key(f"the metadata of {name}", metadata)
            return type(value), metadata, parts
        if as_symbolic(value):
            arguments.symbolic = True
            return None
        try:
            spec = _spec_of(value)
        except TagloomError as error:
            error.add_note(f"it is argument {name} of {self._name}")
            raise
        if spec is None:
            return self._constant_key(name, value)
        arguments.leaves.append(value)
        return spec.dtype.numpy, spec.shape.as_tuple()

    def _constant_key(self, name: str, value: Any) -> Any:
        """Return the part of the key for a constant; DtypeError if awaitable, GraphError if unhashable."""
        if isinstance(value, Awaitable):
            raise DtypeError(
                f"argument {name} of {self._name} is not awaited",
                wanted="its result: an array, a number, or a constant",
                got=repr(value),
                hint=f"{self._name}(..., {name}=await ...)",
            )
        try:
            hash(value)
        except (TypeError, ValueError):
            raise GraphError(
                f"{self._name} cannot be traced with this value of {name}",
                wanted="an array, a number, a structure of them, or something hashable, which is a constant",
                got=f"an unhashable {type(value).__name__}",
                hint=f"give {name} as an array",
            ) from None
        return type(value), value  # with the type, because 1 equals True

    def _leaves_in_spec_order(self, name: str, spec: Any, value: Any) -> list[Any]:
        """Return an argument's leaves in the order of the spec's leaves; a list may take the place of an array."""
        parts = nest.children(spec)
        if parts is None:
            return [value]
        others = nest.children(value)
        if others is None or [label for label, _ in parts] != [label for label, _ in others]:
            raise GraphError(
                f"argument {name} of {self._name} has another structure than its input_signature",
                wanted=spec,
                got=type(value).__name__ if others is None else [label for label, _ in others],
                hint="give the structure that the signature has",
            )
        return [
            leaf
            for (label, part), (_, other) in zip(parts, others)
            for leaf in self._leaves_in_spec_order(name + label, part, other)
        ]


def _spec_of(leaf: Any) -> TensorSpec | None:
    """Return the spec of a tensor leaf; None for a constant. Of Python's own types only numbers are tensors."""
    if isinstance(leaf, TensorSpec):
        return leaf
    if isinstance(leaf, bool) or not (isinstance(leaf, (int, float, complex)) or _is_array(leaf)):
        return None
    array = as_array(leaf) if isinstance(leaf, (int, float, complex, *_BUFFERS)) else _as_numpy(leaf)
    return TensorSpec(array.shape, array.dtype)


def _default_key(value: Any) -> Any:
    """Return the key of an omitted parameter: equal to the key of the same value passed as a static argument.

    An unhashable default adds nothing to the key, because every call without the argument has the same default.
    """
    try:
        hash(value)
    except TypeError:
        return None
    return type(value), value


def _as_numpy(leaf: Any) -> np.ndarray[Any, Any]:
    """Convert another library's array to NumPy, for its dtype and shape; DtypeError if no conversion succeeds."""
    try:
        return np.asarray(leaf)
    except TagloomError:
        raise
    except (RuntimeError, TypeError, ValueError, BufferError):
        return as_array(leaf)  # by DLPack, or an error with a hint


def _is_array(leaf: Any) -> bool:
    known = isinstance(leaf, (np.ndarray, np.generic, *_BUFFERS))
    return known or (not isinstance(leaf, type) and (hasattr(leaf, "__array__") or hasattr(leaf, "__dlpack__")))


def describe_changes(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each difference between the descriptions of two calls."""
    for name, text in now.items():
        if before.get(name) != text:
            yield f"{name}: {text}" + (f" (was {before[name]})" if name in before else "")
    for name in before.keys() - now.keys():
        yield f"no {name} (was {before[name]})"
