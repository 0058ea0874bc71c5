"""Graphs as text, a line per operation, and back.

::

    graph seed=0
      x = Placeholder() dtype=float32 shape=shape[?] : float32[?]
      p = Placeholder() dtype=bool shape=shape[] : bool[]
      cond = Cond(p) : float32[?]
        region "false branch" ()
          Neg = Neg(x) : float32[?]
          return Neg
        region "true branch" ()
          Add = Add(x, x, ^p) @"/cpu:0" : float32[?]
          return Add

A tensor is ``operation:output``, output 0 just ``operation``; ``^operation`` is a control input. Regions follow
their owner, further indented; ``save`` lines after them are its saved values. Strings are written as in JSON, and
an array larger than 64 elements as base64 of its bytes. The text does not record where or when a graph was built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ..base import dtypes
from ..base.dtypes import DType
from ..base.errors import GraphError
from ..base.settings import WINDOW
from ..base.shapes import Shape
from ..base.source_lines import user_source
from .builder import restore_operation
from .definition import REQUIRED, definition_of, has_default
from .graph import Graph
from .operation import Operation
from .region import Region
from .structured import SavedOutput, saved_outputs
from .tensor import Tensor
from .text_values import Reader, Token, format_name, format_value
from .topological import topological_order
from .traits import Role
from .verify import complaint_of

_INDENT = "  "


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


# Attributes of a While with their defaults (None for no default), and predicates of valid values.
_OF_LOOPS: dict[str, tuple[Any, Callable[[Any], bool]]] = {
    "parallel_iterations": (WINDOW, lambda value: value == "auto" or _is_count(value)),
    "back_prop": (True, _is_bool),
    "swap_memory": (False, _is_bool),
    "checkpoint_every": (None, _is_count),
}
_BY_COMPILER = ("Feed",)  # types that passes make, without a definition of their own


def to_text(graph: Graph) -> str:
    """Return the text of a graph; equal graphs have equal texts.

    Parameters
    ----------
    graph : Graph

    Returns
    -------
    str
        Text for :func:`parse`. Attributes existing only in Python print as ``<callable name>``, and such a graph
        cannot be parsed.
    """
    return "\n".join([f"graph seed={graph.seed}", *_format_block(graph.root, 1)]) + "\n"


def _format_block(region: Region, depth: int) -> list[str]:
    lines = []
    for op in region.operations:
        if op.type != "Param":
            lines.append(_INDENT * depth + _format_operation(op))
            lines += _format_regions(op, depth + 1) if op.regions else []
    return lines


def _format_regions(op: Operation, depth: int) -> list[str]:
    """Return the lines of an operation's regions, each with parameters, operations and results, then saved values."""
    pad = _INDENT * depth
    lines = []
    for region in op.regions:
        params = ", ".join(f"{format_name(p.op.name)} {p.dtype}{p.shape}" for p in region.params)
        lines.append(f"{pad}region {format_value(region.role)} ({params})")
        lines += _format_block(region, depth + 1)
        lines.append(f"{pad}{_INDENT}return {', '.join(map(_format_reference, region.results))}".rstrip())
    return lines + [f"{pad}save {_format_saved_output(extra)}" for extra in saved_outputs(op)]


def _format_operation(op: Operation) -> str:
    inputs = [_format_reference(t) for t in op.inputs] + [f"^{format_name(c.name)}" for c in op.control_inputs]
    words = [f"{format_name(op.name)} = {op.type}({', '.join(inputs)})"]
    words += [f"{key}={format_value(op.attrs[key])}" for key in sorted(op.attrs) if key != "saved_outputs"]
    words += [f"@{format_value(op.device)}"] if op.device else []
    words += [": " + ", ".join(f"{t.dtype}{t.shape}" for t in op.outputs)] if op.outputs else []
    return " ".join(words)


def _format_reference(tensor: Tensor) -> str:
    return format_name(tensor.op.name) + (f":{tensor.index}" if tensor.index else "")


def _format_saved_output(extra: SavedOutput) -> str:
    words = [extra.kind] + ([str(extra.branch)] if extra.kind == "maybe" else [])
    words += [_format_reference(extra.value)] if extra.value is not None else []
    return " ".join(words + (["at", _format_reference(extra.index)] if extra.index is not None else []))


def parse(text: str) -> Graph:
    """Return the graph described by a text of :func:`to_text`.

    Names, static shapes, seed, devices and saved values are taken from the text. State outside of the graph does not
    come back: collections (the initialisers of variables are operations by their names) and lines of source. A text
    is untrusted input: the dtypes and shapes of results are inferred anew, whatever the text says.

    Parameters
    ----------
    text : str

    Returns
    -------
    Graph

    Raises
    ------
    GraphError
        If the text is wrong, with the line and the expected token; if the text holds a Python callable, or a cycle.
    """
    if not isinstance(text, str):
        raise GraphError(
            "a graph is made from its text",
            wanted="a str, as graph.to_text() returns it",
            got=f"{type(text).__name__}: {text!r:.60}",
            hint="data.decode() for bytes, path.read_text() for a file",
        )
    return _Parser(text.removeprefix("\ufeff")).graph()  # editors may put a byte order mark there


