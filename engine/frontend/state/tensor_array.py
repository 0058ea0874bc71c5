"""TensorArray: an array of write-once tensors with differentiable reads and writes."""

from __future__ import annotations

from typing import Any

from ...base import dtypes
from ...base.dtypes import DType
from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.entry import public
from ...ir.graph import Graph
from ...ir.operation import Operation
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from ...ir.unused import must_be_used
from ...ops.control.placeholders import identity
from ...ops.state.tensor_array import operations as _operations  # noqa: F401  declares the operation types used below


class _Static:
    """Static properties of an array during graph construction; shared by all TensorArray objects of the same array."""

    def __init__(self, dtype: DType, element_shape: Shape, size: int | None, infer_shape: bool) -> None:
        self.dtype = dtype
        self.takes_any_dtype = False
        self.element_shape = element_shape
        self.size = size
        self.infer_shape = infer_shape

    def merge_element_shape(self, shape: Shape, value: Tensor) -> None:
        """Check the shape of an element before a write, and merge it into the element shape (rule 109)."""
        if not self.element_shape.is_compatible_with(shape):
            raise ShapeError(
                "an element does not fit the TensorArray it is written to",
                wanted=self.element_shape,
                got=shape,
                operation=value.op,
                hint="make the array with infer_shape=False if its elements differ in shape",
            )
        if self.infer_shape:
            self.element_shape = self.element_shape.merge(shape)


