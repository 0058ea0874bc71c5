"""What an operation type is: one block with its signature, shapes, kernel, gradient and samples.

The families in ``engine/ops`` declare their operations with :func:`define`; everything else looks them up
here. A registry test fails on any block with a hole.
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
    """Why an operation has no gradient; its inputs get none."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ufunc:
    """A kernel that is one NumPy-style universal function, named; the step machine calls its C loop.

    Attributes
    ----------
    name : str
    elsewhere : callable, optional
        The kernel with any other array library, where that function gives something else there.
    here : callable, optional
        What is called for NumPy's arrays, where that is not NumPy's function.
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
    """Inputs that show an operation at work.

    Attributes
    ----------
    inputs : sequence
        Arrays (lists of arrays for variadic inputs).
    attrs : mapping
        Attributes.
    expected : array, tuple of arrays, or callable
        The result, or a function of the inputs that computes it with plain NumPy, independently of the kernel.
    differentiable : bool
        Whether the gradient test may move these inputs (false at kinks and for discrete results).
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
        Its name, as in ``Operation.type``.
    signature : Signature
        Inputs and outputs with their dtypes.
    attrs : mapping
        Attributes with their defaults (``REQUIRED`` when there is none).
    shape : callable
        ``shape(op)`` gives the static shape of each output.
    kernel : callable or None
        ``kernel(xp, *arrays, **attrs)`` with `xp` the array module; when `stateful`,
        ``kernel(xp, context, *arrays, **attrs)``. None for what the executors do themselves. What the signature
        calls ``host`` comes and goes as NumPy arrays, whatever `xp` is.
    gradient : callable or NotDifferentiable
        ``gradient(op, *cotangents)`` gives one cotangent (or None) for each input; it may use ``op.inputs`` and
        ``op.outputs`` as if they were in scope.
    role : Role
        What it is for the structure of a graph.
    effects : Effect
        What it does besides giving its outputs. With any it is not folded and not merged with a twin, and its kernel is
        told which instance it is.
    forwards : bool
        Its outputs are its inputs, as they are.
    shape_only : bool
        The result depends on the shape of its input alone (Shape, Size, Rank).
    is_part : bool
        The result is a part of the first input (Gather, Slice): it is taken where that is, so that the part goes to
        another device and not the whole.
    reads_values : bool
        What it gives, or whether it fails, depends on values in a way that a kernel has to wait for: how large the
        result is, which index is out of range.
    elements : callable or None
        ``elements(*arrays, **attrs)`` is about how many elements the kernel goes through that its inputs do not have:
        of what may make a large result of small inputs. It is asked before the kernel is called, which runs elsewhere
        than on the event loop if it should take long. What broadcasts its inputs needs none.
    keeps_size : bool
        The result is not larger than the inputs in the device's memory, although others are in the host's.
    retry : bool
        An instance that finds no room for its result has done nothing and may begin again.
    may_be_fed : bool
        Its value comes from outside, or may.
    may_be_fetched : bool
        Its result is a handle that a step may give out.
    sparse_gradient : bool
        Its gradient takes IndexedSlices as they are.
    is_reread : bool
        A gradient that needs its result runs it again instead of saving that: it reads what is saved anyway.
    result_is_input : int or None
        The number of the input that is the result, as it is, of an operation that is there for its effects.
    fuse : Fusion or None
        How it becomes steps of a fused operation. A kernel that is a ufunc of the table of steps says that by itself.
    ordered : callable or None
        Of what happens in the order of building (rule 140), ``ordered(op)`` is the key of what it reads or writes, as
        ("variables", "w"), or None for an operation that is free.
    outlives_step : bool
        Its result is the handle of what the session keeps from step to step, so every step finds it on one device.
    comes_from_outside : bool
        Its result is the handle of what is filled from outside of the graph: no step puts anything into it.
    static_shape : callable or None
        Of what gives integer vectors, ``static_shape(op)`` is what is known of the shape that the vector stands for.
    stores : callable or None
        Of what writes to an array of values, its first input, ``stores(op)`` is the static shape of an element written.
    loads : callable or None
        Of what reads such an array, ``loads(op, element)`` is the static shape of its first output, if all that was
        written has the static shape `element`.
    batch : callable or None
        ``batch(op, varying)`` returns what emits the operation for many instances at once, or None where there is no
        way: ``emit(builder, operands)`` returns its outputs, whose first dimension counts the instances as that of
        each operand does which varies among them, where `varying` says so (a vmap rule of JAX, for axis 0).
    row : callable or None
        Of what takes one row of an array, ``row(op)`` is the array and the number of the row; None if it does not.
    epilogue : str
        Of what computes something large, the type that adds a bias to it before it leaves the cache: it has one more
        input, and the attribute ``relu``.
    masked : str
        Of what computes something large, the type that keeps of it what is above zero in one more input, its last.
    summed : str
        Of what reads its last input as rows, the type whose second result is the sum of these.
    places_of : str
        Of what says for each window which of its elements is the largest, the type that gives these elements.
    spreads : bool
        Whether each element of its first input goes to that element of a window which the second says.
    instruction : str
        Name of the Code that does it in a native program, where that is not to compute its result.
    unused : str
        Of what does nothing unless it is used, the warning where it is not: what is wrong, and what to do.
    samples : tuple of Sample
        Inputs on which tests run it.
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
        """Whether it has effects, and its kernel takes a `KernelContext` (see `engine/ops/support/context.py`)."""
        return bool(self.effects)

    @property
    def only_computes(self) -> bool:
        """Whether its kernel does nothing but compute, so that any thread may call it."""
        reads_one_slot = self.is_reread and self.elements is None
        return self.effects in (Effect.NONE, Effect.RANDOM) and not reads_one_slot

    @property
    def is_differentiable(self) -> bool:
        """Whether cotangents pass through it."""
        return not isinstance(self.gradient, NotDifferentiable)

    @property
    def runs_on(self) -> str:
        """Where it runs when its device is a GPU, by its signature alone.

        Returns
        -------
        {'executor', 'store', 'host', 'device'}
            "executor": the executors do it themselves. "store": it keeps values, or hands them out, where they are
            (resources and series). "host": nothing that it takes or gives is in the device's memory. "device": its
            kernel computes with the device's array library.
        """
        parameters = (*self.signature.inputs, *self.signature.outputs)
        if self.kernel is None:
            return "executor"
        if any(p.type in ("resource", "series") for p in parameters):
            return "store"
        return "host" if all(p.is_host for p in parameters) else "device"