Reference = tuple[Token, str, int]


class _Parser:
    # In two passes: operations are made without inputs while the text is read, and connected afterwards, because
    # back edges and saved values refer to operations further down.
    def __init__(self, text: str) -> None:
        self.reader = Reader(text)
        self.source = user_source()
        self.ops: dict[str, Operation] = {}
        self.lines: dict[Operation, Token] = {}
        self.inputs: list[tuple[Operation, list[Reference], list[Reference]]] = []
        self.results: list[tuple[Region, list[Reference]]] = []
        self.saved: list[tuple[Operation, str, int, Reference | None, Reference | None]] = []

    def graph(self) -> Graph:
        self.reader.expect("graph")
        self.reader.expect("seed")
        self.reader.expect("=")
        seed = self.reader.value()
        if not isinstance(seed, int):
            self.reader.fail("an integer seed")
        graph = Graph(seed)
        self.reader.end_line()
        while self.reader.at < len(self.reader.tokens) - 1:
            self.read_operation(graph.root)
        self.connect_operations()
        self.check(graph.root)
        return graph

    def read_operation(self, region: Region) -> None:
        start = self.reader.next
        name = self.reader.name()
        self.reader.expect("=")
        type_ = self.known_type()
        inputs, controls = self.read_arguments()
        attrs = self.read_attributes()
        device = self.reader.string() if self.reader.accept("@") else ""
        outputs = self.read_outputs()
        self.reader.end_line()
        regions = self.read_regions(region) if type_ in ("Cond", "While") else []
        # After the regions, since one of their operations may have taken the name.
        self.check_free(start, name)
        unique = region.graph.unique_name(name)
        fields = {"attrs": attrs, "regions": regions, "device": device, "source": self.source}
        op = restore_operation(region, type_, unique, outputs, **fields)
        self.ops[name] = op
        self.lines[op] = start
        self.inputs.append((op, inputs, controls))
        if regions:
            op.attrs["saved_outputs"] = []
            self.saved_outputs(op)

    def known_type(self) -> str:
        token = self.reader.next
        type_ = self.reader.name()
        if type_ not in _BY_COMPILER:
            try:
                definition_of(type_)
            except GraphError:
                self.reader.fail("a declared operation type", token)
        return type_

    def check_free(self, start: Token, name: str) -> None:
        if name in self.ops:
            self.reader.fail("a name that no other operation has", start)

    def read_arguments(self) -> tuple[list[Reference], list[Reference]]:
        self.reader.expect("(")
        inputs: list[Reference] = []
        controls: list[Reference] = []
        for is_control, reference in self.reader.sequence(
            ")", lambda: (self.reader.accept("^"), self.read_reference())
        ):
            (controls if is_control else inputs).append(reference)
        return inputs, controls

    def read_reference(self) -> Reference:
        token = self.reader.next
        name = self.reader.name()
        return token, name, self.reader.integer() if self.reader.accept(":") else 0

    def read_attributes(self) -> dict[str, Any]:
        attrs: dict[str, Any] = {}
        while self.reader.next.kind == "word":
            key = self.reader.name()
            self.reader.expect("=")
            attrs[key] = self.reader.value()
        return attrs

    def read_outputs(self) -> list[tuple[DType, Shape]]:
        if not self.reader.accept(":"):
            return []
        found = [self.reader.typed()]
        while self.reader.accept(","):
            found.append(self.reader.typed())
        return found

    def read_regions(self, parent: Region) -> list[Region]:
        found = []
        while self.reader.accept("region"):
            region = Region(parent.graph, parent, self.reader.string())
            self.reader.expect("(")
            self.reader.sequence(")", lambda region=region: self.read_param(region))
            self.reader.end_line()
            while not self.reader.accept("return"):
                if self.reader.at == len(self.reader.tokens) - 1:
                    self.reader.fail("an operation, or the return of this region")
                self.read_operation(region)
            self.results.append((region, self.read_references()))
            found.append(region)
        if not found:
            self.reader.fail("the regions of this operation")
        return found

    def read_references(self) -> list[Reference]:
        found = []
        while self.reader.next.kind != "end":
            found.append(self.read_reference())
            if not self.reader.accept(","):
                break
        self.reader.end_line()
        return found

    def read_param(self, region: Region) -> None:
        start = self.reader.next
        name = self.reader.name()
        self.check_free(start, name)
        self.ops[name] = region.add_param(*self.reader.typed(), name).op

    def saved_outputs(self, op: Operation) -> None:
        while self.reader.accept("save"):
            kind = self.reader.name()
            if kind not in ("maybe", "series", "trip"):
                self.reader.fail("maybe, series or trip")
            branch = self.reader.integer() if kind == "maybe" else -1
            value = self.read_reference() if kind != "trip" else None
            index = self.read_reference() if kind == "series" and self.reader.accept("at") else None
            self.reader.end_line()
            self.saved.append((op, kind, branch, value, index))

    def connect_operations(self) -> None:
        # After all operations are read, because back edges refer to later lines.
        for op, inputs, controls in self.inputs:
            op.inputs = [self.tensor(r) for r in inputs]
            op.control_inputs = [self.named(r) for r in controls]
            for tensor in op.inputs:
                tensor._consumers[op] = None
        for region, results in self.results:
            region.results = [self.tensor(r) for r in results]
        for op, kind, branch, value, index in self.saved:
            extra = SavedOutput(kind, value and self.tensor(value), index and self.tensor(index), branch)
            saved_outputs(op).append(extra)

    def check(self, region: Region) -> None:
        """Check each operation against its definition, and infer the dtypes and shapes of its outputs."""
        # Inputs are inferred before the results computed from them.
        for op in topological_order([op for op in region.operations if not op.is_param]):
            for inner in op.regions:
                self.check(inner)
            complaint = complaint_of(op)
            if complaint is not None:
                what, wanted, got = complaint
                self.refuse(op, f"{what}: {wanted}", got)
            if op.is_while:
                self.check_loop(op)
            if not op.regions:
                self.infer_outputs(op)

    def check_loop(self, op: Operation) -> None:
        for key, (default, is_right) in _OF_LOOPS.items():
            if default is not None:
                op.attrs.setdefault(key, default)
            if key in op.attrs and not is_right(op.attrs[key]):
                self.refuse(op, f"attribute {key}, as {default or 1!r}", repr(op.attrs[key]))

    def infer_outputs(self, op: Operation) -> None:
        """Infer the dtypes and shapes of the outputs from the inputs, whatever the text says."""
        for key, default in op.definition.attrs.items():
            if key not in op.attrs and default is REQUIRED and not op.is_constant:
                self.refuse(op, f"attribute {key}", "none")
            if has_default(default) and op.role is not Role.SERIES_PUSH:  # lowering leaves its defaults out
                op.attrs.setdefault(key, default)
            if key in op.attrs and not _is_like(op.attrs[key], default):
                self.refuse(op, f"attribute {key}, as {default!r}", repr(op.attrs[key]))
        try:
            typed = _of_value(op.attrs["value"]) if op.is_constant else _of_inputs(op)
            for tensor, (dtype, shape) in zip(op.outputs, typed, strict=True):
                tensor.dtype = dtype
                # The text may know more than the rule, as after set_shape, but where they contradict the rule is right.
                tensor.shape = shape.merge(tensor.shape) if shape.is_compatible_with(tensor.shape) else shape
        except Exception as error:  # a rule may fail in any way on a wrong text
            self.refuse(op, f"what fits {op.type}", f"{type(error).__name__}: {error}".split("\n")[0], error)

    def refuse(self, op: Operation, wanted: str, got: object, cause: Exception | None = None) -> NoReturn:
        raise GraphError(
            f"line {self.lines[op].line} of a graph's text is wrong",
            wanted=wanted,
            got=got,
            operation=op,
            hint="compare it with what to_text prints",
        ) from cause

    def named(self, reference: Reference) -> Operation:
        token, name, _ = reference
        if name not in self.ops:
            self.reader.fail("the name of an operation of this text", token)
        return self.ops[name]

    def tensor(self, reference: Reference) -> Tensor:
        token, name, index = reference
        outputs = self.named(reference).outputs
        if index >= len(outputs):
            self.reader.fail(f"one of the {len(outputs)} outputs of {name}", token)
        return outputs[index]


