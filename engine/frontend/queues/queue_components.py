"""Components of elements: their dtypes, shapes and names, and the conversion of users' values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...base import dtypes as kinds
from ...base import nest
from ...base.dtypes import DType
from ...base.errors import GraphError
from ...base.shapes import Shape
from ...ir import scopes
from ...ir.apply import apply, convert_to_tensor, scoped_name
from ...ir.tensor import Tensor


class HasComponents:
    """Base class of resources with elements of several components, identified in a session by a shared name.

    Attributes
    ----------
    name : str
        Unique in the graph.
    shared_name : str
        Name in the session; objects of the same shared name share the resource.
    dtypes, shapes : tuple
        Of an element's components.
    names : tuple of str or None
        Of the components, if elements are dicts.
    structure : object
        The dtypes in the container of the elements, unless the container is a list or tuple; then None.
    handle : Tensor
        Of the resource.
    """

    _what = "queue"  # the noun in errors

    def __init__(
        self, type: str, dtypes: Any, shapes: Any, names: Any, shared_name: str | None, name: str, **about: Any
    ) -> None:
        packed = _is_structure(dtypes)
        self.structure: Any = nest.map_structure(kinds.as_dtype, dtypes) if packed else None
        listed = nest.flatten(dtypes) if packed else dtypes if isinstance(dtypes, (list, tuple)) else [dtypes]
        self.dtypes: tuple[DType, ...] = tuple(map(kinds.as_dtype, listed))
        self.shapes: tuple[Shape, ...] = component_shapes(shapes, len(self.dtypes))
        self.names: tuple[str, ...] | None = component_names(names, len(self.dtypes))
        self.name: str = scoped_name(name)
        self.shared_name: str = shared_name or self.name
        graph = scopes.get_default_graph()
        # In the root region: elements outlive steps, and with them branches and iterations.
        with scopes.within(region=graph.root, control_inputs=(), name=self.name):
            self.handle: Tensor = apply(
                type, name="handle", dtypes_=self.dtypes, shapes=self.shapes, shared_name=self.shared_name, **about
            )

    def __repr__(self) -> str:
        parts = ", ".join(f"{d}{s}" for d, s in zip(self.dtypes, self.shapes, strict=True))
        return f"<{type(self).__name__} {self.name} {parts}>"

    @property
    def graph(self) -> Any:
        """The graph of the handle."""
        return self.handle.graph

    def components_of(self, vals: Any) -> list[Any]:
        """Return the components of a user's element: a list, a dict by name, a container, or a single value.

        Raises
        ------
        GraphError
            If the components do not match the dtypes, names or structure.
        """
        if self.names is not None and isinstance(vals, Mapping) and set(vals) == set(self.names):
            return [vals[name] for name in self.names]
        if self.structure is not None:
            return self._leaves_of(vals)
        if not isinstance(vals, (list, tuple, Mapping)) and is_plain_container(vals):
            vals = nest.flatten(vals)
        # A list in place of a single component is its literal value, as in enqueue([1, 2]).
        one = not isinstance(vals, (list, tuple)) or (len(self.dtypes) == 1 and len(vals) != 1)
        listed = [vals] if one else list(vals)
        if self.names is not None or isinstance(vals, Mapping) or len(listed) != len(self.dtypes):
            raise self.other_components(vals)
        return listed

    def _leaves_of(self, vals: Any) -> list[Any]:
        """Return the leaves of an element in the container of the dtypes, or in a plain list."""
        if type(vals) in (list, tuple) and len(vals) == len(self.dtypes):
            return list(vals)
        try:
            return nest.flatten_up_to(self.structure, vals, "the element")
        except ValueError as error:
            raise GraphError(
                f"{self._what} '{self.name}' was given another structure than its dtypes have: {error}",
                wanted=self.structure,
                got=vals,
                hint="give the container in which the dtypes are, with a tensor for each",
            ) from None

    def other_components(self, vals: Any) -> GraphError:
        """Return the error for mismatching components."""
        count = len(vals) if isinstance(vals, (list, tuple)) else 1
        return GraphError(
            f"{self._what} '{self.name}' was given other components than it has",
            wanted=f"a dict of {list(self.names)}" if self.names else f"{len(self.dtypes)} components",
            got=sorted(vals) if isinstance(vals, Mapping) else f"{count} components",
            hint="give a list with a tensor for each dtype, or a dict if it has names",
        )

    def named(self, values: Sequence[Any], indices: Sequence[int] | None = None) -> Any:
        """Return components (of `indices`, if given) as a list, a dict by name, or the container of the dtypes."""
        if self.names is None:
            return list(values) if self.structure is None or indices else nest.pack_as(self.structure, list(values))
        chosen = self.names if indices is None else [self.names[i] for i in indices]
        return dict(zip(chosen, values, strict=True))


def _is_structure(dtypes: Any) -> bool:
    # A plain list or tuple lists the components; any other container is the structure of the elements.
    return type(dtypes) not in (list, tuple) and nest.is_container(dtypes)


def is_plain_container(vals: Any) -> bool:
    """Return True for a container other than a tensor of several parts, such as a sparse tensor or slices."""
    return nest.is_container(vals) and not hasattr(vals, "dtype")


def tensors_of(values: Sequence[Any], dtypes: Sequence[DType]) -> list[Tensor]:
    """Return values as tensors; other values than tensors are converted to the dtype of their component."""
    return [convert_to_tensor(v, None if isinstance(v, Tensor) else d) for v, d in zip(values, dtypes, strict=True)]


def component_shapes(given: Any, count: int) -> tuple[Shape, ...]:
    """Return a shape for each component; GraphError if their numbers differ."""
    if given is None:
        return (Shape(None),) * count
    listed: Sequence[Any] = [given] if not hasattr(given, "__len__") or isinstance(given, str) else given
    # A single component's shape may be given without a list around it, as in shapes=[2, 3].
    if count == 1 and (
        len(listed) != 1 or isinstance(listed, Shape) or not isinstance(listed[0], (list, tuple, Shape))
    ):
        listed = [given]
    if len(listed) != count:
        raise GraphError(
            "a queue needs a shape for each component",
            wanted=f"{count} shapes",
            got=list(listed),
            hint="give shapes as a list, with one shape for each dtype",
        )
    return tuple(map(Shape, listed))


def component_names(given: Any, count: int) -> tuple[str, ...] | None:
    """Return distinct names for all components, or None; GraphError for repeated or missing names."""
    if given is None:
        return None
    names = (given,) if isinstance(given, str) else tuple(given)
    # Names that were given twice would count once in the set alone: [a, a, b] would do for two components.
    if len(names) != count or len(set(names)) != count:
        raise GraphError(
            "a queue needs a name of its own for each component",
            wanted=f"{count} names",
            got=list(names),
            hint="give names= as many different names as there are dtypes, or leave it out",
        )
    return names
