"""Updates of variables at indices: methods of variables, and TensorFlow 1's functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from ...base.docstrings import Family, name_function
from ...base.errors import GraphError
from ...ir import entry
from ...ir.entry import public
from ...ir.tensor import Operators, Tensor


class Scattered(Operators):
    """Base class of variables: updates of rows, and of elements or blocks at index vectors."""

    __slots__ = ()

    # Variables define this method, which knows their handle and shape.
    def _build_scatter(self, type: str, indices: Any, updates: Any, name: str | None, ordered: bool) -> Tensor:
        raise NotImplementedError

    @public
    def scatter_mul(
        self, indices: Any, updates: Any = None, name: str | None = None, *, ordered: bool = True
    ) -> Tensor:
        """Multiply rows `indices` by `updates`, as in `scatter_update`, also `ordered`; repeated rows in sequence."""
        return self._build_scatter("ScatterMul", indices, updates, name, ordered)

    @public
    def scatter_div(
        self, indices: Any, updates: Any = None, name: str | None = None, *, ordered: bool = True
    ) -> Tensor:
        """Divide rows `indices` by `updates`, as in `scatter_update`, also `ordered`; repeated rows in sequence."""
        return self._build_scatter("ScatterDiv", indices, updates, name, ordered)

    @public
    def scatter_max(
        self, indices: Any, updates: Any = None, name: str | None = None, *, ordered: bool = True
    ) -> Tensor:
        """Replace rows `indices` by the elementwise maximum with `updates`, as in `scatter_update`, also `ordered`."""
        return self._build_scatter("ScatterMax", indices, updates, name, ordered)

    @public
    def scatter_min(
        self, indices: Any, updates: Any = None, name: str | None = None, *, ordered: bool = True
    ) -> Tensor:
        """Replace rows `indices` by the elementwise minimum with `updates`, as in `scatter_update`, also `ordered`."""
        return self._build_scatter("ScatterMin", indices, updates, name, ordered)

    @public
    def scatter_nd_update(self, indices: Any, updates: Any, name: str | None = None, *, ordered: bool = True) -> Tensor:
        """Replace elements or blocks.

        Parameters
        ----------
        indices : int32 or int64 Tensor of shape [..., k]
            Each vector indexes the first k dimensions.
        updates : Tensor of the variable's dtype
            Of shape ``indices.shape[:-1] + variable.shape[k:]``. Among updates of the same vector the last holds.
        ordered : bool, optional
            As in `assign`.

        Returns
        -------
        Tensor
            The new value of the whole variable.
        """
        return self._build_scatter("ScatterNdUpdate", indices, updates, name, ordered)

    @public
    def scatter_nd_add(self, indices: Any, updates: Any, name: str | None = None, *, ordered: bool = True) -> Tensor:
        """Add `updates` at `indices`, as in `scatter_nd_update`, also `ordered`; repeated vectors add up."""
        return self._build_scatter("ScatterNdAdd", indices, updates, name, ordered)

    @public
    def scatter_nd_sub(self, indices: Any, updates: Any, name: str | None = None, *, ordered: bool = True) -> Tensor:
        """Subtract `updates` at `indices`, as in `scatter_nd_update`, also `ordered`; repeated vectors add up."""
        return self._build_scatter("ScatterNdSub", indices, updates, name, ordered)


class Scatter(Protocol):
    """A public function that updates a variable at indices."""

    def __call__(
        self, ref: Any, indices: Any, updates: Any, use_locking: Any = None, name: str | None = None
    ) -> Tensor: ...


_ROWS = {
    "indices": "int32 or int64 Tensor of any shape\n    Numbers of rows.",
    "updates": """Tensor of the variable's dtype
    Of shape ``indices.shape + ref.shape[1:]``, or a scalar for all rows.""",
}
_VECTORS = {
    "indices": "int32 or int64 Tensor of shape [..., k]\n    Each vector indexes the first k dimensions.",
    "updates": """Tensor of the variable's dtype
    Of shape ``indices.shape[:-1] + ref.shape[k:]``.""",
}
_FAMILY = Family(
    {
        "use_locking": """bool, optional
    Ignored, present for TensorFlow's argument order: updates are always atomic for readers.""",
        "name": "str, optional\n    Name of the operation.",
    },
    "Tensor\n    The new value of the whole variable; run its ``op`` to update only.",
    {"OpError": "When a step runs the operation, if an index is out of range, or the shapes do not fit."},
)
_EXAMPLE = """>>> import tagloom as tg
>>> with tg.Graph().as_default() as graph:
...     v = tg.Variable({begin})
...     changed = tg.{name}(v, {updates})
>>> with tg.SyncSession(graph) as session:
...     session.run(v.initializer)
...     session.run(changed)
{shown}"""