REQUIRED: Any = object()
_PACKAGE = __name__.partition(".")[0]
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
        _declare(type)  # one of tagloom that is not loaded yet keeps its name
    if type in _REGISTRY:
        raise GraphError(
            f"operation type {type} is declared twice",
            operation=type,
            hint="give it another name, or remove one of the blocks",
        )
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
        _declare(type)
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


def _declare(type: str) -> None:
    """Import the module of the package that declares an operation type, if there is one.

    Passes, gradients and pickled graphs make operations by their types, before anybody uses the public function.
    """
    modules = importlib.import_module(f"{_PACKAGE}.ops.type_modules")  # this layer knows the operations by name only
    module = modules.module_of(type)
    if module is not None:
        importlib.import_module(f"{_PACKAGE}.ops.{module}")


def _declare_all() -> None:
    """Import all modules of the package that declare operations."""
    importlib.import_module(f"{_PACKAGE}.public")


def runs_on(op: Operation) -> str:
    """Return where an operation runs when its device is a GPU: as its type, but strings and bfloat16 on the host."""
    where = op.definition.runs_on
    known = all(t.dtype in ON_GPU for t in (*op.inputs, *op.outputs) if t.dtype.is_value)
    return where if known or where != "device" else "host"


def host_inputs(op: Operation) -> list[bool]:
    """Return for each input of an operation whether its kernel wants it in the host's memory."""
    return [parameter.is_host for parameter in op.definition.signature.flat(len(op.inputs))]
