"""Make operations: convert inputs, check dtypes and scope, infer shapes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ..base import dtypes
from ..base.array_like import as_array, as_asked_array, as_fed_array
from ..base.device_names import merge_devices
from ..base.dtypes import DType
from ..base.errors import DtypeError, GraphError, ShapeError, TagloomError
from ..base.shapes import Shape
from ..base.source_lines import user_source
from . import scopes
from .accesses import note_access
from .builder import append, infer_shapes
from .definition import OPTIONAL, REQUIRED, OpDefinition, definition_of
from .entry import opened_for, public
from .gradient_overrides import note_override
from .operation import Operation
from .region import Region
from .rules.shapes import ShapeOnly
from .signature import Parameter
from .tensor import Tensor
from .weak import LITERALS, common_dtype, gives_way, is_weak, mark_results, mark_weak

if TYPE_CHECKING:
    from .outputs import ManyOutputs, NoOutput


@overload
def apply(type: NoOutput, *inputs: Any, name: str | None = None, **attrs: Any) -> Operation: ...
@overload
def apply(type: ManyOutputs, *inputs: Any, name: str | None = None, **attrs: Any) -> list[Tensor]: ...
@overload
def apply(type: str, *inputs: Any, name: str | None = None, **attrs: Any) -> Tensor: ...


def apply(type: str, *inputs: Any, name: str | None = None, **attrs: Any) -> Any:
    """Append an operation to the current region; where no graph is open, to the graph of its inputs.

    Parameters
    ----------
    type : str
        A declared operation type.
    inputs
        An argument per parameter of the signature (a list for variadic parameters); tensors, variables, arrays or
        Python literals. A literal takes the dtype of the other operands of its type variable.
    name : str, optional
        Name of the operation; defaults to its type.
    attrs
        Attributes.

    Returns
    -------
    Tensor, list of Tensor or Operation
        The output; the outputs for a signature with several or a list; the operation for a signature without any.
    """
    if not scopes.is_open():
        with opened_for(inputs):
            return apply(type, *inputs, name=name, **attrs)
    definition = definition_of(type)
    region = scopes.current_region()
    tensors = convert_inputs(definition, inputs, name or type)
    # Of a tensor that a gradient would have to save, the shape alone is saved.
    if definition.has(ShapeOnly) and not region.sees(tensors[0]):
        return _shape_of_hidden(definition, region, tensors[0], attrs)
    op = build(type, [region.resolve(t) for t in tensors], name=name, **attrs)
    if any(map(is_weak, op.inputs)):
        mark_results(op, definition.signature)
    if not definition.signature.outputs:
        return op
    single = len(definition.signature.outputs) == 1 and not _is_list(definition.signature.outputs[0])
    return op.outputs[0] if single else list(op.outputs)


def build(type: str, tensors: list[Tensor], *, name: str | None = None, **attrs: Any) -> Operation:
    """Append an operation whose inputs are tensors already in scope, checked against its definition."""
    scope = scopes.current()
    # The shape rule and the scopes need a complete operation, so it is appended first and taken back if refused.
    op = append(
        scopes.current_region(),
        type,
        scoped_name(name or type),
        tensors,
        _fill_in_defaults(definition_of(type), attrs),
        control_inputs=scope.control_inputs,
        source=user_source(),
    )
    try:
        infer_shapes(op)
        apply_scope_attributes(op)
    except TagloomError as error:
        discard(op)
        if error.operation is None:
            error.operation = op
        raise
    note_access(op)
    return op


def apply_scope_attributes(op: Operation) -> None:
    """Give a new operation the device, the colocation and the gradient of the current scope."""
    scope = scopes.current()
    if scope.gradients:
        note_override(op, scope.gradients)
    # Innermost first: each outer scope only fills in the parts left open.
    for asked in reversed(scope.device):
        op.device = merge_devices(op.device, asked(op) if callable(asked) else asked)
    if scope.colocate is not None:
        op.attrs["colocate"] = scope.colocate.name
        op.device = merge_devices(op.device, scope.colocate.device)


def discard(op: Operation) -> None:
    """Take back an operation just appended."""
    op.region.operations.remove(op)
    op.graph._by_name.pop(op.name, None)
    for tensor in op.inputs:
        tensor._consumers.pop(op, None)


def scoped_name(name: str) -> str:
    """Return a unique name under the current name scope."""
    scope = scopes.current()
    return scopes.get_default_graph().unique_name(f"{scope.name}/{name}" if scope.name else name)


def convert_inputs(definition: OpDefinition, inputs: Any, operation: str) -> list[Tensor]:
    """Convert arguments to tensors by the literal rules, left to right."""
    pairs = definition.signature.group(inputs, operation)
    known = [as_typed(argument) for _, argument in pairs]
    if any(typed is not None and is_weak(typed) for typed in known):
        return _convert_weak(definition, pairs, known, operation)
    return _convert_arguments(definition, pairs, known, operation)


def _convert_arguments(
    definition: OpDefinition, pairs: Sequence[tuple[Parameter, Any]], known: Sequence[Tensor | None], operation: str
) -> list[Tensor]:
    """Convert arguments in two passes: typed ones bind the type variables, then literals take the bound dtypes."""
    # Typed arguments first, so that the literal in ``1 + x`` takes the dtype of x.
    bound: dict[str, DType] = {}
    for (parameter, _), typed in zip(pairs, known, strict=True):
        if typed is not None and parameter.type != "any":
            bound.setdefault(parameter.type, typed.dtype)
    result = []
    for (parameter, argument), typed in zip(pairs, known, strict=True):
        if typed is None:
            typed = _convert_literal(argument, _literal_dtype(definition, parameter, argument, bound), operation)
            if parameter.type != "any":
                bound.setdefault(parameter.type, typed.dtype)
        result.append(typed)
    return result


def _convert_weak(
    definition: OpDefinition, pairs: Sequence[tuple[Parameter, Any]], known: Sequence[Tensor | None], operation: str
) -> list[Tensor]:
    """Convert arguments, some of them weak: weak tensors take the dtype of the strong ones of their type variable."""
    typed: list[Tensor | None] = list(known)
    stay_weak: set[int] = set()
    by_type: dict[str, list[int]] = {}
    for i, (parameter, _) in enumerate(pairs):
        by_type.setdefault(parameter.type, []).append(i)
    for places in [by_type[type_] for type_ in by_type if definition.signature.is_variable(type_)]:
        dtype, is_strong = _dtype_of_all([pairs[i][1] for i in places], [known[i] for i in places])
        for i in places:
            typed[i] = None if (tensor := known[i]) is None else strengthened(tensor, dtype, stays_weak=not is_strong)
        # Without a strong operand all stay weak, and a later operation decides.
        stay_weak.update(() if is_strong else places)
    result = _convert_arguments(definition, pairs, typed, operation)
    for i in stay_weak:
        if known[i] is None:  # a literal
            mark_weak(result[i])
    return result


def _dtype_of_all(arguments: Sequence[Any], known: Sequence[Tensor | None]) -> tuple[DType | None, bool]:
    """Return the common dtype of a type variable's arguments, and True if a strong tensor decided the dtype."""
    tensors = [t for t in known if t is not None]
    for tensor in tensors:
        if not is_weak(tensor):
            return tensor.dtype, True
    literals = [dtypes.as_dtype(as_array(each).dtype) for each in arguments if type(each) in LITERALS]
    found = [*(t.dtype for t in tensors), *literals]
    return (common_dtype(found) if found else None), False


