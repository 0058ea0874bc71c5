"""Iterators over Datasets in a graph: elements as operations, and operations for restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base.errors import GraphError
from ..ir import scopes
from ..ir.apply import apply, build, scoped_name
from ..ir.entry import public
from ..ir.misuse import refuses_misuse
from ..ir.operation import Operation
from ..ir.tensor import Tensor
from ..ops.queues import iterators as _operations  # noqa: F401  declares the operation types used below
from ..ops.queues.iterators import Sources
from .stages.elements import leaves_of, pack_leaves

if TYPE_CHECKING:
    from .dataset import Dataset


class GraphIterator:
    """An iterator of a session, made by :meth:`Dataset.graph_iterator`, whose elements are tensors of a graph.

    A session begins its first iteration when a step first requests an element; `reset` begins the next one. The numbers
    of iterations, on which `shuffle` and ``map(seed=)`` depend, count from 0 in each session, separately for each
    Dataset. The numbers and the position in the Dataset are saved by ``Session.snapshot()`` and by a `Checkpointer`.

    Attributes
    ----------
    element_spec : structure of TensorSpec
    reset : Operation
        Begins the next iteration over the iterator's first Dataset.

    Examples
    --------
    Epochs of training, with a validation after each, in one graph:

    >>> import asyncio, numpy as np, tagloom as tg
    >>> training = tg.data.from_arrays(np.arange(4.0)).shuffle(4, seed=1)
    >>> validation = tg.data.from_arrays(np.array([10.0]))
    >>> with tg.Graph().as_default() as graph:
    ...     iterator = training.graph_iterator()
    ...     x, validate = iterator.next(), iterator.begin(validation)
    >>> async def all_of(session):
    ...     found = []
    ...     try:
    ...         while True:
    ...             found.append(float(await session.run(x)))
    ...     except tg.QueueClosed:
    ...         return found
    >>> async def main():
    ...     found = []
    ...     async with tg.Session(graph) as session:
    ...         for epoch in range(2):
    ...             await session.run(iterator.reset)
    ...             found += [sorted(await all_of(session))]
    ...             await session.run(validate)
    ...             found += [await all_of(session)]
    ...     return found
    >>> asyncio.run(main())
    [[0.0, 1.0, 2.0, 3.0], [10.0], [0.0, 1.0, 2.0, 3.0], [10.0]]
    """

    @refuses_misuse
    def __init__(self, dataset: Dataset, shared_name: str | None = None, name: str = "iterator") -> None:
        if dataset.element_spec is None:
            raise GraphError(
                "a graph needs to know the dtypes and shapes of a pipeline's elements",
                wanted="a Dataset with an element_spec",
                got=dataset,
                hint="tell them to the last map: map(f, output=tagloom.TensorSpec([None], 'int32')), or by check(spec)",
            )
        self.element_spec: Any = dataset.element_spec
        self._scope = scoped_name(name)
        # operations with one shared name must number their Datasets alike
        self._sources = dataset.graph_sources if shared_name is not None else Sources([dataset.components])
        self._graph = scopes.get_default_graph()
        # in the root region, so that loops and branches share one handle
        with scopes.within(region=self._graph.root, control_inputs=(), name=self._scope):
            self._handle: Tensor = apply(
                "IteratorHandle", name="handle", shared_name=shared_name or self._scope, dataset=self._sources
            )
        self._reset: Operation | None = None

    def __repr__(self) -> str:
        return f"<GraphIterator {self._scope} of {self.element_spec}>"

    @public
    def next(self) -> Any:
        """Return the outputs of an operation by which each step takes the next element.

        Returns
        -------
        Tensor or structure of them
            With the dtypes and shapes of `element_spec`.

        Raises
        ------
        QueueClosed
            When a step runs the operation, at the end of the iteration, until a step runs `reset`.
        PipelineError
            When a step runs the operation, if the element cannot be made or does not fit; the next step gets the next
            element.
        """
        leaves = leaves_of(self.element_spec)
        op = build(
            "IteratorGetNext",
            [self._handle],
            name=f"{self._scope}/next",
            dtypes_=tuple(each.dtype for each in leaves),
            shapes=tuple(each.shape for each in leaves),
        )
        return pack_leaves(self.element_spec, iter(op.outputs))

    @property
    def reset(self) -> Operation:
        """Operation to begin the next iteration over the iterator's first Dataset."""
        if self._reset is None:
            with scopes.within(region=self._graph.root, control_inputs=(), name=None):
                self._reset = self._build_reset(0, "reset")  # source 0 is the first Dataset
        return self._reset

    @public
    def begin(self, dataset: Dataset, name: str = "begin") -> Operation:
        """Return an operation to begin the next iteration over another Dataset, such as for validation.

        Parameters
        ----------
        dataset : Dataset
            With an equal `element_spec`. From then on the iterator's operations deliver this Dataset's elements.
        name : str
            Name of the operation.

        Returns
        -------
        Operation

        Raises
        ------
        GraphError
            If the Dataset has another spec.
        """
        spec = getattr(dataset, "element_spec", None)
        if spec != self.element_spec:
            raise GraphError(
                "an iterator goes through Datasets of one element_spec",
                wanted=self.element_spec,
                got=spec if spec is not None else dataset,
                hint="give both the same shapes, by check(spec) with [None, ...] where they differ",
            )
        return self._build_reset(self._sources.add(dataset.components), name)

    def _build_reset(self, source: int, name: str) -> Operation:
        return build("IteratorReset", [self._handle], name=f"{self._scope}/{name}", source=source)
