"""Regions: blocks of operations owned by a graph, a Cond or a While."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..base.dtypes import DType
from ..base.errors import GraphError
from ..base.shapes import Shape
from ..base.source_lines import user_source
from .tensor import Tensor

if TYPE_CHECKING:
    from .graph import Graph
    from .operation import Operation


class Region:
    """A block of operations with parameters and results.

    An operation may use tensors of its own region and of every region around it (a capture). `resolver`, set on
    regions built by gradients, maps a tensor of the mirrored forward region to its saved value.

    Attributes
    ----------
    reads : dict
        While a graph is built: the reads shared by further plain uses, by key; any write to the key came earlier.
    written : set
        The keys written by operations of the region, or of regions inside (see `engine/ir/accesses.py`).
    """

    __slots__ = (
        "graph",
        "parent",
        "owner",
        "role",
        "operations",
        "params",
        "results",
        "resolver",
        "reads",
        "written",
        "_places",
    )

    def __init__(self, graph: Graph, parent: Region | None, role: str) -> None:
        self.graph: Graph = graph
        self.parent: Region | None = parent
        self.owner: Operation | None = None
        self.role: str = role
        self.operations: list[Operation] = []
        self.params: list[Tensor] = []
        self._places: dict[Tensor, int] = {}
        self.results: list[Tensor] = []
        self.resolver: Callable[[Tensor], Tensor] | None = None
        self.reads: dict[tuple[str, str], list[Tensor]] = {}
        self.written: set[tuple[str, str]] = set()

    def add_param(self, dtype: DType, shape: Shape, name: str) -> Tensor:
        """Append a parameter, produced by an operation of type Param."""
        from .operation import Operation

        op = Operation(self, "Param", self.graph.unique_name(name), (), [(dtype, shape)])
        self._places[op.outputs[0]] = len(self.params)
        self.params.append(op.outputs[0])
        return op.outputs[0]

    def place_of(self, param: Tensor) -> int:
        """Return the number of a parameter of the region."""
        return self._places[param]

    def ancestors(self) -> Iterator[Region]:
        """Yield this region and the regions around it, innermost first."""
        region: Region | None = self
        while region is not None:
            yield region
            region = region.parent

    def encloses(self, other: Region) -> bool:
        """True if `other` is this region or inside of it."""
        return other is self or any(region is self for region in other.ancestors())

    def is_inside(self, op: Operation) -> bool:
        """Return True if `op` owns this region or a region around, however many regions `op` has."""
        return any(region.owner is op for region in self.ancestors())

    def sees(self, tensor: Tensor) -> bool:
        """True if operations of this region may use the tensor."""
        return tensor.op.region.encloses(self)

    def resolve(self, tensor: Tensor) -> Tensor:
        """Return the stand-in for `tensor` in this region; GraphError if out of scope."""
        if self.sees(tensor):
            return tensor
        for region in self.ancestors():
            # The innermost mirror answers, and asks outer ones itself.
            if region.resolver is not None:
                return region.resolver(tensor)
        where = tensor.op.region
        if where.graph is not self.graph:
            raise GraphError(
                f"tensor {tensor.name} is of another graph",
                got=f"built at {tensor.op.source}",
                operation=tensor.op,
                source=user_source(),
                hint="build everything that belongs together in one graph",
            )
        raise GraphError(
            f"tensor {tensor.name} is used outside the {where.role} it was made in",
            wanted=f"a tensor of the {self.role} or of a region around it",
            got=f"a tensor of the {where.path()}, built at {tensor.op.source}",
            operation=tensor.op,
            source=user_source(),
            hint="return it from the branch or body and use the result of cond or while_loop",
        )

    def path(self) -> str:
        """Return the location of the region as text, innermost first."""
        parts = [f"{r.role} of {r.owner.name}" if r.owner else r.role for r in self.ancestors()]
        return ", in ".join(parts[:-1]) or "graph"

    def walk(self) -> Iterator[Operation]:
        """Yield the operations of this region and of all regions inside."""
        # A stack of iterators instead of recursion: loops and branches may be nested deeper than Python allows.
        # The `break` descends into an operation's regions; its level continues where it stopped.
        levels = [iter(self.operations)]
        while levels:
            for op in levels[-1]:
                yield op
                if op.regions:
                    levels.append(chain.from_iterable([inner.operations for inner in op.regions]))
                    break
            else:
                levels.pop()

    def __reduce__(self) -> Any:
        from .pickling import inner_region

        if self.owner is None:
            return getattr, (self.graph, "root")
        return inner_region, (self.owner, [region is self for region in self.owner.regions].index(True))

    def __repr__(self) -> str:
        return f"<Region {self.path()}: {len(self.operations)} operations>"