def strengthened(tensor: Tensor, dtype: DType | None, *, stays_weak: bool = False) -> Tensor:
    """Return a weak tensor cast to the dtype of a literal in its place, any other tensor unchanged."""
    if dtype is None or tensor.dtype is dtype or not is_weak(tensor) or not gives_way(tensor.dtype, dtype):
        return tensor
    cast: Tensor = apply("Cast", tensor, dtype=dtype)
    if stays_weak:
        mark_weak(cast)
    return cast


def _convert_literal(value: object, dtype: DType | None, operation: str) -> Tensor:
    try:
        return constant_of(value, dtype)
    except DtypeError as error:
        error.operation = operation
        raise


def _literal_dtype(
    definition: OpDefinition, parameter: Parameter, argument: object, bound: dict[str, DType]
) -> DType | None:
    """Return the dtype of a literal: the bound dtype, else its natural dtype where allowed, else float32."""
    dtype = definition.signature.resolve(parameter.type, bound)
    if dtype is not None or parameter.type == "any":
        return dtype
    allowed = definition.signature.where.get(parameter.type, dtypes.VALUES)
    natural = dtypes.as_dtype(as_array(argument).dtype)
    if natural in allowed:
        return natural
    return dtypes.float32 if dtypes.float32 in allowed else None