def _define_function(
    name: str, summary: str, arguments: Mapping[str, str], begin: str, updates: str, shown: str
) -> Scatter:
    """Return the public function that calls the variable's method of the same name, with its docstring."""

    def function(ref: Any, indices: Any, updates: Any, use_locking: Any = None, name: str | None = None) -> Tensor:
        # Tensors have no such method, nor have variables in shards, whose rows are in several places.
        if not hasattr(ref, function.__name__):
            raise GraphError(
                f"{function.__name__} changes a variable",
                wanted="a Variable",
                got=repr(ref),
                hint="tensor_scatter_update returns a changed copy of a tensor",
            )
        return getattr(ref, function.__name__)(indices, updates, name)  # type: ignore[no-any-return]

    # Ten functions differ only in their names and texts, so they are made here with their docstrings.
    examples = _EXAMPLE.format(begin=begin, name=name, updates=updates, shown=shown)
    family = replace(_FAMILY, parameters={"ref": "Variable", **arguments, **_FAMILY.parameters})
    return entry.public(family.complete(name_function(function, name, summary), examples))


def _of_rows(name: str, summary: str, shown: str) -> Scatter:
    return _define_function(
        name, summary, _ROWS, "[8.0, 2.0, 4.0]", "[0, 2], [2.0, 5.0]", f"array([{shown}], dtype=float32)"
    )


def _of_blocks(name: str, summary: str, shown: str) -> Scatter:
    begin, updates = "[[1, 2], [3, 4]]", "[[0, 1], [1, 0]], [10, 20]"
    return _define_function(name, summary, _VECTORS, begin, updates, f"array([{shown}], dtype=int32)")


scatter_update: Scatter = _of_rows(
    "scatter_update", "Replace rows of a variable; among updates of the same row the last holds.", "2., 2., 5."
)
scatter_add: Scatter = _of_rows("scatter_add", "Add to rows of a variable; repeated rows add up.", "10.,  2.,  9.")
scatter_sub: Scatter = _of_rows(
    "scatter_sub", "Subtract from rows of a variable; repeated rows add up.", " 6.,  2., -1."
)
scatter_mul: Scatter = _of_rows(
    "scatter_mul", "Multiply rows of a variable; repeated rows in sequence.", "16.,  2., 20."
)
scatter_div: Scatter = _of_rows(
    "scatter_div", "Divide rows of a floating or complex variable; repeated rows in sequence.", "4. , 2. , 0.8"
)
scatter_max: Scatter = _of_rows(
    "scatter_max", "Replace rows of a variable by the elementwise maximum with updates.", "8., 2., 5."
)
scatter_min: Scatter = _of_rows(
    "scatter_min", "Replace rows of a variable by the elementwise minimum with updates.", "2., 2., 4."
)
scatter_nd_update: Scatter = _of_blocks(
    "scatter_nd_update",
    "Replace elements or blocks of a variable; among updates of the same indices the last holds.",
    "[ 1, 10],\n       [20,  4]",
)
scatter_nd_add: Scatter = _of_blocks(
    "scatter_nd_add",
    "Add to elements or blocks of a variable; repeated indices add up.",
    "[ 1, 12],\n       [23,  4]",
)
scatter_nd_sub: Scatter = _of_blocks(
    "scatter_nd_sub",
    "Subtract from elements or blocks of a variable; repeated indices add up.",
    "[  1,  -8],\n       [-17,   4]",
)
