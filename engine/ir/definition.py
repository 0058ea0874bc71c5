"""Operation types: a block each, with signature, shapes, kernel, gradient and samples.

The families in ``engine/ops`` declare their operations with :func:`define`; all other layers look definitions up
here. A registry test fails on any incomplete block.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.dtypes import ON_GPU, DType
from ..base.errors import GraphError
from ..base.public_names import import_alone
from .fusion import Fusion
from .signature import Signature, parse_signature
from .traits import Effect, Role

if TYPE_CHECKING:
    from ..base.shapes import Shape
    from .builder import Builder
    from .operation import Operation
    from .tensor import Tensor

Kernel = Callable[..., Any]
Gradient = Callable[..., Sequence[Any]]
Batched = Callable[["Builder", "list[Tensor]"], "list[Tensor]"]
BatchRule = Callable[["Operation", Sequence[bool]], "Batched | None"]


@dataclass(frozen=True, slots=True)
class NotDifferentiable:
    """The reason why an operation has no gradient; its inputs receive no cotangents."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ufunc:
    """A kernel given by a named NumPy-style universal function; the step machine calls its C loop.

    Attributes
    ----------
    name : str
    elsewhere : callable, optional
        The kernel for other array libraries, where their function of this name differs from NumPy's.
    here : callable, optional
        The function called for NumPy's arrays, in place of NumPy's own.
    """

    name: str
    elsewhere: Kernel | None = None
    here: Callable[..., Any] | None = None

    def __call__(self, xp: Any, *arrays: Any) -> Any:
        if xp is np and self.here is not None:
            return self.here(*arrays)
        if self.elsewhere is not None and xp is not np:
            return self.elsewhere(xp, *arrays)
        return getattr(xp, self.name)(*arrays)


@dataclass(frozen=True, slots=True)
class Sample:
    """Example inputs of an operation, with the expected result.

    Attributes
    ----------
    inputs : sequence
        Arrays (lists of arrays for variadic inputs).
    attrs : mapping
        Attributes.
    expected : array, tuple of arrays, or callable
        The result, or a function of the inputs, in plain NumPy and independent of the kernel.
    differentiable : bool
        True if the gradient test may perturb these inputs (false at kinks and for discrete results).
    """

    inputs: Sequence[Any]
    expected: Any
    attrs: Mapping[str, Any] = field(default_factory=dict)
    differentiable: bool = True


