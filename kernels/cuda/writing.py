"""CUDA C of fused elementwise operations: a single function for an operation ``Fused``.

Steps and registers are defined in ``kernels/steps.py``. The columns of a register are cut into pieces where a concat
among its inputs changes to the next operand. So column c of a piece depends on a single column of each operand, and one
thread computes column c for all pieces of equal length: of an LSTM's gates, everything for a unit. Threads share only
the results of reductions; values needed both before and after a reduction are computed twice.

See docs/design/0017-cuda-kernels.md.
"""

from __future__ import annotations

from collections import ChainMap, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from ..steps import STEPS, RowLoop, Step, StepCode, StepKind, StepOp, result_width

NAME = "fused"


class Input(NamedTuple):
    """Description of an input.

    Attributes
    ----------
    width : int
        The last dimension; 0 for a scalar.
    has_rows : bool
        True if all rows are present, False for a single row repeated for all.
    is_value : bool
        True if the scalar is passed by value, not by address.
    """

    width: int
    has_rows: bool
    is_value: bool = False


class Piece(NamedTuple):
    """Some columns of a register: a loop over columns, or a scalar of the row.

    Attributes
    ----------
    register, start : int
        The register, and the first column.
    is_row : bool
        True for a scalar shared by all threads of a row.
    """

    register: int
    start: int
    is_row: bool


def find_widths(steps: Sequence[Step], inputs: Sequence[Input]) -> list[int]:
    """Return the width of each register: first the inputs, then the results of the steps.

    Raises
    ------
    ValueError
        If the operands of a step are incompatible.
    """
    widths = [each.width for each in inputs]
    have_rows = [each.has_rows for each in inputs] + [True] * len(steps)
    for name, operands, columns in steps:
        given = [widths[i] for i in operands], [have_rows[i] for i in operands]
        widths.append(result_width(STEPS[name], *given, columns))
    return widths


def has_reductions(steps: Sequence[Step]) -> bool:
    """Return True if the threads of a row cooperate in a reduction."""
    return any(STEPS[name].kind is StepKind.REDUCE for name, *_ in steps)


def is_flat(steps: Sequence[Step], inputs: Sequence[Input]) -> bool:
    """Return True if rows do not matter: all operations are elementwise, on inputs of equal width with all rows."""
    elementwise = all(STEPS[name].is_elementwise for name, *_ in steps)
    widths = {each.width for each in inputs if each.width}
    return elementwise and len(widths) == 1 and all(each.has_rows for each in inputs if each.width)


def write_fused(steps: Sequence[Step], inputs: Sequence[Input], results: Sequence[int], inside: bool = False) -> str:
    """Return CUDA C of the function ``fused(rows, inputs..., results...)``, to be compiled after ``prelude.cu``.

    Parameters
    ----------
    steps : sequence of (name, operand registers, columns)
        The attribute of the operation.
    inputs : sequence of Input
        The first registers, including constants.
    results : sequence of int
        Registers to write to memory.
    inside : bool
        True to write a device function ``NAME<T>`` instead of a kernel. All threads of a kernel's only block call the
        function; as other instructions write its inputs, pointers are not declared ``__restrict__``.
    """
    return _Writer(steps, inputs, results, inside).write()


