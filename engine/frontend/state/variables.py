"""Variables as users see them: tensors whose value outlives a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.calling import call, takes
from ...base.dtypes import DType, as_dtype, string
from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...base.source_lines import user_source
from ...ir import scopes
from ...ir.accesses import plain_read
from ...ir.apply import apply, constant, convert_to_tensor, scoped_name
from ...ir.entry import public
from ...ir.graph import Graph
from ...ir.operation import Operation
from ...ir.region import Region
from ...ir.tensor import Tensor
from ...ops.control.effects import group
from ...ops.state.variables.operations import variable_key
from ..tracing.function_scope import get_or_make
from .parts import Indexed

_INITIALIZERS = "initializers"  # the collection of operations that initialize all variables


class _Kept(type):
    """Metaclass through which a traced function, called again, gets the variables of its first call."""

    def __call__(
        cls, initial_value: Any, trainable: bool = True, name: str | None = None, dtype: Any = None, shape: Any = None
    ) -> Any:
        make = partial(super().__call__, initial_value, trainable, name, dtype, shape)
        return get_or_make(name or "Variable", make)

    __call__.__qualname__ = "Variable"  # the name in error messages
    __call__ = public(__call__)


class Variable(Indexed, metaclass=_Kept):
    """A value kept by a session between steps, and updated by operations.

    As a tensor, a variable has its value at the place of use: reads and writes of a variable in a step happen in
    the order in which they were built, in a loop iteration after iteration, and a branch or loop counts as an access
    at its own place (rules 140 to 146). Updates of concurrent steps come in any order.

    Parameters
    ----------
    initial_value : array-like, Tensor or callable
        The value `initializer` assigns; a callable computes the value, from `shape` and `dtype` if accepted, like
        the initializers of `tagloom.nn`. It must not depend on tensors made inside a branch or a loop body.
    trainable : bool
        True to list the variable in ``trainable_variables()``.
    name : str, optional
        Name in the graph and in ``session.read_variables()``.
    dtype : dtype-like, optional
        The dtype a literal takes.
    shape : sequence of int or None, optional
        Static shape; the initial value's by default. None dimensions may change from value to value.

    Attributes
    ----------
    name : str
        Unique in the graph.
    dtype : DType
        Dtype of its values.
    shape : Shape
        Static shape of its values.
    handle : Tensor
        The resource tensor; a variable's gradient is the cotangent of its handle.
    initializer : Operation
        Assigns the initial value.
    initial_value : Tensor
        The value `initializer` assigns.
    op : Operation
        The read built first, of the value before all updates except the initializer.

    Raises
    ------
    GraphError
        If the initial value was made inside a branch or a loop body, or needs a missing `shape`.
    ShapeError
        If the initial value does not fit `shape`, or is computed from a `shape` with unknown dimensions.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     w = tg.Variable([[1.0, 2.0]], name="w")
    ...     before, after = w * 10.0, w.assign_add([[1.0, 1.0]])
    >>> w
    <Variable w float32[1,2]>
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(w.initializer)
    ...     session.run([before, after])
    [array([[10., 20.]], dtype=float32), array([[2., 3.]], dtype=float32)]
    """

    _is_leaf = True
    if TYPE_CHECKING:

        def _fetched(self) -> np.ndarray[Any, Any]: ...  # see `ir/typed.py`

    __slots__ = ("dtype", "handle", "initial_value", "initializer", "name", "op", "shape", "trainable")

    def __init__(
        self,
        initial_value: Any,
        trainable: bool = True,
        name: str | None = None,
        dtype: Any = None,
        shape: Any = None,
    ) -> None:
        self.name: str = scoped_name(name or "Variable")
        self.trainable: bool = trainable
        graph = scopes.get_default_graph()
        # A variable outlives branches and loops, so its operations belong to the root region.
        with scopes.within(region=graph.root, control_inputs=(), name=self.name):
            self._build_variable(initial_value, dtype, shape)
        graph.collections.setdefault("variables", []).append(self)
        if trainable:
            graph.collections.setdefault("trainable_variables", []).append(self)

    def _build_variable(self, initial_value: Any, dtype: Any, shape: Any) -> None:
        """Build the handle, the initializer and the first read."""
        value = _call_initializer(initial_value, shape, dtype) if callable(initial_value) else initial_value
        self.initial_value: Tensor = convert_to_tensor(value, dtype, name="initial_value")
        self.dtype: DType = self.initial_value.dtype
        # A shape with unknown dimensions admits later values of other sizes.
        self.shape: Shape = self.initial_value.shape if shape is None else Shape(shape)
        self.handle: Tensor = apply(
            "VariableHandle", name="handle", shared_name=self.name, dtype=self.dtype, shape=self.shape
        )
        self.initializer: Operation = self._build_assign(self.initial_value, "initialize").op
        self.op: Operation = self._named_read()
        # Plain uses before the first update share this read.
        plain_read(self.graph.root, self._ordering_key, lambda _: self.op.outputs[0])

    def _named_read(self) -> Operation:
        # Built directly, since the variable's name is taken already: fetching "w:0" gives the value of w.
        attrs = {"dtype": self.dtype, "shape": self.shape}
        outputs = [(self.dtype, self.shape)]
        root, device = self.handle.op.region, self.handle.op.device
        return Operation(
            root, "ReadVariable", self.name, [self.handle], outputs, attrs=attrs, device=device, source=user_source()
        )

    @property
    def graph(self) -> Graph:
        """The variable's graph."""
        return self.handle.graph

    @property
    def rank(self) -> int | None:
        """Number of dimensions, or None when unknown."""
        return self.shape.rank

    @property
    def device(self) -> str:
        """The device asked for."""
        return self.handle.device

    def get_shape(self) -> Shape:
        """Return the static shape."""
        return self.shape

    @public
    def value(self) -> Tensor:
        """Return the value at the place of use, after the updates built so far.

        A loop without writes of the variable reads the value once, before the first iteration. Under control
        dependencies the read comes after them, as in `read_value`.

        Returns
        -------
        Tensor
            Of the variable's dtype and shape.
        """
        # A shared read may have been built before the dependencies.
        if scopes.current().control_inputs:
            return self.read_value()
        return plain_read(scopes.current_region(), self._ordering_key, self._read_in)

    def _read_in(self, region: Region) -> Tensor:
        with scopes.inside(region):
            return self.read_value()

    @property
    def _ordering_key(self) -> Any:
        return variable_key(self.handle)

    @public
    def read_value(self) -> Tensor:
        """Read the variable here, in a loop in each iteration, so that updates by other steps are seen too.

        Returns
        -------
        Tensor
            Of the variable's dtype and shape.
        """
        with self._device_scope(name=self.name):
            return apply("ReadVariable", self.handle, name="read", dtype=self.dtype, shape=self.shape)

    @public
    def is_initialized(self) -> Tensor:
        """Return a bool scalar tensor, true if the variable has a value."""
        return apply("IsInitialized", self.handle)

    @public
    def assign(self, value: Any, name: str | None = None, *, ordered: bool = True) -> Tensor:
        """Replace the variable's value.

        Parameters
        ----------
        value : Tensor of the variable's dtype
            Of a shape that fits the variable's.
        ordered : bool, optional
            False to let the update run at any time in a step, before or after other reads and updates.

        Returns
        -------
        Tensor
            The new value; run its ``op`` to update only.
        """
        return self._build_assign(value, name, ordered)

    @public
    def assign_add(self, delta: Any, name: str | None = None, *, ordered: bool = True) -> Tensor:
        """Add `delta`, of the variable's dtype and shape, and return the new value. `ordered` as in `assign`."""
        return self._build_update("AssignAddVariable", delta, name, ordered)

    @public
    def assign_sub(self, delta: Any, name: str | None = None, *, ordered: bool = True) -> Tensor:
        """Subtract `delta`, of the variable's dtype and shape, and return the new value. `ordered` as in `assign`."""
        return self._build_update("AssignSubVariable", delta, name, ordered)

    @public
    def scatter_update(
        self, indices: Any, updates: Any = None, name: str | None = None, *, ordered: bool = True
    ) -> Tensor:
        """Replace rows.

        Parameters
        ----------
        indices : Tensor of int32 or int64, or IndexedSlices
            The rows, in any shape; IndexedSlices include their updates.
        updates : Tensor of the variable's dtype
            Of shape ``indices.shape + variable.shape[1:]``. Among updates of the same row the last holds.
        ordered : bool, optional
            As in `assign`.

        Returns
        -------
        Tensor
            The new value of the whole variable.
        """
        return self._build_scatter("ScatterUpdate", indices, updates, name, ordered)

    @public
    def scatter_add(
        self, indices: Any, updates: Any = None, name: str | None = None, *, ordered: bool = True
    ) -> Tensor:
        """Add `updates` to rows `indices`: as in `scatter_update`, `ordered` too; repeated rows add up."""
        return self._build_scatter("ScatterAdd", indices, updates, name, ordered)

    @public
    def scatter_sub(
        self, indices: Any, updates: Any = None, name: str | None = None, *, ordered: bool = True
    ) -> Tensor:
        """Subtract `updates` from rows `indices`: as in `scatter_update`, `ordered` too; repeated rows add up."""
        return self._build_scatter("ScatterSub", indices, updates, name, ordered)

    def _build_assign(self, value: Any, name: str | None, ordered: bool = True) -> Tensor:
        tensor = self._convert_fitting(value)
        with self._device_scope():
            return apply("AssignVariable", self.handle, tensor, name=name, shape=self.shape, ordered=ordered)

    def _build_update(self, type: str, delta: Any, name: str | None, ordered: bool) -> Tensor:
        tensor = self._convert_fitting(delta)
        with self._device_scope():
            result: Tensor = apply(type, self.handle, tensor, name=name, ordered=ordered)
        result.set_shape(self.shape)
        return result

    # `scatter_add(slices)`: rows of a gradient carry their own indices.
    def _build_scatter(self, type: str, indices: Any, updates: Any, name: str | None, ordered: bool) -> Tensor:
        if updates is None:
            indices, updates = indices.indices, indices.values
        rows = convert_to_tensor(updates, self.dtype)
        with self._device_scope():
            return apply(type, self.handle, indices, rows, name=name, shape=self.shape, ordered=ordered)

    def _convert_fitting(self, value: Any) -> Tensor:
        """Convert a value to the variable's dtype; ShapeError if its shape is incompatible with the variable's."""
        tensor = convert_to_tensor(value, self.dtype)
        if not self.shape.is_compatible_with(tensor.shape):
            raise ShapeError(
                f"the value does not fit variable '{self.name}'",
                wanted=self.shape,
                got=tensor.shape,
                operation=tensor.op,
                hint="reshape it, or make the variable with a shape that has None dimensions",
            )
        return tensor

    def _device_scope(self, **changes: Any) -> Any:
        # Operations on a variable follow its device, not the scopes around them.
        return scopes.within(device=(self.device,) if self.device else scopes.current().device, **changes)

    def _as_tensor(self) -> Tensor:
        return self.value()

    def _as_graph_element(self) -> Tensor:
        return self.op.outputs[0]

    def __repr__(self) -> str:
        return f"<Variable {self.name} {self.dtype}{self.shape}>"


