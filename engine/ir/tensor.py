"""Symbolic tensors: the edges of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from ..base.dtypes import DType
from ..base.errors import GraphError, ShapeError
from ..base.public_names import load
from ..base.shapes import Shape
from .methods import ArrayMethods

if TYPE_CHECKING:
    import numpy as np

    from .graph import Graph
    from .operation import Operation
    from .region import Region


def _call_public(function: str, *arguments: Any) -> Tensor:
    result: Tensor = load(function)(*arguments)
    return result


def _apply_operation(type: str, *inputs: Any, **attrs: Any) -> Tensor:
    # Imported late, because `apply` itself imports this module.
    from .apply import apply

    return apply(type, *inputs, **attrs)


_NO_TRUTH = (
    "use cond(t, ...) or where(t, ...) to choose by it; for `and`, `or`, `not` write `&`, `|`, `~`, for `0 < t < 1` "
    "write `(0 < t) & (t < 1)`; `a is b` says whether two names are one tensor"
)


PART = "part of a variable"  # key of `_derived` for (variable, key) of a tensor made by indexing a variable


class Operators(ArrayMethods):
    """Python operators and slicing shared by tensors and variables, each building an operation."""

    __slots__ = ()
    if TYPE_CHECKING:

        def __hash__(self) -> int: ...
    else:
        # By identity, though __eq__ compares elementwise: dicts and sets compare identities first, and so find the key.
        __hash__ = object.__hash__
    op: Operation
    dtype: DType
    shape: Shape

    if not TYPE_CHECKING:  # a type checker would accept every attribute of a class with __getattr__

        def __getattr__(self, name: str) -> NoReturn:
            from .other_names import missing_attribute

            raise AttributeError(missing_attribute(type(self).__name__, name), name=name)

    def __bool__(self) -> NoReturn:
        self._refuse_conversion("has no truth value while the graph is built", _NO_TRUTH)

    def __iter__(self) -> NoReturn:
        self._refuse_conversion(
            "cannot be iterated over while the graph is built", "use unstack(t), map_fn or while_loop"
        )

    def __len__(self) -> NoReturn:
        self._refuse_conversion(
            "has no length while the graph is built", "use shape(t)[0], or t.shape[0] when it is known"
        )

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse_conversion("is not an array", "fetch it: await session.run(t); or use tagloom operations on it")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        from .numpy_protocol import apply_ufunc

        return apply_ufunc(self, ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> NoReturn:
        from .numpy_protocol import refuse_function

        refuse_function(self, function)

    def __float__(self) -> NoReturn:
        self._refuse_conversion("has no value while the graph is built", "fetch it: await session.run(t)")

    def __int__(self) -> NoReturn:
        self.__float__()

    def __index__(self) -> NoReturn:
        self.__float__()

    def __complex__(self) -> NoReturn:
        self.__float__()

    def __format__(self, spec: str) -> str:
        if spec:
            self._refuse_conversion("has no value to format while the graph is built", "fetch it: await session.run(t)")
        return str(self)

    def _refuse_conversion(self, what: str, hint: str) -> NoReturn:
        raise GraphError(f"a symbolic tensor {what}", got=repr(self), operation=self.op, hint=hint)

    def __add__(self, other: Any) -> Tensor:
        return _apply_operation("Add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _apply_operation("Add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return _apply_operation("Sub", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return _apply_operation("Sub", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return _apply_operation("Mul", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return _apply_operation("Mul", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return _apply_operation("RealDiv", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return _apply_operation("RealDiv", other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return _apply_operation("FloorDiv", self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return _apply_operation("FloorDiv", other, self)

    def __mod__(self, other: Any) -> Tensor:
        return _apply_operation("FloorMod", self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return _apply_operation("FloorMod", other, self)

    def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return other // self, other % self

    def __pow__(self, other: Any) -> Tensor:
        return _apply_operation("Pow", self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return _apply_operation("Pow", other, self)

    def __matmul__(self, other: Any) -> Tensor:
        from .products import product

        return product(self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        from .products import product

        return product(other, self)

    def __neg__(self) -> Tensor:
        return _apply_operation("Neg", self)

    def __pos__(self) -> Tensor:
        from .apply import convert_to_tensor

        return convert_to_tensor(self)

    def __abs__(self) -> Tensor:
        return _apply_operation("Abs", self)

    def __eq__(self, other: Any) -> Any:
        """Compare values elementwise; None equals no tensor, and ``is`` compares identities."""
        return NotImplemented if other is None else _apply_operation("Equal", self, other)

    def __ne__(self, other: Any) -> Any:
        return NotImplemented if other is None else _apply_operation("NotEqual", self, other)

    def __round__(self, ndigits: None = None) -> Tensor:
        if ndigits is not None:
            self._refuse_conversion("is rounded to whole numbers only", "scale it: round(t * 100.0) / 100.0")
        return _call_public("round", self)

    def __lt__(self, other: Any) -> Tensor:
        return _apply_operation("Less", self, other)

    def __le__(self, other: Any) -> Tensor:
        return _apply_operation("LessEqual", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return _apply_operation("Greater", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return _apply_operation("GreaterEqual", self, other)

    def __and__(self, other: Any) -> Tensor:
        return _apply_operation("LogicalAnd" if self.dtype.name == "bool" else "BitwiseAnd", self, other)

    def __rand__(self, other: Any) -> Tensor:
        return _apply_operation("LogicalAnd" if self.dtype.name == "bool" else "BitwiseAnd", other, self)

    def __or__(self, other: Any) -> Tensor:
        return _apply_operation("LogicalOr" if self.dtype.name == "bool" else "BitwiseOr", self, other)

    def __ror__(self, other: Any) -> Tensor:
        return _apply_operation("LogicalOr" if self.dtype.name == "bool" else "BitwiseOr", other, self)

    def __xor__(self, other: Any) -> Tensor:
        return _apply_operation("LogicalXor" if self.dtype.name == "bool" else "BitwiseXor", self, other)

    def __rxor__(self, other: Any) -> Tensor:
        return _apply_operation("LogicalXor" if self.dtype.name == "bool" else "BitwiseXor", other, self)

    def __invert__(self) -> Tensor:
        return _apply_operation("LogicalNot" if self.dtype.name == "bool" else "Invert", self)

    def __lshift__(self, other: Any) -> Tensor:
        return _apply_operation("LeftShift", self, other)

    def __rlshift__(self, other: Any) -> Tensor:
        return _apply_operation("LeftShift", other, self)

    def __rshift__(self, other: Any) -> Tensor:
        return _apply_operation("RightShift", self, other)

    def __rrshift__(self, other: Any) -> Tensor:
        return _apply_operation("RightShift", other, self)

    @property
    def ndim(self) -> int | None:
        """Number of dimensions, or None when unknown."""
        return self.shape.rank

    @property
    def T(self) -> Tensor:
        """The tensor with its dimensions in reverse order."""
        return _call_public("transpose", self)

    def astype(self, dtype: Any) -> Tensor:
        """Return the tensor converted to another dtype; see :func:`tagloom.cast` for `dtype`."""
        return _call_public("cast", self, dtype)

    def reshape(self, *shape: Any) -> Tensor:
        """Return the same elements in another `shape`: sizes, or a list or vector of sizes."""
        return _call_public("reshape", self, shape[0] if len(shape) == 1 else list(shape))

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        """Refuse: tensors are immutable."""
        self._refuse_conversion(
            "does not change",
            "t = tensor_scatter_update(t, [[0]], [value]) gives a tensor with another row 0, tensor_scatter_add "
            "adds to rows, where(mask, value, t) chooses elements; a Variable has scatter_update",
        )

    def __delitem__(self, key: Any) -> NoReturn:
        """Refuse: tensors are immutable."""
        self._refuse_conversion(
            "does not change", "concat([t[:i], t[i + 1 :]], 0) leaves out row i, boolean_mask several"
        )

    def __getitem__(self, key: Any) -> Tensor:
        from .apply import convert_to_tensor
        from .indexing import slice_tensor

        return slice_tensor(convert_to_tensor(self), key)


class Tensor(Operators):
    """An output of an operation: a value existing while a step runs.

    Python operators, slicing and NumPy broadcasting build further operations. A tensor has no value outside a
    step, so `bool`, `len`, `iter` and conversion to an array are refused with the construct to use instead.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     x = tg.placeholder("float32", [None, 4], name="x")
    ...     y = (x[:, ::2] + 1.0) / 2.0
    >>> x, y.shape, x.rank
    (<Tensor x:0 float32[?,4]>, Shape(None, 2), 2)
    """

    __slots__ = ("op", "index", "dtype", "shape", "_consumers", "_derived", "__weakref__")
    _is_leaf = True  # of nested structures
    if TYPE_CHECKING:

        def _fetched(self) -> np.ndarray[Any, Any]: ...  # see `typed.py`

    def __init__(self, op: Operation, index: int, dtype: DType, shape: Shape) -> None:
        self.op: Operation = op
        self.index: int = index
        self.dtype: DType = dtype
        self.shape: Shape = shape
        # A dict as a set with order: passes visit consumers in the same order in each run.
        self._consumers: dict[Operation, None] = {}
        self._derived: dict[str, Any] = {}  # facts and tensors computed once from this tensor, by key

    def assign(self, value: Any, name: str | None = None, *, ordered: bool = True) -> Tensor:
        """Replace the part of a variable denoted by the tensor, as in ``v[1:3].assign(x)``.

        Parameters
        ----------
        value : Tensor of the variable's dtype
            A tensor whose shape broadcasts to the shape of the part.
        name : str, optional
            Name of the operation.
        ordered : bool, optional
            As in `Variable.assign`.

        Returns
        -------
        Tensor
            The new value of the whole variable; run its ``op`` to update only.

        Raises
        ------
        GraphError
            If the tensor was not made by indexing a variable.
        """
        if PART not in self._derived:
            self._refuse_conversion("is no variable, and no part of one", "assign to a Variable v, or to v[1:3]")
        variable, key = self._derived[PART]
        updated: Tensor = variable.assign_part(key, value, name, ordered=ordered)
        return updated

    @property
    def name(self) -> str:
        """``operation:index``."""
        return f"{self.op.name}:{self.index}"

    @property
    def graph(self) -> Graph:
        """The graph of the tensor."""
        return self.op.graph

    @property
    def region(self) -> Region:
        """The region whose operations, and the operations of regions inside, may use the tensor."""
        return self.op.region

    @property
    def device(self) -> str:
        """The device requested for its operation."""
        return self.op.device

    @property
    def rank(self) -> int | None:
        """Number of dimensions, or None when unknown."""
        return self.shape.rank

    def consumers(self) -> list[Operation]:
        """Return the operations using the tensor as input."""
        return list(self._consumers)

    def set_shape(self, shape: Any) -> None:
        """Merge known dimensions into the static shape; ShapeError when they are contradictory."""
        try:
            self.shape = self.shape.merge(Shape(shape))
        except ShapeError as error:
            error.operation = error.operation or self.op
            raise

    def get_shape(self) -> Shape:
        """Return the static shape."""
        return self.shape

    def __reduce__(self) -> Any:
        return type(self.graph).get_tensor_by_name, (self.graph, self.name)  # see pickling.py

    def __repr__(self) -> str:
        return f"<Tensor {self.name} {self.dtype}{self.shape}>"
