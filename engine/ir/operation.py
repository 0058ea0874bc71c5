"""Operations: the nodes of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from ..base.dtypes import DType
from ..base.errors import GraphError
from ..base.shapes import Shape
from ..base.source_lines import Source
from .definition import OpDefinition, definition_of
from .notes import NO_NOTES, PassNotes
from .tensor import Tensor
from .traits import Role

if TYPE_CHECKING:
    from .graph import Graph
    from .region import Region

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a primitive: a part of a Cond or While.

    Attributes
    ----------
    operation : str
        Name of the Cond or While.
    role : {'variable', 'capture', 'predicate', 'pivot', 'result', 'saved'}
        Purpose of the primitive.
    index : int
        Number of the loop variable, result or saved value; -1 for roles occurring once.
    variable : str or None
        For a loop variable, the name of the body's parameter.
    carried : tuple of str or None
        For a loop variable with a carried dependency, the operations on the path to its new value.
    not_native : str or None
        For a predicate, the reason why its loop is not a native program.
    """

    operation: str
    role: str
    index: int = -1
    variable: str | None = None
    carried: tuple[str, ...] | None = None
    not_native: str | None = None


class Operation:
    """A node of a graph: a type, inputs, control inputs, attributes, and (for Cond and While) regions.

    Attributes
    ----------
    name : str
        Unique in its graph.
    type : str
        Name of its definition.
    inputs, outputs : list of Tensor
        Its data edges; change inputs with :meth:`update_input`.
    control_inputs : list of Operation
        Operations to run first.
    attrs : dict
        Attributes, frozen once the operation is built (Cond and While gain saved results).
    regions : tuple of Region
        The blocks owned by the operation.
    region : Region
        The block around the operation.
    device : str
        The requested device, or ''.
    source : Source or None
        The user's line at which the operation was built.
    origin : Origin or None
        The part of a Cond or While from which a primitive was lowered.
    notes : PassNotes
        Notes of passes for later passes; change them by :meth:`note`.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     y = tg.add(tg.constant([1.0, 2.0], name="x"), 1.0, name="y")
    >>> y.op, y.op.inputs[0]
    (<Operation y (Add)>, <Tensor x:0 float32[2]>)
    """

    __slots__ = (
        "name",
        "type",
        "inputs",
        "outputs",
        "control_inputs",
        "attrs",
        "regions",
        "region",
        "device",
        "source",
        "origin",
        "notes",
        "__weakref__",
    )
    _is_leaf = True
    if TYPE_CHECKING:

        def _fetched(self) -> None: ...  # see `typed.py`

    def __init__(
        self,
        region: Region,
        type: str,
        name: str,
        inputs: Iterable[Tensor],
        outputs: Sequence[tuple[DType, Shape]],
        *,
        control_inputs: Iterable[Operation] = (),
        attrs: dict[str, Any] | None = None,
        regions: Sequence[Region] = (),
        device: str = "",
        source: Source | None = None,
        origin: Origin | None = None,
    ) -> None:
        # A flag spares the call for nearly all operations: few graphs are finalized or built by several threads.
        if region.graph.guarded:
            region.graph.check_open()
        self.region: Region = region
        self.type: str = type
        self.name: str = name
        self.inputs: list[Tensor] = list(inputs)
        self.outputs: list[Tensor] = [Tensor(self, i, dtype, shape) for i, (dtype, shape) in enumerate(outputs)]
        self.control_inputs: list[Operation] = list(dict.fromkeys(control_inputs))
        self.attrs: dict[str, Any] = attrs or {}
        self.regions: tuple[Region, ...] = tuple(regions)
        self.device: str = device
        self.source: Source | None = source
        self.origin: Origin | None = origin
        self.notes: PassNotes = NO_NOTES
        for inner in self.regions:
            inner.owner = self
        for tensor in self.inputs:
            tensor._consumers[self] = None
        region.operations.append(self)
        region.graph._register_name(self)

    @property
    def graph(self) -> Graph:
        """The graph of the operation."""
        return self.region.graph

    def note(self, **notes: Any) -> None:
        """Leave `notes`, fields of `PassNotes`, for later passes."""
        self.notes = replace(self.notes, **notes)

    @property
    def own_attrs(self) -> dict[str, Any]:
        """The attributes declared by the type, without additions by scopes."""
        return {key: self.attrs[key] for key in self.definition.attrs if key in self.attrs}

    @property
    def definition(self) -> OpDefinition:
        """The definition of the type."""
        return definition_of(self.type)

    def rule(self, kind: type[R]) -> R | None:
        """Return the type's rule of the class `kind`, such as `Batch`; None if the type has no such rule."""
        return definition_of(self.type).rules.get(kind)

    @property
    def role(self) -> Role:
        """Role in the structure of the graph."""
        return definition_of(self.type).role

    @property
    def is_cond(self) -> bool:
        """True for a Cond, which owns branches."""
        return self.type == "Cond"

    @property
    def is_while(self) -> bool:
        """True for a While, which owns a predicate and a body."""
        return self.type == "While"

    @property
    def is_param(self) -> bool:
        """True for a parameter of a region."""
        return self.type == "Param"

    @property
    def is_constant(self) -> bool:
        """True for a constant."""
        return self.type == "Const"

    def get_attr(self, name: str) -> Any:
        """Return an attribute; GraphError if the operation has none of this name."""
        try:
            return self.attrs[name]
        except KeyError:
            raise GraphError(
                "no such attribute",
                wanted=list(self.attrs),
                got=name,
                operation=self,
                hint="use one of these",
            ) from None

    def update_input(self, index: int, tensor: Tensor) -> None:
        """Replace an input, such as the back edge of a hand-made loop at a Merge.

        Parameters
        ----------
        index : int
            Number of the input.
        tensor : Tensor
            A tensor of the same dtype as the old input, in scope of the operation's region.

        Raises
        ------
        GraphError
            If the index is out of range, the tensor's dtype or region does not fit, or the graph is finalized.
        """
        self.graph.check_open()
        if not 0 <= index < len(self.inputs):
            raise GraphError(
                "no such input",
                wanted=f"0 to {len(self.inputs) - 1}",
                got=index,
                operation=self,
                hint="see operation.inputs",
            )
        old = self.inputs[index]
        if tensor.dtype is not old.dtype:
            raise GraphError(
                "the new input has another dtype",
                wanted=old.dtype,
                got=tensor.dtype,
                operation=self,
                hint=f"use cast(..., '{old.dtype}')",
            )
        if not self.region.sees(tensor):
            raise GraphError(
                "the new input is in another region",
                got=tensor,
                operation=self,
                wanted=f"a tensor of the {self.region.path()} or of a region around it",
                hint="return it from the branch or body it is in",
            )
        self.inputs[index] = tensor
        # The old tensor may still be another input; consumers are a set of operations, not of edges.
        if all(other is not old for other in self.inputs):
            old._consumers.pop(self, None)
        tensor._consumers[self] = None
        self.graph.version += 1

    def replace_inputs(self, moved: Mapping[Tensor, Tensor]) -> None:
        """Replace the inputs among the keys of `moved` by other tensors of the same dtypes, in scope."""
        if any(t in moved for t in self.inputs):
            # All old inputs are given up first, because an old input may be among the new ones.
            for tensor in self.inputs:
                tensor._consumers.pop(self, None)
            self.inputs = [moved.get(t, t) for t in self.inputs]
            for tensor in self.inputs:
                tensor._consumers[self] = None
            self.graph.version += 1

    def add_output(self, dtype: DType, shape: Shape) -> Tensor:
        """Append and return a result of a dtype and static shape (Cond and While gain saved values this way)."""
        tensor = Tensor(self, len(self.outputs), dtype, shape)
        self.outputs.append(tensor)
        return tensor

    def __reduce__(self) -> Any:
        return type(self.graph).get_operation_by_name, (self.graph, self.name)  # see pickling.py

    def __repr__(self) -> str:
        return f"<Operation {self.name} ({self.type})>"
