"""``get_variable``: new and shared variables by name."""

from __future__ import annotations

from typing import Any

from ....base.dtypes import as_dtype
from ....base.shapes import Shape
from ....frontend.state.regularizers import regularization_losses
from ....frontend.state.variables import Variable
from ....ir import scopes
from ....ir.apply import convert_to_tensor
from ....ir.misuse import refuses_misuse
from ....ir.tensor import Tensor
from ....nn.shared_variables import getter_of
from ....nn.variable_store import compose_getters, get_variable_scope


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
    ...     with tg.compat.tf1.variable_scope("a"):
    ...         tg.compat.tf1.get_variable("w", [2, 3])
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
    get = getter_of(scope.store)
    getter = custom_getter or scope.custom_getter
    if custom_getter is not None:
        getter = compose_getters(custom_getter, scope.custom_getter)
    full = f"{scope.name}/{name}" if scope.name else name
    # As in TensorFlow 1, a custom getter receives the getter that it wraps, and may change its arguments.
    return get(full, **given) if getter is None else getter(get, full, **given)


def _value_or_default(value: Any, default: Any) -> Any:
    return default if value is None else value


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
    ...     with tg.compat.tf1.variable_scope("a", regularizer=tg.l2_loss):
    ...         w = tg.compat.tf1.get_variable("w", initializer=[3.0, 4.0])
    ...     loss = tg.add_n(tg.compat.tf1.get_regularization_losses())
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(w.initializer)
    ...     float(session.run(loss))
    12.5
    """
    return regularization_losses(scopes.get_default_graph(), lambda name: name.startswith(scope or ""))
