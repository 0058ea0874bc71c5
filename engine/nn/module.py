"""Modules: parts of a model, whose attributes are variables and other modules."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, dataclass_transform

from ..base import nest
from ..base.errors import GraphError
from ..frontend.control.scopes import name_scope
from ..frontend.state.partitioned import PartitionedVariable
from ..frontend.state.variables import Variable
from ..ir.entry import public
from ..ir.fields import make_constructor
from ..ir.misuse import refuses_misuse
from .places import Place, enter_call, place_of_new, track_construction

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
M = TypeVar("M", bound="Module")


class HasForward(Protocol[P, R_co]):
    """An object with the call signature of its ``forward``."""

    def forward(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class Module:
    """Base of layers, cells and models, with variables and other modules as attributes.

    A subclass makes its variables and modules in ``__init__``, or at the first call, which shows the inputs' sizes, and
    defines its computation in ``forward``. Variables and modules in attributes that are lists, tuples or dicts count
    too.

    Parameters
    ----------
    name : str, optional
        Name scope of the module's operations and variables; by default the class's name, in lower case.

    Attributes
    ----------
    name : str

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> class Affine(tg.nn.Module):
    ...     def __init__(self, inputs, outputs):
    ...         super().__init__()
    ...         self.weight = tg.Variable(np.ones((inputs, outputs), np.float32))
    ...         self.bias = tg.Variable(np.zeros(outputs, np.float32))
    ...
    ...     def forward(self, x):
    ...         return tg.matmul(x, self.weight) + self.bias
    >>> with tg.Graph().as_default() as graph:
    ...     layers = [Affine(3, 2), Affine(2, 1)]
    ...     model = tg.nn.Sequential(*layers)
    ...     y = model([[1.0, 2.0, 3.0]])
    ...     init = tg.global_variables_initializer()
    >>> [name for name, _ in model.named_parameters()]
    ['layers.0.weight', 'layers.0.bias', 'layers.1.weight', 'layers.1.bias']
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     float(session.run(y)[0, 0])
    12.0
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            # Wrapped, so that modules made in an __init__ find their parent without any help by the subclass.
            cls.__init__ = _guard_constructor(cls.__init__)  # type: ignore[method-assign]

    @track_construction
    def __init__(self, name: str | None = None) -> None:
        self.name: str = name or type(self).__name__.lower()
        # A name chosen by the user gets no number in a scope.
        self._place: Place = place_of_new(self, self.name, bool(name))

    if TYPE_CHECKING:

        @property
        # For type checkers a call has the signature of `forward`.
        def __call__(self: HasForward[P, R]) -> Callable[P, R]: ...
    else:

        @public
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            """Build the operations of ``forward``, under the module's name."""
            with name_scope(self.name), enter_call(self._place):
                return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Build the module's computation from `args` and `kwargs`. Subclasses define this method."""
        raise GraphError(
            f"{type(self).__name__} does not say what it computes",
            wanted="a method `forward`",
            got="none",
            hint="define forward(self, ...), or call the modules it is made of",
        )

    def parameters(self, trainable: bool | None = None) -> list[Variable]:
        """Return the variables, each once, in the order of becoming attributes.

        Parameters
        ----------
        trainable : bool, optional
            True for trainable variables only, False for other variables only.

        Returns
        -------
        list of Variable
        """
        return [v for _, v in self.named_parameters() if trainable in (None, v.trainable)]

    def named_parameters(self) -> list[tuple[str, Variable]]:
        """Return (path, variable) pairs in the order of `parameters`; paths are attribute names joined by dots."""
        return [(name, found) for name, found in _walk_module(self) if isinstance(found, Variable)]

    def modules(self) -> list[Module]:
        """Return the module itself and all modules in it, each once."""
        return [self, *(found for _, found in _walk_module(self) if isinstance(found, Module))]

    def state_dict(self, session: Any) -> Any:
        """Return the variables' values in a session.

        Parameters
        ----------
        session : Session or SyncSession
            With a Session, the result must be awaited.

        Returns
        -------
        dict of str to numpy.ndarray, or awaitable of such a dict
            Keyed by the names of `named_parameters`.

        Raises
        ------
        UninitializedVariableError
            If a variable has no value.
        """
        names = {name: v.name for name, v in self.named_parameters()}
        # A Session returns a coroutine here, a SyncSession the values.
        read = session.read_variables(list(names.values()))
        return _apply_to_result(read, lambda values: {name: values[full] for name, full in names.items()})

    def load_state_dict(self, session: Any, state: Mapping[str, Any], strict: bool = True) -> Any:
        """Set the variables in a session, all or none.

        Parameters
        ----------
        session : Session or SyncSession
            With a Session, the result must be awaited.
        state : mapping of str to array-like
            As returned by `state_dict`.
        strict : bool
            If True, the names must equal the module's; otherwise common names are set and others ignored.

        Returns
        -------
        None, or awaitable of None

        Raises
        ------
        GraphError
            If names differ and `strict` is True.
        DtypeError, ShapeError
            If a value does not fit its variable.
        """
        names = {name: v.name for name, v in self.named_parameters()}
        missing, unknown = [n for n in names if n not in state], [n for n in state if n not in names]
        if strict and (missing or unknown):
            raise GraphError(
                "the state is not that of this module",
                wanted=f"{', '.join(missing) or 'nothing more'}",
                got=f"{', '.join(unknown) or 'nothing else'}",
                hint="strict=False sets what both have",
            )
        return session.write_variables({full: state[name] for name, full in names.items() if name in state})

    def __repr__(self) -> str:
        size = sum(v.shape.num_elements or 0 for v in self.parameters())
        return f"<{type(self).__name__} {self.name}: {len(self.parameters())} variables, {size:,} elements>"


