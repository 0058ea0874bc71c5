"""Declaration of families of elementwise operations: an object declares a type and its public function."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from ...base import dtypes
from ...base.docstrings import Family, name_function, show_calls
from ...base.dtypes import DType
from ...ir import entry
from ...ir.apply import apply
from ...ir.definition import Kernel, NotDifferentiable, Sample, define
from ...ir.operation import Operation
from ...ir.rules.batching import Batch
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from .batching import batch_pointwise
from .common import broadcast_all, same_as, sum_to
from .shape_equality import BINARY, UNARY, keeps_shape
from .tangents import DIAGONAL
from .vectorizing.families import pointwise

F = TypeVar("F", bound=Callable[..., Any])


class Unary(Protocol):
    """A public function of one operand."""

    def __call__(self, x: Any, name: str | None = None) -> Tensor: ...


class Binary(Protocol):
    """A public function of two operands."""

    def __call__(self, x: Any, y: Any, name: str | None = None) -> Tensor: ...


_DTYPES = {
    dtypes.NUMERIC: "any numeric dtype",
    dtypes.DIFFERENTIABLE: "a floating or complex dtype",
    dtypes.FLOATING: "a floating dtype",
    dtypes.REAL: "an integer or floating dtype",
    dtypes.INTEGER: "an integer dtype",
    (*dtypes.NUMERIC, dtypes.string): "any numeric dtype, or string",
    dtypes.VALUES: "any dtype",
}
_RESULTS = {"T": "Of the same dtype", "bool": "Of dtype bool", "T.real": "Of the real dtype"}
_NAME = {"name": "str, optional\n    Name of the operation."}
_RAISES = {"DtypeError": "If an operand has another dtype."}


def is_sparse(x: Any) -> bool:
    """Return True for a SparseTensor; its module, in a higher layer, cannot be imported here."""
    return hasattr(x, "with_values") and hasattr(x, "dense_shape")


@dataclass(frozen=True)
class _Elementwise:
    """Declaration of an elementwise operation type and its public function.

    Attributes
    ----------
    type, function, summary : str
        The operation type, the name of its public function, and the first line of the function's docstring.
    kernel, samples, rules
        As in `define`.
    output : str
        Type expression of the result.
    examples : mapping of str to str, optional
        For the docstring: arguments, as a call is written, and Python's output of the result.
    """

    type: str
    function: str
    summary: str
    _: KW_ONLY
    kernel: Kernel
    samples: Sequence[Sample]
    output: str = "T"
    rules: Sequence[object] = ()
    examples: Mapping[str, str] | None = None

    def _publish(self, function: F, family: Family) -> F:
        """Set the name, module and docstring of the public function, and publish the function."""
        # Two frames up: the module of the declaration.
        function.__module__ = sys._getframe(2).f_globals["__name__"]
        shown = show_calls(self.function, self.examples) if self.examples else ""
        return entry.public(family.complete(name_function(function, self.function, self.summary), shown))


@dataclass(frozen=True)
class UnaryOperation(_Elementwise):
    """Declaration of an elementwise operation of one operand.

    Attributes
    ----------
    gradient : callable or NotDifferentiable
        ``gradient(x, y, g)`` returns the cotangent of the operand `x` from the result `y` and its cotangent `g`.
    where : tuple of DType
        Dtypes of the operand.
    on_host : bool
        Whether the operation, missing in CuPy, runs in host memory.
    keeps_zero : bool
        Whether 0 becomes 0: then the function accepts sparse tensors too.
    """

    _: KW_ONLY
    gradient: Callable[[Tensor, Tensor, Tensor], Tensor] | NotDifferentiable
    where: tuple[DType, ...] = dtypes.DIFFERENTIABLE
    on_host: bool = False
    keeps_zero: bool = False

    def declare_type(self) -> Unary:
        """Declare the type; return the public function ``function(x, name=None)``."""
        UNARY.add(self.type)
        memory, gradient = "host " if self.on_host else "", self.gradient
        define(
            self.type,
            f"x: {memory}T -> y: {memory}{self.output}",
            where={"T": self.where},
            shape=same_as(0),
            rules=[Batch(batch_pointwise), Vectorize(pointwise), DIAGONAL, *self.rules],
            kernel=self.kernel,
            samples=self.samples,
            gradient=gradient if isinstance(gradient, NotDifferentiable) else _unary_gradient(gradient),
        )
        type, keeps_zero = self.type, self.keeps_zero

        def public(x: Any, name: str | None = None) -> Tensor:
            # A function of the value 0 at 0 leaves all places without a value as they are.
            if keeps_zero and is_sparse(x):
                return x.with_values(apply(type, x.values, name=name))  # type: ignore[no-any-return]
            return apply(type, x, name=name)

        operand = f"Tensor{' or SparseTensor' if keeps_zero else ''} of {describe_dtypes(self.where)}"
        family = Family({"x": operand, **_NAME}, f"Tensor\n    {_RESULTS[self.output]} and its shape.", _RAISES)
        return self._publish(public, family)


@dataclass(frozen=True)
class BinaryOperation(_Elementwise):
    """Declaration of an elementwise operation of two broadcast operands.

    Attributes
    ----------
    gradient : callable or NotDifferentiable
        ``gradient(x, y, z, g)`` returns a cotangent of the broadcast shape for each operand, which is summed down to
        the operand's shape here.
    where : tuple of DType
        Dtypes of the operands.
    shape : callable
        As in `define`.
    """

    _: KW_ONLY
    gradient: Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]] | NotDifferentiable
    where: tuple[DType, ...] = dtypes.NUMERIC
    shape: Callable[[Operation], Any] = broadcast_all

    def declare_type(self) -> Binary:
        """Declare the type; return the public function ``function(x, y, name=None)``."""
        BINARY.add(self.type)
        type, gradient = self.type, self.gradient
        define(
            type,
            f"x: T, y: T -> z: {self.output}",
            where={"T": self.where},
            shape=self.shape,
            rules=[Batch(batch_pointwise), Vectorize(pointwise), *self.rules],
            kernel=self.kernel,
            gradient=gradient if isinstance(gradient, NotDifferentiable) else _binary_gradient(gradient),
            samples=self.samples,
        )

        def public(x: Any, y: Any, name: str | None = None) -> Tensor:
            return apply(type, x, y, name=name)

        operands = f"Tensor of {describe_dtypes(self.where)}\n    Same dtype; shapes broadcast."
        family = Family(
            {"x, y": operands, **_NAME}, f"Tensor\n    {_RESULTS[self.output]} and broadcast shape.", _RAISES
        )
        return self._publish(public, family)


def _unary_gradient(rule: Callable[..., Any]) -> Callable[[Operation, Tensor], list[Any]]:
    return lambda op, g: [rule(op.inputs[0], op.outputs[0], g)]


def _binary_gradient(rule: Callable[..., Any]) -> Callable[[Operation, Tensor], list[Any]]:
    def pull_back_binary(op: Operation, g: Tensor) -> list[Any]:
        x, y = op.inputs
        dx, dy = rule(x, y, op.outputs[0], g)
        # A SumTo only where the operand may have been broadcast.
        return [dx if keeps_shape(x, y) else sum_to(dx, x), dy if keeps_shape(y, x) else sum_to(dy, y)]

    return pull_back_binary


def describe_dtypes(where: tuple[DType, ...]) -> str:
    """Return the name of a group of dtypes in prose."""
    return _DTYPES.get(where) or "dtype " + " or ".join(d.name for d in where)


def keep_dtype(kernel: Kernel) -> Kernel:
    """Make a kernel return an array of its first operand's dtype, also for scalars and bfloat16."""

    @functools.wraps(kernel)
    def cast_result(xp: Any, x: Any, *rest: Any, **attrs: Any) -> Any:
        return xp.asarray(kernel(xp, x, *rest, **attrs), x.dtype)

    return cast_result


def make_samples(
    reference: Callable[..., Any],
    values: Any,
    complex_reference: Callable[..., Any] | None = None,
    complex_values: Any = (),
) -> list[Sample]:
    """Make samples in float64, and complex128, with results computed by a function of Python numbers.

    Parameters
    ----------
    reference, complex_reference : callable
        From Python numbers to a Python number.
    values, complex_values : sequence of number, or tuple of sequences (for several operands)
        The inputs.
    """
    samples = [_make_sample(reference, values, np.float64)]
    if complex_reference is not None:
        samples.append(_make_sample(complex_reference, complex_values, np.complex128))
    return samples


def _make_sample(reference: Callable[..., Any], values: Any, kind: Any) -> Sample:
    operands = values if isinstance(values, tuple) else (values,)
    return Sample([np.asarray(v, kind) for v in operands], np.vectorize(reference))