def _call_initializer(initial_value: Callable[..., Any], shape: Any, dtype: Any) -> Any:
    """Return the result of an initializer, called with no arguments, with a shape, or with a shape and a dtype."""
    what = "the initial value of a variable"
    of_shape, of_both = takes(initial_value, (shape,)), takes(initial_value, (shape, dtype))
    # If no signature fits, the call without arguments reports the mismatch.
    if takes(initial_value, ()) or not (of_shape or of_both):
        return call(initial_value, (), what)
    if shape is None:
        raise GraphError(
            f"{what} is made of a shape, and none is given",
            wanted="shape=, or a function without arguments",
            got=repr(initial_value),
            hint="Variable(initializer, shape=[2, 3])",
        )
    size = list(Shape(shape).as_tuple())
    # Without a dtype the function's own default applies.
    if of_shape and (dtype is None or not of_both):
        return call(initial_value, (size,), what)
    return call(initial_value, (size, as_dtype("float32" if dtype is None else dtype)), what)


@public
def global_variables() -> list[Variable]:
    """Return the variables of the current graph, in the order they were made.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     w, step = tg.Variable(1.0, name="w"), tg.Variable(0, trainable=False, name="step")
    ...     tg.global_variables()
    [<Variable w float32[]>, <Variable step int32[]>]
    """
    return list(scopes.get_default_graph().collections.get("variables", []))