class _Writer:
    """The CUDA C of one fused operation while it is written."""

    def __init__(self, steps: Sequence[Step], inputs: Sequence[Input], results: Sequence[int], inside: bool) -> None:
        self.inside = inside
        self.steps = steps
        self.inputs = inputs
        self.results = results
        self.widths = find_widths(steps, inputs)
        self.cuts = self._all_cuts()
        self.lines: list[str] = []
        self.row: dict[Piece, str] = {}  # names of the row's scalars that are computed

    def write(self) -> str:
        """Return the text of the function."""
        loops = self._by_length(enumerate(self.results))
        if has_reductions(self.steps):
            self.lines = ["EACH_ROW(r, rows) {"]
            for length, pieces in loops.items():
                self._add_loop(length, pieces, self._store_piece)
            self.lines.append("}")
        else:
            for length, pieces in loops.items():
                self._add_flat_loop(length, pieces)
        head = "template <class T> __device__ void NAME" if self.inside else f"KERNEL {NAME}"
        head += f"({', '.join(self._list_parameters())})"
        return _indent_lines([head, "{", *self.lines, "}"])

    def _list_parameters(self) -> Iterator[str]:
        # within a kernel an argument may be another instruction's result: no __restrict__
        alone = "" if self.inside else "__restrict__ "
        yield "Index rows"
        for i, each in enumerate(self.inputs):
            yield f"T x{i}" if each.is_value else f"const T* {alone}x{i}"
        yield from (f"T* {alone}y{k}" for k in range(len(self.results)))

    def _all_cuts(self) -> list[list[int]]:
        """Return the first columns of the pieces of each register, followed by its width."""
        found = [[0, max(each.width, 1)] for each in self.inputs]
        for at, (name, operands, columns) in enumerate(self.steps, len(self.inputs)):
            step, width = STEPS[name], max(self.widths[at], 1)
            inner: Iterable[int] = ()
            if step.code is StepCode.SLICE:
                inner = (b - columns[0] for b in found[operands[0]])
            elif step.code is StepCode.CONCAT:
                inner = (start + b for start, i in self._side_by_side(operands) for b in found[i])
            # reductions and broadcasts read no column at the same place: they need no inner cuts
            elif step.is_elementwise:
                inner = (b for i in operands if self.widths[i] == width for b in found[i])
            found.append(sorted({0, width, *(b for b in inner if 0 < b < width)}))
        return found

    def _side_by_side(self, operands: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield the first column of each operand of a concat, with the operand."""
        return zip(accumulate((self.widths[i] for i in operands), initial=0), operands)

    def _by_length(self, registers: Iterable[tuple[int, int]]) -> dict[int, list[tuple[int, Piece]]]:
        """Return the pieces of numbered registers by length, each with its register's number."""
        found: dict[int, list[tuple[int, Piece]]] = defaultdict(list)
        for number, register in registers:
            for start, stop in pairwise(self.cuts[register]):
                found[stop - start].append((number, Piece(register, start, is_row=stop - start == 1)))
        return found

    def _add_flat_loop(self, length: int, pieces: list[tuple[int, Piece]]) -> None:
        """Compute and store pieces of equal length, a column of all of them per thread."""
        self.row = {}
        self.lines.append(f"EACH_ELEMENT(i, rows * {length}) {{")
        self.lines.append(f"Index r = i / {length}, c = i % {length};" if length > 1 else "Index r = i;")
        computed, names = self._compute_pieces([piece for _, piece in pieces])
        self.lines += [*computed, *map(self._store_piece, pieces, names), "}"]

    def _add_loop(self, length: int, pieces: list[tuple[int, Piece]], used: Callable[..., str]) -> None:
        """Compute and use pieces of a row, whose columns are distributed over the threads of the row."""
        computed, names = self._compute_pieces([piece for _, piece in pieces])
        self.lines += [f"EACH_COLUMN(c, {length}) {{", *computed, *map(used, pieces, names), "}"]

    def _store_piece(self, piece: tuple[int, Piece], name: str) -> str:
        k, (register, start, is_row) = piece
        return f"y{k}[{_write_index(self.widths[register], True, start, is_row)}] = {name};"

    def _compute_pieces(self, pieces: list[Piece]) -> tuple[list[str], list[str]]:
        """Return lines to compute pieces, and their names; scalars of the row are added to the row instead."""
        lines: list[str] = []
        names: dict[Piece, str] = {}
        both = ChainMap(names, self.row)
        for piece in self._order_needed_pieces(pieces):
            if piece not in both:
                line, name = self._name_piece(piece, both)
                known, into = (self.row, self.lines) if piece.is_row else (names, lines)
                known[piece] = name
                into.extend(line)
        return lines, [both[piece] for piece in pieces]

    def _order_needed_pieces(self, pieces: Iterable[Piece]) -> list[Piece]:
        """Return pieces and all their inputs in order of computation, excluding the inputs of reductions."""
        needed: dict[int, set[Piece]] = defaultdict(set)
        for piece in pieces:
            needed[piece.register].add(piece)
        # operands have smaller numbers than results, so that one pass backwards finds all
        for register in range(len(self.widths) - 1, -1, -1):
            for piece in needed[register]:
                for operand in self._find_operands(piece):
                    needed[operand.register].add(operand)
        return [piece for register in sorted(needed) for piece in sorted(needed[register])]

    def _find_operands(self, piece: Piece) -> list[Piece]:
        """Return the immediate inputs of a piece."""
        if piece.register < len(self.inputs):
            return []
        name, operands, columns = self.steps[piece.register - len(self.inputs)]
        step = STEPS[name]
        if step.kind is StepKind.REDUCE:
            return []
        if step.code is StepCode.CONCAT:
            offset, operand = [(s, i) for s, i in self._side_by_side(operands) if s <= piece.start][-1]
            return [self._operand_piece(operand, piece.start - offset, piece.is_row)]
        start = piece.start + columns[0] if step.code is StepCode.SLICE else piece.start
        return [self._operand_piece(operand, start, piece.is_row) for operand in operands]

    def _operand_piece(self, register: int, start: int, is_row: bool) -> Piece:
        is_one = self.widths[register] <= 1
        return Piece(register, 0 if is_one else start, is_row or is_one)

    def _name_piece(self, piece: Piece, names: Mapping[Piece, str]) -> tuple[list[str], str]:
        """Return lines to compute a piece, perhaps none, and the piece's name."""
        at = piece.register - len(self.inputs)
        if at < 0 and self.inputs[piece.register].is_value:
            return [], f"x{piece.register}"
        operands = [names[operand] for operand in self._find_operands(piece)]
        step = STEPS[self.steps[at][0]] if at >= 0 else None
        if step is not None and step.kind is StepKind.MOVE:
            return [], operands[0]
        # w for a scalar of the row, v for a value of the column
        name = f"{'w' if piece.is_row else 'v'}{piece.register}_{piece.start}"
        if step is None:
            each = self.inputs[piece.register]
            index = _write_index(each.width, each.has_rows, piece.start, piece.is_row)
            return [f"T {name} = x{piece.register}[{index}];"], name
        if isinstance(step.cuda, RowLoop):
            return [self._reduce_row(step, step.cuda, self.steps[at][1][0], name)], name
        assert step.cuda is not None
        kind = "bool" if step.kind is StepKind.COMPARE else "T"
        return [f"{kind} {name} = {step.cuda.format(*operands)};"], name

    def _reduce_row(self, step: StepOp, loop: RowLoop, register: int, name: str) -> str:
        """Add the loops of a reduction to the row; return the final line."""
        begin, join = loop
        self.lines.append(f"T {name}_own = {begin};")
        for length, pieces in self._by_length([(0, register)]).items():
            self._add_loop(length, pieces, lambda _, value: f"{name}_own = {join}::of({name}_own, {value});")
        divided = f" / {self.widths[register]}" if step.code is StepCode.MEAN else ""
        return f"T {name} = over_row<{join}>({name}_own, LANE, LANES){divided};"


def _indent_lines(lines: Iterable[str]) -> str:
    """Return C with each line indented by the number of open braces."""
    text, depth = "", 0
    for line in lines:
        depth -= line == "}"
        text += "    " * depth + line + "\n"
        depth += line.endswith("{")
    return text


def _write_index(width: int, has_rows: bool, start: int, is_row: bool) -> str:
    """Return C of the index of a piece's first column, or (not `is_row`) of column `c` of the piece."""
    row = ("r" if width <= 1 else f"r * {width}") if has_rows else ""
    columns = [str(start) if start else "", "c" if width > 1 and not is_row else ""]
    return " + ".join(filter(None, [row, *columns])) or "0"
