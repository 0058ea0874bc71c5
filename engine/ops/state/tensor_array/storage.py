"""Storage of a TensorArray during a step: elements written once, or summed in gradient arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from ....base.dtypes import DType, as_dtype
from ....base.resources import Resource
from ....base.shapes import Shape
from ....kernels.cpu.elements import Element, Elements
from ....kernels.memory.swappable import SwappableArray
from ...support.context import KernelContext, Wait
from .element_blocks import Blocks
from .element_rules import ANY_ELEMENTS, ElementRules, array_error, describe_instance
from .element_sums import Addend, ElementSums
from .joined_arrays import concatenated_with_lengths, join_values, not_read_if_refused, stack_values, values_at

Array = np.ndarray[Any, Any]


class ArrayStorage(Elements, Resource):
    """The elements of a TensorArray, or (with a primal) of a gradient array of the primal.

    A gradient array sums repeated writes, allows repeated reads, reads as zeros where nothing was written, and takes
    its size and element shapes from its primal when they are needed (rule 111). Gradient arrays of ``gradients()`` grow
    as they are written: the forward operations have already checked the same indices. A gradient array may also be made
    without its primal (with `sums`), if each read brings the shape of zeros.
    """

    __slots__ = (
        "adds",
        "blocks",
        "cursor",
        "dynamic_size",
        "element_shape",
        "element_type",
        "frozen",
        "gradients",
        "identical_shapes",
        "name",
        "primal",
        "sums",
        "whole",
        "xp",
    )

    def __init__(
        self,
        dtype: DType,
        size: int,
        rules: ElementRules = ANY_ELEMENTS,
        *,
        name: str = "TensorArray",
        primal: ArrayStorage | None = None,
        xp: Any = np,
    ) -> None:
        self.xp: Any = xp  # library of the elements' arrays
        self.sums: ElementSums | None = None  # None until an element is written again
        self.element_type: DType = dtype
        self.dtype: Any = dtype.numpy
        self.name: str = name
        self.element_shape = rules.element_shape
        self.dynamic_size: bool = rules.dynamic_size
        self.clear_after_read = rules.clear_after_read
        self.identical_shapes: bool = rules.identical_shapes
        self.primal: ArrayStorage | None = primal
        self.adds: bool = rules.sums or primal is not None
        self.swapper, self.swappable = None, False
        self.cursor: int = -1  # last read element that may be off the device
        self.blocks: dict[int, Blocks] = {}  # by the number of rows per block
        self.gradients: dict[str, ArrayStorage] = {}
        self.any_shape = rules.element_shape.rank is None and not rules.identical_shapes
        self.exact = rules.element_shape.as_tuple() if rules.element_shape.is_fully_known else None
        self.frozen: bool = False
        self.closed = False
        self.whole: Any = None  # array whose rows are the elements, if not NumPy's
        self.begin(size)

    @property
    def size(self) -> int:
        """Number of elements; for a gradient array at least the size of the primal."""
        return self.count if self.primal is None else max(self.count, self.primal.size)

    @property
    def label(self) -> str:
        """Label in error messages."""
        return f"elements of {self.name}"

    async def aclose(self) -> None:
        """Free the elements at the end of the step."""
        self.close()

    def gradient(self, source: str | None, context: KernelContext, any_shape: bool = False) -> ArrayStorage:
        """Return a new gradient array, or the gradient array named `source`; naming freezes the size (rule 112).

        With `any_shape` its elements have dimensions that those of this array lack (see `engine/vectorize`).
        """
        self._check_open(context)
        if source is not None and source in self.gradients:
            return self.gradients[source]
        made = ArrayStorage(
            self.element_type,
            0 if source is None else self.size,
            ElementRules(
                Shape(None) if any_shape else self.element_shape, dynamic_size=source is None, clear_after_read=False
            ),
            name=f"{self.name}@{source or 'gradient'}",
            primal=self,
            xp=self.xp,
        )
        context.step.resources.add_to_step(context.step.number, made)
        if source is not None:
            self.gradients[source] = made
            self.frozen = True
        return made

    def close(self) -> None:
        """Free the elements; later use is an error (rule 114)."""
        self.closed, self.whole = True, None
        self.begin(0)
        self.blocks = {}
        self.gradients = {}

    def write(self, index: int, value: Any, context: KernelContext) -> Wait | None:
        """Write an element once, or add to a gradient array (rule 105); return the wait for a sum in a thread."""
        return self.write_all([(index, value)], context)

    def write_all(self, pairs: Iterable[tuple[int, Any]], context: KernelContext) -> Wait | None:
        """Write several elements, given with their indices; return the wait for sums in a thread, if any."""
        addends = [each for index, value in pairs if (each := self._put_element(index, value, context)) is not None]
        if not addends:
            return None
        self.sums = self.sums or ElementSums(self.xp)
        return self.sums.add(addends, context)

    def _put_element(self, index: int, value: Any, context: KernelContext) -> Addend | None:
        """Write an element for the first time; for a repeated write return the addend."""
        index, array = int(index), value if hasattr(value, "shape") else np.asarray(value)
        element = self._element_slot(index, context, grow=True)
        self._check_value(index, array, context)
        if element.reader is None and element.shape is None:
            element.value = self.swapper.entry_for(array) if self.swappable else array
            element.shape = array.shape
            element.writer = (context.operation, context.iteration)
            return None
        if element.reader is not None or not self.adds:
            self._refuse_write(index, element, context)
        self._check_sum(index, element, array, context)
        return element, array

    def may_grow(self) -> bool:
        """Return True if elements may be written after the last element."""
        return self.dynamic_size and not self.frozen

    def most_elements(self, wanted: int) -> int:
        """Return the number of elements found, or likely made, by a loop of about `wanted` iterations."""
        return max(self.size, wanted) if self.may_grow() else self.count

    def likely_shape(self) -> tuple[int, ...] | None:
        """Return the shape of later elements, as far as earlier ones tell, or None."""
        known = self.written_shape() if self.exact is None else self.exact
        return self.primal.likely_shape() if known is None and self.primal is not None else known

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Return True if values of this shape may be written."""
        return shape == self.exact or self.element_shape.includes(Shape(shape))

    def begin_writing(self, size: int, shape: tuple[int, ...]) -> None:
        """Make room for `size` elements, some of which will be written with values of this shape."""
        self._make_room(size)
        if self.identical_shapes and self.exact is None:
            self.element_shape, self.exact = Shape(shape), shape

    def read(self, index: int, context: KernelContext, zeros: Sequence[int] | None = None, *, wait: bool = True) -> Any:
        """Read an element, and clear it if the array clears after reads (rules 107 and 108).

        Of an element perhaps off the device return the future of its array, or without `wait` its SwappableArray.
        """
        index = int(index)
        element = self._element_slot(index, context, grow=self.adds)
        if element.value is None and element.shape is not None:
            raise array_error(
                f"{self._describe_index(index)} was already read, and cleared by that read",
                context,
                got=f"first read by {describe_instance(element.reader)}",
                hint="make the array with clear_after_read=False",
            )
        value = element.value
        if isinstance(value, SwappableArray) and wait:
            value = self._fetch_element(index)
        if element.reader is None:
            element.reader = (context.operation, context.iteration)
        if value is None:
            return self._zeros_of_element(index, zeros, context)
        if self.clear_after_read:
            element.value = None
        return value

    def at(self, index: int) -> Any:
        """Return the array of an element, the SwappableArray of an element perhaps off the device, or None."""
        return self.elements[index].value if 0 <= index < self.count else None

    def keeps_on_host(self, rows: Array) -> bool:
        """Return True if rows stay in host memory until they are read."""
        return self.swapper is not None and self.swapper.keeps_on_host(rows)

    def wrap_host_rows(self, rows: Array) -> None:
        """Wrap the elements, rows of an array in host memory, to enter the device's memory on reading."""
        if self.keeps_on_host(rows):
            for element in self.elements[: len(rows)]:
                element.value = self.swapper.wrap_host_row(element.value)
            for blocks in self.blocks.values():
                blocks.parts = [self.swapper.wrap_host_row(part) for part in blocks.parts]

    def cut(self, rows: Array, count: int) -> None:
        """Make the elements, rows of an array, readable in blocks of `count` too."""
        self.blocks[count] = Blocks(rows, count)

    def read_block(self, index: int, count: int, context: KernelContext) -> Any:
        """Return an element's block of `count` rows, or the future of the block."""
        self._element_slot(index, context, grow=False)
        blocks = self.blocks[count]
        block = blocks.at(index // count)
        if isinstance(block, SwappableArray):
            array, coming = self.swapper.read(blocks, index // count, False)
            return coming if array is None else array
        return block

    def row_of(self, block: Any, index: int, context: KernelContext, *, count: int, reads: bool) -> Any:
        """Return an element's row of a block, or of a block's result; with `reads` the element counts as read."""
        if reads:
            self.read(index, context, wait=False)
        else:
            self._element_slot(index, context, grow=False)
        return block[index % count, ...]

    def _fetch_element(self, index: int) -> Any:
        array, coming = self.swapper.read(self, index, self.clear_after_read)
        return coming if array is None else array

    def read_many(self, indices: Any, context: KernelContext, zeros: Sequence[int] | None = None) -> list[Any]:
        """Read several elements, arrays or SwappableArrays; `zeros` is the shape of their stack, rows first."""
        values: list[Any] = self.read_many_quickly(indices, context.operation, context.iteration)
        rest = indices[len(values) :]
        return values + [self.read(i, context, None if zeros is None else zeros[1:], wait=False) for i in rest]

    def stack(self, indices: Any, context: KernelContext, zeros: Sequence[int] | None, static: Shape) -> Any:
        """Read several elements as rows of an array (rule 110); return the array or an awaitable."""
        put_back = values_at(self.elements, indices)
        with not_read_if_refused(put_back):
            values = self.read_many(indices, context, zeros)
            if values:
                self._check_equal(indices, values, context)
                return join_values(partial(stack_values, self.xp), values, put_back, context)
        shape = static if zeros is None else Shape(zeros[1:])
        shape = shape if shape.is_fully_known else self.element_shape
        if not shape.is_fully_known:
            raise array_error(
                f"no elements of TensorArray '{self.name}' can be stacked without a known element shape",
                context,
                wanted="a fully known element shape",
                got=shape,
                hint="give the array an element_shape",
            )
        return self.xp.zeros((0, *shape.as_tuple()), self.dtype)

    def write_rows(self, indices: Any, rows: Array, context: KernelContext) -> Wait | None:
        """Write the rows of an array to several elements (rule 110); return the wait for sums in a thread."""
        rows = rows if self.keeps_on_host(rows) else self.xp.asarray(rows)
        if rows.ndim == 0 or len(rows) != len(indices):
            raise array_error(
                f"TensorArray '{self.name}' needs one row for each index",
                context,
                wanted=f"{len(indices)} rows",
                got=f"shape {list(rows.shape)}",
                hint="slice the rows, or give an index for each",
            )
        self._learn_of_none(rows, Shape(rows.shape[1:]))
        done = 0
        if isinstance(indices, range):
            self._make_room(len(indices))
            self._check_open(context)
            if len(rows) and rows.dtype == self.dtype and isinstance(rows, np.ndarray):
                if rows.shape[1:] != self.exact:
                    self._check_value(0, rows[0, ...], context)
                done = self.write_rows_quickly(rows, context.operation, context.iteration)
                if done == len(rows):
                    return None
            is_whole = len(rows) == self.count and not self.adds and not isinstance(rows, np.ndarray)
            self.whole = rows if is_whole else None
        # With the Ellipsis rows are arrays; rows[k] alone might be a Python string.
        return self.write_all(((indices[k], rows[k, ...]) for k in range(done, len(rows))), context)

    def _learn_of_none(self, rows: Any, shape: Shape) -> None:
        """Keep the element shape of an empty array of rows, so that stacking no elements restores its shape."""
        if not len(rows) and self.identical_shapes and self.element_shape.is_compatible_with(shape):
            self.element_shape = self.element_shape.merge(shape)

    def concat(self, like: Sequence[Any], context: KernelContext, static: Shape) -> Any:
        """Read all elements joined along their first dimension, and their lengths (rule 110), or an awaitable."""
        put_back = values_at(self.elements, range(self.size))
        with not_read_if_refused(put_back):
            if like:
                shape, lengths = like
                values = [self.read(i, context, (n, *shape[1:]), wait=False) for i, n in enumerate(lengths)]
            else:
                values = self.read_many(range(self.size), context)
            if not values:
                return self._empty_concatenation(like, context, static), np.zeros(0, np.int32)
            self._check_concat(values, context)
            return join_values(partial(concatenated_with_lengths, self.xp), values, put_back, context)

    def split(self, value: Array, lengths: Any, context: KernelContext) -> Wait | None:
        """Write consecutive pieces of `value` of these lengths (rule 110); return the wait for sums in a thread."""
        value, lengths = self.xp.asarray(value), np.asarray(lengths)
        if lengths.ndim != 1 or (lengths < 0).any():
            raise array_error(
                f"split of TensorArray '{self.name}' needs a vector of lengths",
                context,
                wanted="non-negative integers of shape [n]",
                got=lengths.tolist(),
                hint="compute them from shapes, as shape(t)[0]",
            )
        if value.ndim == 0 or lengths.sum() != len(value):
            raise array_error(
                f"the lengths of a split of TensorArray '{self.name}' do not sum to the first dimension",
                context,
                wanted=f"a sum of {len(value)}" if value.ndim else "a value of rank 1 or more",
                got=int(lengths.sum()),
                hint="slice the value, or give a length for each row that is left",
            )
        if not self.dynamic_size and len(lengths) != self.size:
            raise array_error(
                f"split needs as many lengths as TensorArray '{self.name}' has elements",
                context,
                wanted=self.size,
                got=len(lengths),
                hint="make the array of that size, or with dynamic_size=True",
            )
        self._learn_of_none(lengths, Shape([None, *value.shape[1:]]))
        ends = np.cumsum(lengths)
        pieces = (value[end - length : end] for end, length in zip(ends, lengths, strict=True))
        return self.write_all(enumerate(pieces), context)

    def _element_slot(self, index: int, context: KernelContext, *, grow: bool) -> Element:
        """Return an element, made first if the array may grow; TensorArrayError if the index is out of bounds."""
        self._check_open(context)
        if index >= self.count and grow and self.dynamic_size:
            self._grow_to(index, context)
        if not 0 <= index < self.count:
            raise array_error(
                f"index {index} of TensorArray '{self.name}' is out of bounds",
                context,
                wanted=f"0 <= index < size {self.size}",
                got=index,
                hint="count from 0" if index < 0 else "make it larger, or with dynamic_size=True",
            )
        return self.elements[index]

    def _make_room(self, size: int) -> None:
        if self.dynamic_size and not self.frozen and not self.closed:
            self.grow(size)

    def _grow_to(self, index: int, context: KernelContext) -> None:
        """Make an array of dynamic size long enough for an index; TensorArrayError if its size is frozen."""
        if self.frozen:
            raise array_error(
                f"TensorArray '{self.name}' cannot grow to index {index}: a gradient array fixed its size {self.size}",
                context,
                hint="write all elements before calling grad",
            )
        self.grow(index + 1)

    def _check_sum(self, index: int, element: Element, array: Array, context: KernelContext) -> None:
        """Refuse an addend of another shape than the element."""
        if element.value is None or array.shape != element.shape:
            raise array_error(
                f"{self._describe_index(index)} sums writes of one shape only",
                context,
                wanted=list(element.shape or ()),
                got=list(array.shape),
                hint="write values of one shape to each index",
            )

    def _refuse_write(self, index: int, element: Element, context: KernelContext) -> NoReturn:
        """Raise the error about a second write, or a write after a read, naming both operations."""
        written = element.shape is not None and not self.adds
        verb, first = ("written", element.writer) if written else ("read", element.reader)
        now = describe_instance((context.operation, context.iteration))
        raise array_error(
            f"{self._describe_index(index)} has already been {'written to' if written else 'read'}",
            context,
            wanted="one write to each index, before it is read",
            got=f"first {verb} by {describe_instance(first)}, now written by {now}",
            hint="write to another index; order is carried by the array that write returns",
        )

    def _check_value(self, index: int, array: Array, context: KernelContext) -> None:
        """Refuse another dtype or shape; the first value of an array of identical shapes sets the shape."""
        if array.dtype != self.dtype:
            raise array_error(
                f"{self._describe_index(index)} was given another dtype",
                context,
                wanted=self.element_type,
                got=as_dtype(array.dtype),
                hint=f"use cast(..., '{self.element_type}')",
            )
        if array.shape == self.exact:
            return
        shape = Shape(array.shape)
        if not self.element_shape.includes(shape):
            raise array_error(
                f"{self._describe_index(index)} was given another shape",
                context,
                wanted=self.element_shape,
                got=shape,
                hint="make the array with infer_shape=False if its elements differ in shape",
            )
        if self.identical_shapes:
            self.element_shape, self.exact = shape, shape.as_tuple()

    def _zeros_of_element(self, index: int, zeros: Sequence[int] | None, context: KernelContext) -> Array:
        """Return the zeros of an unwritten element; TensorArrayError if its shape is unknown."""
        shape = Shape(None if zeros is None else [int(d) for d in zeros])
        if self.primal is not None and not shape.is_fully_known:
            shape = self.primal.shape_at(index)
        shape = shape if shape.is_fully_known else self.element_shape
        if not shape.is_fully_known:
            raise array_error(
                f"could not read {self._describe_index(index)}: it was never written, and its shape is not known",
                context,
                wanted="a written element, or a fully known element shape",
                got=shape,
                hint="write it first, or give the array an element_shape",
            )
        default: Array = self.xp.zeros(shape.as_tuple(), self.dtype)
        return default

    def shape_at(self, index: int) -> Shape:
        """Return the shape of an element, cleared or not, as far as known."""
        known = self.elements[index].shape if index < self.count else None
        if known is None and self.primal is not None:
            return self.primal.shape_at(index)
        return self.element_shape if known is None else Shape(known)

    def _empty_concatenation(self, like: Sequence[Any], context: KernelContext, static: Shape) -> Array:
        """Return the concatenation of no elements; TensorArrayError if the element shape is unknown."""
        shape = Shape(like[0][1:]) if like else static.merge(self.element_shape)[1:]
        if not shape.is_fully_known:
            raise array_error(
                f"no elements of TensorArray '{self.name}' can be joined without a known element shape",
                context,
                got=self.element_shape,
                hint="give the array an element_shape",
            )
        empty: Array = self.xp.zeros((0, *shape.as_tuple()), self.dtype)
        return empty

    def _check_equal(self, indices: Any, values: list[Any], context: KernelContext) -> None:
        """Refuse to stack elements of different shapes."""
        if len({value.shape for value in values}) == 1:
            return
        for index, value in zip(indices, values, strict=True):
            if value.shape != values[0].shape:
                raise array_error(
                    f"elements of TensorArray '{self.name}' differ in shape and cannot be stacked",
                    context,
                    wanted=list(values[0].shape),
                    got=f"{list(value.shape)} at index {int(index)}",
                    hint="use concat",
                )

    def _check_concat(self, values: list[Any], context: KernelContext) -> None:
        """Refuse to join scalars, or elements that differ in other dimensions than the first."""
        for index, value in enumerate(values):
            if len(value.shape) == 0 or value.shape[1:] != values[0].shape[1:]:
                raise array_error(
                    f"elements of TensorArray '{self.name}' cannot be joined along their first dimension",
                    context,
                    wanted="rank 1 or more, and equal trailing dimensions",
                    got=f"{list(value.shape)} at index {index}",
                    hint="use stack for elements of one shape",
                )

    def _check_open(self, context: KernelContext) -> None:
        if self.closed:
            raise array_error(
                f"TensorArray '{self.name}' was used after it was closed",
                context,
                hint="let close wait for the last use with control_dependencies",
            )

    def _describe_index(self, index: int) -> str:
        return f"index {index} of TensorArray '{self.name}' (size {self.size})"
