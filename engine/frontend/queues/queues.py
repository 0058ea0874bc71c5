"""Queues: first in first out, padding, by priority, shuffled; as in TensorFlow 1, but waiting occupies no thread."""

from __future__ import annotations

from dataclasses import KW_ONLY, InitVar
from typing import Any

from ...base.docstrings import Family
from ...base.errors import GraphError
from ...base.shapes import SCALAR
from ...ir import scopes
from ...ir.fields import takes_fields
from ...ops.queues import operations as _operations  # noqa: F401  declares the operation types used below
from .queue_base import QueueBase
from .queue_components import component_shapes

_QUEUE = Family(
    {
        "capacity": """int
    Maximum number of elements; below 0 there is no bound.""",
        "dtypes": """dtype-like, list of them, or container
    Of an element's components. With a dict, named tuple, dataclass or registered container of dtypes, elements are
    put and returned in such a container.""",
        "shapes": """list of shapes, optional
    Of the components; needed to dequeue several elements at once.""",
        "names": """list of str, optional
    Of the components; elements are then dicts.""",
        "shared_name": """str, optional
    Queues of the same shared name are the same queue in a session; by default the queue's own name.""",
        "name": """str
    Name in the graph.""",
        "capacity_bytes": """int
    Maximum bytes in the queue; below 0 there is no bound.""",
    },
    returns="",
    raises={
        "OpError": "When a step uses the queue, if another kind, dtypes or shapes are in use under its shared name."
    },
)


@_QUEUE.complete
@takes_fields
class FIFOQueue(QueueBase):
    """A queue that returns its elements in the order of their arrival.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     queue = tg.FIFOQueue(10, "int32", shapes=[[]])
    ...     fill, done, pair = queue.enqueue_many([1, 2, 3]), queue.close(), queue.dequeue_up_to(2)
    >>> with tg.SyncSession(graph) as session:
    ...     for each in (fill, done):
    ...         session.run(each)
    ...     session.run(pair), session.run(pair)
    (array([1, 2], dtype=int32), array([3], dtype=int32))
    """

    capacity: int
    dtypes: InitVar[Any]
    shapes: InitVar[Any] = None
    names: InitVar[Any] = None
    shared_name: InitVar[str | None] = None
    name: str = "fifo_queue"
    _: KW_ONLY
    capacity_bytes: int = -1

    order = "fifo"


@_QUEUE.complete
@takes_fields
class PaddingFIFOQueue(QueueBase):
    """A FIFOQueue whose batches are padded with zeros, empty strings or False to the largest of their elements.

    Parameters
    ----------
    shapes : list of shapes
        Of the components: ranks must be known, None dimensions vary from element to element.

    Raises
    ------
    GraphError
        If a rank is unknown.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     queue = tg.PaddingFIFOQueue(10, "int32", shapes=[[None]])
    ...     puts, pair = [queue.enqueue([[1]]), queue.enqueue([[2, 3]])], queue.dequeue_many(2)
    >>> with tg.SyncSession(graph) as session:
    ...     for put in puts:
    ...         session.run(put)
    ...     session.run(pair)
    array([[1, 0],
           [2, 3]], dtype=int32)
    """

    capacity: int
    dtypes: InitVar[Any]
    shapes: InitVar[Any]
    names: InitVar[Any] = None
    shared_name: InitVar[str | None] = None
    name: str = "padding_fifo_queue"
    _: KW_ONLY
    capacity_bytes: int = -1

    order = "padding"

    # Padding makes sizes equal, but not ranks.
    def _require_shapes(self, name: str) -> None:
        if any(shape.rank is None for shape in self.shapes):
            raise GraphError(
                f"{name} needs to know the ranks of the components of queue '{self.name}'",
                wanted="shapes, whose dimensions may be None",
                got=list(self.shapes),
                hint="give shapes with None for each dimension that varies",
            )


@_QUEUE.complete
@takes_fields
class PriorityQueue(QueueBase):
    """A queue that returns the element of the smallest priority first, and equal priorities in the order of arrival.

    Elements have an additional first component: an int64 scalar, their priority.

    Parameters
    ----------
    names : list of str, optional
        Of all components, beginning with the priority; elements are then dicts.
    types : dtype-like or list of them
        Of the components after the priority.
    shapes : list of shapes, optional
        Of the components after the priority.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     queue = tg.PriorityQueue(10, "string", shapes=[[]])
    ...     fill = queue.enqueue_many([[2, 1], ["later", "first"]])
    ...     priority, what = queue.dequeue()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(fill)
    ...     session.run(what).item()
    'first'
    """

    capacity: int
    types: InitVar[Any]
    shapes: InitVar[Any] = None
    names: InitVar[Any] = None
    shared_name: InitVar[str | None] = None
    name: str = "priority_queue"
    _: KW_ONLY
    capacity_bytes: int = -1

    order = "priority"

    def __post_init__(self, types: Any, shapes: Any, names: Any, shared_name: str | None) -> None:
        listed = list(types) if isinstance(types, (list, tuple)) else [types]
        # The priority is a component before the user's, an int64 scalar.
        all_shapes = [SCALAR, *component_shapes(shapes, len(listed))]
        super().__post_init__(["int64", *listed], all_shapes, names, shared_name)


@_QUEUE.complete
@takes_fields
class RandomShuffleQueue(QueueBase):
    """A queue that returns its elements in random order.

    Parameters
    ----------
    min_after_dequeue : int
        Minimum number of elements left by a dequeue, for shuffling, until the queue is closed.
    seed : int, optional
        Seed of the order, a function of the seed and of the sequence of puts and takes; by default the graph's.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     queue = tg.RandomShuffleQueue(10, 0, "int32", shapes=[[]], seed=1)
    ...     fill, batch = queue.enqueue_many([1, 2, 3, 4]), queue.dequeue_many(4)
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(fill)
    ...     sorted(session.run(batch).tolist())
    [1, 2, 3, 4]
    """

    capacity: int
    min_after_dequeue: int
    dtypes: InitVar[Any]
    shapes: InitVar[Any] = None
    names: InitVar[Any] = None
    seed: int | None = None
    shared_name: InitVar[str | None] = None
    name: str = "random_shuffle_queue"
    _: KW_ONLY
    capacity_bytes: int = -1

    order = "shuffle"

    def _options(self) -> dict[str, Any]:
        # Without a seed of its own the queue is reproducible through the graph's seed.
        seed = scopes.get_default_graph().seed if self.seed is None else self.seed
        return {**super()._options(), "min_after_dequeue": self.min_after_dequeue, "seed": seed}