def _is_like(value: object, default: object) -> bool:
    """True if an attribute is of the kind of its default; attributes without default are checked by the shape rule."""
    if not has_default(default) or default is None or value is None:
        return True
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(value, type(default)) and isinstance(default, type(value))
    if isinstance(default, (int, float, complex)):
        return isinstance(value, (int, float, complex))
    if isinstance(default, (list, tuple)):
        return isinstance(value, (list, tuple))
    return isinstance(value, type(default))


def _of_value(value: object) -> list[tuple[DType, Shape]]:
    """Return the dtype and shape of a constant."""
    if not isinstance(value, np.ndarray):
        raise TypeError(f"an array was wanted, not {value!r}")
    return [(dtypes.as_dtype(value.dtype), Shape(value.shape))]


def _of_inputs(op: Operation) -> list[tuple[DType, Shape]]:
    """Return the dtype and shape of each output, from the signature and the shape rule."""
    signature = op.definition.signature
    pairs = [(p, t.dtype) for p, t in zip(signature.flat(len(op.inputs)), op.inputs, strict=True)]
    found = signature.output_dtypes(signature.check(pairs, op.name), op.attrs)
    shapes = op.definition.shape(op)
    return list(zip(found, [shapes] if isinstance(shapes, Shape) else shapes, strict=True))