@public
def trainable_variables() -> list[Variable]:
    """Return the variables of the current graph that were made with ``trainable=True``.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     w, step = tg.Variable(1.0, name="w"), tg.Variable(0, trainable=False, name="step")
    ...     tg.trainable_variables()
    [<Variable w float32[]>]
    """
    return list(scopes.get_default_graph().collections.get("trainable_variables", []))


@public
def global_variables_initializer(name: str = "init") -> Operation:
    """Return an operation that assigns every existing variable its initial value.

    Build the operation last: variables made later, such as the slots of an optimizer, are not included.

    Raises
    ------
    GraphError
        If called inside a branch or a loop body; only a step as a whole can start the operation.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     w = tg.Variable([1.0, 2.0], name="w")
    ...     init = tg.global_variables_initializer()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     session.run(w)
    array([1., 2.], dtype=float32)
    """
    graph = scopes.get_default_graph()
    if scopes.current_region() is not graph.root:
        raise GraphError(
            "a step of its own initializes variables",
            got=f"a call in the {scopes.current_region().path()}",
            hint="call this outside cond and while_loop",
        )
    op = group(*(v.initializer for v in global_variables()), name=name)
    graph.collections.setdefault(_INITIALIZERS, []).append(op)
    return op


def older_initializer(graph: Graph, name: str) -> Operation | None:
    """Return the newest initializer of all variables, if one exists and does not cover the variable `name`."""
    initializers = graph.collections.get(_INITIALIZERS, [])
    initializer = next((v.initializer for v in graph.collections.get("variables", []) if v.name == name), None)
    # The initializer of all variables is a group, which waits for the initializers that it covers.
    is_older = initializer is not None and initializers and initializer not in initializers[-1].control_inputs
    return initializers[-1] if is_older else None


