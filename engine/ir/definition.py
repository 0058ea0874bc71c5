"""Operation types: a block each, with signature, shapes, kernel, gradient and samples.

The families in ``engine/ops`` declare their operations with :func:`define`; all other layers look definitions up
here. A registry test fails on any incomplete block.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from ..base.array_libraries import is_numpy
from ..base.dtypes import DType
from ..base.errors import GraphError
from ..base.public_names import import_alone
from .rules.gradients import Reread
from .rules.kernels import Elements
from .signature import Signature, parse_signature
from .traits import Effect, Role

if TYPE_CHECKING:
    from ..base.shapes import Shape
    from .operation import Operation

Kernel = Callable[..., Any]
Gradient = Callable[..., Sequence[Any]]
R = TypeVar("R")


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
        if is_numpy(xp) and self.here is not None:
            return self.here(*arrays)
        if self.elsewhere is not None and not is_numpy(xp):
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
        Attributes with their defaults: ``REQUIRED`` if an attribute must be given, ``OPTIONAL`` if it may be missing.
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
    rules : mapping
        Rules for passes and backends, by their classes: see `engine/ir/rules`.
    samples : tuple of Sample
        Inputs and expected results for tests.
    """

    type: str
    signature: Signature
    attrs: Mapping[str, Any]
    shape: Callable[[Operation], Sequence[Shape] | Shape]
    kernel: Kernel | None
    gradient: Gradient | NotDifferentiable
    role: Role
    effects: Effect
    rules: Mapping[builtins.type, Any]
    samples: tuple[Sample, ...]

    def rule(self, kind: builtins.type[R]) -> R | None:
        """Return the rule of the class `kind`; None if the type has no such rule."""
        return self.rules.get(kind)

    def has(self, kind: builtins.type) -> bool:
        """Return True if the type has a rule of the class `kind`."""
        return kind in self.rules

    @property
    def stateful(self) -> bool:
        """True if the type has effects; its kernel then takes a `KernelContext` (in `engine/ops/support`)."""
        return bool(self.effects)

    @property
    def only_computes(self) -> bool:
        """True if the kernel has no effect other than computing, and any thread may call the kernel."""
        # A reread type without `Elements` (SeriesReadSeries, MaybeGet) looks up a saved value and computes nothing.
        reads_one_slot = self.has(Reread) and not self.has(Elements)
        return self.effects in (Effect.NONE, Effect.RANDOM) and not reads_one_slot

    @property
    def is_differentiable(self) -> bool:
        """True if cotangents pass through operations of the type."""
        return not isinstance(self.gradient, NotDifferentiable)

    @property
    def runs_on(self) -> str:
        """Place where the type runs on a device whose array library is not NumPy, judged by its signature alone.

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


# Both stand for the default of an attribute that has none; compared by identity.
REQUIRED: Any = object()
OPTIONAL: Any = object()
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
    rules: Sequence[object] = (),
    samples: Sequence[Sample] = (),
) -> OpDefinition:
    """Declare an operation type; see :class:`OpDefinition`.

    Parameters
    ----------
    rules : sequence of object
        Rules for passes and backends, at most one of each class.
    """
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
        _by_class(type, rules),
        tuple(samples),
    )
    _REGISTRY[type] = definition
    return definition


def _by_class(type: str, rules: Sequence[object]) -> Mapping[builtins.type, Any]:
    """Return rules by their classes; GraphError if two are of the same class."""
    found = {each.__class__: each for each in rules}
    if len(found) < len(rules):
        raise GraphError(
            f"operation type {type} has two rules of the same class",
            operation=type,
            wanted="at most one rule of each class",
            got=", ".join(each.__class__.__name__ for each in rules),
            hint="remove one of them",
        )
    return MappingProxyType(found)


def has_default(default: object) -> bool:
    """Return True for a default that is a value."""
    return default is not REQUIRED and default is not OPTIONAL


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
        import_alone(f"{_PACKAGE}.{module}")


def _declare_all() -> None:
    """Import all modules of the package with declarations of operations."""
    import_alone(f"{_PACKAGE}.public")
    import_alone(f"{_PACKAGE}.compat.tf1")


def host_inputs(op: Operation) -> list[bool]:
    """Return for each input of an operation whether its kernel takes the input in host memory."""
    return [parameter.is_host for parameter in op.definition.signature.flat(len(op.inputs))]