class TensorArray:
    """An array of tensors that live for one step.

    Each index is written at most once, and the array carries its own order: every write returns the array to use
    from then on. TensorArrays can be loop variables, and gradients of any order flow through them. Wrong use fails
    the step with a TensorArrayError.

    Parameters
    ----------
    dtype : dtype-like
        Dtype of the elements.
    size : int32 scalar, optional
        Number of elements. Without a size the array is empty, and grows as elements are written.
    dynamic_size : bool, optional
        True if a write past the end makes the array larger; by default True if `size` is None, else False.
    clear_after_read : bool, optional
        True if the first read of an element frees the element, so that a second read fails; default True.
    tensor_array_name : str, optional
        Name in messages.
    handle, flow : Tensor, optional
        Handle and flow of an existing array, instead of a new array.
    infer_shape : bool
        True if all elements must have the same shape, learnt from the writes.
    element_shape : sequence of int or None, optional
        Known dimensions of the elements' shape. Unwritten elements read as zeros once the shape is fully known.
    name : str, optional
        Name of the operation.

    Attributes
    ----------
    dtype : DType
        Dtype of the elements.
    handle : Tensor
        The resource tensor that names the array.
    flow : Tensor
        The float32 scalar that carries the order of its uses.

    Examples
    --------
    The squares of a vector's elements:

    >>> import numpy as np, tagloom as tg
    >>> @tg.function
    ... def squares(elems):
    ...     read = tg.TensorArray(dtype=elems.dtype).unstack(elems)
    ...     write = tg.TensorArray(dtype=elems.dtype, size=3)
    ...     body = lambda i, ta: (i + 1, ta.write(i, read.read(i) ** 2))
    ...     return tg.while_loop(lambda i, ta: i < 3, body, [0, write])[1].stack()
    >>> squares.sync(np.array([1, 2, 3]))
    array([1, 4, 9])
    """

    _is_leaf = True
    __slots__ = ("_static", "flow", "handle")
    handle: Tensor
    flow: Tensor

    @public
    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Tensor | None = None,
        flow: Tensor | None = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        name: str | None = None,
    ) -> None:
        self._static = _Static(dtypes.as_dtype(dtype), Shape(element_shape), None, infer_shape)
        if (handle is None) != (flow is None):
            raise GraphError(
                "a TensorArray needs both its handle and its flow",
                got="one of them",
                hint="give both, or neither",
            )
        if handle is not None and flow is not None:
            # An existing array: no operation is built, and its size is unknown here.
            self.handle, self.flow = handle, flow
            return
        dynamic = (size is None) if dynamic_size is None else dynamic_size
        count = convert_to_tensor(0 if size is None else size, dtypes.int32)
        if count.rank not in (0, None):
            raise ShapeError(
                "the size of a TensorArray is a scalar",
                wanted="[]",
                got=count.shape,
                operation=count.op,
                hint="take one element of it, as size[0]",
            )
        # An array that grows has no static size, whatever size it begins with.
        self._static.size = None if dynamic else _static_count(count)
        self.handle, self.flow = apply(
            "TensorArrayNew",
            count,
            name=name or tensor_array_name or "TensorArray",
            dtype=self.dtype,
            element_shape=self._static.element_shape,
            dynamic_size=dynamic,
            identical_shapes=infer_shape,
            # None means True, as in TensorFlow.
            clear_after_read=clear_after_read is not False,
            array_name=tensor_array_name or "",
        )

    @property
    def graph(self) -> Graph:
        """The array's graph."""
        return self.handle.graph

    @property
    def dtype(self) -> DType:
        """Dtype of the elements."""
        return self._static.dtype

    def of_first_written(self) -> TensorArray:
        """Return the array, with the dtype of the element written first during construction; its own dtype is a guess.

        Literals take the guess. Only the handle may have been built so far.
        """
        self._static.takes_any_dtype = True
        return self

    @property
    def element_shape(self) -> Shape:
        """Known dimensions of the elements' shape, from the declaration and the writes so far."""
        return self._static.element_shape

    def with_flow(self, flow: Tensor) -> TensorArray:
        """Return the same array at another point of its order.

        Parameters
        ----------
        flow : float32 scalar Tensor
            The flow of that point.

        Returns
        -------
        TensorArray
            With the same handle, dtype and element shape.
        """
        # Past __init__, because the static properties are shared by all objects of an array.
        array = TensorArray.__new__(TensorArray)
        array.handle, array.flow, array._static = self.handle, flow, self._static
        return array

    @public
    def identity(self) -> TensorArray:
        """Return the same array, its flow passed through an operation of the current region."""
        return self.with_flow(identity(self.flow))

    @public
    def read(self, index: Any, name: str | None = None) -> Tensor:
        """Read an element.

        Parameters
        ----------
        index : int32 or int64 scalar
            From 0 to size - 1.

        Returns
        -------
        Tensor
            Of the array's dtype and element shape.
        """
        return apply(
            "TensorArrayRead",
            self.handle,
            index,
            self.flow,
            # No shape: zeros in place of an element never written are for gradients only.
            [],
            name=name,
            dtype=self.dtype,
            element_shape=self.element_shape,
        )

    @public
    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """Write an element.

        Parameters
        ----------
        index : int32 or int64 scalar
            Not written before; past the end only if the size is dynamic.
        value : Tensor of the array's dtype
            The element.

        Returns
        -------
        TensorArray
            The array to use from now on.
        """
        tensor = self._convert_element(value)
        self._static.merge_element_shape(tensor.shape, tensor)
        return self._write_flow(name, "TensorArrayWrite", self.handle, index, tensor, self.flow)

    @public
    def stack(self, name: str | None = None) -> Tensor:
        """Read all elements, which must have one shape.

        Returns
        -------
        Tensor
            Of shape ``[size] + element shape``.
        """
        return self._stack_or_zeros([], name)

    def _stack_or_zeros(self, zeros: list[Tensor], name: str | None) -> Tensor:
        """Read all elements; `zeros` has the shape of the result, should there be none."""
        return apply(
            "TensorArrayStack",
            self.handle,
            self.flow,
            zeros,
            name=name,
            dtype=self.dtype,
            element_shape=self.element_shape,
            size=self._static.size,
        )

    def stack_or(self, shape: Tensor | None) -> Tensor:
        """Stack all elements; without elements the result has zero rows of `shape`, if given.

        Parameters
        ----------
        shape : int32 vector or None
            Shape of an element, for arrays whose element shape is not fully known.

        Returns
        -------
        Tensor
            Result of `stack`.
        """
        # A known element shape also determines the result of an empty array.
        if shape is None or self.element_shape.is_fully_known:
            return self.stack()
        count = apply("TensorArraySize", self.handle, self.flow)
        return self._stack_or_zeros([apply("Concat", [apply("ExpandDims", count, axis=0), shape], axis=0)], None)

    @public
    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """Write the rows of `value` to the indices 0, 1, ...

        Parameters
        ----------
        value : Tensor of the array's dtype, rank 1 or more
            Its first dimension is at most the array's size, unless the size is dynamic.

        Returns
        -------
        TensorArray
            The array to use from now on.
        """
        tensor = self._convert_rows(value)
        if self._static.size is not None and tensor.shape[0] is not None and tensor.shape[0] > self._static.size:
            raise ShapeError(
                "more rows than the TensorArray has elements",
                wanted=f"at most {self._static.size}",
                got=tensor.shape[0],
                operation=tensor.op,
                hint="make it larger, or with dynamic_size=True",
            )
        return self._write_flow(name, "TensorArrayUnstack", self.handle, tensor, self.flow)

    @public
    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """Read several elements, which must have one shape.

        Parameters
        ----------
        indices : int32 or int64 vector
            Each from 0 to size - 1.

        Returns
        -------
        Tensor
            Of shape ``[len(indices)] + element shape``.
        """
        return apply(
            "TensorArrayGather",
            self.handle,
            _convert_integers(indices),
            self.flow,
            [],
            name=name,
            dtype=self.dtype,
            element_shape=self.element_shape,
        )

    @public
    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """Write the rows of `value` to `indices`.

        Parameters
        ----------
        indices : int32 or int64 vector
            One index for each row.
        value : Tensor of the array's dtype, rank 1 or more
            The rows.

        Returns
        -------
        TensorArray
            The array to use from now on.
        """
        tensor = self._convert_rows(value)
        return self._write_flow(name, "TensorArrayScatter", self.handle, _convert_integers(indices), tensor, self.flow)

    @public
    def concat(self, name: str | None = None) -> Tensor:
        """Read all elements, joined along their first dimension; the other dimensions must be equal.

        Returns
        -------
        Tensor
            Of shape ``[sum of the first dimensions] + trailing dimensions``.
        """
        value, _ = apply(
            "TensorArrayConcat",
            self.handle,
            self.flow,
            [],
            name=name,
            dtype=self.dtype,
            element_shape=self.element_shape,
        )
        return value

    @public
    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """Write consecutive pieces of `value` to the indices 0, 1, ...

        Parameters
        ----------
        value : Tensor of the array's dtype, rank 1 or more
            Tensor to cut along its first dimension.
        lengths : int32 or int64 vector
            Length of each piece: as many as the size (unless dynamic), with the first dimension as sum.

        Returns
        -------
        TensorArray
            The array to use from now on.
        """
        tensor, counts = self._convert_element(value), _convert_integers(lengths)
        if counts.dtype is not dtypes.int32:
            counts = apply("Cast", counts, dtype=dtypes.int32)
        self._static.merge_element_shape(_piece_shape(tensor, counts), tensor)
        return self._write_flow(name, "TensorArraySplit", self.handle, tensor, counts, self.flow)

    @public
    def size(self, name: str | None = None) -> Tensor:
        """Return the number of elements, an int32 scalar."""
        return apply("TensorArraySize", self.handle, self.flow, name=name)

    @public
    def grad(self, source: str, flow: Tensor | None = None, name: str | None = None) -> TensorArray:
        """Return this array's gradient array for `source`, created when a step first asks for the array.

        The gradient array sums repeated writes, reads unwritten elements as zeros, and fixes this array's size (rule
        112).

        Parameters
        ----------
        source : str
            Names the gradient array.
        flow : float32 scalar Tensor, optional
            After the last write of this array; default is this array's flow.

        Returns
        -------
        TensorArray
            Same dtype and element shape.
        """
        order = self.flow if flow is None else flow
        handle, out = apply("TensorArrayGrad", self.handle, order, name=name, source=source)
        array = TensorArray(self.dtype, handle=handle, flow=out)
        # Gradients share what is learnt of the elements' shape from later writes.
        array._static = self._static
        return array

    @public
    def close(self, name: str | None = None) -> Operation:
        """Return an operation that frees the elements; later use is an error."""
        return apply("TensorArrayClose", self.handle, self.flow, name=name)

    def _write_flow(self, name: str | None, type: str, *inputs: Any) -> TensorArray:
        flow = apply(type, *inputs, name=name)
        # Order is in the flow alone: a write whose flow has no reader would be pruned silently.
        must_be_used(flow.op, name)
        return self.with_flow(flow)

    def _convert_element(self, value: Any) -> Tensor:
        if self._static.takes_any_dtype and hasattr(value, "dtype"):
            # The handle exists already, but nothing has used its dtype yet.
            self._static.dtype = self.handle.op.attrs["dtype"] = convert_to_tensor(value).dtype
        # The first write fixes the dtype.
        self._static.takes_any_dtype = False
        return convert_to_tensor(value, self.dtype)

    def _convert_rows(self, value: Any) -> Tensor:
        """Return a tensor to write by rows, after a check of the shape of its rows."""
        tensor = self._convert_element(value)
        if tensor.rank == 0:
            raise ShapeError(
                "rows of a scalar were asked for",
                wanted="rank 1 or more",
                got=tensor.shape,
                operation=tensor.op,
                hint="use write for one element",
            )
        self._static.merge_element_shape(tensor.shape[1:], tensor)
        return tensor

    def __repr__(self) -> str:
        return f"<TensorArray {self.handle.op.name} {self.dtype}{self.element_shape}>"


def _convert_integers(value: Any) -> Tensor:
    # An empty list has no integer dtype by itself.
    return constant([], dtypes.int32) if isinstance(value, (list, tuple)) and not value else convert_to_tensor(value)


def _static_count(count: Tensor) -> int | None:
    value = static_value(count)
    return None if value is None else int(value)


def _piece_shape(value: Tensor, lengths: Tensor) -> Shape:
    known = static_value(lengths)
    # Pieces of different lengths have no common first dimension.
    # An empty list of lengths has no first piece.
    equal = known is not None and known.size > 0 and (known == known.flat[0]).all()
    rest: Shape = value.shape[1:]
    return Shape([int(known.flat[0]) if equal and known is not None else None]) + rest
