"""Graphs: a root region and the names in it."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import GraphError
from . import scopes
from .gradient_overrides import checked_overrides
from .operation import Operation
from .region import Region
from .rules.edges import Fetchable
from .tensor import Tensor


@dataclass(frozen=True, slots=True)
class Attempt:
    """State of a graph before a tentative build: how often each name was taken, and the lengths of collections."""

    counts: dict[str, int]
    lengths: dict[str, int]


def _operation_of(item: object) -> Operation | None:
    """Return an element of a collection if an operation, or the operation of a tensor; None for other elements."""
    if isinstance(item, Operation):
        return item
    return item.op if isinstance(item, Tensor) else None


class Graph:
    """A program: operations in a root region, and in the regions of their Cond and While operations.

    Parameters
    ----------
    seed : int or None, optional
        Seed of the random operations, which each draw different numbers; None takes a seed from the operating system.
        See :func:`tagloom.set_random_seed`.

    Attributes
    ----------
    finalized : bool
        True after `finalize`.
    guarded : bool
        True if `check_open` has a condition to check or another thread to wait for.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     x = tg.placeholder("float32", [None], name="x")
    >>> graph.get_tensor_by_name("x:0") is x
    True
    """

    def __init__(self, seed: int | None = 0) -> None:
        self.seed: int = checked_seed(seed)
        self.version = 0
        self.finalized: bool = False
        self.guarded: bool = False
        self._building = threading.RLock()  # held while a thread builds a function
        self._builder: int | None = None  # identifier of that thread
        self.root: Region = Region(self, None, "graph")
        self.collections: dict[str, list[Any]] = {}
        self.kept_variables: dict[int, dict[tuple[str, int], Any]] = {}  # by the function that made them, and name
        self.unfeedable: set[Tensor] = set()  # tensors whose value the building used, as an axis or a shape
        self._by_name: dict[str, Operation] = {}
        self._counts: dict[str, int] = {}

    def finalize(self) -> None:
        """Refuse further operations and changed inputs: later attempts raise GraphError at their own line.

        Call this when everything for sessions is built; an operation added by a request recompiles its step.
        """
        self.finalized = self.guarded = True

    @contextmanager
    def built_alone(self) -> Iterator[None]:
        """Allow only this thread to add operations inside; other threads wait for the end.

        Operations of a function are identified by their position in the region, so none may come in between.
        """
        with self._building:
            # A function may build another: the outer one is the builder again afterwards.
            before, self._builder, self.guarded = self._builder, threading.get_ident(), True
            try:
                yield
            finally:
                self._builder = before
                self.guarded = self.finalized or before is not None

    def forget_builder(self) -> None:
        """Unlock the graph in a child process forked while a thread of its parent was building."""
        # A new lock: the thread that holds the old lock does not exist in the child.
        self._building, self._builder, self.guarded = threading.RLock(), None, self.finalized

    def check_open(self) -> None:
        """Raise GraphError if the graph is finalized; wait while another thread builds a function."""
        # Read without the lock: the identifier of this thread is set and cleared by this thread alone.
        if self._builder not in (None, threading.get_ident()):
            # Acquired only to wait: the builder holds the lock until its function is complete.
            with self._building:
                pass
        if self.finalized:
            raise GraphError(
                "the graph is finalized: operations cannot be added, nor inputs changed",
                hint="build all that steps fetch before graph.finalize(), and feed what differs between steps",
            )

    def dismantle(self) -> None:
        """Clear the references between operations, which frees their memory at once; the graph is unusable then."""
        for op in self._by_name.values():
            for tensor in op.outputs:
                tensor._consumers.clear()
            op.outputs.clear()
            op.inputs.clear()
            for region in op.regions:
                region.operations.clear()
        self.root.operations.clear()
        self._by_name.clear()

    def remove(self, operations: Collection[Operation], scope: str) -> None:
        """Remove unused operations of the root region, with their regions and their names.

        Parameters
        ----------
        operations : collection of Operation
        scope : str
            The name scope of these operations, which is not entered again: its names become free.
        """
        gone = set(operations)
        for op in gone:
            # None: an operation with one tensor in two inputs is one consumer, removed at the first of them.
            for tensor in op.inputs:
                tensor._consumers.pop(op, None)
            for region in op.regions:
                for inner in region.walk():
                    self._by_name.pop(inner.name, None)
                    for tensor in inner.inputs:
                        tensor._consumers.pop(inner, None)
            self._by_name.pop(op.name, None)
        root = self.root
        root.operations[:] = [op for op in root.operations if op not in gone]
        # The next use of a variable shares one of these reads, which must not be a removed operation.
        for key, reads in list(root.reads.items()):
            root.reads[key] = [read for read in reads if read.op not in gone]
        for name in [n for n in self._counts if n == scope or n.startswith(f"{scope}/")]:
            if name not in self._by_name:
                del self._counts[name]

    def note_attempt(self) -> Attempt:
        """Return the current names and collection lengths, for `give_up` to undo a later build."""
        return Attempt(dict(self._counts), {key: len(listed) for key, listed in self.collections.items()})

    def give_up(self, attempt: Attempt, regions: Sequence[Region], frees_seeds: bool = True) -> None:
        """Remove regions without an owner: their operations and names, and their entries in collections.

        Seeds taken by random operations become free again, if `frees_seeds`: a replacement draws the same numbers.

        Parameters
        ----------
        attempt : Attempt
            The result of `note_attempt` before the regions were built.
        regions : sequence of Region
        """
        gone = {op for region in regions for op in (*region.walk(), *(t.op for t in region.params))}
        for op in gone:
            self._by_name.pop(op.name, None)
            for tensor in op.inputs:
                tensor._consumers.pop(op, None)
        for key, listed in self.collections.items():
            # Later entries only. Integers are the seeds of random operations.
            start = attempt.lengths.get(key, 0)
            listed[start:] = [
                x for x in listed[start:] if (not frees_seeds if isinstance(x, int) else _operation_of(x) not in gone)
            ]
        # A name still registered belongs to an operation outside the regions given up, and stays taken.
        for name, count in list(self._counts.items()):
            if count != attempt.counts.get(name) and name not in self._by_name:
                if name in attempt.counts:
                    self._counts[name] = attempt.counts[name]
                else:
                    del self._counts[name]

    @contextmanager
    def as_default(self) -> Iterator[Graph]:
        """Direct new operations of this task or thread to this graph."""
        with scopes.enter(scopes.Scope(region=self.root)):
            yield self

    @contextmanager
    def gradient_override_map(self, op_type_map: Mapping[str, str]) -> Iterator[None]:
        """Replace the gradients of operations built inside a `with` block.

        Parameters
        ----------
        op_type_map : dict from str to str
            Types of operations, as in ``op.type``, and names of gradients: registered by
            :class:`RegisterGradient`, or types whose gradient is used.

        Returns
        -------
        context manager

        Raises
        ------
        GraphError
            If there is no such type or gradient.

        Examples
        --------
        >>> import tagloom as tg
        >>> with tg.Graph().as_default() as graph:
        ...     x = tg.placeholder("float32", [])
        ...     with graph.gradient_override_map({"Floor": "Identity"}):
        ...         y = tg.floor(x)
        ...     slope = tg.gradients(y * y, x)
        >>> with tg.SyncSession(graph) as session:
        ...     [float(value) for value in session.run([y, *slope], {x: 3.7})]
        [3.0, 6.0]
        """
        with scopes.within(gradients={**scopes.current().gradients, **checked_overrides(op_type_map)}):
            yield

    def get_operations(self) -> list[Operation]:
        """Return all operations, including operations inside regions."""
        return list(self.root.walk())

    def get_operation_by_name(self, name: str) -> Operation:
        """Return the operation of a name; GraphError if the graph has none."""
        try:
            return self._by_name[name]
        except KeyError:
            raise GraphError(
                "no such operation",
                wanted="the name of one of this graph",
                got=repr(name),
                hint="see graph.get_operations()",
            ) from None

    def get_tensor_by_name(self, name: str) -> Tensor:
        """Return the tensor ``operation:index``."""
        operation, _, index = name.rpartition(":")
        if not operation or not index.isdigit():
            raise GraphError("not a tensor's name", wanted="operation:index", got=name, hint=f"try '{name}:0'")
        outputs = self.get_operation_by_name(operation).outputs
        if int(index) >= len(outputs):
            raise GraphError(
                "no such output",
                wanted=f"{operation}:0 to {operation}:{len(outputs) - 1}" if outputs else "no output",
                got=name,
                operation=self.get_operation_by_name(operation),
                hint="see operation.outputs",
            )
        return outputs[int(index)]

    def as_graph_element(self, element: Any) -> Tensor | Operation:
        """Return the tensor or operation denoted by `element`, an object or a name."""
        if isinstance(element, str):
            return self.get_tensor_by_name(element) if ":" in element else self.get_operation_by_name(element)
        if not isinstance(element, (Tensor, Operation)) and hasattr(element, "_as_graph_element"):
            element = element._as_graph_element()
        if not isinstance(element, (Tensor, Operation)):
            raise GraphError(
                "not a tensor, operation, variable or name",
                wanted="something of this graph",
                got=repr(element),
                hint="make a tensor of it with convert_to_tensor",
            )
        if element.graph is not self:
            raise GraphError(
                "this belongs to another graph",
                wanted="something of this graph",
                got=element,
                operation=getattr(element, "op", element),
                hint="use a session of its own graph",
            )
        return element

    def fed_tensor(self, element: Any) -> Tensor | Operation:
        """Return the tensor fed for `element`: for an operation, its only output."""
        found = self.as_graph_element(element)
        return found.outputs[0] if isinstance(found, Operation) and len(found.outputs) == 1 else found

    def is_feedable(self, element: Any) -> bool:
        """True if a step may be fed a value for `element`: a tensor, variable, name, or single-output operation."""
        found = self.fed_tensor(element)
        if isinstance(found, Operation) or found in self.unfeedable:
            return False
        # A tensor in a region has a value for each iteration, or none: a single fed value cannot replace it.
        return found.op.region is self.root and found.dtype.is_value

    def is_fetchable(self, element: Any) -> bool:
        """True if a step may fetch `element`: a tensor, operation, variable or name of this graph (rule 62)."""
        found = self.as_graph_element(element)
        op = found.op if isinstance(found, Tensor) else found
        gives = isinstance(found, Operation) or found.dtype.is_value or op.definition.has(Fetchable)
        return op.region is self.root and gives

    def unique_name(self, name: str) -> str:
        """Return `name`, or the first free name of name_1, name_2, ..., and take it."""
        count = self._counts.get(name, 0)
        self._counts[name] = count + 1
        if count == 0:
            return name
        # Recursive, because name_1 may itself have been asked for as a name.
        return self.unique_name(f"{name}_{count}")

    def to_text(self) -> str:
        """Return the graph as text, a line per operation; see :func:`tagloom.ir.text.to_text`."""
        from .text import to_text

        return to_text(self)

    def to_dot(self) -> str:
        """Return text for Graphviz: ``dot -Tsvg``.

        Branches and loop bodies are frames next to their owners. Data edges are solid and labelled
        with dtype and shape, control edges dashed, results of a branch or body dotted.

        Returns
        -------
        str

        Examples
        --------
        >>> import tagloom as tg
        >>> with tg.Graph().as_default() as graph:
        ...     x = tg.placeholder("float32", [None], name="x")
        ...     y = tg.exp(x, name="y")
        >>> [line.strip() for line in graph.to_dot().splitlines() if "->" in line]
        ['"x" -> "y" [label="float32[?]"];']
        """
        from .drawing import to_dot

        return to_dot(self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the graph to a file, in the format of the name's suffix.

        Parameters
        ----------
        path : path-like
            ``.html`` for a page for any browser, without a network: operations in layers, branches and loop
            bodies as folding frames, a search, and for each operation its dtypes, shapes, device, attributes and
            the user's line. ``.dot`` for Graphviz (see `to_dot`), ``.txt`` for `to_text`.

        Raises
        ------
        GraphError
            If the name has none of these suffixes.

        Examples
        --------
        >>> import pathlib, tempfile, tagloom as tg
        >>> with tg.Graph().as_default() as graph:
        ...     y = tg.exp(tg.placeholder("float32", [None], name="x"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     graph.save(f"{folder}/graph.html")
        ...     pathlib.Path(folder, "graph.html").read_text()[:15]
        '<!doctype html>'
        """
        from .drawing import to_dot
        from .graph_page import to_page
        from .text import to_text

        write = {".html": to_page, ".dot": to_dot, ".txt": to_text}.get(Path(path).suffix)
        if write is None:
            raise GraphError(
                "no form of a graph for this name",
                wanted=".html, .dot or .txt at its end",
                got=str(path),
                hint="graph.save('graph.html')",
            )
        Path(path).write_text(write(self), encoding="utf-8")

    def _repr_html_(self) -> str:
        """Return the display of a notebook: the page of `save` in a frame."""
        from .graph_page import to_html

        return to_html(self)

    @staticmethod
    def from_text(text: str) -> Graph:
        """Return the graph described by a text of `to_text`.

        Parameters
        ----------
        text : str
            Text from any source: dtypes and shapes are inferred anew, and nothing in a text is executed.

        Returns
        -------
        Graph
            Its operations and tensors are found by their names; variables are operations.

        Raises
        ------
        GraphError
            If the text is wrong, with the line and the expected token; if the text holds a Python callable, or a cycle.

        Examples
        --------
        >>> import tagloom as tg
        >>> with tg.Graph().as_default() as graph:
        ...     y = tg.add(tg.constant(2.0), 3.0, name="y")
        >>> again = tg.Graph.from_text(graph.to_text())
        >>> with tg.SyncSession(again) as session:
        ...     float(session.run("y:0"))
        5.0
        """
        from .text import parse

        return parse(text)

    def __reduce__(self) -> Any:
        from .pickling import details, skeleton

        # In two steps: `details` may refer to operations, which must exist before they are referred to.
        return _remade, skeleton(self), details(self)

    def __setstate__(self, found: dict[str, Any]) -> None:
        from .pickling import restore

        restore(self, found)

    def __copy__(self) -> Graph:
        return deepcopy(self)  # operations belong to one graph

    def _register_name(self, operation: Operation) -> None:
        self._by_name[operation.name] = operation

    @property
    def num_operations(self) -> int:
        """Number of operations, including operations inside regions."""
        return len(self._by_name)

    def __repr__(self) -> str:
        return f"<Graph: {len(self._by_name)} operations>"


def _remade(blocks: list[Any], nodes: list[Any]) -> Graph:
    from .pickling import rebuild

    graph = Graph()
    rebuild(graph, blocks, nodes)
    return graph


def checked_seed(seed: int | None) -> int:
    """Return the seed of a graph as an int; for None, a seed of the operating system."""
    if seed is None:
        return secrets.randbits(63)
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
        return int(seed)
    raise GraphError("not a seed", wanted="an integer, or None", got=repr(seed), hint="give an integer, as in 7")