@dataclass(frozen=True, slots=True)
class OpDefinition:
    """An operation type.

    Attributes
    ----------
    type : str
        Name of the type, as in ``Operation.type``.
    signature : Signature
        Inputs and outputs with their dtypes.
    attrs : mapping
        Attributes with their defaults (``REQUIRED`` for an attribute without default).
    shape : callable
        ``shape(op)`` returns the static shape of each output.
    kernel : callable or None
        ``kernel(xp, *arrays, **attrs)`` with `xp` the array module; when `stateful`,
        ``kernel(xp, context, *arrays, **attrs)``. None for types implemented by the executors. Values
        marked ``host`` by the signature are NumPy arrays, whatever `xp` is.
    gradient : callable or NotDifferentiable
        ``gradient(op, *cotangents)`` returns a cotangent (or None) for each input; the rule may use ``op.inputs``
        and ``op.outputs`` as if they were in scope.
    role : Role
        Role in the structure of a graph.
    effects : Effect
        Effects besides computing outputs. A type with effects is neither folded nor merged with a twin, and its
        kernel receives a context with the identity of the instance.
    forwards : bool
        The outputs are the inputs, unchanged.
    shape_only : bool
        The result depends on the shape of its input alone (Shape, Size, Rank).
    is_part : bool
        The result is a part of the first input (Gather, Slice). The operation runs on the device of this input, so only
        the part is sent to another device.
    reads_values : bool
        The result, or failure, depends on values awaited by the kernel: the size of the result, or an index
        out of range.
    elements : callable or None
        ``elements(*arrays, **attrs)`` estimates how many elements the kernel visits in addition to its inputs, for
        types that may compute a large result from small inputs. Evaluated before the kernel is called; a kernel which
        would take long runs off the event loop. Types that broadcast their inputs need none.
    keeps_size : bool
        The result in the device's memory is not larger than the inputs there, although other inputs are on the host.
    retry : bool
        An instance without memory for its result has had no effect and may run again.
    may_be_fed : bool
        The value comes, or may come, from outside the graph.
    may_be_fetched : bool
        The result is a handle, and a step may return the handle.
    sparse_gradient : bool
        The gradient accepts IndexedSlices.
    is_reread : bool
        A gradient in need of the result runs the operation again instead of saving the result: its input is saved
        anyway.
    result_is_input : int or None
        For an operation run for its effects: the number of the input that its result equals.
    fuse : Fusion or None
        Translation into steps of a fused operation. None for a kernel among the ufuncs of the table of steps.
    ordered : callable or None
        For types that run in the order of building (rule 140): ``ordered(op)`` is the key of the state accessed, such
        as ("variables", "w"), or None for a free operation.
    outlives_step : bool
        The result is a handle of state kept by the session between steps, so all steps find the state on one device.
    comes_from_outside : bool
        The result is a handle of state filled from outside the graph: no step adds elements.
    static_shape : callable or None
        For types with an integer vector as result: ``static_shape(op)`` is the known part of the shape in the vector.
    stores : callable or None
        For types writing to an array of values, their first input: ``stores(op)`` is the static shape of the
        element written.
    loads : callable or None
        For types reading such an array: ``loads(op, element)`` is the static shape of the first output, if all
        elements written have the static shape `element`.
    batch : callable or None
        ``batch(op, varying)`` returns a function emitting the operation for many instances at once, or None if the
        operation cannot be batched: ``emit(builder, operands)`` returns outputs with a leading dimension counting
        the instances, as each operand has for which `varying` is true (a vmap rule of JAX, for axis 0).
    row : callable or None
        For types taking a row of an array: ``row(op)`` is the array and the row number; None for other uses.
    epilogue : str
        For large computations: the type which also adds a bias before the result leaves the cache, with a further input
        and the attribute ``relu``.
    masked : str
        For large computations: the type which zeroes the result wherever a further input, the last, is not positive.
    summed : str
        For types reading their last input as rows: the type with the sum of these rows as second result.
    places_of : str
        For types returning the place of the largest element of each window: the type returning these elements.
    spreads : bool
        True if each element of the first input goes to the window element selected by the second input.
    instruction : str
        Name of the Code that executes the type in a native program, for types executed other than by computing.
    unused : str
        Warning for an unused result, in types without other effects: the problem, and the remedy.
    samples : tuple of Sample
        Inputs and expected results for tests.
    """

    type: str
    signature: Signature
    attrs: Mapping[str, Any]
    shape: Callable[[Operation], Sequence[Shape] | Shape]
    kernel: Kernel | None
    gradient: Gradient | NotDifferentiable
    role: Role = Role.KERNEL
    effects: Effect = Effect.NONE
    forwards: bool = False
    shape_only: bool = False
    is_part: bool = False
    reads_values: bool = False
    elements: Callable[..., int] | None = None
    keeps_size: bool = False
    retry: bool = True
    may_be_fed: bool = False
    may_be_fetched: bool = False
    sparse_gradient: bool = False
    is_reread: bool = False
    result_is_input: int | None = None
    fuse: Fusion | None = None
    ordered: Callable[[Operation], tuple[str, str] | None] | None = None
    outlives_step: bool = False
    comes_from_outside: bool = False
    static_shape: Callable[[Operation], Shape | None] | None = None
    stores: Callable[[Operation], Shape] | None = None
    loads: Callable[[Operation, Shape], Shape] | None = None
    batch: BatchRule | None = None
    row: Callable[[Operation], tuple[Tensor, Tensor] | None] | None = None
    epilogue: str = ""
    masked: str = ""
    summed: str = ""
    places_of: str = ""
    spreads: bool = False
    instruction: str = ""
    unused: str = ""
    samples: tuple[Sample, ...] = ()

    @property
    def stateful(self) -> bool:
        """True if the type has effects; its kernel then takes a `KernelContext` (in `engine/ops/support`)."""
        return bool(self.effects)

    @property
    def only_computes(self) -> bool:
        """True if the kernel has no effect other than computing, and any thread may call the kernel."""
        # A reread type without `elements` (SeriesReadSeries, MaybeGet) looks up a saved value and computes nothing.
        reads_one_slot = self.is_reread and self.elements is None
        return self.effects in (Effect.NONE, Effect.RANDOM) and not reads_one_slot

    @property
    def is_differentiable(self) -> bool:
        """True if cotangents pass through operations of the type."""
        return not isinstance(self.gradient, NotDifferentiable)

    @property
    def runs_on(self) -> str:
        """Place where the type runs when its device is a GPU, judged by its signature alone.

        Returns
        -------
        {'executor', 'store', 'host', 'device'}
            "executor": the executors implement the type. "store": operations keep values or hand them out in place
            (resources and series). "host": all inputs and outputs are in host memory. "device": its kernel computes
            with the device's array library.
        """
        parameters = (*self.signature.inputs, *self.signature.outputs)
        if self.kernel is None:
            return "executor"
        if any(p.type in ("resource", "series") for p in parameters):
            return "store"
        return "host" if all(p.is_host for p in parameters) else "device"


