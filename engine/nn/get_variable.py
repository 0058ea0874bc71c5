"""``get_variable``: new and shared variables by name."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any

from ..base.dtypes import DType, as_dtype
from ..base.errors import DtypeError, GraphError, ShapeError
from ..base.shapes import Shape
from ..frontend.state.partitioned import PartitionedVariable
from ..frontend.state.regularizers import regularization_losses
from ..frontend.state.variables import Variable
from ..frontend.tracing.function_scope import has_made
from ..ir import scopes
from ..ir.apply import convert_to_tensor
from ..ir.misuse import refuses_misuse
from ..ir.tensor import Tensor
from .by_name import as_initializer
from .variable_scope import Store, compose_getters, get_variable_scope


@refuses_misuse
def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    custom_getter: Any = None,
    partitioner: Any = None,
) -> Variable:
    """Return a variable by its name in the current variable scope, new or shared.

    Parameters
    ----------
    name : str
        Name within the scope; the full name begins with the scope's name.
    shape : sequence of int, optional
        Needed for a new variable, unless `initializer` is a value.
    dtype : dtype-like, optional
        By default the dtype of a value as initializer, else the scope's; float32 outside of scopes.
    initializer : callable, str, array-like or Tensor, optional
        A value, a function of shape and dtype, such as the initializers of `tagloom.nn`, or a name, such as
        ``"glorot_uniform"``. By default the scope's, else ``"glorot_uniform"`` for floating dtypes and ``"zeros"`` for
        integers and bool.
    regularizer : callable, optional
        Function from a variable to a scalar: see `get_regularization_losses`.
    trainable : bool, optional
        As for `Variable`.
    custom_getter : callable, optional
        As for `variable_scope`.
    partitioner : callable, optional
        Such as `fixed_size_partitioner`, for a PartitionedVariable; the scope's by default.

    Returns
    -------
    Variable or PartitionedVariable
        When a function is traced again, variables from its first trace count as new.

    Raises
    ------
    GraphError
        If the variable exists and the scope does not reuse variables, or vice versa; if the shape is missing.
    ShapeError, DtypeError
        If the existing variable has another shape or dtype.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     with tg.nn.variable_scope("a"):
    ...         tg.nn.get_variable("w", [2, 3])
    <Variable a/w float32[2,3]>
    """
    scope = get_variable_scope()
    # Only a value as initializer has a dtype; functions and names of initializers are asked for one.
    value = None if initializer is None or callable(initializer) or isinstance(initializer, str) else initializer
    if dtype is None:
        dtype = scope.dtype if value is None else convert_to_tensor(value).dtype
    given = {
        "shape": None if shape is None else Shape([shape] if isinstance(shape, int) else shape),
        "dtype": as_dtype(dtype),
        "initializer": _value_or_default(initializer, scope.initializer),
        "regularizer": _value_or_default(regularizer, scope.regularizer),
        "trainable": trainable,
        "reuse": scope.reuse,
        "partitioner": _value_or_default(partitioner, scope.partitioner),
    }
    get = partial(get_or_make_variable, scope.store)
    getter = custom_getter or scope.custom_getter
    if custom_getter is not None:
        getter = compose_getters(custom_getter, scope.custom_getter)
    full = f"{scope.name}/{name}" if scope.name else name
    # As in TensorFlow 1, a custom getter receives the getter that it wraps, and may change its arguments.
    return get(full, **given) if getter is None else getter(get, full, **given)


def _value_or_default(value: Any, default: Any) -> Any:
    return default if value is None else value


def get_or_make_variable(
    store: Store,
    name: str,
    shape: Shape | None = None,
    dtype: Any = "float32",
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    reuse: Any = False,
    partitioner: Any = None,
    *,
    layer_name: str | None = None,
    is_unique: bool = False,
) -> Variable:
    """Return the variable of a full name from a store, or make a new variable: see `get_variable`.

    Parameters
    ----------
    layer_name : str, optional
        Name of a layer's variable under the current name scope, for a new variable.
    is_unique : bool
        True for a layer outside of all variable scopes, whose variables are always new.
    """
    # `get_variable` names variables by variable scopes alone, layers by name scopes.
    with scopes.within(name="") if layer_name is None else nullcontext():
        own = layer_name or name
        found = None if is_unique else store.find_variable(name, reuse)
        # A function that is traced again makes the variables of its first trace anew, which is no clash.
        if found is not None and not reuse and not has_made(own):
            raise GraphError(
                f"variable '{name}' exists already",
                wanted="a new name, or a scope with reuse=True or AUTO_REUSE",
                got=found,
                operation=found.op,
                hint="with variable_scope(..., reuse=AUTO_REUSE): ...",
            )
        if found is not None and reuse:
            _check_shared_variable(found, shape, as_dtype(dtype))
            return found
        if reuse is True:
            raise GraphError(
                f"there is no variable '{name}' to be reused",
                wanted="one made by get_variable, or by a layer, in this variable scope",
                got=", ".join(store.variables) or "none",
                hint="make it in a scope without reuse=True, or with AUTO_REUSE; layers of one scope are told apart "
                "by name=, or else by the order in which they are constructed",
            )
        is_new = not has_made(own)
        first = _choose_initial_value(name, shape, as_dtype(dtype), initializer)
        made: Variable = _make_variable(first, partitioner, trainable, own, dtype, shape)
    # A layer outside of all scopes, in a function that is traced again, has its variable in the store already.
    if is_new or not is_unique:
        store.add_variable(name, made, regularizer, is_unique)
    return made


def _make_variable(first: Any, partitioner: Any, trainable: bool, name: str, dtype: Any, shape: Shape | None) -> Any:
    """Return a new variable, in shards if a partitioner is given and the variable is not a scalar."""
    if partitioner is None or (shape is not None and shape.rank == 0):
        return Variable(first, trainable, name, dtype, shape)
    return PartitionedVariable(first, partitioner, trainable, name, dtype, shape)


def _check_shared_variable(found: Variable, shape: Shape | None, dtype: DType) -> None:
    """Raise ShapeError or DtypeError unless shape and dtype fit a shared variable."""
    if shape is not None and not shape.is_compatible_with(found.shape):
        raise ShapeError(
            f"variable '{found.name}' has another shape than it is shared as",
            wanted=found.shape,
            got=shape,
            operation=found.op,
            hint="give it another name, or leave the shape out",
        )
    if dtype is not found.dtype:
        raise DtypeError(
            f"variable '{found.name}' has another dtype than it is shared as",
            wanted=found.dtype,
            got=dtype,
            operation=found.op,
            hint=f"get_variable(..., dtype='{found.dtype}')",
        )


def _choose_initial_value(name: str, shape: Shape | None, dtype: DType, initializer: Any) -> Any:
    """Return the initial value of a new variable, or its initializer function."""
    if initializer is None:
        initializer = "glorot_uniform" if dtype.is_floating else "zeros"
    if isinstance(initializer, str) or callable(initializer):
        initializer = as_initializer(initializer)
    if shape is None and callable(initializer):
        raise GraphError(
            f"the new variable '{name}' has no shape",
            wanted="a shape, or a value as its initializer",
            got="neither",
            hint=f"get_variable('{name}', [2, 3])",
        )
    return initializer


def get_regularization_losses(scope: str | None = None) -> list[Tensor]:
    """Return the regularization losses of the current graph's variables, one per variable with a regularizer.

    Parameters
    ----------
    scope : str, optional
        Only variables whose names begin with `scope`.

    Returns
    -------
    list of Tensor
        Without regularizers that return None.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     with tg.nn.variable_scope("a", regularizer=tg.l2_loss):
    ...         w = tg.nn.get_variable("w", initializer=[3.0, 4.0])
    ...     loss = tg.add_n(tg.nn.get_regularization_losses())
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(w.initializer)
    ...     float(session.run(loss))
    12.5
    """
    return regularization_losses(scopes.get_default_graph(), lambda name: name.startswith(scope or ""))