@public
def variables_initializer(variables: list[Variable], name: str = "init") -> Operation:
    """Return an operation that assigns the given variables their initial values.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     v, w = tg.Variable(1.0, name="v"), tg.Variable(2.0, name="w")
    ...     init = tg.variables_initializer([w])
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     session.run([v.is_initialized(), w.is_initialized()])
    [array(False), array(True)]
    """
    return group(*(v.initializer for v in variables), name=name)


@public
def is_variable_initialized(variable: Variable) -> Tensor:
    """Return a bool scalar tensor, true if `variable` has a value when the tensor is computed.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     w = tg.Variable(1.0)
    ...     known = tg.is_variable_initialized(w)
    >>> with tg.SyncSession(graph) as session:
    ...     before = session.run(known)
    ...     session.run(w.initializer)
    ...     bool(before), bool(session.run(known))
    (False, True)
    """
    return variable.is_initialized()


@public
def report_uninitialized_variables(
    var_list: Sequence[Variable] | None = None, name: str = "report_uninitialized_variables"
) -> Tensor:
    """Return the names of the variables without a value when the result is computed.

    Parameters
    ----------
    var_list : sequence of Variable, optional
        Variables to check; all existing variables of the graph by default.
    name : str, optional
        Name of the result.

    Returns
    -------
    Tensor of string, of shape [n]
        In the order of `var_list`; empty once all have values.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     v, w = tg.Variable(1.0, name="v"), tg.Variable(2.0, name="w")
    ...     missing = tg.report_uninitialized_variables()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(v.initializer)
    ...     session.run(missing).tolist()
    ['w']
    """
    variables = global_variables() if var_list is None else list(var_list)
    names = constant(np.array([v.name for v in variables], string.numpy))
    # Stack needs at least one input.
    if not variables:
        return names
    unset = apply("LogicalNot", apply("Stack", [v.is_initialized() for v in variables], axis=0))
    return apply("BooleanMask", names, unset, name=name)