def _guard_constructor(initialize: Callable[..., None]) -> Callable[..., None]:
    return refuses_misuse(track_construction(initialize))


@dataclass_transform(eq_default=False)
def module_of_fields(kind: type[M]) -> type[M]:
    """Give a module a constructor whose parameters are the annotated fields of the class; see `takes_fields`."""
    return make_constructor(kind, _guard_constructor)


def _apply_to_result(result: Any, change: Any) -> Any:
    """Return `change` applied to a result, or an awaitable of this if the result is a coroutine."""
    # One method serves a Session and a SyncSession, without asking which of the two it has.
    if not asyncio.iscoroutine(result):
        return change(result)

    async def await_result() -> Any:
        return change(await result)

    return await_result()


def _walk_module(module: Module) -> Iterator[tuple[str, Any]]:
    """Yield (path, item) for all variables and modules in a module, each once."""
    seen: set[int] = {id(module)}
    for name, value in vars(module).items():
        yield from _walk_attribute(name, value, seen)


def _walk_attribute(name: str, value: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield the variables and modules of one attribute, recursively through containers and modules."""
    # Containers become mappings from keys to items, so that paths read ``layers.0.kernel``.
    if isinstance(value, (list, tuple, PartitionedVariable)):
        value = dict(enumerate(value))
    elif not isinstance(value, (Mapping, Module)) and (parts := nest.children(value)) is not None:
        value = {label.strip("[].'\""): part for label, part in parts}  # deques, dataclasses, registered containers
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _walk_attribute(f"{name}.{key}", inner, seen)
    elif isinstance(value, (Variable, Module)) and id(value) not in seen:
        seen.add(id(value))
        yield name, value
        if isinstance(value, Module):  # only where seen first, so that cycles of modules end
            for key, inner in vars(value).items():
                yield from _walk_attribute(f"{name}.{key}", inner, seen)


class Sequential(Module):
    """A chain of modules or functions of a tensor.

    Parameters
    ----------
    *layers : callable
        Each is called with the result of the preceding layer.
    name : str, optional

    Attributes
    ----------
    layers : list

    Examples
    --------
    >>> import tagloom as tg
    >>> double = tg.nn.Sequential(lambda x: x + 1, lambda x: 2 * x)
    >>> tg.function(lambda: double(tg.constant(3))).sync()
    array(8, dtype=int32)
    """

    def __init__(self, *layers: Any, name: str | None = None) -> None:
        super().__init__(name)
        for layer in layers:
            if not callable(layer):
                raise GraphError(
                    "Sequential takes modules, or functions of a tensor",
                    wanted="Sequential(first, second)",
                    got=repr(layer),
                    hint="Sequential(*layers), where layers is a list"
                    if isinstance(layer, (list, tuple))
                    else "a layer",
                )
        self.layers: list[Any] = list(layers)

    def forward(self, x: Any) -> Any:
        """Return `x` after all layers."""
        for layer in self.layers:
            x = layer(x)
        return x