def as_typed(value: object) -> Tensor | None:
    """Return a tensor for a tensor, variable, slices, array, or lists with tensors; None for a literal or scalar."""
    if isinstance(value, Tensor):
        return value
    if (as_tensor := getattr(value, "_as_tensor", None)) is not None:
        tensor: Tensor = as_tensor()
        return tensor
    # Arrays of any library, but not NumPy's scalars, which count as literals.
    if hasattr(value, "__dlpack__"):
        return constant(value)
    if isinstance(value, (list, tuple)) and as_symbolic(value):
        return convert_to_tensor(value)
    return None


@public
def convert_to_tensor(value: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Return `value` as a tensor, in scope of the current region.

    Parameters
    ----------
    value : Tensor, Variable, IndexedSlices, array-like, or nested lists containing tensors
        Python literals become int32, float32, bool or string.
    dtype : dtype-like, optional
        The dtype for literals and arrays, converted by the rules of fed values where their kind fits; a
        tensor must have this dtype already.

    Returns
    -------
    Tensor
        `value` itself if already a tensor.

    Raises
    ------
    DtypeError
        If a tensor has a dtype other than `dtype`.
    GraphError
        If the tensor belongs to a branch or a loop body other than those around the current region.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> with tg.Graph().as_default():
    ...     x = tg.convert_to_tensor([1.0, 2.0])
    ...     tg.convert_to_tensor(x) is x, tg.convert_to_tensor([x, x]), tg.convert_to_tensor(np.arange(3)).dtype
    (True, <Tensor Stack:0 float32[2,2]>, tagloom.int64)
    """
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    if isinstance(value, (list, tuple)) and as_symbolic(value):
        inner = wanted or _dtype_within(value)
        tensor: Tensor | None = apply("Stack", [convert_to_tensor(v, inner) for v in value], axis=0)
    elif isinstance(value, Tensor):
        tensor = value
    else:
        as_tensor = getattr(value, "_as_tensor", None)
        tensor = None if as_tensor is None else as_tensor()
    if tensor is None:
        array = as_array(value) if wanted is None else as_fed_array(value, wanted)
        return _append_constant(array, None, name)
    tensor = strengthened(tensor, wanted)
    if wanted is not None and tensor.dtype is not wanted:
        raise DtypeError(
            "a tensor has another dtype",
            wanted=wanted,
            got=tensor.dtype,
            operation=tensor.op,
            hint=f"use cast(..., '{wanted}')",
        )
    return scopes.current_region().resolve(tensor)


def _dtype_within(value: object) -> DType | None:
    """Return the dtype of the first tensor or array in nested lists; literals in the same lists take this dtype."""
    if isinstance(value, (list, tuple)):
        return next((dtype for each in value if (dtype := _dtype_within(each)) is not None), None)
    dtype = getattr(value, "dtype", None)
    # NumPy's scalars convert like literals, so their dtype decides nothing.
    return None if dtype is None or isinstance(value, np.generic) else dtypes.as_dtype(dtype)


def as_symbolic(value: object) -> bool:
    """True if `value` is a tensor, variable or slices, or a list containing any."""
    if isinstance(value, (list, tuple)):
        return any(as_symbolic(v) for v in value)
    return isinstance(value, Tensor) or hasattr(value, "_as_tensor")


@public
def constant(value: Any, dtype: Any = None, shape: Any = None, name: str | None = None) -> Tensor:
    """Make a constant tensor.

    Parameters
    ----------
    value : array-like
        Python literals become int32, float32, bool or string; NumPy's scalars and arrays keep their dtype.
    dtype : dtype-like, optional
        The dtype of the result. Values of another dtype are converted: a bool or an int to any number, a float to any
        floating or complex number, and to an integer if its value is whole.
    shape : sequence of int, optional
        Shape of the result. A value with as many elements is reshaped, a value with fewer is broadcast.

    Returns
    -------
    Tensor
        Of the value's shape.

    Raises
    ------
    DtypeError
        If a value cannot be converted to `dtype`: out of range, or a fraction for an integer dtype.
    ShapeError
        If the value has another number of elements than `shape`, and does not broadcast to it.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> with tg.Graph().as_default():
    ...     for value in (1, 1.0, True, np.float64(1.0)):
    ...         print(tg.constant(value).dtype)
    ...     tg.constant(0.5, shape=[2, 3]).shape
    int32
    float32
    bool
    float64
    Shape(2, 3)
    """
    if as_symbolic(value):
        raise GraphError("a constant cannot hold tensors", got=value, hint="use stack or convert_to_tensor")
    array = as_array(value) if dtype is None else as_asked_array(value, dtypes.as_dtype(dtype))
    return _append_constant(array, shape, name)


def constant_of(value: object, dtype: object = None, name: str | None = None) -> Tensor:
    """Make a constant tensor of an operand for which no dtype was requested: an array must already have `dtype`."""
    if as_symbolic(value):
        raise GraphError("a constant cannot hold tensors", got=value, hint="use stack or convert_to_tensor")
    return _append_constant(as_array(value, None if dtype is None else dtypes.as_dtype(dtype)), None, name)


def _in_shape(array: Any, shape: tuple[int, ...]) -> Any:
    """Return an array reshaped to as many elements, or broadcast from fewer."""
    if array.size == prod(shape):
        return array.reshape(shape)
    try:
        return np.broadcast_to(array, shape)
    except ValueError as error:
        raise ShapeError(
            "a value does not fit the shape of its constant",
            wanted=f"{prod(shape)} elements for {list(shape)}, or a value that broadcasts to it",
            got=list(array.shape),
            hint="leave shape= out, or pad the value",
        ) from error


def _append_constant(array: Any, shape: Any, name: str | None) -> Tensor:
    """Append a Const with its own read-only copy of an array, since later writes of the user must not reach a step."""
    if shape is not None:
        array = _in_shape(array, Shape(shape).as_tuple())
    array = np.array(array, order="C")
    array.flags.writeable = False
    scope = scopes.current()
    op = Operation(
        scopes.current_region(),
        "Const",
        scoped_name(name or "Const"),
        (),
        [(dtypes.as_dtype(array.dtype), Shape(array.shape))],
        control_inputs=scope.control_inputs,
        attrs={"value": array},
        source=user_source(),
    )
    apply_scope_attributes(op)
    return op.outputs[0]


def _fill_in_defaults(definition: OpDefinition, given: dict[str, Any]) -> dict[str, Any]:
    """Return attributes with the defaults filled in; GraphError for unknown or missing attributes."""
    unknown = set(given) - set(definition.attrs)
    if unknown:
        raise GraphError(
            f"{definition.type} has no attribute {sorted(unknown)}",
            wanted=list(definition.attrs),
            got=sorted(unknown),
            operation=definition.type,
            hint="leave it out",
        )
    attrs = {**{key: value for key, value in definition.attrs.items() if value is not OPTIONAL}, **given}
    for key, value in attrs.items():
        if value is REQUIRED:
            raise GraphError(
                f"{definition.type} needs attribute '{key}'",
                wanted=list(definition.attrs),
                got=list(given),
                operation=definition.type,
                hint=f"pass {key}=",
            )
    return attrs


def _is_list(parameter: Parameter) -> bool:
    return parameter.many


def _shape_of_hidden(definition: OpDefinition, region: Region, tensor: Tensor, attrs: dict[str, Any]) -> Tensor:
    """Apply a shape-only operation to a saved value in its own region, and save the small result (rule 94)."""
    key = f"{definition.type}{sorted(attrs.items(), key=str)}"
    # One result per saved tensor, type and attributes: the key also keeps Shape in int32 and int64 apart.
    if key not in tensor._derived:
        with scopes.inside(tensor.op.region):
            tensor._derived[key] = build(definition.type, [tensor], **attrs).outputs[0]
    return region.resolve(tensor._derived[key])
