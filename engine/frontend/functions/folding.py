"""Steps of higher-order functions: the user's function applied to an element, its results as tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from ...base import nest
from ...base.calling import call
from ...base.dtypes import DType, as_dtype
from ...base.errors import DtypeError, GraphError, LoopVariableError
from ...ir.apply import convert_to_tensor
from ...ir.tensor import Tensor
from ...ops.support.common import shape_of
from ..state.tensor_array import TensorArray
from ..tracing.function_scope import Attempts
from ..tracing.leaves import Retyped, dtype_to_begin_with, is_weak_leaf, to_tensor
from .elements import Elements, LoopOptions

Function = Callable[..., Any]


def fold_elements(fn: Function, source: Elements, initializer: Any, options: LoopOptions) -> Any:
    """Return the accumulated value after `fn` has consumed all elements of `source`."""
    start, first = source.start(initializer)

    def fold_next(k: Tensor, total: Any) -> Any:
        return k + 1, combine_element(fn, source, total, k)

    return source.loop(fold_next, start, (first,), options)[1]


def combine_element(fn: Function, source: Elements, total: Any, k: Tensor) -> Any:
    """Apply `fn` to the accumulated value and an element, and check the structure and dtypes of the result."""
    result = call(fn, [total, source.read(k)], f"the function of {source.function}")
    difference = nest.difference(total, result)
    if difference:
        raise LoopVariableError(
            "the function returns another structure than the accumulated value has",
            got=difference,
            wanted="the structure of the initializer",
            hint="return what the function was given as its first argument",
        )
    leaves = zip(nest.flatten(total), nest.flatten_as(total, result), strict=True)
    # A weak accumulated value takes the new dtype at once; the loop or the scan then begins again with the dtype.
    return nest.pack_as(total, [to_tensor(leaf, dtype_to_begin_with(old, leaf) or old.dtype) for old, leaf in leaves])


def write_all(arrays: list[TensorArray], index: Any, values: Any) -> list[TensorArray]:
    """Return arrays with the leaves of `values` written at an index, a leaf to each array."""
    return [a.write(index, v) for a, v in zip(arrays, nest.flatten(values), strict=True)]


def check_mapped_results(results: Any, kinds: Any) -> list[Tensor]:
    """Return the tensors of a result of map_fn's function, checked against the expected dtypes."""
    difference = nest.difference(kinds, results, outer=False)
    if difference:
        raise GraphError(
            "the function of map_fn returns another structure than expected",
            wanted="that of dtype",
            got=difference,
            hint="pass dtype= with the structure and dtypes that it returns (those of elems by default)",
        )
    pairs = zip(map(as_dtype, nest.flatten(kinds)), nest.flatten_as(kinds, results), strict=True)
    tensors = [(dtype, to_tensor(leaf, dtype)) for dtype, leaf in pairs]
    for dtype, tensor in tensors:
        if tensor.dtype is not dtype:
            raise DtypeError(
                "the function of map_fn returns another dtype than expected",
                wanted=dtype,
                got=tensor.dtype,
                operation=tensor.op,
                hint=f"pass dtype='{tensor.dtype}', or cast the result",
            )
    return [tensor for _, tensor in tensors]


def build_scan(fn: Function, source: Elements, initializer: Any, infer_shape: bool, options: LoopOptions) -> Any:
    """Build the loop of a scan, repeatedly while literals of the initializer must begin in another dtype."""
    start, first = source.start(initializer)
    attempts = Attempts()
    while True:
        try:
            with attempts.open_attempt() if any(map(is_weak_leaf, nest.flatten(first))) else nullcontext():
                # Only weak initializers can cause another attempt, which must find the variables of the first.
                return _build_scan(fn, source, start, first, infer_shape, options)
        except Retyped as found:
            first = _change_dtypes(first, found.dtypes)


def _build_scan(fn: Function, source: Elements, start: int, first: Any, infer_shape: bool, options: LoopOptions) -> Any:
    """Build the loop of a scan; raise Retyped if literals in `first` must begin in another dtype, with other arrays."""
    typed = [convert_to_tensor(leaf) for leaf in nest.flatten(first)]
    # The arrays' dtypes are fixed here, so that another dtype of a literal requires another scan.
    arrays = [
        # Results have the shape of the accumulated value, unless the caller expects changes.
        TensorArray(t.dtype, source.count, infer_shape=infer_shape, element_shape=t.shape if infer_shape else None)
        for t in typed
    ]
    # Without an initializer the first element is also the first result.
    if start:
        arrays = write_all(arrays, source.index_of(0), first)

    def scan_next(k: Tensor, total: Any, arrays: list[TensorArray]) -> Any:
        combined = combine_element(fn, source, total, k)
        pairs = zip(nest.flatten(total), nest.flatten(combined), strict=True)
        dtypes = {i: dtype_to_begin_with(old, new) for i, (old, new) in enumerate(pairs)}
        retyped = {i: dtype for i, dtype in dtypes.items() if dtype is not None}
        if retyped:
            raise Retyped(retyped)
        return k + 1, combined, write_all(arrays, source.index_of(k), combined)

    _, _, arrays = source.loop(scan_next, start, (first, arrays), options)
    return nest.pack_as(first, [a.stack_or(shape_of(t)) for a, t in zip(arrays, typed, strict=True)])


def _change_dtypes(first: Any, wanted: Mapping[int, DType]) -> Any:
    """Return an initializer with other dtypes of some leaves, literals or weak tensors."""
    leaves = nest.flatten(first)
    for i, dtype in wanted.items():
        leaves[i] = convert_to_tensor(leaves[i], dtype)
    return nest.pack_as(first, leaves)