# Stands for the default of an attribute that has none; compared by identity.
REQUIRED: Any = object()
_PACKAGE = __name__.partition(".")[0]
# Filled as the declaring modules are imported, each at the first use of one of its types.
_REGISTRY: dict[str, OpDefinition] = {}


def define(
    type: str,
    signature: str,
    *,
    shape: Callable[[Any], Any],
    kernel: Kernel | None,
    gradient: Gradient | NotDifferentiable,
    where: Mapping[str, tuple[DType, ...]] | None = None,
    attrs: Mapping[str, Any] | None = None,
    role: Role = Role.KERNEL,
    effects: Effect = Effect.NONE,
    forwards: bool = False,
    shape_only: bool = False,
    is_part: bool = False,
    reads_values: bool = False,
    elements: Callable[..., int] | None = None,
    keeps_size: bool = False,
    retry: bool = True,
    may_be_fed: bool = False,
    may_be_fetched: bool = False,
    sparse_gradient: bool = False,
    is_reread: bool = False,
    result_is_input: int | None = None,
    fuse: Fusion | None = None,
    ordered: Callable[[Any], tuple[str, str] | None] | None = None,
    outlives_step: bool = False,
    comes_from_outside: bool = False,
    static_shape: Callable[[Any], Shape | None] | None = None,
    stores: Callable[[Any], Shape] | None = None,
    loads: Callable[[Any, Shape], Shape] | None = None,
    batch: BatchRule | None = None,
    row: Callable[[Any], tuple[Tensor, Tensor] | None] | None = None,
    epilogue: str = "",
    masked: str = "",
    summed: str = "",
    places_of: str = "",
    spreads: bool = False,
    instruction: str = "",
    unused: str = "",
    samples: Sequence[Sample] = (),
) -> OpDefinition:
    """Declare an operation type; see :class:`OpDefinition`."""
    if not str(sys._getframe(1).f_globals.get("__name__")).startswith(f"{_PACKAGE}."):
        _import_declaration(type)  # one of tagloom that is not loaded yet keeps its name
    if type in _REGISTRY:
        raise GraphError(
            f"operation type {type} is declared twice",
            operation=type,
            hint="give it another name, or remove one of the blocks",
        )
    # By position, in the order of the fields.
    definition = OpDefinition(
        type,
        parse_signature(signature, where),
        dict(attrs or {}),
        shape,
        kernel,
        gradient,
        role,
        effects,
        forwards,
        shape_only,
        is_part,
        reads_values,
        elements,
        keeps_size,
        retry,
        may_be_fed,
        may_be_fetched,
        sparse_gradient,
        is_reread,
        result_is_input,
        fuse,
        ordered,
        outlives_step,
        comes_from_outside,
        static_shape,
        stores,
        loads,
        batch,
        row,
        epilogue,
        masked,
        summed,
        places_of,
        spreads,
        instruction,
        unused,
        tuple(samples),
    )
    _REGISTRY[type] = definition
    return definition


def definition_of(type: str) -> OpDefinition:
    """Return the definition of an operation type."""
    found = _REGISTRY.get(type)
    if found is None:
        _import_declaration(type)
        found = _REGISTRY.get(type)
    if found is None:
        raise GraphError(
            "no such operation type",
            got=type,
            hint="import the module that declares it, or look for a spelling mistake",
        )
    return found


def all_definitions() -> list[OpDefinition]:
    """Return every declared operation type, by name."""
    _declare_all()
    return sorted(_REGISTRY.values(), key=lambda d: d.type)


def _import_declaration(type: str) -> None:
    """Import the declaring module of an operation type, if the package has such a module.

    Passes, gradients and pickled graphs make operations by their types, before anybody uses the public function.
    """
    modules = importlib.import_module(f"{_PACKAGE}.ops.type_modules")  # this layer knows the operations by name only
    module = modules.module_of(type)
    if module is not None:
        import_alone(f"{_PACKAGE}.ops.{module}")


def _declare_all() -> None:
    """Import all modules of the package with declarations of operations."""
    import_alone(f"{_PACKAGE}.public")


def runs_on(op: Operation) -> str:
    """Return where an operation runs when its device is a GPU: by its type, but strings and bfloat16 on the host."""
    where = op.definition.runs_on
    known = all(t.dtype in ON_GPU for t in (*op.inputs, *op.outputs) if t.dtype.is_value)
    return where if known or where != "device" else "host"


def host_inputs(op: Operation) -> list[bool]:
    """Return for each input of an operation whether its kernel takes the input in host memory."""
    return [parameter.is_host for parameter in op.definition.signature.flat(len(op.inputs))]
